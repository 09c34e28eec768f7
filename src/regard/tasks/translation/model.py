"""A trained translation model, opened: translate, measure, look inside."""

import math
import time
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import fmean

import torch

from regard.data.corpus import Pair, read_pairs
from regard.data.parallel import ParallelCorpus
from regard.decoding import BeamSearchConfig, Policy, TranslationPipeline
from regard.errors import RegardError
from regard.limits import MAX_BATCH_SIZE, check_range
from regard.metrics import Quality, by_length, measure
from regard.nn import Recorder
from regard.nn.build import build
from regard.nn.ensemble import Ensemble
from regard.nn.knn import KnnModel
from regard.tasks import load
from regard.tasks.loaded_model import TextModel
from regard.tasks.results import ResultTable, Summary
from regard.tasks.run_folder import RunFolder
from regard.tasks.translation.config import TranslationRecipe
from regard.tasks.translation.neighbours import remembered
from regard.tasks.translation.task import is_tokenized, mean_loss, options_of, quality_lines
from regard.tasks.translation.vocabulary import Vocabulary
from regard.tokenization import Tokenizer
from regard.training.devices import choose_device
from regard.viz.attention_maps import AttentionMaps, Layer, TokenSequence


@dataclass(frozen=True)
class Evaluation:
    """A run measured on a test set."""

    quality: Quality
    loss: float
    by_length: list[dict[str, float | str]]
    translations: list[str]
    references: list[str]
    seconds: float
    """Spent on translating."""

    def as_json(self) -> dict[str, object]:
        return {
            **asdict(self.quality),
            "loss": self.loss,
            "perplexity": math.exp(min(self.loss, 700)),
            "by_length": self.by_length,
        }

    def summary(self) -> Summary:
        rows = [(str(row["words"]), str(row["sentences"]), f"{row['bleu']:.2f}") for row in self.by_length]
        return Summary(
            quality_lines(self.quality, self.loss), ResultTable(("source words", "sentences", "BLEU"), rows)
        )


class Translator(TextModel):
    """A translation run, or several that translate as one.

    Those `beside` it have a say in every word, and so have neighbours, where a run remembers sentences; what is
    looked into is this one.
    """

    does = "translates"
    recipe: TranslationRecipe

    def __init__(
        self,
        folder: RunFolder,
        recipe: TranslationRecipe,
        beside: Sequence["Translator"] = (),
        *,
        remembering: bool = True,
    ) -> None:
        self.folder, self.recipe = folder, recipe
        self.vocabulary = Vocabulary.load(folder.path)
        self.tokenizer = self.vocabulary.source
        sizes = self.vocabulary.source.size, self.vocabulary.target.size
        with torch.device("meta"):  # nothing is believed, and no memory taken, before the shapes agree
            folder.check_weights(build(recipe.model, *sizes, self.vocabulary.source.padding))
        self.model = build(recipe.model, *sizes, self.vocabulary.source.padding)
        folder.load_weights(self.model)
        self.model.to(choose_device()).eval()
        self.models = [self.model, *(each.model for each in beside)]
        self.neighbours = remembered(folder, self.model) if remembering else None
        self.asked = self.model if self.neighbours is None else KnnModel(self.model, self.neighbours)
        for other in beside:
            if other.vocabulary.digest() != self.vocabulary.digest():
                raise RegardError(
                    f"{other.folder.path} has another vocabulary than {folder.path}; models that translate "
                    "together need the same one, as trainings on the same data with other seeds have"
                )
        self.pipeline = TranslationPipeline(
            Ensemble([self.asked, *(each.asked for each in beside)]) if beside else self.asked,
            self.vocabulary.source,
            self.vocabulary.target,
            min([recipe.model.max_length, *(each.recipe.model.max_length for each in beside)]),
        )

    @classmethod
    def load(cls, run: str | Path, *beside: str | Path) -> "Translator":
        """Open a run folder that must hold a translation model, and others `beside` it that translate with it.

        Raises:
            RegardError: a folder holds no finished run, or one of another task.
        """
        return cls.of(load(run, *beside))

    def options(self, beam: int | None = None, nbest: int = 1) -> BeamSearchConfig:
        """The recipe's way of searching, with another beam or more results."""
        return options_for(self.recipe, beam, nbest)

    def translate(
        self,
        texts: Sequence[str],
        *,
        beam: int | None = None,
        batch_size: int | None = None,
        long: Policy = "split",
    ) -> list[str]:
        """The translation of each text; what is longer than the model allows is split, cut or refused."""
        if batch_size is None:
            batch_size = self.recipe.decode.batch_size
        check_range("batch_size", batch_size, 1, MAX_BATCH_SIZE)
        found = self.pipeline.translate(texts, self.options(beam), batch_size=batch_size, long=long)
        return [each.text for each in found]

    def input_ids(self, text: str) -> list[int]:
        """The ids of a source text and `</s>`."""
        return [*self.tokenizer.encode(text), self.tokenizer.end]

    def test_pairs(self) -> list[Pair]:
        """The test split of the data the recipe names; it must still be there."""
        return ParallelCorpus(self.recipe.data).test

    def references(self, pairs: Sequence[Pair]) -> list[str]:
        """The target sentences as the model could write them, lower-cased where it knows lower case only."""
        return [self.vocabulary.target.normalize(target) for _, target in pairs]

    def evaluate(
        self, pairs: Sequence[Pair], *, beam: int | None = None, batch_size: int | None = None
    ) -> Evaluation:
        """BLEU, chrF, TER and loss over the pairs, and BLEU by length; of several, the mean of their losses."""
        sources = [source for source, _ in pairs]
        references = self.references(pairs)
        begun = time.perf_counter()
        translations = self.translate(sources, beam=beam, batch_size=batch_size)
        seconds = time.perf_counter() - begun
        tokenized = is_tokenized(self.recipe)
        return Evaluation(
            quality=measure(translations, references, tokenized=tokenized),
            loss=fmean(mean_loss(self.recipe, each, self.vocabulary, pairs) for each in self.models),
            by_length=by_length(sources, translations, references, tokenized=tokenized),
            translations=translations,
            references=references,
            seconds=seconds,
        )

    @torch.no_grad()
    def attention(self, text: str, target: str | None = None) -> AttentionMaps:
        """Where every layer and head looks while it translates the text, or writes the given target.

        What is longer than the model has places for is told and cut.
        """
        reading, writing = self.vocabulary.source, self.vocabulary.target
        source_ids = self.fitting_ids(reading, text, "text")
        if target is None:
            [found] = self.pipeline.search_ids([source_ids], self.options())
            target = self.pipeline.worded(text, found).text
            target_ids = list(found[0].ids[: self.recipe.model.max_length - 1]) if found else []
        else:
            target_ids = self.fitting_ids(writing, target, "target")
        return self.attention_of_ids(text, source_ids, target, target_ids)

    @torch.no_grad()
    def attention_of_ids(
        self, source: str, source_ids: Sequence[int], target: str, target_ids: Sequence[int]
    ) -> AttentionMaps:
        """Attention weights while the model reads one sentence of ids and writes another; both without ends."""
        reading, writing = self.vocabulary.source, self.vocabulary.target
        device = self.pipeline.device
        record = Recorder()
        self.model.hidden(
            torch.tensor([[*source_ids, reading.end]], device=device),
            torch.tensor([[writing.begin, *target_ids]], device=device),
            record,
        )
        read = side("source", source, reading, [*source_ids, reading.end])
        written = side("translation", target, writing, [*target_ids, writing.end])
        before = side("translation so far", target, writing, [writing.begin, *target_ids])
        sides = {"encoder": (read, read), "cross": (written, read), "self": (written, before)}
        return AttentionMaps(
            read,
            written,
            {
                name: Layer(*sides[who_looks(name)], weights[0].float().cpu().numpy())
                for name, weights in record.items()
            },
        )

    def fitting_ids(self, tokenizer: Tokenizer, text: str, what: str) -> list[int]:
        """The ids of a text, as many as the model has places for beside the end."""
        ids, places = tokenizer.encode(text), self.recipe.model.max_length - 1
        if len(ids) > places:
            warnings.warn(
                f"the {what} has {len(ids) + 1} tokens, the model allows {places + 1}: the rest is left out",
                stacklevel=3,
            )
        return ids[:places]


def options_for(recipe: TranslationRecipe, beam: int | None = None, nbest: int = 1) -> BeamSearchConfig:
    """The recipe's options, with another beam or more results; the beam is at least as wide as these."""
    options = options_of(recipe.decode, beam, nbest)
    return replace(options, beam=max(options.beam, nbest))


def who_looks(layer: str) -> str:
    """The encoder at what was read, the decoder at it (cross) or at what it wrote itself (self)."""
    return "encoder" if layer.startswith("encoder") else layer.rpartition(".")[2]


def side(name: str, text: str, tokenizer: Tokenizer, ids: list[int]) -> TokenSequence:
    """Ids as tokens, and as the words they are pieces of."""
    tokens, groups = tokenizer.tokens(ids), tokenizer.words(ids)
    words = tokenizer.decode_batch([[ids[place] for place in group] for group in groups])
    named = (
        word.strip() or "".join(tokens[place] for place in group)
        for word, group in zip(words, groups, strict=True)
    )
    return TokenSequence(name, text, tuple(tokens), tuple(named), tuple(map(tuple, groups)))


def memory_advice(batch_size: int, beam: int) -> str:
    """What to lower where memory does not suffice."""
    return f"Lower --batch-size (now {batch_size}) or --beam (now {beam})."


def pairs_of_files(source: str | Path | None, target: str | Path | None) -> list[Pair] | None:
    """The sentences and references of --source and --target; nothing where neither is given."""
    if source is None and target is None:
        return None
    if source is None or target is None:
        raise RegardError("--source and --target go together: the sentences and their references")
    return list(read_pairs(source, target))
