"""What a sentence says, before either language says it."""

from dataclasses import dataclass, replace
from enum import Enum, auto

from regard.data.picturebook.entries import Adjective, Noun, Preposition, Verb
from regard.data.picturebook.words import (
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


class Tense(Enum):
    """When it happens; TIMELESS is the English simple present that follows `if` and `as soon as`."""

    PRESENT = auto()
    PAST = auto()
    TIMELESS = auto()


class Front(Enum):
    """What stands before the finite verb of a German main clause."""

    SUBJECT = auto()
    TIME = auto()
    PLACE = auto()
    NOTHING = auto()  # a subordinate clause came first and fills the place


class Gap(Enum):
    """Which part of a relative clause its head plays."""

    SUBJECT = auto()
    OBJECT = auto()
    RECIPIENT = auto()
    PLACE = auto()
    OWNER = auto()


@dataclass(slots=True)
class NounPhrase:
    """A noun with all that agrees with it or hangs on it."""

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

    parts: tuple[NounPhrase, ...]


Nominal = NounPhrase | Coordination | Pronoun


@dataclass(slots=True)
class PrepositionalPhrase:
    """A noun phrase under a preposition, which gives it its case."""

    preposition: Preposition
    noun_phrase: NounPhrase | Pronoun


@dataclass(slots=True)
class Predicate:
    """What `sein` ascribes: a quality, a comparison with `than`, an equation with `like`, or a trade."""

    adjective: Adjective | None = None
    than: NounPhrase | None = None
    like: NounPhrase | None = None
    trade: NounPhrase | None = None


@dataclass(slots=True)
class Clause:
    """Who does what to whom, where, when and how; a missing subject is the `es` of the weather."""

    subject: Nominal
    verb: Verb
    tense: Tense = Tense.PRESENT
    modal: Modal | None = None
    object: NounPhrase | Coordination | Pronoun | None = None
    recipient: NounPhrase | Pronoun | None = None
    about: PrepositionalPhrase | None = None
    place: PrepositionalPhrase | None = None
    direction: PrepositionalPhrase | None = None
    time: Adverb | PrepositionalPhrase | None = None
    manner: Adverb | None = None
    predicate: Predicate | None = None
    negated: bool = False


@dataclass(slots=True)
class Relative:
    """A relative clause whose `gap` slot holds the head again, bare, so that agreement can be read off it."""

    clause: Clause
    gap: Gap


@dataclass(slots=True)
class Simple:
    """One main clause."""

    clause: Clause
    front: Front = Front.SUBJECT


@dataclass(slots=True)
class Existential:
    """A scene: `Auf dem Tisch liegt ein Buch`, `There is a book lying on the table`."""

    clause: Clause


@dataclass(slots=True)
class Subordination:
    """A main clause with a verb-final clause behind or before it."""

    main: Clause
    conjunction: Adverb
    subordinate: Clause
    subordinate_first: bool = False
    front: Front = Front.SUBJECT


@dataclass(slots=True)
class Sequence:
    """Two main clauses; when the second has the same subject it is left out."""

    first: Clause
    conjunction: Adverb
    second: Clause
    shared_subject: bool = False


@dataclass(slots=True)
class InfinitiveClause:
    """A main clause with `zu` and infinitive behind it, or with `um ... zu` when it gives the purpose."""

    main: Clause
    infinitive: Clause
    purpose: bool


Sentence = Simple | Existential | Subordination | Sequence | InfinitiveClause


def pronoun_for(nominal: Nominal) -> Pronoun:
    """The pronoun that takes up a nominal again."""
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


def bare(head: NounPhrase) -> NounPhrase:
    """The head as it stands in the gap of its own relative clause."""
    return replace(head, determiner=BARE, adjectives=(), possessor=None, owner=None, relative=None)


def without_gap(relative: Relative) -> Clause:
    """The relative clause without the part its head plays; a subject stays, since the verb agrees with it."""
    clause = relative.clause
    match relative.gap:
        case Gap.SUBJECT:
            return clause
        case Gap.OBJECT:
            return replace(clause, object=None)
        case Gap.RECIPIENT:
            return replace(clause, recipient=None)
        case Gap.PLACE:
            return replace(clause, place=None)
        case Gap.OWNER:
            if not isinstance(clause.subject, NounPhrase):
                raise TypeError("a relative clause with Gap.OWNER needs a noun phrase as its subject")
            return replace(clause, subject=replace(clause.subject, owner=None))
