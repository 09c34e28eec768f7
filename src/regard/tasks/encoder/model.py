"""Loaded models of the encoder tasks: text embeddings, scores and attention weights."""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from torch import nn

from regard.errors import RegardError
from regard.nn import Merging, Recorder
from regard.nn.bert import Bert, TextEmbedder
from regard.nn.gpt import Gpt
from regard.tasks.encoder.config import EncoderRecipe
from regard.tasks.encoder.examples import Texts, batched_outputs, encode_texts, split_pairs
from regard.tasks.encoder.run_folder import TextRunFolder, embed_config
from regard.tasks.encoder.training import TextTask, split_path
from regard.tasks.loaded_model import TextModel
from regard.tasks.results import TaskScores
from regard.tasks.translation.model import token_sequence
from regard.viz.attention_maps import AttentionMaps, Layer

TaskType = TypeVar("TaskType", bound=TextTask, covariant=True)


class Encoder(TextModel):
    """A BERT with any head or none, or a GPT that labels."""

    does = "embeds texts"
    recipe: Any  # each task has its own

    def __init__(self, run: TextRunFolder) -> None:
        self.folder, self.recipe, self.labels = run.folder, run.recipe, run.labels
        self.tokenizer = run.tokenizer()
        self.model = run.model()
        self.body = body_of(self.model)

    @property
    def pairs(self) -> bool | None:
        """Whether the input is pairs of texts; None if both single texts and pairs are accepted."""
        return False

    @property
    def max_length(self) -> int:
        """Most tokens of a text or pair, including [CLS] and [SEP]."""
        recipe: EncoderRecipe = self.recipe
        return min(recipe.model.max_length, recipe.embed.max_length or recipe.model.max_length)

    def input_ids(self, text: str, pair: str | None = None) -> list[int]:
        """Token ids of a text or pair with [CLS] and [SEP]; for a GPT with [START], [DELIM] and [EXTRACT]."""
        second = None if pair is None else self.tokenizer.encode(pair)
        ids: list[int] = self.tokenizer.with_special_tokens(self.tokenizer.encode(text), second)
        return ids

    def merge(self, amounts: Sequence[float]) -> None:
        """Merge neighbouring tokens in all later calls.

        Args:
            amounts: Shares of the tokens (below 1) or numbers of tokens, one for all layers or one for each.
        """
        if not isinstance(self.body, Bert):
            raise RegardError(
                f"{self.folder.path} holds {self.recipe.model}; tokens are merged in a BERT or a ViT"
            )
        self.body.reduction = Merging(tuple(amounts), neighbors_only=True)

    def embed(self, texts: Texts) -> np.ndarray:
        """Text embeddings (texts, d_model), pooled and normalized as the recipe's `embed` section says."""
        settings = embed_config(self.recipe)
        examples, _ = encode_texts(self.tokenizer, *split_pairs(texts), self.max_length)
        vectors = np.zeros((len(examples), self.recipe.model.d_model), np.float32)
        for batch, pooled in batched_outputs(TextEmbedder(self.body, settings.pooling), examples):
            vectors[list(batch.sentences)] = pooled.cpu().numpy()
        if settings.normalize:
            vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
        return vectors

    def evaluate(self, file: Path | None = None) -> TaskScores:
        """Scores on a file in the format of the training data; default: the test or validation file."""
        raise RegardError(f"{self.folder.path} holds an encoder without a task, which has no scores")

    def own_texts(self, count: int) -> Texts:
        """Up to `count` texts or pairs of the recipe's data; none if it names no data."""
        return []

    @torch.no_grad()
    def attention(self, text: str, pair: str | None = None) -> AttentionMaps:
        """Attention weights of every layer and head on a text or a pair; one that is too long is truncated."""
        (example,), truncated = encode_texts(self.tokenizer, [text], [pair], self.recipe.model.max_length)
        if truncated:
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
        full_text = text if pair is None else f"{text}\n{pair}"
        tokens_side = token_sequence(
            "text" if pair is None else "texts", full_text, self.tokenizer, example.ids.tolist()
        )
        layers = {
            name: Layer(tokens_side, tokens_side, weights[0].float().cpu().numpy())
            for name, weights in record.items()
        }
        return AttentionMaps(tokens_side, tokens_side, layers)


class TrainedEncoder(Encoder, ABC, Generic[TaskType]):
    """An encoder trained on examples with labels, tags, answers or masked words."""

    @abstractmethod
    def task(self) -> TaskType:
        """The task, which reads examples and measures the model."""

    @property
    def reads_pairs(self) -> bool:
        """Whether an example is a pair of texts."""
        return False

    @property
    def max_length(self) -> int:
        """Most tokens of a text or pair, including [CLS] and [SEP]."""
        allowed: int = self.recipe.model.max_length
        return min(allowed, self.recipe.data.max_length or allowed)

    def evaluate(self, file: Path | None = None) -> TaskScores:
        """Scores on a file in the format of the training data; default: the test or validation file."""
        return self.task_on(file).measure(self.model, self.tokenizer, "test")

    def task_on(self, file: Path | None) -> TaskType:
        """The task with a file as its test split, by default the recipe's test or validation file."""
        data = self.recipe.data
        file = file or split_path(data, "test") or split_path(data, "valid")
        if file is None:
            raise RegardError(
                f"{self.folder.path} has no test or validation file of its own; give one with --data"
            )
        task = self.task()
        task.labels = self.labels
        task.read_split("test", file)
        return task

    def own_texts(self, count: int) -> Texts:
        """Up to `count` texts of the validation or training file; pairs of them if examples are pairs."""
        data = self.recipe.data
        if not data.train:
            return []
        task, file = self.task(), split_path(data, "valid") or split_path(data, "train")
        assert file is not None
        task.read_split("train", file)
        texts = list(islice(task.vocabulary_texts(), 2 * count))
        return list(zip(texts[::2], texts[1::2], strict=False)) if self.reads_pairs else texts


def body_of(model: nn.Module) -> Bert | Gpt:
    """The network below a model's head."""
    body = getattr(model, "bert", None) or model.gpt
    assert isinstance(body, Bert | Gpt)
    return body
