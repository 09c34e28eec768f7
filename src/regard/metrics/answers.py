"""How well answers are found, counted as SQuAD's script counts: small letters, no punctuation, no articles."""

import re
import string
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

ARTICLES = re.compile(r"\b(a|an|the)\b")
PUNCTUATION = str.maketrans("", "", string.punctuation)


@dataclass(frozen=True)
class AnswerScores:
    """Answers found against answers given, as shares."""

    exact: float
    f1: float
    questions: int

    def numbers(self) -> dict[str, float]:
        return {"exact": self.exact, "f1": self.f1}


def score_answers(gold: Sequence[Sequence[str]], found: Sequence[str]) -> AnswerScores:
    """Exact match and token F1, for each question against the answer given that fits best."""
    if len(gold) != len(found) or not gold:
        raise ValueError(f"{len(found)} answers found for {len(gold)} questions")
    exact = f1 = 0.0
    for given, answer in zip(gold, found, strict=True):
        exact += max(float(plain(one) == plain(answer)) for one in given)
        f1 += max(overlap(one, answer) for one in given)
    return AnswerScores(exact / len(gold), f1 / len(gold), len(gold))


def plain(answer: str) -> str:
    """An answer without what does not matter."""
    return " ".join(ARTICLES.sub(" ", answer.lower().translate(PUNCTUATION)).split())


def overlap(given: str, answer: str) -> float:
    """F1 of the words that both have."""
    one, other = plain(given).split(), plain(answer).split()
    shared = sum((Counter(one) & Counter(other)).values())
    return 2 * shared / (len(one) + len(other)) if shared else 0.0
