"""Splits by combinations of lexemes: each test sentence has one that never occurs in training."""

from functools import cache
from typing import Literal
from zlib import crc32

from regard.data.picturebook.semantics import (
    Clause,
    ClauseCoordination,
    Coordination,
    Existential,
    InfinitiveClause,
    Nominal,
    NounPhrase,
    PrepositionalPhrase,
    Sentence,
    Simple,
    Subordination,
)

Split = Literal["train", "valid", "test"]

Combination = tuple[str, str, str]
"""The relation and the two lexemes: ("quality", "rot", "Ball")."""

_UNSEEN_PERCENT = 6
_VALID_PERCENT = 8


def is_unseen(meaning: Sentence) -> bool:
    """Whether a meaning has a combination that is held out, and so belongs to the test split."""
    return any(_unseen(*combination) for combination in combinations(meaning))


def is_valid(english: str) -> bool:
    """Whether a sentence outside the test split belongs to the validation split."""
    return crc32(english.encode()) % 100 < _VALID_PERCENT


def unseen_combinations(meaning: Sentence) -> list[Combination]:
    """The combinations in a meaning that are held out for the test split."""
    return [combination for combination in combinations(meaning) if _unseen(*combination)]


def combinations(meaning: Sentence) -> list[Combination]:
    """All pairs of adjective and noun, subject and verb, verb and object in a meaning."""
    combined: list[Combination] = []
    match meaning:
        case Simple(clause) | Existential(clause):
            _collect_clause(clause, combined)
        case (
            Subordination(first, _, second)
            | ClauseCoordination(first, _, second)
            | InfinitiveClause(first, second)
        ):
            _collect_clause(first, combined)
            _collect_clause(second, combined)
    return combined


@cache
def _unseen(kind: str, left: str, right: str) -> bool:
    # a checksum, since hash() of a string differs from run to run
    return crc32(f"{kind}:{left}:{right}".encode()) % 100 < _UNSEEN_PERCENT


def _collect_clause(clause: Clause, combined: list[Combination]) -> None:
    verb = clause.verb.name
    quality = clause.predicate.adjective if clause.predicate else None
    for phrase in _phrases(clause.subject):
        combined.append(("subject", phrase.noun.german, verb))
        if quality:
            combined.append(("quality", quality.german, phrase.noun.german))
        _collect_phrase(phrase, combined)
    for slot in (clause.object, clause.recipient, clause.oblique):
        for phrase in _phrases(slot) if slot else ():
            combined.append(("object", verb, phrase.noun.german))
            _collect_phrase(phrase, combined)
    for slot in (clause.location, clause.direction):
        for phrase in _phrases(slot) if slot else ():
            _collect_phrase(phrase, combined)


def _collect_phrase(phrase: NounPhrase, combined: list[Combination]) -> None:
    combined.extend(("quality", adjective.german, phrase.noun.german) for adjective in phrase.adjectives)
    if phrase.owner:
        _collect_phrase(phrase.owner, combined)
    if phrase.relative:
        _collect_clause(phrase.relative.clause, combined)


def _phrases(slot: Nominal | PrepositionalPhrase | None) -> tuple[NounPhrase, ...]:
    if isinstance(slot, PrepositionalPhrase):
        return _phrases(slot.noun_phrase)
    if isinstance(slot, Coordination):
        return slot.conjuncts
    return (slot,) if isinstance(slot, NounPhrase) else ()
