"""Building the kNN datastore of a translation run from sentence pairs (Khandelwal et al. 2021).

For every position of every target sentence it holds the hidden state from which the model predicts the next
token, and that token (`nn/knn.py`). Nothing is trained; the number of neighbours, their weight and the kernel
are chosen by the loss on validation pairs.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import torch
from torch import Tensor

from regard.config.data import PairDataConfig
from regard.data.batches import Batches
from regard.data.corpus import Pair
from regard.data.parallel import ParallelCorpus
from regard.engine.forward import seq2seq_hidden
from regard.engine.search import nearest
from regard.errors import RegardError
from regard.nn.knn import Datastore
from regard.nn.seq2seq import Seq2SeqModel
from regard.tasks.metrics_log import NullListener, ProgressListener
from regard.tasks.run_folder import RunFolder
from regard.tasks.translation.config import TranslationRecipe
from regard.tasks.translation.datastore_file import save_datastore
from regard.tasks.translation.model import Translator
from regard.tasks.translation.vocabulary import Vocabulary

MAX_ENTRIES = 1_000_000
"""Every query is compared with every entry; more would take too long."""
VALIDATION_PAIRS = 500
"""Pairs on which the search settings are tuned."""
BATCH_TOKENS = 4096

COUNTS = (4, 8, 16, 32)
WEIGHTS = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7)
WIDTHS = (0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.6, 1.0)
"""Kernel widths, relative to the mean squared distance of the eighth neighbour."""


@dataclass(frozen=True)
class DatastoreReport:
    """Size and search settings of a datastore, and the loss on validation pairs with and without it."""

    pairs: int
    entries: int
    count: int
    weight: float
    sharpness: float
    loss: float
    """Per validation token, of the model alone."""
    loss_with: float

    def as_json(self) -> dict[str, object]:
        return {
            "pairs": self.pairs,
            "places": self.entries,
            "count": self.count,
            "weight": self.weight,
            "sharpness": self.sharpness,
            "loss": self.loss,
            "loss_with": self.loss_with,
        }

    def __str__(self) -> str:
        return (
            f"datastore: {self.entries:,} tokens of {self.pairs:,} pairs\n"
            f"search: {self.count} neighbours, weight {self.weight:.0%}\n"
            f"validation loss per token: {self.loss:.3f} without, {self.loss_with:.3f} with the datastore"
        )


def build_datastore(
    run: str | Path,
    source: str | Path | None = None,
    target: str | Path | None = None,
    listener: ProgressListener | None = None,
) -> DatastoreReport:
    """Build the datastore of a run and store it in its folder; an earlier one is replaced.

    Args:
        run: The run folder.
        source: Sentences, or a file of pairs; None for the run's own training data.
        target: The translations of `source`.
        listener: Receives log messages.

    Raises:
        RegardError: The run is not a translation run, there are no pairs, or they do not improve the loss.
    """
    if target is not None and source is None:
        raise RegardError("--target needs --source: give the sentences and their translations")
    folder = RunFolder.open(Path(run))
    recipe = folder.read_recipe()
    if not isinstance(recipe, TranslationRecipe):
        raise RegardError(f"{run} holds a model for {recipe.task}; only translation runs can have a datastore")
    loaded = Translator(folder, recipe, use_datastore=False)
    data = recipe.data if source is None else data_of_files(recipe.data, source, target)
    datastore, report = datastore_of_corpus(ParallelCorpus(data), loaded, listener or NullListener())
    save_datastore(folder, loaded.model, datastore)
    return report


@torch.no_grad()
def datastore_of_corpus(
    corpus: ParallelCorpus, loaded: Translator, listener: ProgressListener
) -> tuple[Datastore, DatastoreReport]:
    """A datastore of the training pairs, tuned on validation pairs."""
    model, vocabulary, max_length = loaded.model, loaded.vocabulary, loaded.recipe.model.max_length
    pairs = sampled_pairs(corpus, listener)
    listener.log(f"encoding {len(pairs):,} pairs")
    keys, tokens, _ = target_states(model, vocabulary, pairs, max_length)
    queries, labels, probability = target_states(model, vocabulary, corpus.valid[:VALIDATION_PAIRS], max_length)
    max_count = min(max(COUNTS), len(keys))
    listener.log(f"searching the neighbours of {len(queries):,} validation tokens")
    untuned = Datastore(keys, tokens, count=max_count, weight=0.5, sharpness=1.0)
    distances, entries = nearest(untuned, queries.float(), max_count)
    loss_with, count, weight, sharpness = tune(distances, tokens[entries] == labels.unsqueeze(1), probability)
    loss = float(-probability.log().mean())
    if loss_with >= loss:
        raise RegardError(
            f"the pairs of {corpus.data.source or corpus.data.corpus} do not help: the validation loss per "
            f"token is {loss:.3f} without and {loss_with:.3f} with them; nothing was written"
        )
    report = DatastoreReport(len(pairs), len(keys), count, weight, sharpness, loss, loss_with)
    return Datastore(keys, tokens, count=count, weight=weight, sharpness=sharpness), report


def sampled_pairs(corpus: ParallelCorpus, listener: ProgressListener) -> list[Pair]:
    """The training pairs; of a large corpus every n-th, for about `MAX_ENTRIES` words."""
    words = sum(len(target.split()) + 1 for _, target in corpus.train())
    step = math.ceil(words / MAX_ENTRIES)
    if step > 1:
        listener.log(f"{words:,} words are more than the limit of {MAX_ENTRIES:,}; every {step}th pair is used")
    pairs = list(islice(corpus.train(), None, None, step or 1))
    if not pairs:
        raise RegardError(f"{corpus.data.source or corpus.data.corpus} has no sentence pairs")
    return pairs


def target_states(
    model: Seq2SeqModel, vocabulary: Vocabulary, pairs: Sequence[Pair], max_length: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Teacher-forced states of all target positions.

    Returns:
        Hidden states (positions, width) in half precision, the tokens there (positions,), and the
        probabilities that the model assigns to them (positions,).
    """
    keys, tokens, probabilities = [], [], []
    device = model.output[0].device
    for cpu_batch in Batches.of_pairs(vocabulary.encode_pairs(pairs), BATCH_TOKENS, max_length):
        batch = cpu_batch.to(device)
        hidden, labels = seq2seq_hidden(model, batch.source, batch.target).values, batch.labels.values
        keys.append(hidden.half().cpu())
        tokens.append(labels.int().cpu())
        distribution = model.scores(hidden).softmax(-1)
        probabilities.append(distribution.gather(1, labels.unsqueeze(1)).squeeze(1).cpu())
    return torch.cat(keys), torch.cat(tokens), torch.cat(probabilities)


def tune(distances: Tensor, is_label: Tensor, probability: Tensor) -> tuple[float, int, float, float]:
    """Grid search for the settings with the lowest loss.

    Args:
        distances: Squared distances to the neighbours of each query, nearest first: (queries, neighbours).
        is_label: Whether a neighbour's token is the query's label: (queries, neighbours).
        probability: The model's probability of the label: (queries,).

    Returns:
        Loss per token, number of neighbours, their weight, sharpness of the kernel.
    """
    scale = max(float(distances[:, : min(8, distances.size(1))][:, -1].mean()), 1e-6)
    candidates = [(math.inf, 1, 0.0, 1.0)]
    for count in sorted({min(count, distances.size(1)) for count in COUNTS}):
        for width in WIDTHS:
            kernel = (-distances[:, :count] / (width * scale)).softmax(-1)
            knn_probability = (kernel * is_label[:, :count]).sum(-1)
            for weight in WEIGHTS:
                mixture = torch.lerp(probability, knn_probability, weight)
                loss = float(-mixture.clamp_min(1e-30).log().mean())
                candidates.append((loss, count, weight, math.sqrt(2 / (width * scale))))
    return min(candidates)


def data_of_files(data: PairDataConfig, source: str | Path, target: str | Path | None) -> PairDataConfig:
    """The run's data settings with other files, of which some pairs are held out for validation."""
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
