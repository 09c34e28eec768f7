"""Which split a meaning belongs to: test sentences hold combinations of words that training never shows."""

from functools import cache
from typing import Literal
from zlib import crc32

from regard.data.picturebook.meaning import (
    Clause,
    Coordination,
    Existential,
    InfinitiveClause,
    Nominal,
    NounPhrase,
    PrepositionalPhrase,
    Sentence,
    Sequence,
    Simple,
    Subordination,
)

Split = Literal["train", "valid", "test"]

# the kind of combination and the two lexemes: ("quality", "rot", "Ball")
Combination = tuple[str, str, str]

_UNSEEN_PERCENT = 6
_VALID_PERCENT = 8


def is_unseen(meaning: Sentence) -> bool:
    """Whether a meaning belongs to the test split."""
    return any(_unseen(*combination) for combination in combinations(meaning))


def is_valid(english: str) -> bool:
    """Whether a sentence outside the test split belongs to the validation split."""
    return crc32(english.encode()) % 100 < _VALID_PERCENT


def unseen_combinations(meaning: Sentence) -> list[Combination]:
    """The combinations in a meaning that are kept for the test split."""
    return [combination for combination in combinations(meaning) if _unseen(*combination)]


def combinations(meaning: Sentence) -> list[Combination]:
    """Every pair of adjective and noun, subject and verb, verb and object in a meaning."""
    found: list[Combination] = []
    match meaning:
        case Simple(clause) | Existential(clause):
            _collect_clause(clause, found)
        case Subordination(first, _, second) | Sequence(first, _, second) | InfinitiveClause(first, second):
            _collect_clause(first, found)
            _collect_clause(second, found)
    return found


@cache
def _unseen(kind: str, left: str, right: str) -> bool:
    # a checksum, since hash() of a string differs from run to run
    return crc32(f"{kind}:{left}:{right}".encode()) % 100 < _UNSEEN_PERCENT


def _collect_clause(clause: Clause, found: list[Combination]) -> None:
    verb = clause.verb.name
    quality = clause.predicate.adjective if clause.predicate else None
    for phrase in _phrases(clause.subject):
        found.append(("subject", phrase.noun.german, verb))
        if quality:
            found.append(("quality", quality.german, phrase.noun.german))
        _collect_phrase(phrase, found)
    for slot in (clause.object, clause.recipient, clause.about):
        for phrase in _phrases(slot) if slot else ():
            found.append(("object", verb, phrase.noun.german))
            _collect_phrase(phrase, found)
    for slot in (clause.place, clause.direction):
        for phrase in _phrases(slot) if slot else ():
            _collect_phrase(phrase, found)


def _collect_phrase(phrase: NounPhrase, found: list[Combination]) -> None:
    found.extend(("quality", adjective.german, phrase.noun.german) for adjective in phrase.adjectives)
    if phrase.owner:
        _collect_phrase(phrase.owner, found)
    if phrase.relative:
        _collect_clause(phrase.relative.clause, found)


def _phrases(slot: Nominal | PrepositionalPhrase | None) -> tuple[NounPhrase, ...]:
    if isinstance(slot, PrepositionalPhrase):
        return _phrases(slot.noun_phrase)
    if isinstance(slot, Coordination):
        return slot.parts
    return (slot,) if isinstance(slot, NounPhrase) else ()
