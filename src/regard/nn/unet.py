"""U-Net for diffusion: predicts the noise in an image from the image, the time step and a prompt.

Downsampling to more channels, and upsampling with skip connections (Ronneberger et al. 2015, Ho et al. 2020).
At some resolutions pixels are tokens with self-attention and cross-attention to the prompt.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.config.models import UnetConfig
from regard.nn.attention import Attention, MultiHead
from regard.nn.bert import masked_mean
from regard.nn.blocks import BlockShape
from regard.nn.kv_cache import KeyValue
from regard.nn.masks import padding_mask
from regard.nn.noise import NoiseSchedule
from regard.nn.positions import sinusoids
from regard.nn.recorder import Recorder
from regard.nn.seq2seq import ScaledEmbedding
from regard.nn.token_reduction import ReducedTokens, match, merge
from regard.nn.transformer import Encoder

GROUPS = 8
"""Groups of a GroupNorm, at most."""


@dataclass(frozen=True)
class Prompt:
    """Encoded prompts: keys and values for each cross-attention, computed once for all steps."""

    memory: list[KeyValue]
    mask: Tensor  # (prompts, 1, tokens)
    pooled: Tensor  # (prompts, size): the pooled prompt, added to the time embedding

    def select(self, rows: Tensor) -> "Prompt":
        """The prompts `rows`, in that order; repeats allowed."""
        memory = [layer.select(rows) for layer in self.memory]
        return Prompt(memory, self.mask.index_select(0, rows), self.pooled.index_select(0, rows))


class Unet(nn.Module):
    """Noise schedule, prompt encoder, and the downsampling and upsampling stages.

    Args:
        config: Sizes and settings.
        vocabulary: Number of ids in prompts.
        padding: Id of the padding.
    """

    def __init__(self, config: UnetConfig, vocabulary: int, padding: int) -> None:
        super().__init__()
        self.padding, self.side = padding, config.side
        self.noise = NoiseSchedule(config.schedule, config.noise_steps)
        self.token_embedding = ScaledEmbedding(vocabulary, config.prompt_size, padding)
        self.prompt_encoder = Encoder(config.prompt_encoder)
        self.pooled = nn.Linear(config.prompt_size, config.conditioning_size)
        self.time_embedding = TimeEmbedding(config.noise_steps, config.conditioning_size)
        channels = [config.channels * width for width in config.widths]
        self.first = nn.Conv2d(1, channels[0], 3, padding=1)
        self.down, self.up = nn.ModuleList(), nn.ModuleList()
        for level, width in enumerate(channels):
            channels_in = [channels[max(0, level - 1)], *[width] * (config.blocks - 1)]
            self.down.append(nn.ModuleList(Stage(config, level, size) for size in channels_in))
            self.up.insert(0, nn.ModuleList(Stage(config, level, 2 * width) for _ in channels_in))
        self.smaller = nn.ModuleList(nn.Conv2d(width, width, 3, stride=2, padding=1) for width in channels[:-1])
        self.larger = nn.ModuleList(
            nn.ConvTranspose2d(many, few, 2, stride=2) for few, many in reversed(list(pairwise(channels)))
        )
        self.last_norm = norm(channels[0])
        self.last = zeroed(nn.Conv2d(channels[0], 1, 3, padding=1))

    def encode_prompt(self, prompts: Tensor) -> Prompt:
        """Encode prompts (batch, tokens) of ids, once for all steps."""
        mask = padding_mask(prompts, self.padding)
        hidden = self.prompt_encoder(self.token_embedding(prompts), mask=mask)
        pooled = self.pooled(masked_mean(hidden, prompts != self.padding))
        return Prompt([block.project_kv(hidden) for block in self.attentions()], mask, pooled)

    def forward(
        self,
        images: Tensor,
        times: Tensor,
        prompt: Prompt,
        *,
        merge: float = 0.0,
        record: Recorder | None = None,
    ) -> Tensor:
        """Predict the noise in noisy images.

        Args:
            images: (batch, 1, side, side).
            times: (batch,), the step of each image.
            prompt: From `encode_prompt`, one for each image.
            merge: Share of the pixels that are merged before self-attention, at the largest resolution that has
                it.
            record: Collects attention weights.

        Returns:
            (batch, 1, side, side).
        """
        condition, memory = functional.silu(self.time_embedding(times) + prompt.pooled), iter(prompt.memory)
        x, skips = self.first(images), []
        for depth, level in enumerate(self.down):
            x = self.smaller[depth - 1](x) if depth else x
            for number, stage in enumerate(cast(nn.ModuleList, level)):
                recorder = record and record.under("down").under(x.size(-1)).under(number)
                x = stage(x, condition, memory, prompt.mask, merge, recorder)
                skips.append(x)
        for depth, level in enumerate(self.up):
            x = self.larger[depth - 1](x) if depth else x
            for number, stage in enumerate(cast(nn.ModuleList, level)):
                recorder = record and record.under("up").under(x.size(-1)).under(number)
                x = stage(torch.cat([x, skips.pop()], 1), condition, memory, prompt.mask, merge, recorder)
        return cast(Tensor, self.last(functional.silu(self.last_norm(x))))

    def stages(self) -> Iterator["Stage"]:
        """All stages in the order of computation."""
        for level in (*self.down, *self.up):
            yield from (cast(Stage, stage) for stage in cast(nn.ModuleList, level))

    def attentions(self) -> Iterator["PixelBlock"]:
        """All attention blocks over images, in the order of computation."""
        return (stage.attention_block for stage in self.stages() if stage.attention_block is not None)


class TimeEmbedding(nn.Module):
    """Embedding of the time step: sinusoids and a two-layer network."""

    def __init__(self, steps: int, size: int) -> None:
        super().__init__()
        self.table: Tensor
        self.register_buffer("table", sinusoids(steps, size), persistent=False)
        self.network = nn.Sequential(nn.Linear(size, size), nn.SiLU(), nn.Linear(size, size))

    def forward(self, times: Tensor) -> Tensor:
        """(batch,) -> (batch, size)."""
        return cast(Tensor, self.network(self.table[times]))


class Stage(nn.Module):
    """A residual block, followed by attention at the resolutions that have it."""

    def __init__(self, config: UnetConfig, level: int, channels_in: int) -> None:
        super().__init__()
        self.side = config.sides[level]
        channels = config.channels * config.widths[level]
        self.block = ResidualBlock(channels_in, channels, config.conditioning_size, config.dropout)
        self.attention_block = PixelBlock(config, channels) if self.side in config.attend_at else None
        self.merges = self.side == max(config.attend_at, default=0)
        """Whether pixels may be merged: only at the largest resolution with attention."""

    def forward(
        self,
        x: Tensor,
        condition: Tensor,
        memory: Iterator[KeyValue],
        mask: Tensor,
        merge: float,
        record: Recorder | None,
    ) -> Tensor:
        """x (batch, channels_in, height, width) -> (batch, channels, height, width).

        Args:
            condition: (batch, size), time embedding and pooled prompt.
            memory: Yields keys and values of the prompt, in the order of the attention blocks.
            mask: (batch, 1, tokens) of the prompt.
            merge: Share of the pixels to merge.
            record: Collects attention weights.
        """
        x = self.block(x, condition)
        if self.attention_block is None:
            return x
        return cast(Tensor, self.attention_block(x, next(memory), mask, merge if self.merges else 0.0, record))


class ResidualBlock(nn.Module):
    """Two convolutions with a residual connection; time step and prompt scale and shift in between."""

    def __init__(self, channels_in: int, channels: int, condition: int, dropout: float) -> None:
        super().__init__()
        self.first_norm = norm(channels_in)
        self.first = nn.Conv2d(channels_in, channels, 3, padding=1)
        self.condition = nn.Linear(condition, 2 * channels)
        self.second_norm = norm(channels)
        self.dropout = nn.Dropout(dropout)
        self.second = zeroed(nn.Conv2d(channels, channels, 3, padding=1))
        self.around = nn.Identity() if channels_in == channels else nn.Conv2d(channels_in, channels, 1)

    def forward(self, x: Tensor, condition: Tensor) -> Tensor:
        """x (batch, channels_in, height, width) -> (batch, channels, height, width).

        `condition` (batch, size) is the time embedding and the pooled prompt.
        """
        y = self.first(functional.silu(self.first_norm(x)))
        scale, shift = self.condition(condition)[:, :, None, None].chunk(2, 1)
        y = self.second_norm(y) * (1 + scale) + shift
        return cast(Tensor, self.around(x) + self.second(self.dropout(functional.silu(y))))


class PixelBlock(nn.Module):
    """A Transformer block over pixels: self-attention, cross-attention to the prompt, feed-forward."""

    def __init__(self, config: UnetConfig, channels: int) -> None:
        super().__init__()
        shape = BlockShape(channels, config.heads, 2 * channels, config.dropout, norm="pre", activation="gelu")
        self.self_attention = shape.residual(MergedAttention(shape.attention()))
        cross = MultiHead(channels, config.heads, key_size=config.prompt_size)
        self.cross_attention = shape.residual(cross)
        self.feed_forward = shape.residual(shape.feed_forward())

    def project_kv(self, hidden: Tensor) -> KeyValue:
        """Keys and values of encoded prompts (batch, tokens, size)."""
        return cast(Attention, self.cross_attention.sublayer).project_kv(hidden)

    def forward(
        self, x: Tensor, memory: KeyValue, mask: Tensor, merge: float, record: Recorder | None
    ) -> Tensor:
        """x (batch, channels, height, width) -> the same shape."""
        height, width = x.shape[-2:]
        tokens = x.flatten(2).transpose(1, 2)  # (batch, pixels, channels)
        tokens = self.self_attention(tokens, merge=merge, record=record and record.under("self"))
        tokens = self.cross_attention(tokens, memory, mask=mask, record=record and record.under("cross"))
        tokens = self.feed_forward(tokens)
        return cast(Tensor, tokens.transpose(1, 2).unflatten(2, (height, width)))


class MergedAttention(nn.Module):
    """Self-attention with optional token merging before it, which is undone after it."""

    def __init__(self, attention: Attention) -> None:
        super().__init__()
        self.attention = attention

    def forward(self, x: Tensor, *, merge: float = 0.0, record: Recorder | None = None) -> Tensor:
        """x (batch, tokens, channels) -> the same shape."""
        if not merge:
            return cast(Tensor, self.attention(x, self.attention.project_kv(x), record=record))
        tokens = merge_similar(x, self.attention.key(x), merge)
        memory = self.attention.project_kv(tokens.x)
        attended = self.attention(tokens.x, memory, bias=tokens.bias, record=record)
        return replace(tokens, x=attended).unmerged()


def merge_similar(x: Tensor, keys: Tensor, share: float) -> ReducedTokens:
    """Merge the share of the tokens with the most similar keys; the same number in each image.

    Args:
        x: (batch, tokens, channels).
        keys: (batch, tokens, size).
        share: Share of the tokens to merge into others.
    """
    count, length, _ = x.shape
    nonpad = torch.ones(count, length, dtype=torch.bool, device=x.device)
    counts = torch.full((count,), min(length // 2, round(length * share)), device=x.device)
    target = match(keys, nonpad, counts, neighbors_only=False, first_stays=False)
    return merge(ReducedTokens(x, nonpad), target, length - counts)


def norm(channels: int) -> nn.GroupNorm:
    groups = next(count for count in range(min(GROUPS, channels), 0, -1) if channels % count == 0)
    return nn.GroupNorm(groups, channels)


def zeroed(convolution: nn.Conv2d) -> nn.Conv2d:
    """Initialise a convolution with zeros, so that its residual block is initially the identity."""
    nn.init.zeros_(convolution.weight)
    assert convolution.bias is not None
    nn.init.zeros_(convolution.bias)
    return convolution
