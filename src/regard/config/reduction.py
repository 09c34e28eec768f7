"""Fewer tokens: how many are merged or pruned, and where."""

from dataclasses import dataclass
from typing import Annotated, Literal

from regard.config.schema import NotNegative, Positive, Range


@dataclass(frozen=True)
class Reduction:
    """What becomes of the tokens inside an encoder; by default they all go on."""

    merge: tuple[NotNegative, ...] = ()
    """Tokens merged in each layer: a share of them below 1, else how many; one number is for all layers."""
    near: bool = False
    """Merge neighbours only: what is one then stands for a stretch of the text."""
    prune: Literal["none", "soft", "hard"] = "none"
    """soft: learn the threshold of each layer; hard: drop in training too, by those it starts from."""
    keep: Annotated[float, Range(above=0, at_most=1)] = 0.7
    """Share of the tokens, mean over the layers, that soft pruning makes for."""
    temperature: Positive = 0.02
    """How soft soft pruning is: the range of importance, in fair shares, over which a token fades. Where all
    tokens get nearly a fair share, as in a model hardly trained, thresholds need 0.1 to start moving."""
    weight: NotNegative = 0.4
    """How much a share of tokens beyond `keep` weighs beside the loss of an example."""

    def __post_init__(self) -> None:
        for each in self.merge:
            if not 0 <= each < 1 << 20 or (each >= 1 and each != int(each)):
                raise ValueError(f"merge: {each} is neither a share below 1 nor a whole number of tokens")
        if self.merge and self.prune != "none":
            raise ValueError("merge: tokens are merged or pruned, not both")

    def __bool__(self) -> bool:
        """Whether there is any."""
        return any(self.merge) or self.prune != "none"
