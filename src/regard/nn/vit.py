"""The Vision Transformer (Dosovitskiy et al. 2021): patches of an image as tokens, read by the same encoder."""

from dataclasses import replace
from typing import Protocol, cast

import torch
from torch import Tensor, nn

from regard.config import VitModel
from regard.nn.apart import Ends
from regard.nn.bert import STARTING_SPREAD, start_weights
from regard.nn.blocks import BlockShape, EncoderBlock, EncoderStack
from regard.nn.dropout import Dropout
from regard.nn.positions import Learned, Position, sinusoids
from regard.nn.recorder import Recorder
from regard.nn.token_reduction import Merging, Pruning, ReducedTokens, Reducer, reduced


class VitAccelerator(Protocol):
    """A second implementation of a Vision Transformer's forward pass, for packed batches.

    Its methods return None where it does not support the model as it is.
    """

    def hidden(self, pixels: Tensor) -> Tensor | None:
        """As `Vit.forward`."""

    def reduced(self, pixels: Tensor, by: Reducer) -> ReducedTokens | None:
        """As `Vit.reduced`."""


class Vit(nn.Module):
    """Patches, a class token unless the mean speaks for the image, positions, and pre-norm encoder blocks."""

    def __init__(self, config: VitModel) -> None:
        super().__init__()
        self.config = config
        self.mean: Tensor
        self.spread: Tensor
        for name in ("mean", "spread"):
            numbers = torch.tensor(getattr(config, name)).view(-1, 1, 1)
            self.register_buffer(name, numbers, persistent=False)
        self.patch_embedding = nn.Linear(config.channels * config.patch**2, config.d_model)
        with_class = config.read == "class"
        self.class_embedding = nn.Parameter(torch.zeros(config.d_model)) if with_class else None
        self.position_embedding = position_of(config)
        self.dropout = Dropout(config.dropout)
        self.blocks = EncoderStack(EncoderBlock(shape_of(config)) for _ in range(config.layers))
        self.norm = nn.LayerNorm(config.d_model, eps=config.epsilon)
        self.reduction: Merging | Pruning | None = None
        """What makes tokens fewer from block to block, where anything does; never where it is recorded."""
        self.accelerator: VitAccelerator | None = None
        """Computes the forward pass natively where it can; set by `regard.engine.attach`."""
        self.apply(start_weights)
        if isinstance(self.position_embedding, Learned):
            nn.init.trunc_normal_(self.position_embedding.table, std=STARTING_SPREAD)

    def forward(self, pixels: Tensor, record: Recorder | None = None) -> Tensor:
        """pixels (images, channels, height, width) from 0 to 1 -> a vector for each image (images, d_model)."""
        by_class = self.class_embedding is not None
        if record is None and self.reduction is not None:
            left = self.reduced(pixels, self.reduction)
            return cast(Tensor, self.norm(left.x)) if by_class else replace(left, x=self.norm(left.x)).means()
        if record is None and self.accelerator is not None:
            native = self.accelerator.hidden(pixels)
            if native is not None:
                return native
        x = self.norm(self.blocks(self.embedded(pixels), record=record and record.under("encoder")))
        return cast(Tensor, x[:, 0] if by_class else x.mean(1))

    def reduced(self, pixels: Tensor, by: Reducer) -> ReducedTokens:
        """What is left of the patches at the end; of the vectors only the class token's, where there is one."""
        if self.accelerator is not None:
            left = self.accelerator.reduced(pixels, by)
            if left is not None:
                return left
        x = self.embedded(pixels)
        ends = Ends(torch.full((len(x),), x.size(1), device=x.device))
        by_class = self.class_embedding is not None
        return reduced(self.blocks, x.flatten(0, 1), ends, by, firsts=by_class)

    def embedded(self, pixels: Tensor) -> Tensor:
        """(images, channels, height, width) -> tokens that know their place (images, tokens, d_model)."""
        config = self.config
        if pixels.shape[1:] != (config.channels, config.height, config.width):
            wanted = f"{config.channels} x {config.height} x {config.width}"
            raise ValueError(
                f"an image is {wanted} for this model, not {' x '.join(map(str, pixels.shape[1:]))}"
            )
        x = self.patch_embedding(patches(pixels.sub(self.mean).div_(self.spread), config.patch))
        if self.class_embedding is not None:
            x = torch.cat([self.class_embedding.expand(len(x), 1, -1), x], 1)
        return cast(Tensor, self.dropout(self.position_embedding.embed(x)))


class VitClassifier(nn.Module):
    """One label for an image."""

    def __init__(self, vit: Vit, config: VitModel, labels: int) -> None:
        super().__init__()
        self.vit = vit
        self.labels = nn.Linear(config.d_model, labels)
        start_weights(self.labels)

    def forward(self, pixels: Tensor, record: Recorder | None = None) -> Tensor:
        """(images, channels, height, width) -> scores (images, labels)."""
        return cast(Tensor, self.labels(self.vit(pixels, record)))

    @property
    def learns_to_prune(self) -> bool:
        return isinstance(self.vit.reduction, Pruning) and self.vit.reduction.soft

    def faded(self, pixels: Tensor) -> tuple[Tensor, Tensor]:
        """Scores while pruning is learned, and what it costs that too much is kept."""
        pruning = self.vit.reduction
        assert isinstance(pruning, Pruning)
        x = self.vit.embedded(pixels)
        faded = pruning.fade(self.vit.blocks, x, torch.ones(x.shape[:2], dtype=torch.bool, device=x.device))
        return self.labels(self.vit.norm(faded.x[:, 0])), pruning.price(faded)


class Sinusoidal2d(Position):
    """Waves over the row in one half of a vector and over the column in the other; a class token has none."""

    def __init__(self, d_model: int, rows: int, columns: int, before: int) -> None:
        super().__init__()
        down = sinusoids(rows, d_model // 2).repeat_interleave(columns, 0)
        across = sinusoids(columns, d_model // 2).repeat(rows, 1)
        table = torch.cat([torch.zeros(before, d_model), torch.cat([down, across], 1)])
        self.table: Tensor
        self.register_buffer("table", table, persistent=False)

    def embed(self, x: Tensor, start: int = 0) -> Tensor:
        return x + self.table[start : start + x.size(-2)]


def patches(pixels: Tensor, size: int) -> Tensor:
    """(images, channels, height, width) -> (images, patches, channels * size * size), row by row."""
    images, channels, height, width = pixels.shape
    cut = pixels.view(images, channels, height // size, size, width // size, size)
    return cut.permute(0, 2, 4, 1, 3, 5).reshape(images, -1, channels * size * size)


def position_of(config: VitModel) -> Position:
    if config.position == "learned":
        return Learned(config.d_model, config.tokens)
    return Sinusoidal2d(config.d_model, config.rows, config.columns, before=int(config.read == "class"))


def shape_of(config: VitModel) -> BlockShape:
    return BlockShape(
        d_model=config.d_model,
        heads=config.heads,
        d_ff=config.d_ff,
        dropout=config.dropout,
        inner_dropout=config.dropout,
        attention_dropout=config.attention_dropout,
        norm="pre",
        activation=config.activation,
        epsilon=config.epsilon,
    )
