"""The loss of a batch of sentence pairs."""

from contextlib import AbstractContextManager, nullcontext
from typing import cast

import torch
from torch import Tensor, nn

from regard.data.batches import Batch
from regard.engine.forward import seq2seq_hidden
from regard.engine.loss import linear_cross_entropy
from regard.engine.token_loss import translation_loss
from regard.nn import Packed
from regard.nn.seq2seq import Seq2SeqModel, Trainable
from regard.training.loss import SmoothedKL


class PairObjective:
    """Label-smoothed divergence summed over the target tokens; with R-Drop, of two passes kept close."""

    def __init__(
        self,
        model: nn.Module,
        padding: int,
        smoothing: float,
        r_drop: float = 0.0,
        precision: torch.dtype = torch.float32,
    ) -> None:
        self.model, self.padding, self.smoothing, self.r_drop = model, padding, smoothing, r_drop
        self.precision = precision
        self.device = next(model.parameters()).device

    def __call__(self, batch: Batch) -> Tensor:
        batch = batch.to(self.device)
        source, target, labels = batch.source, batch.target, batch.labels.values
        fused = self.fused(source, target, labels)
        if fused is not None:
            return fused
        if self.r_drop:  # both passes at once, each with its own dropout
            source, target = source.twice(), target.twice()
        with self.autocast():
            hidden = seq2seq_hidden(self.model, source, target).values
        return self.loss(hidden.float(), labels)

    def fused(self, source: Packed, target: Packed, labels: Tensor) -> Tensor | None:
        """The loss with its gradient in one native call, where the plan supports the model."""
        if self.precision != torch.float32:
            return None
        return translation_loss(
            self.model,
            source,
            target,
            labels,
            padding=self.padding,
            smoothing=self.smoothing,
            r_drop=self.r_drop,
        )

    def loss(self, hidden: Tensor, labels: Tensor) -> Tensor:
        if isinstance(self.model, Seq2SeqModel) and type(self.model).scores is not Seq2SeqModel.scores:
            return self.loss_of_scores(self.model.scores(hidden), labels)
        weight, bias = cast(Trainable, self.model).output
        return linear_cross_entropy(
            hidden, weight, bias, labels, padding=self.padding, smoothing=self.smoothing, r_drop=self.r_drop
        )

    def loss_of_scores(self, scores: Tensor, labels: Tensor) -> Tensor:
        """For a model that computes its scores in its own way: the same formulas, written out."""
        divergence = SmoothedKL(scores.size(-1), self.padding, self.smoothing)
        if not self.r_drop:
            return cast(Tensor, divergence(scores, labels))
        one, other = scores.chunk(2)
        p, q = torch.log_softmax(one, -1), torch.log_softmax(other, -1)
        apart = ((p.exp() - q.exp()) * (p - q)).sum()
        return cast(Tensor, (divergence(one, labels) + divergence(other, labels) + self.r_drop * apart) / 2)

    def autocast(self) -> AbstractContextManager[object]:
        if self.precision == torch.float32:
            return nullcontext()
        return torch.autocast(self.device.type, dtype=self.precision)
