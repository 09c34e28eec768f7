"""The scores of attention, by the names that every model's recipe shares."""

from typing import Literal

ScoreName = Literal["scaled-dot", "dot", "general", "additive", "concat", "gaussian"]


def check_score(score: ScoreName, position: str) -> None:
    """Refuse a position scheme that is not defined for the score.

    Raises:
        ValueError: Relative positions with another score than the scaled dot product.
    """
    if position == "relative" and score != "scaled-dot":
        raise ValueError(
            f'score: relative positions are defined for the "scaled-dot" score, not for "{score}"; '
            "choose another position or leave score out"
        )
