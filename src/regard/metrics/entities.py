"""How well names are found, counted as CoNLL's conlleval counts: whole names of the right kind."""

from collections.abc import Sequence
from dataclasses import dataclass

from regard.metrics.labels import LabelScore, precision_recall_f1

Entity = tuple[int, int, str]
"""First word, the word after the last, and the kind of name."""


@dataclass(frozen=True)
class EntityScores:
    """Names found against names given."""

    precision: float
    recall: float
    f1: float
    accuracy: float
    """Share of the words whose tag is right."""
    words: int
    by_name: list[LabelScore]

    def numbers(self) -> dict[str, float]:
        return {"f1": self.f1, "precision": self.precision, "recall": self.recall, "accuracy": self.accuracy}


def entities(tags: Sequence[str]) -> list[Entity]:
    """The names in a sentence's tags.

    B- begins a name; so does I- where no name of its kind is open, after O or after another kind.
    """
    found: list[Entity] = []
    begun, kind = 0, ""
    for place, tag in enumerate([*tags, "O"]):
        now = "" if tag == "O" else tag[2:]
        if kind and (tag.startswith("B-") or now != kind):
            found.append((begun, place, kind))
            kind = ""
        if now and not kind:
            begun, kind = place, now
    return found


def score_entities(gold: Sequence[Sequence[str]], found: Sequence[Sequence[str]]) -> EntityScores:
    """Precision, recall and F1 over all names, and by kind; both are tags of the same sentences."""
    if [len(each) for each in gold] != [len(each) for each in found]:
        raise ValueError("the tags found are not those of the same words")
    given = {(number, *one) for number, tags in enumerate(gold) for one in entities(tags)}
    said = {(number, *one) for number, tags in enumerate(found) for one in entities(tags)}
    right = given & said
    words = sum(map(len, gold))
    same = sum(a == b for one, other in zip(gold, found, strict=True) for a, b in zip(one, other, strict=True))
    by_name = []
    for name in sorted({each[-1] for each in given | said}):
        counts = [sum(each[-1] == name for each in some) for some in (right, said, given)]
        by_name.append(LabelScore(name, *precision_recall_f1(*counts), counts[2]))
    return EntityScores(
        *precision_recall_f1(len(right), len(said), len(given)), same / max(1, words), words, by_name
    )
