"""Beam search settings that recipes and Python share."""

from dataclasses import dataclass
from typing import Annotated

from regard.config.schema import NotNegative, Range, Whole
from regard.limits import MAX_BATCH_SIZE, MAX_BEAM


@dataclass(frozen=True)
class SearchConfig:
    """Beam search: beam size, scoring and constraints."""

    beam: Annotated[int, Range(at_least=1, at_most=MAX_BEAM)] = 5
    """Beam size; 1 is greedy search."""
    length_penalty: NotNegative = 1.0
    """Exponent of the length by which scores are divided; 0 favours short translations."""
    coverage: NotNegative = 0.0
    """Weight of the coverage penalty on source tokens with little attention (Wu et al. 2016, section 7)."""
    no_repeat: Whole = 0
    """No n-gram of this size occurs twice; 0: no limit."""


@dataclass(frozen=True)
class DecodeConfig(SearchConfig):
    """Decoding defaults of a trained translation model."""

    batch_size: Annotated[int, Range(at_least=1, at_most=MAX_BATCH_SIZE)] = 64
    """Sentences per decoding batch."""
