"""`regard remember`: a translation run keeps sentence pairs, and asks them when it translates.

At every place of every remembered translation, the vector that the model would make the next word of is kept
with the word that stood there; see `nn/knn.py`. Nothing is trained: how many neighbours are asked,
and how much they are believed, is what foretells the words of validation sentences best.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path

import torch
from torch import Tensor

from regard.config.data import PairDataConfig
from regard.data.batches import Batches
from regard.data.corpus import Pair
from regard.data.parallel import ParallelCorpus
from regard.engine.forward import seq2seq_hidden
from regard.engine.search import nearest as nearest_places
from regard.errors import RegardError
from regard.nn.knn import Datastore
from regard.nn.seq2seq import Seq2SeqModel
from regard.tasks.metrics_log import NullListener, ProgressListener
from regard.tasks.run_folder import RunFolder
from regard.tasks.translation.config import TranslationRecipe
from regard.tasks.translation.model import Translator
from regard.tasks.translation.neighbours import keep
from regard.tasks.translation.vocabulary import Vocabulary

MOST = 1_000_000
"""Words that are remembered: each is compared with at every step, so that more would take too long."""
ASKED = 500
"""Validation sentences by which it is chosen how much neighbours are believed."""
TOKENS = 4096

COUNTS = (4, 8, 16, 32)
WEIGHTS = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7)
WIDTHS = (0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.6, 1.0)
"""Of the kernel, as shares of the squared distance at which the eighth neighbour usually is."""


@dataclass(frozen=True)
class Memory:
    """What a run remembers, and what that is worth on sentences it has not seen."""

    pairs: int
    places: int
    count: int
    weight: float
    sharpness: float
    loss: float
    """Of a validation word, by the model alone."""
    loss_with: float

    def as_json(self) -> dict[str, object]:
        return asdict(self)

    def __str__(self) -> str:
        return (
            f"remembered: {self.places:,} words of {self.pairs:,} pairs\n"
            f"asked: {self.count} neighbours with a say of {self.weight:.0%}\n"
            f"loss of a validation word: {self.loss:.3f} without them, {self.loss_with:.3f} with them"
        )


def remember(
    run: str | Path,
    source: str | Path | None = None,
    target: str | Path | None = None,
    listener: ProgressListener | None = None,
) -> Memory:
    """Keep a run's training pairs in its folder, or those of files; what it remembered before is replaced."""
    if target is not None and source is None:
        raise RegardError("--target goes with --source: the sentences and their translations")
    folder = RunFolder.open(Path(run))
    recipe = folder.read_recipe()
    if not isinstance(recipe, TranslationRecipe):
        raise RegardError(f"{run} holds a model for {recipe.task}; only those that translate have neighbours")
    loaded = Translator(folder, recipe, remembering=False)
    data = recipe.data if source is None else of_files(recipe.data, source, target)
    neighbours, memory = found_in(ParallelCorpus(data), loaded, listener or NullListener())
    keep(folder, loaded.model, neighbours)
    return memory


@torch.no_grad()
def found_in(
    corpus: ParallelCorpus, loaded: Translator, listener: ProgressListener
) -> tuple[Datastore, Memory]:
    """The places of the training pairs, as many asked and as much believed as validation pairs have it."""
    model, vocabulary, max_length = loaded.model, loaded.vocabulary, loaded.recipe.model.max_length
    pairs = some_of(corpus, listener)
    listener.log(f"reading {len(pairs):,} pairs")
    keys, words, _ = places_of(model, vocabulary, pairs, max_length)
    query, gold, probability = places_of(model, vocabulary, corpus.valid[:ASKED], max_length)
    most = min(max(COUNTS), len(keys))
    listener.log(f"asking for the neighbours of {len(query):,} validation words")
    places = Datastore(keys, words, count=most, weight=0.5, sharpness=1.0)
    distances, nearest = nearest_places(places, query.float(), most)
    loss_with, count, weight, sharpness = chosen(distances, words[nearest] == gold.unsqueeze(1), probability)
    loss = float(-probability.log().mean())
    if loss_with >= loss:
        raise RegardError(
            f"the pairs of {corpus.data.source or corpus.data.corpus} are of no help: the loss of a validation "
            f"word is {loss:.3f} without them and {loss_with:.3f} with them; nothing was written"
        )
    memory = Memory(len(pairs), len(keys), count, weight, sharpness, loss, loss_with)
    return Datastore(keys, words, count=count, weight=weight, sharpness=sharpness), memory


def some_of(corpus: ParallelCorpus, listener: ProgressListener) -> list[Pair]:
    """The training pairs; of a large corpus as many as have about as many words as are remembered."""
    words = sum(len(target.split()) + 1 for _, target in corpus.train())
    every = math.ceil(words / MOST)
    if every > 1:
        listener.log(
            f"{words:,} words are more than the {MOST:,} that are remembered: one pair of {every} is kept"
        )
    found = list(islice(corpus.train(), None, None, every or 1))
    if not found:
        raise RegardError(f"{corpus.data.source or corpus.data.corpus}: there is no pair to remember")
    return found


def places_of(
    model: Seq2SeqModel, vocabulary: Vocabulary, pairs: Sequence[Pair], max_length: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Every place of the target sentences: its vector (places, width) in half precision, the word that stands
    there, and how likely the model thinks it is."""
    keys, words, probabilities = [], [], []
    device = model.output[0].device
    for cpu_batch in Batches.of_pairs(vocabulary.encode_pairs(pairs), TOKENS, max_length):
        batch = cpu_batch.to(device)
        hidden, labels = seq2seq_hidden(model, batch.source, batch.target).values, batch.labels.values
        keys.append(hidden.half().cpu())
        words.append(labels.int().cpu())
        share = model.scores(hidden).softmax(-1)
        probabilities.append(share.gather(1, labels.unsqueeze(1)).squeeze(1).cpu())
    return torch.cat(keys), torch.cat(words), torch.cat(probabilities)


def chosen(distances: Tensor, right: Tensor, probability: Tensor) -> tuple[float, int, float, float]:
    """The loss a word, the count, weight and sharpness that foretell words best.

    Squared distances of the nearest places to some queries (queries, 32 or fewer), nearest first, whether what
    stood there is the right word (the same shape), and how likely the model thinks that word (queries,).
    """
    usual = max(float(distances[:, : min(8, distances.size(1))][:, -1].mean()), 1e-6)
    tried = [(math.inf, 1, 0.0, 1.0)]
    for count in sorted({min(each, distances.size(1)) for each in COUNTS}):
        for width in WIDTHS:
            kernel = (-distances[:, :count] / (width * usual)).softmax(-1)
            said = (kernel * right[:, :count]).sum(-1)
            for weight in WEIGHTS:
                loss = float(-torch.lerp(probability, said, weight).clamp_min(1e-30).log().mean())
                tried.append((loss, count, weight, math.sqrt(2 / (width * usual))))
    return min(tried)


def of_files(data: PairDataConfig, source: str | Path, target: str | Path | None) -> PairDataConfig:
    """Files in place of the data that a run was trained on; some of their pairs are held out."""
    return PairDataConfig(
        corpus="files",
        source=str(source),
        target=None if target is None else str(target),
        source_column=data.source_column,
        target_column=data.target_column,
        source_language=data.source_language,
        target_language=data.target_language,
        max_length=data.max_length,
        ratio=data.ratio,
    )
