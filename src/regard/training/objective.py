"""The loss of a batch of sentence pairs."""

from contextlib import AbstractContextManager, nullcontext
from typing import cast

import torch
from torch import Tensor, nn

from regard.data.batches import Batch
from regard.engine.forward import transformer_rows
from regard.engine.loss import linear_cross_entropy
from regard.engine.token_loss import PackedIds, translation_loss
from regard.nn import Packed
from regard.nn.seq2seq import Seq2SeqModel, Trainable
from regard.training.loss import SmoothedKL


class PairObjective:
    """Label-smoothed divergence summed over the gold tokens; with R-Drop, of two passes kept close."""

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
        fused = self.fused(batch)
        if fused is not None:
            return fused
        # Counted before the batch goes to a GPU, which would have to be waited for.
        real = (batch.gold != self.padding).flatten().nonzero().squeeze(1)
        gold = batch.gold.flatten().index_select(0, real).to(self.device, non_blocking=True)
        real = real.to(self.device, non_blocking=True)
        batch = batch.to(self.device)
        if not self.r_drop:
            return self.loss(self.rows(batch, real), gold)
        # Both passes at once: the batch twice, with dropout of its own each.
        source, target, both_gold = (torch.cat((x, x)) for x in (batch.source, batch.target, batch.gold))
        twice = Batch(source, target, both_gold, 0, ())
        other = real + batch.gold.numel()
        return self.loss(self.rows(twice, torch.cat((real, other))), gold)

    def fused(self, batch: Batch) -> Tensor | None:
        """The loss with its gradient in one native call, where the plan supports the model."""
        if self.precision != torch.float32 or batch.source.device.type != "cpu":
            return None
        nonpad = batch.gold != self.padding
        source, target = (self.packed(each) for each in (batch.source, batch.target))
        if not torch.equal(batch.target != self.padding, nonpad) or not source.ids.numel():
            return None  # something other than targets shifted by one
        return translation_loss(
            self.model,
            source,
            target,
            batch.gold[nonpad],
            padding=self.padding,
            smoothing=self.smoothing,
            r_drop=self.r_drop,
        )

    def packed(self, ids: Tensor) -> PackedIds:
        packed = Packed.from_padded(ids, ids != self.padding)
        return PackedIds(packed.values, packed.offsets)

    def rows(self, batch: Batch, real: Tensor) -> Tensor:
        """Hidden vectors (tokens, size) of the places that are not padding."""
        with self.autocast():
            return transformer_rows(self.model, batch.source, batch.target, real).float()

    def loss(self, hidden: Tensor, gold: Tensor) -> Tensor:
        if isinstance(self.model, Seq2SeqModel) and type(self.model).scores is not Seq2SeqModel.scores:
            return self.loss_of_scores(self.model.scores(hidden), gold)
        weight, bias = cast(Trainable, self.model).output
        return linear_cross_entropy(
            hidden, weight, bias, gold, padding=self.padding, smoothing=self.smoothing, r_drop=self.r_drop
        )

    def loss_of_scores(self, scores: Tensor, gold: Tensor) -> Tensor:
        """For a model that computes its scores in its own way: the same formulas, written out."""
        divergence = SmoothedKL(scores.size(-1), self.padding, self.smoothing)
        if not self.r_drop:
            return cast(Tensor, divergence(scores, gold))
        one, other = scores.chunk(2)
        p, q = torch.log_softmax(one, -1), torch.log_softmax(other, -1)
        apart = ((p.exp() - q.exp()) * (p - q)).sum()
        return cast(Tensor, (divergence(one, gold) + divergence(other, gold) + self.r_drop * apart) / 2)

    def autocast(self) -> AbstractContextManager[object]:
        if self.precision == torch.float32:
            return nullcontext()
        return torch.autocast(self.device.type, dtype=self.precision)
