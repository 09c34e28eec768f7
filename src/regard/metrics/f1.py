"""Accuracy, precision, recall and F1 of labels, named entities (as conlleval) and answers (as SQuAD)."""

import re
import string
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

ARTICLES = re.compile(r"\b(a|an|the)\b")
PUNCTUATION = str.maketrans("", "", string.punctuation)


@dataclass(frozen=True)
class LabelScore:
    """Scores of one label; `examples` is how often it is the reference label."""

    label: str
    precision: float
    recall: float
    f1: float
    examples: int


@dataclass(frozen=True)
class LabelScores:
    """Scores of predicted labels against reference labels."""

    accuracy: float
    f1: float
    """Macro-F1: the mean over the labels that are in references or predictions."""
    examples: int
    by_label: list[LabelScore]

    def headline(self) -> dict[str, float]:
        return {"accuracy": self.accuracy, "f1": self.f1}


def score_labels(references: Sequence[str], predictions: Sequence[str]) -> LabelScores:
    """Accuracy and macro-F1; an undefined precision or recall counts as 0."""
    if len(references) != len(predictions) or not references:
        raise ValueError(f"{len(predictions)} predicted labels for {len(references)} references")
    by_label = [score_label(label, references, predictions) for label in sorted({*references, *predictions})]
    correct = sum(label == prediction for label, prediction in zip(references, predictions, strict=True))
    macro_f1 = sum(score.f1 for score in by_label) / len(by_label)
    return LabelScores(correct / len(references), macro_f1, len(references), by_label)


def score_label(label: str, references: Sequence[str], predictions: Sequence[str]) -> LabelScore:
    correct = sum(
        reference == prediction == label for reference, prediction in zip(references, predictions, strict=True)
    )
    num_references, num_predictions = list(references).count(label), list(predictions).count(label)
    return LabelScore(label, *precision_recall_f1(correct, num_predictions, num_references), num_references)


def precision_recall_f1(correct: int, predicted: int, reference: int) -> tuple[float, float, float]:
    """From numbers of correct, predicted and reference items."""
    precision = correct / predicted if predicted else 0.0
    recall = correct / reference if reference else 0.0
    return precision, recall, 2 * correct / (predicted + reference) if correct else 0.0


EntitySpan = tuple[int, int, str]
"""First word, the word after the last, and the entity type."""


@dataclass(frozen=True)
class EntityScores:
    """Scores of predicted entities against reference entities: span and type must match."""

    precision: float
    recall: float
    f1: float
    accuracy: float
    """Share of the words with the correct tag."""
    words: int
    by_type: list[LabelScore]

    def headline(self) -> dict[str, float]:
        return {"f1": self.f1, "precision": self.precision, "recall": self.recall, "accuracy": self.accuracy}


def entity_spans(tags: Sequence[str]) -> list[EntitySpan]:
    """The entities in the BIO tags of a sentence, by conlleval's rules.

    B- begins an entity; so does I- after O or after an entity of another type.
    """
    spans: list[EntitySpan] = []
    start, open_type = 0, ""
    for position, tag in enumerate([*tags, "O"]):
        entity_type = "" if tag == "O" else tag[2:]
        if open_type and (tag.startswith("B-") or entity_type != open_type):
            spans.append((start, position, open_type))
            open_type = ""
        if entity_type and not open_type:
            start, open_type = position, entity_type
    return spans


def score_entities(references: Sequence[Sequence[str]], predictions: Sequence[Sequence[str]]) -> EntityScores:
    """Micro-averaged precision, recall and F1 of entities, and by type; from tags of the same sentences."""
    if [len(tags) for tags in references] != [len(tags) for tags in predictions]:
        raise ValueError("the predicted tags are not those of the same words")
    expected = {(number, *span) for number, tags in enumerate(references) for span in entity_spans(tags)}
    predicted = {(number, *span) for number, tags in enumerate(predictions) for span in entity_spans(tags)}
    correct = expected & predicted
    words = sum(map(len, references))
    correct_tags = sum(
        tag == prediction
        for tags, predicted_tags in zip(references, predictions, strict=True)
        for tag, prediction in zip(tags, predicted_tags, strict=True)
    )
    by_type = []
    for name in sorted({entity[-1] for entity in expected | predicted}):
        counts = [sum(entity[-1] == name for entity in entities) for entities in (correct, predicted, expected)]
        by_type.append(LabelScore(name, *precision_recall_f1(*counts), counts[2]))
    return EntityScores(
        *precision_recall_f1(len(correct), len(predicted), len(expected)),
        correct_tags / max(1, words),
        words,
        by_type,
    )


@dataclass(frozen=True)
class AnswerScores:
    """Exact match and F1 of predicted answers, from 0 to 1."""

    exact: float
    f1: float
    questions: int

    def headline(self) -> dict[str, float]:
        return {"exact": self.exact, "f1": self.f1}


def score_answers(references: Sequence[Sequence[str]], predictions: Sequence[str]) -> AnswerScores:
    """Exact match and token F1; each prediction counts against the reference answer that fits best."""
    if len(references) != len(predictions) or not references:
        raise ValueError(f"{len(predictions)} predicted answers for {len(references)} questions")
    exact = f1 = 0.0
    for answers, prediction in zip(references, predictions, strict=True):
        exact += max(float(normalized(answer) == normalized(prediction)) for answer in answers)
        f1 += max(token_f1(answer, prediction) for answer in answers)
    return AnswerScores(exact / len(references), f1 / len(references), len(references))


def normalized(answer: str) -> str:
    """SQuAD's normalization: lower case, no punctuation, no articles, single spaces."""
    return " ".join(ARTICLES.sub(" ", answer.lower().translate(PUNCTUATION)).split())


def token_f1(reference: str, prediction: str) -> float:
    """F1 of the words that reference and prediction share."""
    expected, predicted = normalized(reference).split(), normalized(prediction).split()
    shared = sum((Counter(expected) & Counter(predicted)).values())
    return 2 * shared / (len(expected) + len(predicted)) if shared else 0.0
