"""A model that reads, opened: vectors for texts, labels, tags, answers, and where it looked."""

import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import nn

from regard.config import (
    AnsweringRecipe,
    ClassificationRecipe,
    EncoderRecipe,
    LanguageRecipe,
    PretrainingRecipe,
    TaggingRecipe,
)
from regard.errors import RegardError
from regard.nn import Merging, Recorder
from regard.nn.bert import Bert, BertReader
from regard.nn.gpt import Gpt
from regard.tasks.classification.task import Classification, Judged, encode_texts, judged, probabilities
from regard.tasks.encoder.run_folder import TextFolder, embed_settings
from regard.tasks.encoder.training import Measured, TrainedRecipe, Work, asked, file_of
from regard.tasks.language_modeling.task import Language
from regard.tasks.masked_lm.task import Pretraining
from regard.tasks.question_answering.task import Answered, Answering, spans, windows_of
from regard.tasks.tagging.task import TaggedWords, Tagging, encode_words, tagged, word_shares
from regard.tasks.translation.model import side
from regard.tokenization import split
from regard.viz.payload import Layer, Looked

Texts = Sequence[str | tuple[str, str]]
"""Texts, or pairs of them."""


class LoadedEncoder:
    """What `regard.load` gives for every run that holds a BERT, or a GPT that labels."""

    def __init__(self, opened: TextFolder) -> None:
        assert not isinstance(opened.recipe, LanguageRecipe)
        self.folder, self.recipe, self.labels = opened.folder, opened.recipe, opened.labels
        self.tokenizer = opened.tokenizer()
        self.model = opened.model()
        self.body = body_of(self.model)

    @property
    def longest(self) -> int:
        """The most tokens of a text or pair that are read, [CLS] and [SEP] among them."""
        own = self.recipe.embed.longest if isinstance(self.recipe, EncoderRecipe) else self.recipe.data.longest
        return min(self.recipe.model.longest, own or self.recipe.model.longest)

    def tokens(self, text: str, pair: str | None = None) -> int:
        """How many tokens a text or pair has, [CLS] and [SEP] among them."""
        second = None if pair is None else self.tokenizer.encode(pair)
        return len(self.tokenizer.joined(self.tokenizer.encode(text), second))

    def merge(self, amounts: Sequence[float]) -> None:
        """Merge neighbouring tokens from now on: shares below 1, else numbers, for all layers or for each."""
        if not isinstance(self.body, Bert):
            raise RegardError(
                f"{self.folder.path} holds {self.recipe.model}; tokens are merged in a BERT or a ViT"
            )
        self.body.reduction = Merging(tuple(amounts), near=True)

    def embed(self, texts: Texts) -> np.ndarray:
        """A vector for each text, pooled from its tokens' as the run's settings are: (texts, size)."""
        settings = embed_settings(self.recipe)
        examples, _ = encode_texts(self.tokenizer, *sides(texts), self.longest)
        vectors = np.zeros((len(examples), self.recipe.model.d_model), np.float32)
        for batch, found in asked(BertReader(self.body, settings.pooling), examples):
            vectors[list(batch.sentences)] = found.cpu().numpy()
        if settings.normal:
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
    def attention(self, text: str, pair: str | None = None) -> Looked:
        """Where every layer and head looks while it reads a text or a pair.

        What is longer than the model has places for is told and cut.
        """
        (example,), cut = encode_texts(self.tokenizer, [text], [pair], self.recipe.model.longest)
        if cut:
            warnings.warn(
                f"the text has {self.tokens(text, pair)} tokens, the model allows {self.recipe.model.longest}: "
                "the rest is left out",
                stacklevel=2,
            )
        device = next(self.body.parameters()).device
        ids = torch.from_numpy(example.ids).unsqueeze(0).to(device)
        segments = (torch.arange(ids.size(1), device=device) >= example.second).long().unsqueeze(0)
        record = Recorder()
        self.body(ids, segments, record)
        whole = text if pair is None else f"{text}\n{pair}"
        read = side("text" if pair is None else "texts", whole, self.tokenizer, example.ids.tolist())
        layers = {name: Layer(read, read, weights[0].float().cpu().numpy()) for name, weights in record.items()}
        return Looked(read, read, layers)


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
        examples, _ = encode_texts(self.tokenizer, first, second, self.longest)
        shares = probabilities(self.model, examples)
        return [judged(self.labels, each) for each in shares]


class LoadedTagger(LoadedEncoder):
    """A BERT that tags words."""

    recipe: TaggingRecipe

    def tag(self, sentences: Sequence[str] | Sequence[Sequence[str]]) -> list[TaggedWords]:
        """A tag for each word; a text that is not words yet is split into them by rule."""
        words = [split(each) if isinstance(each, str) else list(each) for each in sentences]
        if not words:
            return []
        stretches = encode_words(self.tokenizer, words, self.longest)
        shares = word_shares(self.model, stretches, [len(each) for each in words])
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
        windows = windows_of(self.tokenizer, questions, data, self.longest)
        contexts = [paragraph for _, paragraph in questions]
        return spans(self.model, windows, contexts, data.longest_answer)[0]


def body_of(model: nn.Module) -> Bert | Gpt:
    """What stands below a model's head."""
    body = getattr(model, "bert", None) or model.gpt
    assert isinstance(body, Bert | Gpt)
    return body


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
        case LanguageRecipe():
            return Language(recipe)


def loaded_of(opened: TextFolder) -> LoadedEncoder:
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
