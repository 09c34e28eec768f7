"""Learned token pruning (Kim et al. 2022): what nobody attends to is dropped, by a threshold a layer."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import cast

import torch
from torch import Tensor, nn

from regard.attention import Ends, Noted, Recorder
from regard.layers.blocks import Blocks, EncoderBlock
from regard.layers.reduction import Left

LOWEST = 1e-6
"""The least a faded token counts."""


@dataclass(frozen=True)
class Faded:
    """Tokens side by side through all blocks, each counted by how much of it is kept."""

    x: Tensor  # (sentences, length, d_model)
    kept: Tensor
    """The share of real tokens that is kept, mean over the layers: one number, with its gradient."""


class Pruning(nn.Module):
    """A threshold for each layer, on the attention a token gets; 1 is a fair share of it.

    Outside of training, and in training where it is `hard`, tokens below it are taken away. While thresholds
    are learned a token counts by a soft step instead, in the scores of all that look at it, as log(size) does.
    """

    def __init__(
        self, layers: int, *, hard: bool, temperature: float = 0.02, keep: float = 1.0, weight: float = 0.0
    ) -> None:
        super().__init__()
        self.thresholds = nn.Parameter(torch.zeros(layers), requires_grad=not hard)
        self.hard, self.temperature, self.keep, self.weight = hard, temperature, keep, weight

    @property
    def soft(self) -> bool:
        return self.training and not self.hard

    def reduces(self, layer: int) -> bool:
        return True

    def reduce(self, layer: int, left: Left, noted: Noted) -> Left:
        """Drop what got less than the threshold; the first token of a sentence stays."""
        assert noted.received is not None
        stays = noted.received >= self.thresholds[layer]
        stays[left.firsts] = True
        number = torch.arange(len(left.ends.lengths), device=stays.device).repeat_interleave(left.ends.lengths)
        lengths = torch.zeros_like(left.ends.lengths).index_add_(0, number, stays.long())
        place = torch.where(stays, stays.long().cumsum(0) - 1, -1)
        into = place if left.into is None else torch.where(left.into < 0, -1, place[left.into.clamp(min=0)])
        x = left.x.index_select(0, stays.nonzero().squeeze(1))
        return replace(left, x=x, ends=Ends(lengths), into=into)

    def price(self, faded: Faded) -> Tensor:
        """What it costs, an example, that more is kept than should be."""
        return self.weight * (faded.kept - self.keep).clamp(min=0)

    def fade(self, blocks: Blocks, x: Tensor, real: Tensor) -> Faded:
        """What hard pruning does, by soft steps: x (sentences, length, d_model), real (sentences, length)."""
        may_look, share = real.unsqueeze(1), real.to(x.dtype)
        kept = []
        for number, block in enumerate(cast(Iterator[EncoderBlock], blocks)):
            seen: list[Tensor] = []
            bias = share.clamp(min=LOWEST).log()[:, None, None, :]
            x = block.self_attention(x, may_look=may_look, bias=bias, record=cast(Recorder, seen.append))
            got = (seen[0].detach().mean(1) * share.detach().unsqueeze(2)).sum(1)  # (sentences, length)
            step = torch.sigmoid((got - self.thresholds[number]) / self.temperature)
            share = torch.cat([share[:, :1], (share * step)[:, 1:]], 1)
            x = block.feed_forward(x)
            kept.append((share * real).sum() / real.sum())
        return Faded(x, torch.stack(kept[:-1] or kept).mean())
