"""What a Vision Transformer is made of, and what it is trained for: labels for images."""

from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal

from regard.config.attention import SingleStackSettings
from regard.config.reduction import Reduction
from regard.config.schema import Positive, Range, Share, defaults
from regard.config.training import SmoothedSettings

Pixels = Annotated[int, Range(at_least=0, at_most=1 << 14)]


@dataclass(frozen=True)
@defaults(dropout=0.0, attention_dropout=0.0, epsilon=1e-6)
class VitModel(SingleStackSettings):
    """A named size, any part of which may be given by itself; 0 means 'as the size has it'."""

    SIZES: ClassVar = {
        "digits": {"layers": 6, "d_model": 64, "heads": 4, "d_ff": 128, "patch": 4},
        "tiny": {"layers": 12, "d_model": 192, "heads": 3, "d_ff": 768, "patch": 16},
        "small": {"layers": 12, "d_model": 384, "heads": 6, "d_ff": 1536, "patch": 16},
        "base": {"layers": 12, "d_model": 768, "heads": 12, "d_ff": 3072, "patch": 16},
        "large": {"layers": 24, "d_model": 1024, "heads": 16, "d_ff": 4096, "patch": 16},
        "huge": {"layers": 32, "d_model": 1280, "heads": 16, "d_ff": 5120, "patch": 14},
    }
    """Base, large, huge: Dosovitskiy et al. 2021; tiny, small: Touvron et al. 2021; digits: ours, for MNIST."""

    kind: Literal["vit"] = "vit"
    size: Literal["digits", "tiny", "small", "base", "large", "huge"] = "base"
    patch: Pixels = 0
    """Height and width of a patch."""
    height: Pixels = 0
    width: Pixels = 0
    """Of an image, which is brought to this size; 0 means as the training images are."""
    channels: Annotated[int, Range(at_least=0, at_most=3)] = 0
    """1 for grey, 3 for colour; 0 means as the training images are."""
    read: Literal["class", "mean"] = "class"
    """What speaks for the image: a token of its own, or the mean of the patches."""
    position: Literal["learned", "sinusoidal"] = "learned"
    activation: Literal["relu", "gelu", "silu"] = "gelu"
    mean: tuple[float, ...] = (0.5,)
    spread: tuple[Positive, ...] = (0.5,)
    """Brightness, from 0 to 1, less the mean and over the spread; one number, or one for each channel."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("height", "width"):
            if getattr(self, name) % self.patch:
                raise ValueError(
                    f"patch: patches of {self.patch} do not divide the {name} of {getattr(self, name)}"
                )
        if self.channels == 2:
            raise ValueError("channels: images are grey (1) or coloured (3), not 2")
        if self.position == "sinusoidal" and self.d_model % 4:
            raise ValueError(
                f"d_model: sinusoidal positions of rows and columns need a multiple of 4, not {self.d_model}"
            )
        for name in ("mean", "spread"):
            if len(getattr(self, name)) not in (1, self.channels or 3):
                raise ValueError(f"{name}: one number, or one for each channel")

    @property
    def rows(self) -> int:
        """Of patches."""
        return self.height // self.patch

    @property
    def columns(self) -> int:
        return self.width // self.patch

    @property
    def tokens(self) -> int:
        """Patches of an image, and the class token where there is one."""
        return self.rows * self.columns + (self.read == "class")

    def __str__(self) -> str:
        return (
            f"ViT, {self.layers} layers, {self.d_model} / {self.d_ff}, {self.heads} heads, "
            f"patches of {self.patch} in {self.height} x {self.width}"
        )


@dataclass(frozen=True)
class ImageData:
    """Images with a label each: idx files as MNIST's, or a folder with a folder for each label."""

    path: str | None = None
    """The folder: idx files in it, or train/LABEL/..., valid/LABEL/..., test/LABEL/..., or LABEL/..."""
    held_out: Annotated[float, Range(above=0, at_most=0.5)] = 0.05
    """Share of the training images for validation, where it has no images of its own."""
    shift: Share = 0.0
    """Images are moved by chance in each epoch, by up to this share of their size, ..."""
    rotate: Annotated[float, Range(at_least=0, at_most=180)] = 0.0
    """... turned by up to so many degrees, ..."""
    crop: Share = 0.0
    """... cut by up to this share of their size and drawn out again, or shrunk by as much, ..."""
    flip: bool = False
    """... and half of them mirrored."""


@dataclass(frozen=True)
@defaults(
    batch_tokens=6400,  # patches and class tokens
    optimizer="adamw",
    beta2=0.999,
    epsilon=1e-8,
    weight_decay=0.05,
    schedule="cosine",
    warmup=200,
)
class VisionTrain(SmoothedSettings):
    """How a Vision Transformer learns."""

    best_by: Literal["accuracy", "f1", "loss"] = "accuracy"


@dataclass(frozen=True)
class VisionRecipe:
    """From labelled images to a model that labels others."""

    task: Literal["vision"]
    data: ImageData = field(default_factory=ImageData)
    model: VitModel = field(default_factory=VitModel)
    reduce: Reduction = field(default_factory=Reduction)
    train: VisionTrain = field(default_factory=lambda: VisionTrain(epochs=10))

    def __post_init__(self) -> None:
        if self.reduce.prune != "none" and self.model.read == "mean":
            raise ValueError(
                'reduce.prune: the mean asks for all tokens; tokens can go with model.read = "class"'
            )
