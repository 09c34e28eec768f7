"""Vision Transformer (Dosovitskiy et al. 2021): patches of an image as tokens of a Transformer encoder."""

from dataclasses import replace
from typing import cast

import torch
from torch import Tensor, nn

from regard.config.models import VitConfig
from regard.nn.bert import INITIAL_STD, init_weights
from regard.nn.blocks import BlockShape, EncoderBlock, EncoderStack
from regard.nn.positions import Learned, Position, sinusoids
from regard.nn.recorder import Recorder
from regard.nn.token_reduction import Merging, Pruning, ReducedTokens, Reducer, reduce_tokens


class Vit(nn.Module):
    """Patch embeddings, position embeddings, an optional class token, and pre-norm encoder blocks."""

    def __init__(self, config: VitConfig) -> None:
        super().__init__()
        self.config = config
        self.mean: Tensor
        self.std: Tensor
        for name in ("mean", "std"):
            numbers = torch.tensor(getattr(config, name)).view(-1, 1, 1)
            self.register_buffer(name, numbers, persistent=False)
        self.patch_embedding = nn.Linear(config.channels * config.patch**2, config.d_model)
        with_class = config.pooling == "class"
        self.class_embedding = nn.Parameter(torch.zeros(config.d_model)) if with_class else None
        self.position_embedding = make_position(config)
        self.dropout = nn.Dropout(config.dropout)
        self.blocks = EncoderStack(EncoderBlock(block_shape(config)) for _ in range(config.layers))
        self.norm = nn.LayerNorm(config.d_model, eps=config.epsilon)
        self.reduction: Merging | Pruning | None = None
        """Token reduction from block to block; not used while attention is recorded."""
        self.apply(init_weights)
        if isinstance(self.position_embedding, Learned):
            nn.init.trunc_normal_(self.position_embedding.table, std=INITIAL_STD)

    def forward(self, pixels: Tensor, record: Recorder | None = None) -> Tensor:
        """One vector for each image.

        Args:
            pixels: (images, channels, height, width), from 0 to 1.
            record: Collects attention weights; turns token reduction off.

        Returns:
            (images, d_model), after the final LayerNorm: of the class token, or the mean of the patches.
        """
        if record is None and self.reduction is not None:
            tokens = self.reduced(pixels, self.reduction)
            tokens = replace(tokens, x=self.norm(tokens.x))
            return tokens.x[:, 0] if self.by_class else tokens.means()
        x = self.dropout(self.embed(pixels))
        x = self.norm(self.blocks(x, record=record and record.under("encoder")))
        return cast(Tensor, x[:, 0] if self.by_class else x.mean(1))

    @property
    def by_class(self) -> bool:
        """Whether the class token represents the image; otherwise it is the mean of the patches."""
        return self.class_embedding is not None

    def reduced(self, pixels: Tensor, reducer: Reducer) -> ReducedTokens:
        """The tokens that remain after token reduction; with a class token the last block computes it alone."""
        x = self.dropout(self.embed(pixels))
        nonpad = torch.ones(x.shape[:2], dtype=torch.bool, device=x.device)
        return reduce_tokens(self.blocks, x, nonpad, reducer, first_only=self.by_class)

    def embed(self, pixels: Tensor) -> Tensor:
        """Patch embeddings with positions, without dropout: (images, tokens, d_model).

        Args:
            pixels: (images, channels, height, width), from 0 to 1.

        Raises:
            ValueError: The images have another size.
        """
        config = self.config
        if pixels.shape[1:] != (config.channels, config.height, config.width):
            allowed = f"{config.channels} x {config.height} x {config.width}"
            raise ValueError(
                f"images of this model are {allowed}, not {' x '.join(map(str, pixels.shape[1:]))}"
            )
        x = self.patch_embedding(patches(pixels.sub(self.mean).div_(self.std), config.patch))
        if self.class_embedding is not None:
            x = torch.cat([self.class_embedding.expand(len(x), 1, -1), x], 1)
        return self.position_embedding.embed(x)


class VitClassifier(nn.Module):
    """One label for an image."""

    def __init__(self, vit: Vit, config: VitConfig, labels: int) -> None:
        super().__init__()
        self.vit = vit
        self.labels = nn.Linear(config.d_model, labels)
        init_weights(self.labels)

    def forward(self, pixels: Tensor, record: Recorder | None = None) -> Tensor:
        """(images, channels, height, width) -> scores (images, labels)."""
        return self.classify(self.vit(pixels, record))

    def classify(self, pooled: Tensor) -> Tensor:
        """Vectors of images (images, d_model) -> scores (images, labels)."""
        return cast(Tensor, self.labels(pooled))

    @property
    def learns_to_prune(self) -> bool:
        return isinstance(self.vit.reduction, Pruning) and self.vit.reduction.soft

    def soft_pruned(self, pixels: Tensor) -> tuple[Tensor, Tensor]:
        """Scores while pruning thresholds are learned, and the penalty for keeping too many tokens."""
        pruning = self.vit.reduction
        assert isinstance(pruning, Pruning)
        x = self.vit.dropout(self.vit.embed(pixels))
        nonpad = torch.ones(x.shape[:2], dtype=torch.bool, device=x.device)
        pruned = pruning.soft_prune(self.vit.blocks, x, nonpad)
        return self.classify(self.vit.norm(pruned.x[:, 0])), pruning.penalty(pruned)


class Sinusoidal2d(Position):
    """Sinusoids of the row in one half of a vector and of the column in the other; zeros for a class token."""

    def __init__(self, d_model: int, rows: int, columns: int, class_tokens: int) -> None:
        super().__init__()
        of_row = sinusoids(rows, d_model // 2).repeat_interleave(columns, 0)
        of_column = sinusoids(columns, d_model // 2).repeat(rows, 1)
        table = torch.cat([torch.zeros(class_tokens, d_model), torch.cat([of_row, of_column], 1)])
        self.table: Tensor
        self.register_buffer("table", table, persistent=False)

    def embed(self, x: Tensor, start: int = 0) -> Tensor:
        return x + self.table[start : start + x.size(-2)]


def patches(pixels: Tensor, size: int) -> Tensor:
    """Images (images, channels, height, width) -> patches (images, patches, channels * size * size)."""
    images, channels, height, width = pixels.shape
    cut = pixels.view(images, channels, height // size, size, width // size, size)
    return cut.permute(0, 2, 4, 1, 3, 5).reshape(images, -1, channels * size * size)


def make_position(config: VitConfig) -> Position:
    if config.position == "learned":
        return Learned(config.d_model, config.tokens)
    return Sinusoidal2d(
        config.d_model, config.rows, config.columns, class_tokens=int(config.pooling == "class")
    )


def block_shape(config: VitConfig) -> BlockShape:
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
        score=config.score,
    )
