"""A trained translation model, opened: translate, measure, look inside."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from regard.attention import Recorder
from regard.config import TranslationRecipe
from regard.data.corpus import Pair, read_pairs
from regard.data.parallel import ParallelCorpus
from regard.decoding import Options, Policy, Translator
from regard.errors import RegardError
from regard.evaluation import Quality, by_length, measure
from regard.jobs.folder import RunFolder
from regard.jobs.training import device
from regard.jobs.translation import is_tokenised, mean_loss, options_of
from regard.jobs.vocabulary import Vocabulary
from regard.models.build import build


@dataclass(frozen=True)
class Looked:
    """Who looked where in one translation: weights (heads, query, key) by layer, and the tokens."""

    source: list[str]
    target: list[str]
    layers: dict[str, np.ndarray]

    def alignment(self) -> np.ndarray:
        """Which source tokens each target token came from: the mean head of the last cross-attention but one.

        The last layer looks ahead to the next word; the one before it aligns best (Garg et al. 2019).
        """
        cross = [name for name in self.layers if name.endswith(".cross")]
        if not cross:
            raise RegardError("this model has no attention: there is nothing to look at")
        mean: np.ndarray = self.layers[cross[max(0, len(cross) - 2)]].mean(0)
        return mean


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


class LoadedTranslator:
    """What `regard.load` gives for a translation run."""

    def __init__(self, folder: RunFolder, recipe: TranslationRecipe) -> None:
        self.folder, self.recipe = folder, recipe
        self.vocabulary = Vocabulary.load(folder.path)
        sizes = self.vocabulary.source.size, self.vocabulary.target.size
        with torch.device("meta"):  # nothing is believed, and no memory taken, before the shapes agree
            folder.check_weights(build(recipe.model, *sizes, self.vocabulary.source.padding))
        self.model = build(recipe.model, *sizes, self.vocabulary.source.padding)
        folder.write_weights_into(self.model)
        self.model.to(device()).eval()
        self.translator = Translator(
            self.model, self.vocabulary.source, self.vocabulary.target, recipe.model.longest
        )

    def options(self, beam: int | None = None, nbest: int = 1) -> Options:
        """The recipe's way of searching, with another beam or more results."""
        options = options_of(self.recipe.decode, beam, nbest)
        return replace(options, beam=max(options.beam, nbest))

    def translate(
        self,
        texts: Sequence[str],
        *,
        beam: int | None = None,
        batch_size: int | None = None,
        long: Policy = "split",
    ) -> list[str]:
        """The translation of each text; what is longer than the model allows is split, cut or refused."""
        found = self.translator.translate(
            texts, self.options(beam), batch_size=batch_size or self.recipe.decode.batch_size, long=long
        )
        return [each.text for each in found]

    def test_pairs(self) -> list[Pair]:
        """The test split of the data the recipe names; it must still be there."""
        return ParallelCorpus(self.recipe.data).test

    def references(self, pairs: Sequence[Pair]) -> list[str]:
        """The target sentences as the model could write them, lower-cased where it knows lower case only."""
        return [self.vocabulary.target.normalise(target) for _, target in pairs]

    def evaluate(self, pairs: Sequence[Pair], *, beam: int | None = None) -> Evaluation:
        """BLEU, chrF, TER and loss over the pairs, and BLEU by length."""
        sources = [source for source, _ in pairs]
        references = self.references(pairs)
        begun = time.perf_counter()
        translations = self.translate(sources, beam=beam)
        seconds = time.perf_counter() - begun
        tokenised = is_tokenised(self.recipe)
        return Evaluation(
            quality=measure(translations, references, tokenised=tokenised),
            loss=mean_loss(self.recipe, self.model, self.vocabulary, pairs),
            by_length=by_length(sources, translations, references, tokenised=tokenised),
            translations=translations,
            references=references,
            seconds=seconds,
        )

    @torch.no_grad()
    def attention(self, text: str, target: str | None = None) -> Looked:
        """Where every layer and head looks while it translates the text, or writes the given target."""
        target = self.translate([text])[0] if target is None else target
        source_ids = self.translator.ids([self.vocabulary.source.encode(text)])
        target_ids = self.vocabulary.target.encode(target)
        written = torch.tensor([[self.vocabulary.target.begin, *target_ids]], device=source_ids.device)
        record = Recorder()
        self.model.hidden(source_ids, written, record)
        return Looked(
            source=self.vocabulary.source.tokens(source_ids[0].tolist()),
            target=self.vocabulary.target.tokens([*target_ids, self.vocabulary.target.end]),
            layers={name: weights[0].float().cpu().numpy() for name, weights in record.items()},
        )


def pairs_of_files(source: str | Path | None, target: str | Path | None) -> list[Pair] | None:
    """The sentences and references of --source and --target; nothing where neither is given."""
    if source is None and target is None:
        return None
    if source is None or target is None:
        raise RegardError("--source and --target go together: the sentences and their references")
    return list(read_pairs(source, target))
