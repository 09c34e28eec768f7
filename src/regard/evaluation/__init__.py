"""How good a translation is, as the field measures it."""

from regard.evaluation.bleu import Quality, by_length, measure, significance

__all__ = ["Quality", "by_length", "measure", "significance"]
