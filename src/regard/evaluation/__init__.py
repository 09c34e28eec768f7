"""How good a model is, as the field measures it."""

from regard.evaluation.answers import AnswerScores, score_answers
from regard.evaluation.bleu import Paired, Quality, by_length, measure, significance
from regard.evaluation.entities import EntityScores, entities, score_entities
from regard.evaluation.labels import LabelScores, score_labels

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
