"""Metrics: BLEU, chrF and TER of translations; F1 of labels, entities and answers."""

from regard.metrics.bleu import (
    RESAMPLES,
    PairedBootstrap,
    Quality,
    bleu_by_length,
    paired_bootstrap,
    score_translations,
    sentence_chrf,
)
from regard.metrics.f1 import (
    AnswerScores,
    EntityScores,
    LabelScores,
    entity_spans,
    score_answers,
    score_entities,
    score_labels,
)

__all__ = [
    "RESAMPLES",
    "AnswerScores",
    "EntityScores",
    "LabelScores",
    "PairedBootstrap",
    "Quality",
    "bleu_by_length",
    "entity_spans",
    "paired_bootstrap",
    "score_answers",
    "score_entities",
    "score_labels",
    "score_translations",
    "sentence_chrf",
]
