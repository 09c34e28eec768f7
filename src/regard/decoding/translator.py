"""Translation pipeline: texts in, translations out, line by line; files of any size in constant memory."""

import warnings
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import islice
from threading import current_thread, main_thread

import torch
from torch import nn

from regard.decoding.beam_search import BeamSearchConfig, search
from regard.decoding.constraints import DecodingConstraints
from regard.decoding.length_policy import LengthLimit, LengthPolicy
from regard.decoding.sampling import SamplingConfig, sample
from regard.engine.search import NativeSearch, SearchSettings, native_search, native_threads
from regard.errors import RegardError
from regard.nn.seq2seq import Decodable, Hypothesis
from regard.tokenization import Tokenizer, UnknownWord, unknown_words

WINDOW = 2048
"""Lines read ahead: enough to batch sentences of the same length, few enough to hold in memory."""


@dataclass(frozen=True)
class Translation:
    """A translated text with its score; `others` are the next best hypotheses."""

    source: str
    text: str
    score: float
    others: tuple["Translation", ...] = ()
    unknown_words: tuple[UnknownWord, ...] = ()
    """Words of the source that are not in the vocabulary; the model reads each of them as `<unk>`."""


@dataclass(frozen=True)
class TranslatedPart:
    """A text that fits the model, its hypotheses, best first, and its translation as text."""

    source_ids: list[int]
    """Without `</s>`; more than were translated where the text was truncated."""
    hypotheses: list[Hypothesis]
    """None of an empty text."""
    translation: Translation


class Engine(ABC):
    """An inference engine with its own search, used in place of a model: ids in, hypotheses out."""

    name: str

    @abstractmethod
    def search(
        self,
        sentences: Sequence[Sequence[int]],
        constraints: DecodingConstraints,
        options: BeamSearchConfig,
        batch_size: int,
    ) -> list[list[Hypothesis]]:
        """For each sentence of ids, `</s>` included, its `nbest` hypotheses, best first."""


class TranslationPipeline:
    """A model, or an engine that runs one, with its two vocabularies.

    Args:
        model: A sequence-to-sequence model or an inference engine.
        source, target: The tokenizers.
        max_length: The model's maximum length in tokens, `</s>` included.
    """

    def __init__(
        self,
        model: nn.Module | Decodable | Engine,
        source: Tokenizer,
        target: Tokenizer,
        max_length: int = 256,
    ) -> None:
        self.engine = model if isinstance(model, Engine) else None
        self.model: Decodable = model  # type: ignore[assignment]  # a module gains `start` and `step` by its class
        self.source, self.target = source, target
        self.max_length = max_length
        self.device = next(model.parameters()).device if isinstance(model, nn.Module) else torch.device("cpu")

        self._frozen = False
        self._native: NativeSearch | None = None

    def freeze(self) -> None:
        """Promise that the model does not change any more, as in a process that only translates.

        Otherwise every call checks whether a module or a weight has changed since the last one, which takes a
        few percent of the time of a single sentence.
        """
        self._frozen = True

    def native_search(self) -> NativeSearch | None:
        """The native search for the model's current weights; None where the model is not supported."""
        if self._native is not None:
            return self._native
        native = native_search(self.model, self.max_length)
        if self._frozen:
            self._native = native
        return native

    def translate(
        self,
        texts: Sequence[str],
        options: BeamSearchConfig | None = None,
        *,
        batch_size: int = 64,
        prefixes: Sequence[str] | None = None,
        sampling: SamplingConfig | None = None,
        long: LengthPolicy = "split",
        warn: Callable[[str], object] = warnings.warn,
        first_line: int = 1,
        advance: Callable[[int], object] | None = None,
    ) -> list[Translation]:
        """One translation per text.

        Args:
            texts: Source texts.
            options: Beam search settings.
            batch_size: Sentences per batch.
            prefixes: For each text the beginning of its translation; may be empty.
            sampling: Sample with these settings instead of beam search.
            long: What to do with a text longer than the model allows.
            warn: Called with a message for every text that is split or truncated.
            first_line: Line number of the first text, for messages and seeds.
            advance: Called with the number of sentences in each batch that is translated, by any thread.
        """
        parts = [self.split(text, long, warn, line) for line, text in enumerate(texts, start=first_line)]
        # A prefix belongs to the first part of its text.
        part_prefixes = [
            prefix if index == 0 else ""
            for prefix, pieces in zip(prefixes or [""] * len(texts), parts, strict=True)
            for index in range(len(pieces))
        ]
        if sampling is not None:  # the sample of a line does not depend on the window that it is in
            sampling = replace(sampling, seed=sampling.seed + first_line - 1)
        flat = [part for pieces in parts for part in pieces]
        translated = self.translate_parts(
            flat,
            options,
            batch_size=batch_size,
            prefixes=part_prefixes,
            sampling=sampling,
            advance=advance,
        )
        translations = iter([part.translation for part in translated])
        return [
            join_parts(text, list(islice(translations, len(pieces))), self.source)
            for text, pieces in zip(texts, parts, strict=True)
        ]

    def split(
        self,
        text: str,
        long: LengthPolicy = "split",
        warn: Callable[[str], object] = warnings.warn,
        line: int = 1,
    ) -> list[str]:
        """The text itself where it fits, else its parts in order; a message to `warn` has the line number."""
        return LengthLimit(self.source, self.max_length, long, warn).split(text, line)

    def stream(
        self,
        lines: Iterable[str],
        options: BeamSearchConfig | None = None,
        *,
        batch_size: int = 64,
        window: int = WINDOW,
        sampling: SamplingConfig | None = None,
        long: LengthPolicy = "split",
        warn: Callable[[str], object] = warnings.warn,
        shard: tuple[int, int] = (0, 1),
    ) -> Iterator[list[Translation]]:
        """Translations of any number of lines, in order, one window at a time; only a window is in memory.

        Args:
            window: Lines per window.
            shard: (rank, world size): translate only every world-size-th window, beginning with number `rank`.
        """
        source, line, number = iter(lines), 1, 0
        rank, world_size = shard
        while chunk := list(islice(source, window)):
            if number % world_size == rank:
                yield self.translate(
                    chunk,
                    options,
                    batch_size=batch_size,
                    sampling=sampling,
                    long=long,
                    warn=warn,
                    first_line=line,
                )
            line += len(chunk)
            number += 1

    def translate_parts(
        self,
        texts: Sequence[str],
        options: BeamSearchConfig | None = None,
        *,
        batch_size: int = 64,
        prefixes: Sequence[str] = (),
        sampling: SamplingConfig | None = None,
        advance: Callable[[int], object] | None = None,
    ) -> list[TranslatedPart]:
        """Translations of texts that fit, with source ids and hypotheses."""
        encoded = self.source.encode_batch(list(texts))
        prefix_ids = self.target.encode_batch(list(prefixes)) if any(prefixes) else None
        results = self.search_ids(
            encoded,
            options,
            batch_size=batch_size,
            prefixes=prefix_ids,
            sampling=sampling,
            advance=advance,
        )
        return [
            TranslatedPart(ids, hypotheses, self.detokenize(text, hypotheses, ids))
            for text, ids, hypotheses in zip(texts, encoded, results, strict=True)
        ]

    def search_ids(
        self,
        encoded: list[list[int]],
        options: BeamSearchConfig | None = None,
        *,
        batch_size: int = 64,
        prefixes: list[list[int]] | None = None,
        sampling: SamplingConfig | None = None,
        advance: Callable[[int], object] | None = None,
    ) -> list[list[Hypothesis]]:
        """Hypotheses for sentences of ids (without `</s>`), best first; none for an empty sentence.

        Args:
            encoded: Source ids.
            options: Beam search settings.
            batch_size: Sentences per batch.
            prefixes: For each sentence the target ids that its translations start with.
            sampling: Sample with these settings instead of beam search.
            advance: Called with the number of sentences in each finished batch, by any thread.

        Raises:
            RegardError: The engine does not support prefixes or sampling.
        """
        options = options or BeamSearchConfig()
        # The model has no positions beyond its maximum length.
        options = replace(options, max_length=min(options.max_length, self.max_length))
        constraints = self._constraints(options)
        if self.engine is not None:
            if prefixes is not None or sampling is not None:
                raise RegardError(f"{self.engine.name} supports neither target prefixes nor sampling")
            results = self._search_by_engine(self.engine, encoded, constraints, options, batch_size)
            return [results.get(number, []) for number in range(len(encoded))]
        native = None
        if sampling is None and prefixes is None and not options.coverage and not options.no_repeat:
            native = self.native_search()
        if native is not None:
            results = self._search_natively(native, encoded, constraints, options, batch_size, advance)
            return [results.get(number, []) for number in range(len(encoded))]
        results = {}
        for numbers in batches_of_equal_length(encoded, batch_size):
            source = self._source_tensor([encoded[number] for number in numbers])
            if sampling is None:
                batch_prefixes = prefixes and [prefixes[number] for number in numbers]
                hypotheses = search(self.model, source, constraints, options, batch_prefixes)
            else:
                samples = sample(self.model, source, constraints, sampling, numbers)
                hypotheses = [[hypothesis] for hypothesis in samples]
            results.update(zip(numbers, hypotheses, strict=True))
            if advance is not None:
                advance(len(numbers))
        return [results.get(number, []) for number in range(len(encoded))]

    def _search_by_engine(
        self,
        engine: Engine,
        encoded: list[list[int]],
        constraints: DecodingConstraints,
        options: BeamSearchConfig,
        batch_size: int,
    ) -> dict[int, list[Hypothesis]]:
        """All sentences in one call: an engine makes its own batches."""
        numbers = [number for number, ids in enumerate(encoded) if ids]
        if not numbers:
            return {}
        rows = self._source_rows([encoded[number] for number in numbers])
        return dict(zip(numbers, engine.search(rows, constraints, options, batch_size), strict=True))

    def _search_natively(
        self,
        native: NativeSearch,
        encoded: list[list[int]],
        constraints: DecodingConstraints,
        options: BeamSearchConfig,
        batch_size: int,
        advance: Callable[[int], object] | None,
    ) -> dict[int, list[Hypothesis]]:
        """Batches of similar length, one thread each; the longest first, so that all threads end together."""
        order = sorted((number for number, ids in enumerate(encoded) if ids), key=lambda n: -len(encoded[n]))
        batches = [order[first : first + batch_size] for first in range(0, len(order), batch_size)]
        rows = self._source_rows(encoded)
        count = torch.get_num_threads()
        assert constraints.begin is not None
        settings = SearchSettings(
            options.beam,
            options.nbest,
            options.max_length,
            constraints.begin,
            constraints.end,
            constraints.suppressed,
            options.length_penalty,
        )

        # A single batch is shared by a team of threads. The team of a thread that is not the main one sleeps at
        # each of its many barriers; there, one thread alone is seven times as fast.
        def translate_batch(numbers: list[int]) -> list[list[Hypothesis]]:
            with native_threads(count if current_thread() is main_thread() else 1):
                hypotheses = native.translate([rows[number] for number in numbers], settings)
            if advance is not None:
                advance(len(numbers))
            return hypotheses

        if len(batches) > 1 and count > 1:
            with ThreadPoolExecutor(min(count, len(batches))) as pool:
                results = list(pool.map(translate_batch, batches))
        else:
            results = [translate_batch(numbers) for numbers in batches]
        return {
            number: hypotheses
            for numbers, batch_results in zip(batches, results, strict=True)
            for number, hypotheses in zip(numbers, batch_results, strict=True)
        }

    @property
    def search_threads(self) -> int:
        """How many threads should call `search_ids` at a time: several only with the native search."""
        return 1 if self.native_search() is None else torch.get_num_threads()

    def _constraints(self, options: BeamSearchConfig) -> DecodingConstraints:
        suppressed = (self.target.begin, self.target.padding, self.target.unknown)
        return DecodingConstraints(self.target.begin, self.target.end, suppressed, options.no_repeat)

    def _source_rows(self, encoded: list[list[int]]) -> list[list[int]]:
        """Source ids truncated to the model's maximum length, each with its `</s>`."""
        return [[*ids[: self.max_length - 1], self.source.end] for ids in encoded]

    def _source_tensor(self, encoded: list[list[int]]) -> torch.Tensor:
        """Source ids of the same length with their `</s>`: (batch, length)."""
        return torch.tensor(self._source_rows(encoded), device=self.device)

    def detokenize(self, text: str, hypotheses: list[Hypothesis], ids: Sequence[int]) -> Translation:
        """The best hypothesis as a translation of `text` with these ids, and the next best as `others`."""
        if not hypotheses:
            return Translation(text, "", 0.0)
        decoded = self.target.decode_batch([hypothesis.ids for hypothesis in hypotheses])
        best, *others = (
            Translation(text, translation, hypothesis.score)
            for hypothesis, translation in zip(hypotheses, decoded, strict=True)
        )
        unknown = unknown_words(self.source, text, ids)
        return Translation(text, best.text, best.score, tuple(others), unknown)


def join_parts(text: str, parts: list[Translation], source: Tokenizer) -> Translation:
    """One translation of a text from those of its parts."""
    if len(parts) == 1:
        return parts[0]
    score = sum(part.score for part in parts) / len(parts)
    unknown = unknown_words(source, text) if any(part.unknown_words for part in parts) else ()
    return Translation(text, " ".join(part.text for part in parts), score, unknown_words=unknown)


def batches_of_equal_length(encoded: Sequence[Sequence[int]], batch_size: int) -> Iterator[list[int]]:
    """Indices of sentences in batches of one length each; empty sentences are left out."""
    by_length: dict[int, list[int]] = defaultdict(list)
    for number, ids in enumerate(encoded):
        if ids:
            by_length[len(ids)].append(number)
    for length in sorted(by_length):
        numbers = by_length[length]
        for first in range(0, len(numbers), batch_size):
            yield numbers[first : first + batch_size]
