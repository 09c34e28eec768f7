"""How good a model is, as the field measures it."""

from regard.metrics.answers import AnswerScores, score_answers
from regard.metrics.bleu import Paired, Quality, by_length, measure, significance
from regard.metrics.entities import EntityScores, entities, score_entities
from regard.metrics.labels import LabelScores, score_labels

__all__ = [
    "AnswerScores",
    "EntityScores",
    "LabelScores",
    "Paired",
    "Quality",
    "by_length",
    "entities",
    "measure",
    "score_answers",
    "score_entities",
    "score_labels",
    "significance",
]
