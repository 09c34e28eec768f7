"""Pre-training from plain text: guess the hidden words, and whether one part of a text follows the other."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np
import torch
from torch import nn

from regard.config import PretrainingRecipe
from regard.data.documents import Documents, Hiding, Symbols, read_documents
from regard.data.examples import NOTHING, TextBatch, all_batches
from regard.errors import RegardError
from regard.jobs import texts
from regard.jobs.journal import Audience
from regard.jobs.texts import Measured, TextRun
from regard.models.bert import BertPretrainer
from regard.models.build import Head
from regard.text import BertTokenizer
from regard.training.heads import PretrainingObjective

TOKENS = 8192
"""Tokens a batch while measuring."""


def train(
    recipe: PretrainingRecipe, out: Path, audience: Audience | None = None, *, resume: bool = False
) -> TextRun | None:
    """Train into the folder `out`, and measure on the test file or on the validation documents."""
    return texts.train(recipe, Pretraining, out, audience, resume=resume)


class Pretraining:
    """The work of a pre-training recipe."""

    head: Head = "pretraining"
    objective = PretrainingObjective

    def __init__(self, recipe: PretrainingRecipe) -> None:
        self.data, self.seed = recipe.data, recipe.train.seed
        self.longest = min(recipe.data.longest, recipe.model.longest)
        self.labels: list[str] = []
        self.splits: dict[str, list[list[str]]] = {}

    def open(self, split: str, path: Path) -> None:
        self.splits[split] = list(read_documents(path))
        if self.data.next_sentence and len(self.splits[split]) < 2:
            raise RegardError(
                f"{path} holds one document, and learning what follows needs two: put blank lines between "
                "documents, or set data.next_sentence=false"
            )

    def key(self, item: list[str]) -> str:
        return item[0]

    def tell(self) -> Iterator[str]:
        told = ", ".join(
            f"{len(documents):,} of {sum(map(len, documents)):,} sentences for {split}"
            for split, documents in self.splits.items()
        )
        yield f"documents: {told}"

    def texts(self) -> Iterable[str]:
        return (sentence for document in self.splits["train"] for sentence in document)

    def encode(self, tokenizer: BertTokenizer, tell: Callable[[str], object]) -> Documents:
        found = self.documents(tokenizer, "train")
        alone = sum(len(sentences) < 2 for _, sentences in found.stretches)
        tell(
            f"texts of {self.longest} tokens: {len(found):,}, {alone:,} of them a sentence that nothing follows"
        )
        return found

    def documents(self, tokenizer: BertTokenizer, split: str) -> Documents:
        encoded = (tokenizer.encode_batch(document) for document in self.splits[split])
        hiding = Hiding(self.data.mask, self.data.whole_words)
        found = Documents(encoded, self.longest, symbols_of(tokenizer), hiding, self.data.next_sentence)
        if not len(found):
            raise RegardError(f"data.{split}: no text is left of these documents")
        return found

    def measure(self, model: nn.Module, tokenizer: BertTokenizer, split: str) -> Measured:
        documents = self.documents(tokenizer, split)
        examples = documents.load(np.arange(len(documents)), np.random.default_rng(self.seed))
        objective = PretrainingObjective(model)
        totals = np.zeros(6)
        assert isinstance(model, BertPretrainer)
        with torch.no_grad():
            for batch in all_batches(examples, tokenizer.padding, TOKENS):
                totals += counted(model, objective, batch.to(objective.device))
        words, right_words, word_loss, decisions, right, loss = totals
        scores = {"accuracy": right_words / max(1, words), "word_loss": word_loss / max(1, words)}
        if decisions:
            scores |= {"next_accuracy": right / decisions, "next_loss": loss / decisions}
        scores["loss"] = scores["word_loss"] + scores.get("next_loss", 0.0)
        return Measured({name: float(each) for name, each in scores.items()}, len(examples), [])


def counted(model: BertPretrainer, objective: PretrainingObjective, batch: TextBatch) -> np.ndarray:
    """Hidden words, those guessed, their loss; texts in two parts, those told right, their loss."""
    word_loss, loss = objective.parts(batch)
    places = (batch.marks != NOTHING).flatten().nonzero().squeeze(1)
    rows, scores = model(batch.ids, batch.segments, places)
    weight, bias = model.output
    gold = batch.marks.flatten().index_select(0, places)
    guessed = torch.cat([(part @ weight.T + bias).argmax(-1) for part in rows.split(512)])
    told = batch.gold[:, 0] != NOTHING
    right = (scores.argmax(-1) == batch.gold[:, 0]) & told
    numbers = [len(gold), (guessed == gold).sum(), word_loss, told.sum(), right.sum(), loss]
    return np.array([float(each) for each in numbers])


def symbols_of(tokenizer: BertTokenizer) -> Symbols:
    ordinary = np.array([one for one in range(tokenizer.size) if one not in tokenizer.specials], np.int64)
    return Symbols(tokenizer.begin, tokenizer.end, tokenizer.mask, ordinary, np.array(tokenizer.continues()))
