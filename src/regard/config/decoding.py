"""Settings of beam search that recipes and Python share."""

from dataclasses import dataclass
from typing import Annotated

from regard.config.schema import NotNegative, Range, Whole
from regard.limits import MAX_BATCH_SIZE, MAX_BEAM


@dataclass(frozen=True)
class SearchConfig:
    """How beam search scores and limits hypotheses."""

    beam: Annotated[int, Range(at_least=1, at_most=MAX_BEAM)] = 5
    """Beam size; 1 is greedy search."""
    length_penalty: NotNegative = 1.0
    """Scores are divided by length to this power; 0 favours short translations."""
    coverage: NotNegative = 0.0
    """Weight of a penalty on source tokens without attention (Wu et al. 2016, section 7)."""
    no_repeat: Whole = 0
    """n-grams of this size occur at most once; 0 means no limit."""


@dataclass(frozen=True)
class DecodeConfig(SearchConfig):
    """How a trained model translates by default."""

    batch_size: Annotated[int, Range(at_least=1, at_most=MAX_BATCH_SIZE)] = 64
