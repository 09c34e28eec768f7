"""A BERT opened: vectors for texts, labels, tags, answers, and where it looked."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from regard.attention import Recorder
from regard.config import (
    AnsweringRecipe,
    ClassificationRecipe,
    EncoderRecipe,
    PretrainingRecipe,
    TaggingRecipe,
)
from regard.errors import RegardError
from regard.jobs.answering import Answered, Answering, spans, windows_of
from regard.jobs.bert import BertFolder
from regard.jobs.classification import Classification, Judged, encode_texts, judged, probabilities
from regard.jobs.pretraining import Pretraining
from regard.jobs.tagging import TaggedWords, Tagging, encode_words, tagged, word_shares
from regard.jobs.texts import Measured, TrainedRecipe, Work, asked, file_of
from regard.models.bert import Bert, BertReader
from regard.text import split

Texts = Sequence[str | tuple[str, str]]
"""Texts, or pairs of them."""


@dataclass(frozen=True)
class Seen:
    """Who looked where in one text: weights (heads, query, key) by layer, and the tokens."""

    tokens: list[str]
    layers: dict[str, np.ndarray]


class LoadedEncoder:
    """What `regard.load` gives for every run that holds a BERT."""

    def __init__(self, opened: BertFolder) -> None:
        self.folder, self.recipe, self.labels = opened.folder, opened.recipe, opened.labels
        self.tokenizer = opened.tokenizer()
        self.model = opened.model()
        bert = self.model.bert
        assert isinstance(bert, Bert)
        self.bert = bert

    def embed(self, texts: Texts) -> np.ndarray:
        """A vector for each text, the mean of its tokens': (texts, size)."""
        settings = self.recipe.embed if isinstance(self.recipe, EncoderRecipe) else None
        longest = min(self.recipe.model.longest, settings.longest if settings and settings.longest else 1 << 30)
        examples, _ = encode_texts(self.tokenizer, *sides(texts), longest)
        vectors = np.zeros((len(examples), self.recipe.model.d_model), np.float32)
        for batch, found in asked(BertReader(self.bert), examples, self.tokenizer.padding):
            vectors[list(batch.sentences)] = found.cpu().numpy()
        if settings is None or settings.normal:
            vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
        return vectors

    def evaluate(self, file: Path | None = None) -> Measured:
        """Scores on a file in the form of the training's, or on the test or validation file of the recipe."""
        if isinstance(self.recipe, EncoderRecipe):
            raise RegardError(f"{self.folder.path} holds an encoder by itself, which has no scores")
        work = work_of(self.recipe)
        work.labels = self.labels
        data = self.recipe.data
        file = file or file_of(data, "test") or file_of(data, "valid")
        if file is None:
            raise RegardError(
                f"{self.folder.path} has no test or validation file of its own: give one with --data"
            )
        work.open("test", file)
        return work.measure(self.model, self.tokenizer, "test")

    @torch.no_grad()
    def attention(self, text: str, pair: str | None = None) -> Seen:
        """Where every layer and head looks while it reads a text or a pair."""
        (example,), _ = encode_texts(self.tokenizer, [text], [pair], self.recipe.model.longest)
        device = next(self.bert.parameters()).device
        ids = torch.from_numpy(example.ids).unsqueeze(0).to(device)
        segments = (torch.arange(ids.size(1), device=device) >= example.second).long().unsqueeze(0)
        record = Recorder()
        self.bert(ids, segments, record)
        layers = {name: weights[0].float().cpu().numpy() for name, weights in record.items()}
        return Seen(self.tokenizer.tokens(example.ids.tolist()), layers)


class LoadedClassifier(LoadedEncoder):
    """A BERT that labels texts, or pairs of texts."""

    recipe: ClassificationRecipe

    @property
    def pairs(self) -> bool | None:
        """Whether it labels pairs; nobody knows of one that was imported, so it takes both."""
        return self.recipe.data.pairs if self.recipe.data.train else None

    def classify(self, texts: Texts) -> list[Judged]:
        """The label of each text or pair, with the share of every label."""
        first, second = sides(texts)
        for number, (text, other) in enumerate(zip(first, second, strict=True), start=1):
            if self.pairs not in (None, other is not None):
                wanted = "pairs of texts" if self.pairs else "single texts"
                raise RegardError(f"text {number}: {self.folder.path} was trained on {wanted}")
            if not text.strip() or (other is not None and not other.strip()):
                raise RegardError(f"text {number} is empty; there is nothing to label")
        if not first:
            return []
        longest = min(self.recipe.data.longest, self.recipe.model.longest)
        examples, _ = encode_texts(self.tokenizer, first, second, longest)
        shares = probabilities(self.model, examples, self.tokenizer.padding)
        return [judged(self.labels, each) for each in shares]


class LoadedTagger(LoadedEncoder):
    """A BERT that tags words."""

    recipe: TaggingRecipe

    def tag(self, sentences: Sequence[str] | Sequence[Sequence[str]]) -> list[TaggedWords]:
        """A tag for each word; a text that is not words yet is split into them by rule."""
        words = [split(each) if isinstance(each, str) else list(each) for each in sentences]
        if not words:
            return []
        longest = min(self.recipe.data.longest, self.recipe.model.longest)
        stretches = encode_words(self.tokenizer, words, longest)
        shares = word_shares(self.model, stretches, self.tokenizer.padding, [len(each) for each in words])
        return [tagged(each, self.labels, rows) for each, rows in zip(words, shares, strict=True)]


class LoadedAnswerer(LoadedEncoder):
    """A BERT that finds answers in paragraphs."""

    recipe: AnsweringRecipe

    def answer(self, questions: Sequence[tuple[str, str]]) -> list[Answered]:
        """The answer to each question in its paragraph: pairs of (question, paragraph)."""
        for number, (question, paragraph) in enumerate(questions, start=1):
            if not question.strip() or not paragraph.strip():
                raise RegardError(f"question {number}: question and paragraph must not be empty")
        if not questions:
            return []
        data = self.recipe.data
        longest = min(data.longest, self.recipe.model.longest)
        windows = windows_of(self.tokenizer, questions, data, longest)
        contexts = [paragraph for _, paragraph in questions]
        return spans(self.model, windows, self.tokenizer.padding, contexts, data.longest_answer)[0]


def sides(texts: Texts) -> tuple[list[str], list[str | None]]:
    """First and second texts; None where there is no second."""
    first = [each if isinstance(each, str) else each[0] for each in texts]
    return first, [None if isinstance(each, str) else each[1] for each in texts]


def work_of(recipe: TrainedRecipe) -> Work:
    """What a recipe's task does."""
    match recipe:
        case ClassificationRecipe():
            return Classification(recipe)
        case TaggingRecipe():
            return Tagging(recipe)
        case AnsweringRecipe():
            return Answering(recipe)
        case PretrainingRecipe():
            return Pretraining(recipe)


def loaded_of(opened: BertFolder) -> LoadedEncoder:
    """The object that answers for a run's task."""
    match opened.recipe:
        case ClassificationRecipe():
            return LoadedClassifier(opened)
        case TaggingRecipe():
            return LoadedTagger(opened)
        case AnsweringRecipe():
            return LoadedAnswerer(opened)
        case _:
            return LoadedEncoder(opened)
