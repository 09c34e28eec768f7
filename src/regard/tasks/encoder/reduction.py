"""Fewer tokens in whole runs: what a user asks for, how many are kept, and what a run that prunes is worth."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, TypeVar

import torch

from regard.config.models import TokenReductionConfig
from regard.config.training import TrainConfig
from regard.data.examples import TextBatch
from regard.engine.forward import padded_inputs
from regard.errors import RegardError
from regard.nn import TokenCounts
from regard.nn.bert import Bert
from regard.training.state import Scores

WORTH = "worth"
"""The score by which the best weights are chosen while thresholds are learned."""
SAMPLE = 256
"""Examples that tell how many tokens are kept."""
Settings = TypeVar("Settings", bound=TrainConfig)


def amounts_of(told: str) -> tuple[float, ...]:
    """`0.3` or `16` for every layer, `0.5,0,8` for the first three: shares of the tokens, or how many."""
    try:
        return TokenReductionConfig(merge=tuple(float(each) for each in told.split(","))).merge
    except ValueError:
        pass
    raise RegardError(
        f"{told!r} is no number of tokens to merge: give a share below 1 or a whole number, for every layer "
        "or, with commas between, for the first, the second and so on"
    )


def learns(reduce: TokenReductionConfig | None) -> bool:
    """Whether thresholds are to be learned."""
    return reduce is not None and reduce.prune == "soft"


def settled_by_worth(train: Settings, reduce: TokenReductionConfig | None) -> Settings:
    """The settings of a training; where thresholds are learned, few tokens count besides few mistakes."""
    best: Any = WORTH
    return replace(train, best_by=best) if learns(reduce) else train


def with_worth(scores: Scores, by: str, kept: float, reduce: TokenReductionConfig) -> Scores:
    """The scores, the share of tokens kept, and the score less the price of what is kept too much.

    Without it the best weights would be the first ones, which prune nothing.
    """
    score = -scores[by] if by == "loss" else scores[by]
    return {**scores, "kept": kept, WORTH: score - reduce.weight * max(0.0, kept - reduce.keep)}


def token_counts(bert: Bert, batches: Iterable[TextBatch], *, first_only: bool) -> TokenCounts:
    """How many tokens of each text remain from block to block."""
    with torch.no_grad():
        found = [
            bert.reduced(*padded_inputs(bert, each.ids, each.segments), first_only=first_only).counts
            for each in (batch.to(bert.pooler.weight.device) for batch in batches)
        ]
    return tuple(
        (torch.cat([each[layer][0] for each in found]), torch.cat([each[layer][1] for each in found]))
        for layer in range(len(bert.blocks))
    )
