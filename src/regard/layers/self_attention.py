"""Attention of a sequence to itself, as a sublayer."""

from typing import cast

from torch import Tensor, nn

from regard.attention import Apart, Attention, Cache, Noted, Recorder


class SelfAttention(nn.Module):
    """A sequence looks at itself; with a cache, its new tokens look at the earlier ones too.

    Where only some of its tokens look, `among` is all of it.
    """

    def __init__(self, attention: Attention) -> None:
        super().__init__()
        self.attention = attention

    def forward(
        self,
        x: Tensor,
        *,
        among: Tensor | None = None,
        may_look: Tensor | Apart | None = None,
        bias: Tensor | None = None,
        cache: Cache | None = None,
        record: Recorder | None = None,
        noted: Noted | None = None,
    ) -> Tensor:
        memory = self.attention.remember(x if among is None else among, cache=cache)
        attended = self.attention(x, memory, may_look=may_look, bias=bias, record=record, noted=noted)
        return cast(Tensor, attended)
