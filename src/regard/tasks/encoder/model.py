"""A BERT of any task, opened, or a GPT that labels: vectors for texts, scores, and attention weights."""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from regard.errors import RegardError
from regard.nn import Merging, Recorder
from regard.nn.bert import Bert, BertReader
from regard.nn.gpt import Gpt
from regard.tasks.classification.task import encode_texts
from regard.tasks.encoder.config import EncoderRecipe
from regard.tasks.encoder.run_folder import TextFolder, embed_settings
from regard.tasks.encoder.training import TaskScores, Work, asked, file_of
from regard.tasks.loaded_model import TextModel
from regard.tasks.translation.model import side
from regard.viz.attention_maps import AttentionMaps, Layer

Texts = Sequence[str | tuple[str, str]]
"""Texts, or pairs of them."""


class Encoder(TextModel):
    """A run that holds a BERT with any head or none, or a GPT that labels."""

    does = "makes vectors of texts"
    recipe: Any

    def __init__(self, opened: TextFolder) -> None:
        self.folder, self.recipe, self.labels = opened.folder, opened.recipe, opened.labels
        self.tokenizer = opened.tokenizer()
        self.model = opened.model()
        self.body = body_of(self.model)

    @property
    def pairs(self) -> bool | None:
        """Whether it labels pairs of texts; None where it takes single texts and pairs."""
        return False

    @property
    def max_length(self) -> int:
        """The most tokens of a text or pair that are read, [CLS] and [SEP] among them."""
        recipe: EncoderRecipe = self.recipe
        return min(recipe.model.max_length, recipe.embed.max_length or recipe.model.max_length)

    def input_ids(self, text: str, pair: str | None = None) -> list[int]:
        """The ids of a text or pair, [CLS] and [SEP] among them; for a GPT [START], [DELIM] and [EXTRACT]."""
        second = None if pair is None else self.tokenizer.encode(pair)
        ids: list[int] = self.tokenizer.joined(self.tokenizer.encode(text), second)
        return ids

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
        examples, _ = encode_texts(self.tokenizer, *sides(texts), self.max_length)
        vectors = np.zeros((len(examples), self.recipe.model.d_model), np.float32)
        for batch, found in asked(BertReader(self.body, settings.pooling), examples):
            vectors[list(batch.sentences)] = found.cpu().numpy()
        if settings.normal:
            vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
        return vectors

    def evaluate(self, file: Path | None = None) -> TaskScores:
        """Scores on a file in the form of the training's, or on the test or validation file of the recipe."""
        raise RegardError(f"{self.folder.path} holds an encoder by itself, which has no scores")

    def own_texts(self, count: int) -> Texts:
        """Some of the texts or pairs that the recipe names; none where it names no data."""
        return []

    @torch.no_grad()
    def attention(self, text: str, pair: str | None = None) -> AttentionMaps:
        """Where every layer and head looks while it reads a text or a pair.

        What is longer than the model has places for is told and cut.
        """
        (example,), cut = encode_texts(self.tokenizer, [text], [pair], self.recipe.model.max_length)
        if cut:
            tokens, max_length = len(self.input_ids(text, pair)), self.recipe.model.max_length
            warnings.warn(
                f"the text has {tokens} tokens, the model allows {max_length}: the rest is left out",
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
        return AttentionMaps(read, read, layers)


class TrainedEncoder(Encoder, ABC):
    """A run trained on examples with labels, tags, answers or hidden words."""

    @abstractmethod
    def work(self) -> Work:
        """How the task reads examples and measures."""

    @property
    def reads_pairs(self) -> bool:
        """Whether an example is a pair of texts."""
        return False

    @property
    def max_length(self) -> int:
        """The most tokens of a text or pair that are read, [CLS] and [SEP] among them."""
        allowed: int = self.recipe.model.max_length
        return min(allowed, self.recipe.data.max_length or allowed)

    def evaluate(self, file: Path | None = None) -> TaskScores:
        """Scores on a file in the form of the training's, or on the test or validation file of the recipe."""
        work = self.work_on(file)
        return work.measure(self.model, self.tokenizer, "test")

    def work_on(self, file: Path | None) -> Work:
        """The task with a file as its test split, or the test or validation file of the recipe."""
        data = self.recipe.data
        file = file or file_of(data, "test") or file_of(data, "valid")
        if file is None:
            raise RegardError(
                f"{self.folder.path} has no test or validation file of its own: give one with --data"
            )
        work = self.work()
        work.labels = self.labels
        work.open("test", file)
        return work

    def own_texts(self, count: int) -> Texts:
        """Texts of the validation or training file; where examples are pairs, two and two of them."""
        data = self.recipe.data
        if not data.train:
            return []
        work, file = self.work(), file_of(data, "valid") or file_of(data, "train")
        assert file is not None
        work.open("train", file)
        texts = list(islice(work.texts(), 2 * count))
        return list(zip(texts[::2], texts[1::2], strict=False)) if self.reads_pairs else texts


def body_of(model: nn.Module) -> Bert | Gpt:
    """What stands below a model's head."""
    body = getattr(model, "bert", None) or model.gpt
    assert isinstance(body, Bert | Gpt)
    return body


def sides(texts: Texts) -> tuple[list[str], list[str | None]]:
    """First and second texts; None where there is no second."""
    first = [each if isinstance(each, str) else each[0] for each in texts]
    return first, [None if isinstance(each, str) else each[1] for each in texts]
