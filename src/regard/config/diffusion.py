"""What a model that paints by prompt depends on: pictures, a U-Net, its training, its way of painting."""

from dataclasses import dataclass, field
from typing import Annotated, Literal

from regard.config.schema import Count, NotNegative, Range, Share, defaults
from regard.config.training import LoopSettings
from regard.config.translation import TransformerModel

Small = Annotated[int, Range(at_least=1, at_most=1 << 10)]


@dataclass(frozen=True)
class PictureData:
    """Pictures with labels; prompts are made of the labels, in English and in German."""

    path: str | None = None
    """The folder that holds MNIST's four idx files, also as .gz."""
    held_out: Count = 512
    """Training pictures kept for validation."""


@dataclass(frozen=True)
class UnetModel:
    """A U-Net over grey pictures, and the small Transformer encoder that reads its prompt."""

    kind: Literal["unet"] = "unet"
    side: Small = 28
    """Pixels in a row and in a column."""
    channels: Small = 16
    """Numbers a pixel at the full resolution."""
    widths: tuple[Small, ...] = (1, 3, 6)
    """How many times that at each resolution; each has half the side of the one before."""
    blocks: Annotated[int, Range(at_least=1, at_most=100)] = 1
    """Residual blocks at each resolution, on the way down and again on the way up."""
    attend_at: tuple[Count, ...] = (14, 7)
    """Sides of the resolutions at which pixels look at each other and at the prompt."""
    heads: Small = 2
    dropout: Share = 0.0
    prompt_layers: Annotated[int, Range(at_least=1, at_most=100)] = 2
    prompt_size: Small = 64
    """Size of a prompt word's vector."""
    schedule: Literal["cosine", "linear"] = "cosine"
    """How a picture drowns in noise."""
    noise_steps: Annotated[int, Range(at_least=2, at_most=1 << 14)] = 1000
    """In how many steps it does."""

    def __post_init__(self) -> None:
        if not self.widths:
            raise ValueError("widths: there is no resolution; name one width at least")
        if self.side % (1 << len(self.widths) - 1):
            raise ValueError(
                f"widths: a side of {self.side} pixels cannot be halved {len(self.widths) - 1} times"
            )
        for side in self.attend_at:
            if side not in self.sides:
                allowed = ", ".join(map(str, self.sides))
                raise ValueError(f"attend_at: there is no resolution of side {side}; allowed: {allowed}")
        for width in (*(self.channels * each for each in self.widths), self.prompt_size):
            if width % (2 * self.heads):
                raise ValueError(f"heads: {self.heads} heads do not divide {width} channels evenly")

    @property
    def sides(self) -> tuple[int, ...]:
        """The side of each resolution, the full one first."""
        return tuple(self.side >> level for level in range(len(self.widths)))

    @property
    def told(self) -> int:
        """Size of the vector that tells every block of noise and prompt."""
        return 8 * self.channels

    @property
    def reader(self) -> TransformerModel:
        """The encoder that reads a prompt."""
        return TransformerModel(
            encoder_layers=self.prompt_layers,
            d_model=self.prompt_size,
            heads=self.heads,
            d_ff=2 * self.prompt_size,
            dropout=self.dropout,
        )

    @property
    def width(self) -> int:
        """The size of a pixel's vector at the full resolution."""
        return self.channels

    def __str__(self) -> str:
        channels = " / ".join(str(self.channels * each) for each in self.widths)
        where = ", ".join(f"{side} x {side}" for side in self.attend_at) or "no resolution"
        return f"U-Net, {channels} channels, attention at {where}, {self.heads} heads"


@dataclass(frozen=True)
@defaults(
    batch_tokens=25_088,  # pixels: 32 pictures of 28 x 28
    optimizer="adamw",
    beta2=0.99,
    epsilon=1e-8,
    schedule="cosine",
    lr=1.2e-3,
    warmup=100,
)
class PaintTrain(LoopSettings):
    """How a U-Net learns to tell noise from a picture."""

    best_by: Literal["loss"] = "loss"
    drop_prompt: Share = 0.1
    """Share of the pictures shown without their prompt, which guidance needs."""
    most_signal: NotNegative = 5.0
    """Weight of little noise: the ratio of signal to noise counts up to this (Hang et al. 2023); 0: alike."""


@dataclass(frozen=True)
class PaintSettings:
    """How a picture is painted, unless asked otherwise."""

    sampler: Literal["ddim", "ddpm"] = "ddim"
    steps: Count = 30
    guidance: NotNegative = 3.0
    """How much a prompt counts: 1 as learned, 0 not at all, more exaggerates it."""


@dataclass(frozen=True)
class PaintRecipe:
    """From pictures with labels to a model that paints what a prompt says."""

    task: Literal["painting"]
    data: PictureData = field(default_factory=PictureData)
    model: UnetModel = field(default_factory=UnetModel)
    train: PaintTrain = field(default_factory=lambda: PaintTrain(minutes=30))
    paint: PaintSettings = field(default_factory=PaintSettings)

    def __post_init__(self) -> None:
        if self.paint.steps > self.model.noise_steps:
            raise ValueError(
                f"paint.steps: {self.paint.steps} steps are more than the {self.model.noise_steps} of the noise"
            )
