"""How good a translation is, as the field measures it."""

from regard.evaluation.bleu import Paired, Quality, by_length, measure, significance

__all__ = ["Paired", "Quality", "by_length", "measure", "significance"]
