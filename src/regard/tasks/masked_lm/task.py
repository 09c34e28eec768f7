"""Pre-training from plain text: guess the hidden words, and whether one part of a text follows the other."""

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
from regard.tasks.encoder import training as texts
from regard.tasks.encoder.training import TaskRun, TaskScores, bucket
from regard.tasks.masked_lm.config import MaskedLmRecipe
from regard.tasks.metrics_log import ProgressListener
from regard.tokenization import BertTokenizer
from regard.training.objectives import PretrainingObjective

TOKENS = 8192
"""Tokens a batch while measuring."""

DOCUMENTS = 2**32
"""Numbers of documents are below: all that a store can hold."""

TEXTS = 20_000
"""Texts that are in memory at a time while measuring."""


def train(
    recipe: MaskedLmRecipe, out: Path, listener: ProgressListener | None = None, *, resume: bool = False
) -> TaskRun | None:
    """Train into the folder `out`, and measure on the test file or on the validation documents."""
    return texts.train(recipe, Pretraining, out, listener, resume=resume)


class Pretraining:
    """The work of a pre-training recipe."""

    head: Head = "pretraining"
    objective = PretrainingObjective

    def __init__(self, recipe: MaskedLmRecipe) -> None:
        self.data, self.seed = recipe.data, recipe.train.seed
        self.max_length = min(recipe.data.max_length, recipe.model.max_length)
        self.labels: list[str] = []
        self.splits: dict[str, DocumentFile] = {}
        self.opened: dict[str, MaskedLmExamples] = {}

    def open(self, split: str, path: Path) -> None:
        """A file as a split; where validation has no file of its own, some documents are held out for it."""
        held_out = split == "train" and self.data.valid is None
        share = self.data.held_out
        if held_out:
            self.splits["valid"] = DocumentFile(path, lambda first: bucket(first) < share)
            self.splits["train"] = DocumentFile(path, lambda first: bucket(first) >= share)
        else:
            self.splits[split] = DocumentFile(path)
        for each in ("train", "valid") if held_out else (split,):
            self.check(path, each, held_out)

    def check(self, path: Path, split: str, held_out: bool) -> None:
        documents = self.splits[split].documents
        if held_out and not documents:
            raise CorpusError(
                f"{path}: too few documents to hold some out for validation; give a file (data.valid=...)"
            )
        if self.data.next_sentence and documents < 2:
            told = f"holds one document for {split}" if held_out else "holds one document"
            raise RegardError(
                f"{path} {told}, and learning what follows needs two: put blank lines between "
                "documents, or set data.next_sentence=false"
            )

    def key(self, item: str) -> str:
        return item

    def tell(self) -> Iterator[str]:
        told = ", ".join(
            f"{text.documents:,} of {text.sentences:,} sentences for {split}"
            for split, text in self.splits.items()
        )
        yield f"documents: {told}"

    def texts(self) -> Iterable[str]:
        return (sentence for _, sentence in self.splits["train"])

    def encode(self, tokenizer: BertTokenizer, tell: Callable[[str], object]) -> MaskedLmExamples:
        found = self.documents(tokenizer, "train")
        if self.data.next_sentence and not found.several_documents:
            raise RegardError(
                "data.train: learning what follows needs two documents with several sentences in a text of "
                f"{self.max_length} tokens; set data.next_sentence=false"
            )
        tell(f"texts of {self.max_length} tokens: {len(found):,}, {len(found.pairable):,} of them in two parts")
        return found

    def documents(self, tokenizer: BertTokenizer, split: str) -> MaskedLmExamples:
        """The documents of a split as ids, in a token store that is built where it is not there yet."""
        if split not in self.opened:
            store = sentence_store(self.splits[split], tokenizer)
            hiding = TokenMasking(self.data.mask, self.data.whole_words)
            found = MaskedLmExamples(
                store, self.max_length, symbols_of(tokenizer), hiding, self.data.next_sentence
            )
            if not len(found):
                raise RegardError(f"data.{split}: no text is left of these documents")
            self.opened[split] = found
        return self.opened[split]

    def measure(self, model: nn.Module, tokenizer: BertTokenizer, split: str) -> TaskScores:
        documents, rng = self.documents(tokenizer, split), np.random.default_rng(self.seed)
        objective = PretrainingObjective(model)
        totals = np.zeros(6)
        assert isinstance(model, BertPretrainer)
        with torch.no_grad():
            for first in range(0, len(documents), TEXTS):
                members = np.arange(first, min(first + TEXTS, len(documents)))
                for batch in all_batches(documents.load(members, rng), TOKENS):
                    totals += counted(model, objective, batch.to(objective.device))
        words, right_words, word_loss, decisions, right, loss = totals
        scores = {"accuracy": right_words / max(1, words), "word_loss": word_loss / max(1, words)}
        if decisions:
            scores |= {"next_accuracy": right / decisions, "next_loss": loss / decisions}
        scores["loss"] = scores["word_loss"] + scores.get("next_loss", 0.0)
        return TaskScores({name: float(each) for name, each in scores.items()}, len(documents), [])


def counted(model: BertPretrainer, objective: PretrainingObjective, batch: TextBatch) -> np.ndarray:
    """Hidden words, those guessed, their loss; texts in two parts, those told right, their loss."""
    word_loss, loss = objective.parts(batch)
    positions = (batch.token_labels != IGNORE_INDEX).nonzero().squeeze(1)
    hidden, scores = run(model, batch.ids, batch.segments, positions)
    weight, bias = model.output
    words = batch.token_labels.index_select(0, positions)
    guessed = torch.cat([(part @ weight.T + bias).argmax(-1) for part in hidden.split(512)])
    labels = batch.labels[:, 0]
    right = (scores.argmax(-1) == labels) & (labels != IGNORE_INDEX)
    numbers = [
        len(words), (guessed == words).sum(), word_loss, (labels != IGNORE_INDEX).sum(), right.sum(), loss
    ]  # fmt: skip
    return np.array([float(each) for each in numbers])


def sentence_store(text: DocumentFile, tokenizer: BertTokenizer) -> TokenStore:
    """Sentences as ids, each with the number of its document."""
    key = store_key("sentences", text.fingerprint, tokenizer.library.to_str())
    return open_or_build(
        cache_folder() / "stores" / key,
        text.pairs,
        tokenizer.encode_batch,
        lambda numbers: [[int(number)] for number in numbers],
        (tokenizer.size, DOCUMENTS),
    )


def symbols_of(tokenizer: BertTokenizer) -> MaskingSymbols:
    ordinary = np.array([one for one in range(tokenizer.size) if one not in tokenizer.specials], np.int64)
    return MaskingSymbols(
        tokenizer.begin, tokenizer.end, tokenizer.mask, ordinary, np.array(tokenizer.continues())
    )
