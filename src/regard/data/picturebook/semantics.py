"""Meanings of sentences, independent of language."""

from dataclasses import dataclass, replace
from enum import Enum, auto

from regard.data.picturebook.function_words import (
    BARE,
    HE,
    IT_F,
    IT_M,
    IT_N,
    SHE,
    THE,
    THEY,
    Adverb,
    Determiner,
    Modal,
    Pronoun,
)  # fmt: skip
from regard.data.picturebook.lexical_entries import Adjective, Noun, Preposition, Verb


class Tense(Enum):
    """Tense; TIMELESS is the English simple present after `if` and `as soon as`."""

    PRESENT = auto()
    PAST = auto()
    TIMELESS = auto()


class Front(Enum):
    """The constituent before the finite verb of a German main clause (the prefield)."""

    SUBJECT = auto()
    TIME = auto()
    LOCATION = auto()
    NONE = auto()  # a preceding subordinate clause fills the prefield


class Gap(Enum):
    """The role of the head within its relative clause."""

    SUBJECT = auto()
    OBJECT = auto()
    RECIPIENT = auto()
    LOCATION = auto()
    OWNER = auto()


@dataclass(slots=True)
class NounPhrase:
    """A noun with its determiner, number, adjectives, possessor and relative clause."""

    noun: Noun
    determiner: Determiner = THE
    plural: bool = False
    adjectives: tuple[Adjective, ...] = ()
    possessor: Pronoun | None = None
    owner: "NounPhrase | None" = None
    relative: "Relative | None" = None


@dataclass(slots=True)
class Coordination:
    """Two noun phrases joined by `und`."""

    conjuncts: tuple[NounPhrase, ...]


Nominal = NounPhrase | Coordination | Pronoun


@dataclass(slots=True)
class PrepositionalPhrase:
    """A preposition with the noun phrase it governs."""

    preposition: Preposition
    noun_phrase: NounPhrase | Pronoun


@dataclass(slots=True)
class Predicate:
    """The complement of `sein`: an adjective (compared by `than` or `like`), or a noun for an occupation."""

    adjective: Adjective | None = None
    than: NounPhrase | None = None
    like: NounPhrase | None = None
    noun: NounPhrase | None = None


@dataclass(slots=True)
class Clause:
    """A predicate with its arguments and adjuncts; `oblique` is a prepositional argument or a companion."""

    subject: Nominal
    verb: Verb
    tense: Tense = Tense.PRESENT
    modal: Modal | None = None
    object: NounPhrase | Coordination | Pronoun | None = None
    recipient: NounPhrase | Pronoun | None = None
    oblique: PrepositionalPhrase | None = None
    location: PrepositionalPhrase | None = None
    direction: PrepositionalPhrase | None = None
    time: Adverb | PrepositionalPhrase | None = None
    manner: Adverb | None = None
    predicate: Predicate | None = None
    negated: bool = False


@dataclass(slots=True)
class Relative:
    """A relative clause whose `gap` slot holds the bare head, from which agreement is computed."""

    clause: Clause
    gap: Gap


@dataclass(slots=True)
class Simple:
    """One main clause."""

    clause: Clause
    front: Front = Front.SUBJECT


@dataclass(slots=True)
class Existential:
    """An existential: `Auf dem Tisch liegt ein Buch`, `There is a book lying on the table`."""

    clause: Clause


@dataclass(slots=True)
class Subordination:
    """A main clause with a subordinate clause after or before it."""

    main: Clause
    conjunction: Adverb
    subordinate: Clause
    subordinate_first: bool = False
    front: Front = Front.SUBJECT


@dataclass(slots=True)
class ClauseCoordination:
    """Two coordinated main clauses; a shared subject is left out of the second."""

    first: Clause
    conjunction: Adverb
    second: Clause
    shared_subject: bool = False


@dataclass(slots=True)
class InfinitiveClause:
    """A main clause with a `zu` infinitive, or with `um ... zu` where that is the purpose."""

    main: Clause
    infinitive: Clause
    purpose: bool


Sentence = Simple | Existential | Subordination | ClauseCoordination | InfinitiveClause


def pronoun_for(nominal: Nominal) -> Pronoun:
    """The pronoun that refers to a nominal."""
    if isinstance(nominal, Pronoun):
        return nominal
    if isinstance(nominal, Coordination) or nominal.plural:
        return THEY
    noun = nominal.noun
    if "she" in noun.tags:
        return SHE
    if "person" in noun.tags and noun.gender != "n":
        return HE if noun.gender == "m" else SHE
    return {"m": IT_M, "f": IT_F, "n": IT_N}[noun.gender]


def gap_phrase(head: NounPhrase) -> NounPhrase:
    """The bare head, for the gap of its relative clause."""
    return replace(head, determiner=BARE, adjectives=(), possessor=None, owner=None, relative=None)


def without_gap(relative: Relative) -> Clause:
    """The relative clause without the head's slot; a subject stays, since the verb agrees with it."""
    clause = relative.clause
    match relative.gap:
        case Gap.SUBJECT:
            return clause
        case Gap.OBJECT:
            return replace(clause, object=None)
        case Gap.RECIPIENT:
            return replace(clause, recipient=None)
        case Gap.LOCATION:
            return replace(clause, location=None)
        case Gap.OWNER:
            if not isinstance(clause.subject, NounPhrase):
                raise TypeError("a relative clause with Gap.OWNER needs a noun phrase as its subject")
            return replace(clause, subject=replace(clause.subject, owner=None))
