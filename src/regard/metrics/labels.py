"""How well texts are labelled: accuracy, and the F1 of each label."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class LabelScore:
    """One label by itself."""

    label: str
    precision: float
    recall: float
    f1: float
    examples: int


@dataclass(frozen=True)
class LabelScores:
    """Labels found against labels given."""

    accuracy: float
    f1: float
    """Macro-F1: the mean over the labels that were given or found."""
    examples: int
    by_label: list[LabelScore]

    def numbers(self) -> dict[str, float]:
        return {"accuracy": self.accuracy, "f1": self.f1}


def score_labels(gold: Sequence[str], found: Sequence[str]) -> LabelScores:
    """Accuracy and macro-F1; a label that has nothing to divide by counts as 0."""
    if len(gold) != len(found) or not gold:
        raise ValueError(f"{len(found)} labels found for {len(gold)} given")
    rows = [score_of(label, gold, found) for label in sorted({*gold, *found})]
    right = sum(one == other for one, other in zip(gold, found, strict=True))
    return LabelScores(right / len(gold), sum(row.f1 for row in rows) / len(rows), len(gold), rows)


def score_of(label: str, gold: Sequence[str], found: Sequence[str]) -> LabelScore:
    both = sum(one == other == label for one, other in zip(gold, found, strict=True))
    given, said = list(gold).count(label), list(found).count(label)
    return LabelScore(label, *precision_recall_f1(both, said, given), given)


def precision_recall_f1(right: int, found: int, given: int) -> tuple[float, float, float]:
    """Shares of what was found and of what was given that is right, and their harmonic mean."""
    precision = right / found if found else 0.0
    recall = right / given if given else 0.0
    return precision, recall, 2 * right / (found + given) if right else 0.0
