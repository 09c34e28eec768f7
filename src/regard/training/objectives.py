"""What each head of a BERT, a GPT or a Vision Transformer makes smaller, summed over its decisions."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.data.examples import NOTHING, TextBatch
from regard.engine.forward import Inputs, gpt_hidden, is_modified, last_tokens, padded_inputs, run, run_tokens
from regard.engine.loss import linear_cross_entropy
from regard.engine.token_loss import language_model_loss


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
        return self.class_loss(batch.labels[:, 0], batch.ids, batch.segments)

    def class_loss(self, labels: Tensor, *inputs: Inputs) -> Tensor:
        """With the penalty for tokens kept, where the model learns to prune."""
        model, penalty = cast(Any, self.model), None
        if model.learns_to_prune:
            scores, penalty = model.soft_pruned(*padded_inputs(model, *inputs))
        else:
            scores = run(model, *inputs)
        loss = functional.cross_entropy(scores.float(), labels, reduction="sum", label_smoothing=self.smoothing)
        return loss if penalty is None else loss + penalty * len(labels)


class ImageObjective(ClassObjective):
    """Cross-entropy of the label of each image."""

    def loss(self, batch: Any) -> Tensor:
        return self.class_loss(batch.labels, batch.pixels)


class TagObjective(HeadObjective):
    """Cross-entropy of the tag of each word's first piece."""

    def loss(self, batch: TextBatch) -> Tensor:
        scores = run_tokens(self.model, batch.ids, batch.segments).values.float()
        return functional.cross_entropy(
            scores,
            batch.marks,
            reduction="sum",
            ignore_index=NOTHING,
            label_smoothing=self.smoothing,
        )


class SpanObjective(HeadObjective):
    """Mean of the cross-entropies of where an answer begins and where it ends."""

    def loss(self, batch: TextBatch) -> Tensor:
        scores = run(self.model, batch.ids, batch.segments).float()
        return functional.cross_entropy(scores.flatten(0, 1), batch.labels.flatten(), reduction="sum") / 2


class PretrainingObjective(HeadObjective):
    """Cross-entropy of hidden words, and of whether the second part follows: the sum of both means.

    A text's decision weighs as much as its share of the hidden words of the batch.
    """

    def loss(self, batch: TextBatch) -> Tensor:
        words, following = self.parts(batch)
        return words + following * (batch.num_targets / batch.texts)

    def parts(self, batch: TextBatch) -> tuple[Tensor, Tensor]:
        """Both losses, each summed over its own decisions."""
        positions = (batch.marks != NOTHING).nonzero().squeeze(1)
        hidden, scores = run(self.model, batch.ids, batch.segments, positions)
        weight, bias = cast(Any, self.model).output
        words = linear_cross_entropy(hidden.float(), weight, bias, batch.marks.index_select(0, positions))
        following = functional.cross_entropy(
            scores.float(), batch.labels[:, 0], reduction="sum", ignore_index=NOTHING
        )
        return words, following


class LanguageObjective(HeadObjective):
    """Cross-entropy of the token that follows, at each place."""

    def loss(self, batch: TextBatch) -> Tensor:
        if is_modified(self.model):  # its hooks run where the model is called
            scores = run_tokens(self.model, batch.ids).values.float()
            return functional.cross_entropy(scores, batch.marks, reduction="sum")
        if self.precision == torch.float32:
            loss = language_model_loss(self.model, batch.ids, batch.marks)
            if loss is not None:
                return loss
        hidden = gpt_hidden(cast(Any, self.model).gpt, batch.ids)
        return next_token_loss(self.model, hidden.values, batch.marks)


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
        scores = run(model, batch.ids) if is_modified(model) else model.classify(last_tokens(hidden))
        label = functional.cross_entropy(
            scores.float(), batch.labels[:, 0], reduction="sum", label_smoothing=self.smoothing
        )
        # A text's last token has no next one; the symbols between and after texts are not generated.
        ends = batch.ids.offsets[1:].long() - 1
        following = batch.ids.values.roll(-1).index_fill(0, ends, model.gpt.padding)
        vocabulary = model.gpt.token_embedding.num_embeddings
        asked = ((following >= 0) & (following < vocabulary)).nonzero().squeeze(1)
        if not self.language or not len(asked):
            return label
        own = next_token_loss(model, hidden.values.index_select(0, asked), following.index_select(0, asked))
        return label + self.language * own * (batch.rows / len(asked))


def next_token_loss(model: nn.Module, hidden: Tensor, labels: Tensor) -> Tensor:
    """Cross-entropy of labels (tokens,) from hidden states (tokens, d_model), by tied embeddings."""
    return linear_cross_entropy(hidden.float(), cast(Any, model).gpt.token_embedding.weight, None, labels)
