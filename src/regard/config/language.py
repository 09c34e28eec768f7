"""What a model that writes on depends on: any text, how it is cut, the model, its training."""

from dataclasses import dataclass, field
from typing import Annotated, Literal

from regard.config.gpt import GptModel, NgramModel
from regard.config.schema import Range
from regard.config.texts import Files, TextTrain, check_best


@dataclass(frozen=True)
class LanguageData(Files):
    """Any text, plain or .gz; where validation has no file, the end of the training text is held out for it."""


@dataclass(frozen=True)
class LanguageText:
    """What a token is, where no run is started from; that run's own tokens are used otherwise."""

    kind: Literal["bpe", "characters", "bytes"] = "bpe"
    """bpe: runs of bytes that are frequent together, as GPT-2 has them."""
    size: Annotated[int, Range(at_least=300, at_most=1 << 24)] | None = None
    """bpe: how many tokens there are; 8,000 unless given. GPT has 40,000."""

    def __post_init__(self) -> None:
        if self.kind == "bpe" and self.size is None:
            object.__setattr__(self, "size", 8000)
        if self.kind != "bpe" and self.size is not None:
            raise ValueError(f"size: {self.kind} are as many as there are; leave it out")


@dataclass(frozen=True)
class LanguageRecipe:
    """From plain text to a model that writes on."""

    task: Literal["language"]
    data: LanguageData = field(default_factory=LanguageData)
    text: LanguageText = field(default_factory=LanguageText)
    model: GptModel | NgramModel = field(default_factory=GptModel)
    train: TextTrain = field(default_factory=lambda: TextTrain(epochs=1))

    def __post_init__(self) -> None:
        check_best(self.train, ("loss",))
        if self.train.smoothing:
            raise ValueError("train.smoothing: the next token is the one that stands there; leave it out")
