"""What each head of a BERT, a GPT or a Vision Transformer makes smaller, summed over its decisions."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.data.examples import NOTHING, TextBatch
from regard.engine.forward import gpt_hidden, is_changed, last_tokens, run
from regard.engine.loss import linear_cross_entropy
from regard.engine.token_loss import PackedIds, language_model_loss
from regard.nn import Packed


class HeadObjective:
    """The loss of a batch; what a head is asked for, a subclass says in `loss`."""

    def __init__(
        self, model: nn.Module, smoothing: float = 0.0, precision: torch.dtype = torch.float32
    ) -> None:
        self.model, self.smoothing, self.precision = model, smoothing, precision
        self.device = next(model.parameters()).device

    def __call__(self, batch: Any) -> Tensor:
        batch = batch.to(self.device)
        with self.autocast():
            return self.loss(batch)

    def loss(self, batch: Any) -> Tensor:
        raise NotImplementedError

    def autocast(self) -> AbstractContextManager[object]:
        if self.precision == torch.float32:
            return nullcontext()
        return torch.autocast(self.device.type, dtype=self.precision)


class ClassObjective(HeadObjective):
    """Cross-entropy of the label of each text."""

    def loss(self, batch: Any) -> Tensor:
        return self.labelled(batch.gold[:, 0], batch.ids, batch.segments)

    def labelled(self, gold: Tensor, *given: Tensor) -> Tensor:
        """With the penalty for tokens kept, where the model learns to prune."""
        model = cast(Any, self.model)
        scores, penalty = model.soft_pruned(*given) if model.learns_to_prune else (run(model, *given), None)
        loss = functional.cross_entropy(scores.float(), gold, reduction="sum", label_smoothing=self.smoothing)
        return loss if penalty is None else loss + penalty * len(gold)


class ImageObjective(ClassObjective):
    """Cross-entropy of the label of each image."""

    def loss(self, batch: Any) -> Tensor:
        return self.labelled(batch.gold, batch.pixels)


class TagObjective(HeadObjective):
    """Cross-entropy of the tag of each word's first piece."""

    def loss(self, batch: TextBatch) -> Tensor:
        scores = run(self.model, batch.ids, batch.segments).float()
        return functional.cross_entropy(
            scores.flatten(0, 1),
            batch.marks.flatten(),
            reduction="sum",
            ignore_index=NOTHING,
            label_smoothing=self.smoothing,
        )


class SpanObjective(HeadObjective):
    """Mean of the cross-entropies of where an answer begins and where it ends."""

    def loss(self, batch: TextBatch) -> Tensor:
        scores = run(self.model, batch.ids, batch.segments).float()
        return functional.cross_entropy(scores.flatten(0, 1), batch.gold.flatten(), reduction="sum") / 2


class PretrainingObjective(HeadObjective):
    """Cross-entropy of hidden words, and of whether the second part follows: the sum of both means.

    A text's decision weighs as much as its share of the hidden words of the batch.
    """

    def loss(self, batch: TextBatch) -> Tensor:
        words, following = self.parts(batch)
        return words + following * (batch.golds / batch.texts)

    def parts(self, batch: TextBatch) -> tuple[Tensor, Tensor]:
        """Both losses, each summed over its own decisions."""
        places = (batch.marks != NOTHING).flatten().nonzero().squeeze(1)
        gold = batch.marks.flatten().index_select(0, places)
        rows, scores = run(self.model, batch.ids, batch.segments, places)
        weight, bias = cast(Any, self.model).output
        words = linear_cross_entropy(rows.float(), weight, bias, gold)
        following = functional.cross_entropy(
            scores.float(), batch.gold[:, 0], reduction="sum", ignore_index=NOTHING
        )
        return words, following


class LanguageObjective(HeadObjective):
    """Cross-entropy of the token that follows, at each place."""

    def loss(self, batch: TextBatch) -> Tensor:
        if is_changed(self.model):  # its hooks run where the model is called
            nonpad = batch.ids != cast(Any, self.model).gpt.padding
            scores = self.model(batch.ids)[nonpad].float()
            return functional.cross_entropy(scores, batch.marks[nonpad], reduction="sum")
        nonpad = batch.ids != cast(Any, self.model).gpt.padding
        if self.precision == torch.float32:
            packed = Packed.from_padded(batch.ids, nonpad)
            loss = language_model_loss(
                self.model, PackedIds(packed.values, packed.offsets), batch.marks[nonpad]
            )
            if loss is not None:
                return loss
        hidden = gpt_hidden(cast(Any, self.model).gpt, batch.ids)
        return next_token_loss(self.model, hidden.values, batch.marks[nonpad])


class GptClassObjective(ClassObjective):
    """Cross-entropy of the label, and `language` times the mean one of the text's own tokens.

    A text's label weighs as much as it does alone.
    """

    def __init__(
        self,
        model: nn.Module,
        smoothing: float = 0.0,
        precision: torch.dtype = torch.float32,
        *,
        language: float = 0.0,
    ) -> None:
        super().__init__(model, smoothing, precision)
        self.language = language

    def loss(self, batch: TextBatch) -> Tensor:
        model = cast(Any, self.model)
        hidden = gpt_hidden(model.gpt, batch.ids)
        scores = (model(batch.ids) if is_changed(model) else model.classify(last_tokens(hidden))).float()
        label = functional.cross_entropy(
            scores, batch.gold[:, 0], reduction="sum", label_smoothing=self.smoothing
        )
        # The symbols between and after texts are not asked for: they are no part of what it writes.
        following = functional.pad(batch.ids[:, 1:], (0, 1), value=model.gpt.padding)
        gold = following[hidden.nonpad]
        asked = ((gold >= 0) & (gold < model.gpt.token_embedding.num_embeddings)).nonzero().squeeze(1)
        if not self.language or not len(asked):
            return label
        own = next_token_loss(model, hidden.values.index_select(0, asked), gold.index_select(0, asked))
        return label + self.language * own * (len(batch.ids) / len(asked))


def next_token_loss(model: nn.Module, rows: Tensor, gold: Tensor) -> Tensor:
    """Cross-entropy of gold tokens from vectors (tokens, size), by the table of the model's embeddings."""
    return linear_cross_entropy(rows.float(), cast(Any, model).gpt.token_embedding.weight, None, gold)
