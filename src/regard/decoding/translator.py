"""Text in, text out, line for line: files of any size in constant memory."""

import warnings
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import islice
from threading import current_thread, main_thread

import torch
from torch import nn

from regard.decoding.beam_search import BeamSearchConfig, search
from regard.decoding.constraints import DecodingConstraints
from regard.decoding.engine import Engine
from regard.decoding.fitting import Fitting, Policy, Tell
from regard.decoding.sampling import SamplingConfig, sample
from regard.engine.search import NativeSearch, SearchSettings, native_search, native_threads
from regard.errors import RegardError
from regard.nn.seq2seq import Decodable, Hypothesis
from regard.tokenization import Tokenizer

WINDOW = 2048
"""Lines read ahead: enough to find sentences of the same length, few enough to hold."""


@dataclass(frozen=True)
class Translation:
    """A translated text and what the model thinks of it; `others` are the next best."""

    source: str
    text: str
    score: float
    others: tuple["Translation", ...] = ()


@dataclass(frozen=True)
class TranslatedPart:
    """A text that fits the model, what was found for it, best first, and that as text."""

    source_ids: list[int]
    """Without `</s>`; more than were searched where the text was cut."""
    hypotheses: list[Hypothesis]
    """None of an empty text."""
    translation: Translation


class TranslationPipeline:
    """A model, or an engine that runs one, with its two vocabularies: texts in, translations out."""

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
        """The native search for the model as it is now; None where the plan refuses it."""
        if self._native is not None:
            return self._native
        found = native_search(self.model, self.max_length)
        if self._frozen:
            self._native = found
        return found

    def translate(
        self,
        texts: Sequence[str],
        options: BeamSearchConfig | None = None,
        *,
        batch_size: int = 64,
        prefixes: Sequence[str] | None = None,
        sampling: SamplingConfig | None = None,
        long: Policy = "split",
        tell: Tell = warnings.warn,
        first_line: int = 1,
    ) -> list[Translation]:
        """The translation of each text; with a chance it is drawn instead of searched for.

        A text longer than the model allows is told with its line and split, cut or refused.
        """
        parts = [self.parts(text, long, tell, line) for line, text in enumerate(texts, start=first_line)]
        # A prefix belongs to the first part of its text.
        demanded = [
            prefix if place == 0 else ""
            for prefix, pieces in zip(prefixes or [""] * len(texts), parts, strict=True)
            for place in range(len(pieces))
        ]
        if sampling is not None:  # a line is drawn the same whatever window it is in
            sampling = replace(sampling, seed=sampling.seed + first_line - 1)
        flat = [each for pieces in parts for each in pieces]
        found = self.translate_parts(flat, options, batch_size=batch_size, prefixes=demanded, sampling=sampling)
        translations = iter([part.translation for part in found])
        return [
            join_parts(text, list(islice(translations, len(pieces))))
            for text, pieces in zip(texts, parts, strict=True)
        ]

    def parts(self, text: str, long: Policy = "split", tell: Tell = warnings.warn, line: int = 1) -> list[str]:
        """The text itself where it fits, else its parts in order; what is done to it is told with its line."""
        return Fitting(self.source, self.max_length, long, tell).parts(text, line)

    def stream(
        self,
        lines: Iterable[str],
        options: BeamSearchConfig | None = None,
        *,
        batch_size: int = 64,
        window: int = WINDOW,
        sampling: SamplingConfig | None = None,
        long: Policy = "split",
        tell: Tell = warnings.warn,
        share: tuple[int, int] = (0, 1),
    ) -> Iterator[list[Translation]]:
        """Translations of any number of lines, in order, a window at a time: no more of them are held.

        With a share (number, of so many), only every so manieth window, as one of several processes does.
        """
        source, line, number = iter(lines), 1, 0
        while chunk := list(islice(source, window)):
            if number % share[1] == share[0]:
                yield self.translate(
                    chunk,
                    options,
                    batch_size=batch_size,
                    sampling=sampling,
                    long=long,
                    tell=tell,
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
    ) -> list[TranslatedPart]:
        """Translations of texts that fit, with the ids that were read and found."""
        encoded = self.source.encode_batch(list(texts))
        begun = self.target.encode_batch(list(prefixes)) if any(prefixes) else None
        found = self.search_ids(encoded, options, batch_size=batch_size, begun=begun, sampling=sampling)
        return [
            TranslatedPart(ids, hypotheses, self.worded(text, hypotheses))
            for text, ids, hypotheses in zip(texts, encoded, found, strict=True)
        ]

    def search_ids(
        self,
        encoded: list[list[int]],
        options: BeamSearchConfig | None = None,
        *,
        batch_size: int = 64,
        begun: list[list[int]] | None = None,
        sampling: SamplingConfig | None = None,
    ) -> list[list[Hypothesis]]:
        """The translations of sentences of ids, best first; none of an empty one. They may have been begun."""
        options = options or BeamSearchConfig()
        options = replace(
            options, max_length=min(options.max_length, self.max_length)
        )  # places that the model has
        limits = self.limits(options)
        if self.engine is not None:
            if begun is not None or sampling is not None:
                raise RegardError(f"{self.engine.name} finds the best translations: none can be begun or drawn")
            return self.by_engine(self.engine, encoded, limits, options, batch_size)
        native = None
        if sampling is None and begun is None and not options.coverage and not options.no_repeat:
            native = self.native_search()
        if native is not None:
            found = self.by_native_search(native, encoded, limits, options, batch_size)
            return [found.get(number, []) for number in range(len(encoded))]
        found = {}
        for numbers in same_length(encoded, batch_size):
            batch = self.ids([encoded[number] for number in numbers])
            if sampling is None:
                results = search(
                    self.model, batch, limits, options, begun and [begun[each] for each in numbers]
                )
            else:
                results = [[each] for each in sample(self.model, batch, limits, sampling, numbers)]
            found.update(zip(numbers, results, strict=True))
        return [found.get(number, []) for number in range(len(encoded))]

    def by_engine(
        self,
        engine: Engine,
        encoded: list[list[int]],
        limits: DecodingConstraints,
        options: BeamSearchConfig,
        batch_size: int,
    ) -> list[list[Hypothesis]]:
        """All sentences at once: an engine makes its own batches."""
        numbers = [number for number, ids in enumerate(encoded) if ids]
        rows = [[*encoded[number][: self.max_length - 1], self.source.end] for number in numbers]
        found = (
            dict(zip(numbers, engine.search(rows, limits, options, batch_size), strict=True)) if rows else {}
        )
        return [found.get(number, []) for number in range(len(encoded))]

    def by_native_search(
        self,
        native: NativeSearch,
        encoded: list[list[int]],
        limits: DecodingConstraints,
        options: BeamSearchConfig,
        batch_size: int,
    ) -> dict[int, list[Hypothesis]]:
        """Batches of similar length, each by one thread; the long ones first, so that all end together."""
        order = sorted((number for number, ids in enumerate(encoded) if ids), key=lambda n: -len(encoded[n]))
        batches = [order[first : first + batch_size] for first in range(0, len(order), batch_size)]
        rows = [[*ids[: self.max_length - 1], self.source.end] for ids in encoded]
        count = torch.get_num_threads()
        assert limits.begin is not None
        settings = SearchSettings(
            options.beam,
            options.nbest,
            options.max_length,
            limits.begin,
            limits.end,
            limits.never,
            options.length_penalty,
        )

        # One batch is shared over a team of threads, but a second team, of a thread that is not the main one,
        # sleeps at each of its many barriers: a thread alone is seven times as fast there.
        def work(numbers: list[int]) -> list[list[Hypothesis]]:
            with native_threads(count if current_thread() is main_thread() else 1):
                return native.translate([rows[number] for number in numbers], settings)

        if len(batches) > 1 and count > 1:
            with ThreadPoolExecutor(min(count, len(batches))) as pool:
                results = list(pool.map(work, batches))
        else:
            results = [work(numbers) for numbers in batches]
        return {
            number: each
            for numbers, found in zip(batches, results, strict=True)
            for number, each in zip(numbers, found, strict=True)
        }

    @property
    def searchers(self) -> int:
        """How many threads do well to search at a time, each for itself: all, where the kernels do the work."""
        return 1 if self.native_search() is None else torch.get_num_threads()

    def limits(self, options: BeamSearchConfig) -> DecodingConstraints:
        never = (self.target.begin, self.target.padding, self.target.unknown)
        return DecodingConstraints(self.target.begin, self.target.end, never, options.no_repeat)

    def ids(self, encoded: list[list[int]]) -> torch.Tensor:
        """Source ids with their end, cut to what the model has places for: (batch, length)."""
        rows = [[*ids[: self.max_length - 1], self.source.end] for ids in encoded]
        return torch.tensor(rows, device=self.device)

    def worded(self, text: str, found: list[Hypothesis]) -> Translation:
        if not found:
            return Translation(text, "", 0.0)
        best, *others = (
            Translation(text, decoded, each.score)
            for each, decoded in zip(found, self.target.decode_batch([each.ids for each in found]), strict=True)
        )
        return Translation(text, best.text, best.score, tuple(others))


def join_parts(text: str, parts: list[Translation]) -> Translation:
    """One translation from those of a text's parts."""
    if len(parts) == 1:
        return parts[0]
    score = sum(part.score for part in parts) / len(parts)
    return Translation(text, " ".join(part.text for part in parts), score)


def same_length(encoded: Sequence[Sequence[int]], batch_size: int) -> Iterator[list[int]]:
    """Numbers of sentences in batches of one length each; empty sentences are left out."""
    by_length: dict[int, list[int]] = defaultdict(list)
    for number, ids in enumerate(encoded):
        if ids:
            by_length[len(ids)].append(number)
    for length in sorted(by_length):
        numbers = by_length[length]
        for first in range(0, len(numbers), batch_size):
            yield numbers[first : first + batch_size]
