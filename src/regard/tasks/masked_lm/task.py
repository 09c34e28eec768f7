"""BERT pre-training from plain text: masked words and next-sentence prediction."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np
import torch
from torch import nn

from regard.data.examples import IGNORE_INDEX, TextBatch, all_batches
from regard.data.masked_lm import DocumentFile, MaskedLmExamples, MaskingSymbols, TokenMasking
from regard.data.text_files import CorpusError
from regard.data.token_store import TokenStore, open_or_build, store_key
from regard.engine import run
from regard.errors import RegardError
from regard.nn.bert import BertPretrainer
from regard.nn.build import Head
from regard.storage import cache_folder
from regard.tasks.encoder import training as text_training
from regard.tasks.encoder.training import hash_fraction
from regard.tasks.masked_lm.config import MaskedLmRecipe
from regard.tasks.metrics_log import PhaseProgress, ProgressListener
from regard.tasks.results import TaskRun, TaskScores
from regard.tokenization import BertTokenizer
from regard.training.objectives import PretrainingObjective

BATCH_TOKENS = 8192
"""Tokens per batch while measuring."""

MAX_DOCUMENTS = 2**32
"""Bound of the document numbers in a token store."""

TEXTS_IN_MEMORY = 20_000
"""Texts that are in memory at a time while measuring."""


def train(
    recipe: MaskedLmRecipe, out: Path, listener: ProgressListener | None = None, *, resume: bool = False
) -> TaskRun | None:
    """Train into the folder `out`, and measure on the test file or on the validation documents."""
    return text_training.train(recipe, MaskedLmTask, out, listener, resume=resume)


class MaskedLmTask:
    """Reads, encodes and measures documents; a `TextTask`."""

    head: Head = "pretraining"
    objective = PretrainingObjective

    def __init__(self, recipe: MaskedLmRecipe) -> None:
        self.data, self.seed = recipe.data, recipe.train.seed
        self.max_length = min(recipe.data.max_length, recipe.model.max_length)
        self.labels: list[str] = []
        self.splits: dict[str, DocumentFile] = {}
        self.opened: dict[str, MaskedLmExamples] = {}

    def read_split(self, split: str, path: Path) -> None:
        """Read a file as a split; without a validation file some training documents are held out for it."""
        held_out = split == "train" and self.data.valid is None
        share = self.data.held_out
        if held_out:
            self.splits["valid"] = DocumentFile(path, lambda first: hash_fraction(first) < share)
            self.splits["train"] = DocumentFile(path, lambda first: hash_fraction(first) >= share)
        else:
            self.splits[split] = DocumentFile(path)
        for name in ("train", "valid") if held_out else (split,):
            self.check_documents(path, name, held_out)

    def check_documents(self, path: Path, split: str, held_out: bool) -> None:
        """Refuse a split with too few documents."""
        documents = self.splits[split].documents
        if held_out and not documents:
            raise CorpusError(
                f"{path}: too few documents to hold some out for validation; give a file (data.valid=...)"
            )
        if self.data.next_sentence and documents < 2:
            which = f" for {split}" if held_out else ""
            raise RegardError(
                f"{path} holds one document{which}, and next-sentence prediction needs two; put blank lines "
                "between documents, or set data.next_sentence=false"
            )

    def split_key(self, item: str) -> str:
        return item

    def data_summary(self) -> Iterator[str]:
        sizes = ", ".join(
            f"{text.documents:,} of {text.sentences:,} sentences for {split}"
            for split, text in self.splits.items()
        )
        yield f"documents: {sizes}"

    def vocabulary_texts(self) -> Iterable[str]:
        return (sentence for _, sentence in self.splits["train"])

    def encode(self, tokenizer: BertTokenizer, log: Callable[[str], object]) -> MaskedLmExamples:
        documents = self.documents(tokenizer, "train")
        if self.data.next_sentence and not documents.several_documents:
            raise RegardError(
                "data.train: next-sentence prediction needs two documents with several sentences in a text of "
                f"{self.max_length} tokens; set data.next_sentence=false"
            )
        parts = f"{len(documents.pairable):,} of them in two parts"
        log(f"texts of {self.max_length} tokens: {len(documents):,}, {parts}")
        return documents

    def documents(self, tokenizer: BertTokenizer, split: str) -> MaskedLmExamples:
        """The documents of a split as ids, in a token store that is built on first use."""
        if split not in self.opened:
            store = sentence_store(self.splits[split], tokenizer)
            hiding = TokenMasking(self.data.mask, self.data.whole_words)
            documents = MaskedLmExamples(
                store, self.max_length, symbols_of(tokenizer), hiding, self.data.next_sentence
            )
            if not len(documents):
                raise RegardError(f"data.{split}: no text is left of these documents")
            self.opened[split] = documents
        return self.opened[split]

    def measure(
        self, model: nn.Module, tokenizer: BertTokenizer, split: str, progress: PhaseProgress | None = None
    ) -> TaskScores:
        documents, rng = self.documents(tokenizer, split), np.random.default_rng(self.seed)
        objective = PretrainingObjective(model)
        totals = np.zeros(6)
        progress = progress or PhaseProgress()
        progress.expect(len(documents), "texts")
        assert isinstance(model, BertPretrainer)
        with torch.no_grad():
            for first in range(0, len(documents), TEXTS_IN_MEMORY):
                members = np.arange(first, min(first + TEXTS_IN_MEMORY, len(documents)))
                for batch in all_batches(documents.load(members, rng), BATCH_TOKENS):
                    totals += batch_totals(model, objective, batch.to(objective.device))
                    progress.add(batch.rows)
        words, correct_words, word_loss, pairs, correct_pairs, pair_loss = totals
        scores = {"accuracy": correct_words / max(1, words), "word_loss": word_loss / max(1, words)}
        if pairs:
            scores |= {"next_accuracy": correct_pairs / pairs, "next_loss": pair_loss / pairs}
        scores["loss"] = scores["word_loss"] + scores.get("next_loss", 0.0)
        return TaskScores({name: float(score) for name, score in scores.items()}, len(documents), [])


def batch_totals(model: BertPretrainer, objective: PretrainingObjective, batch: TextBatch) -> np.ndarray:
    """Masked words, correct ones, their loss; texts in two parts, correct ones, their loss: (6,)."""
    word_loss, pair_loss = objective.parts(batch)
    positions = (batch.token_labels != IGNORE_INDEX).nonzero().squeeze(1)
    hidden, pair_logits = run(model, batch.ids, batch.segments, positions)
    weight, bias = model.output
    words = batch.token_labels.index_select(0, positions)
    predictions = torch.cat([(part @ weight.T + bias).argmax(-1) for part in hidden.split(512)])
    labels = batch.labels[:, 0]
    correct = (pair_logits.argmax(-1) == labels) & (labels != IGNORE_INDEX)
    totals = [
        len(words),
        (predictions == words).sum(),
        word_loss,
        (labels != IGNORE_INDEX).sum(),
        correct.sum(),
        pair_loss,
    ]
    return np.array([float(total) for total in totals])


def sentence_store(text: DocumentFile, tokenizer: BertTokenizer) -> TokenStore:
    """Sentences as ids with the number of their document, in a token store."""
    key = store_key("sentences", text.fingerprint, tokenizer.library.to_str())
    return open_or_build(
        cache_folder() / "stores" / key,
        text.pairs,
        tokenizer.encode_batch,
        lambda numbers: [[int(number)] for number in numbers],
        (tokenizer.size, MAX_DOCUMENTS),
    )


def symbols_of(tokenizer: BertTokenizer) -> MaskingSymbols:
    ordinary = np.array(
        [token for token in range(tokenizer.size) if token not in tokenizer.special_ids], np.int64
    )
    return MaskingSymbols(
        tokenizer.begin, tokenizer.end, tokenizer.mask, ordinary, np.array(tokenizer.continuation_mask())
    )
