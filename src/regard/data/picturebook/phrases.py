"""Drawing noun phrases: which determiner, number and adjectives a noun may take."""

from regard.data.picturebook.dice import Dice, Weighted
from regard.data.picturebook.entries import Adjective, Noun
from regard.data.picturebook.lexicon import adjectives_for, nouns_with
from regard.data.picturebook.meaning import Nominal, NounPhrase, pronoun_for
from regard.data.picturebook.words import (
    BARE,
    BODY,
    EVERY,
    HE,
    ME,
    NUMERALS,
    OWN,
    PLAYED,
    QUANTIFIERS,
    SHE,
    THE,
    THEY,
    THIS,
    WE,
    A,
    Determiner,
    Pronoun,
)  # fmt: skip

_SIZES = ("big", "small", "old", "new")
_COLOURS = ("red", "blue", "green", "yellow", "black", "white", "brown", "gray", "pink", "purple")
_SPEAKERS = (ME, WE)
_PRONOUNS = (ME, WE, HE, SHE, THEY)

_POSSESSIONS = (
    "pet", "farm", "clothes", "jewel", "toy", "portable", "food", "drink", "road", "cycle", "instrument",
    "told",
)  # fmt: skip

# the determiners that may stand here, and whether they make the phrase plural
Opening = tuple[tuple[Determiner, ...], bool]

_SUBJECT_OPENINGS: Weighted[Opening] = Weighted(
    (40, ((THE,), False)),
    (24, ((A,), False)),
    (8, ((THE,), True)),
    (7, ((A,), True)),
    (7, (NUMERALS, True)),
    (6, (QUANTIFIERS, True)),
    (4, ((THIS,), False)),
    (2, ((THIS,), True)),
    (2, ((EVERY,), False)),
)
_OBJECT_OPENINGS: Weighted[Opening] = Weighted(
    (34, ((A,), False)),
    (28, ((THE,), False)),
    (14, ((OWN,), False)),
    (8, ((A,), True)),
    (5, ((THE,), True)),
    (4, (NUMERALS, True)),
    (3, (QUANTIFIERS, True)),
    (3, ((THIS,), False)),
    (2, ((OWN,), True)),
)
_MASS_OPENINGS: Weighted[Opening] = Weighted(
    (60, ((BARE,), False)),
    (25, ((THE,), False)),
    (5, ((THIS,), False)),
)
_PLURAL_OPENINGS: Weighted[Opening] = Weighted(
    (50, ((A,), True)),
    (20, ((THE,), True)),
    (30, ((OWN,), True)),
)


def subject_phrase(dice: Dice, noun: Noun) -> NounPhrase:
    """A noun phrase that opens a scene."""
    if "kin" in noun.tags:
        return _kin(dice, noun, dice.pick(_SPEAKERS))
    if noun.mass:
        return NounPhrase(noun, THE, adjectives=_adjectives(dice, noun))
    if _ownable(noun) and "person" not in noun.tags and dice.rng(0.05):
        return owned(dice, noun)
    return _phrase(dice, noun, _SUBJECT_OPENINGS, dice.pick(_SPEAKERS))


def object_phrase(dice: Dice, noun: Noun, subject: Nominal) -> NounPhrase:
    """A noun phrase for what the subject acts on, which may belong to the subject."""
    possessor = pronoun_for(subject) if _can_own(subject) else None
    if "kin" in noun.tags:
        return _kin(dice, noun, possessor)
    if noun.mass:
        return _phrase(dice, noun, _MASS_OPENINGS, possessor)
    if "paired" in noun.tags:
        return _phrase(dice, noun, _PLURAL_OPENINGS, possessor)
    if _ownable(noun) and "food" not in noun.tags and dice.rng(0.04):
        return owned(dice, noun)
    return _phrase(dice, noun, _OBJECT_OPENINGS, possessor)


def worn_phrase(dice: Dice, noun: Noun, subject: Nominal) -> NounPhrase:
    """A noun phrase for clothes, of which several people wear several."""
    if pronoun_for(subject).person == "plural":
        return _phrase(dice, noun, _PLURAL_OPENINGS, pronoun_for(subject))
    phrase = object_phrase(dice, noun, subject)
    if phrase.plural and "paired" not in noun.tags:
        phrase.plural = False
        phrase.determiner = phrase.determiner if phrase.determiner.definite else A
    return phrase


def owned(dice: Dice, noun: Noun) -> NounPhrase:
    """A noun phrase with an owner in the genitive: `der Hund des Mannes`."""
    owner = subject_phrase(dice, dice.pick(nouns_with("person")))
    while owner.determiner not in (THE, OWN):
        owner = subject_phrase(dice, dice.pick(nouns_with("person")))
    return NounPhrase(noun, adjectives=_adjectives(dice, noun), owner=owner)


def landmark(dice: Dice, noun: Noun) -> NounPhrase:
    """A noun phrase for a place or thing that others are located by."""
    adjectives = _adjectives(dice, noun) if dice.rng(0.4) else ()
    return NounPhrase(noun, A if dice.rng(0.12) else THE, adjectives=adjectives)


def body_part(noun: Noun, subject: Nominal) -> NounPhrase:
    """A part of the subject's own body: `sich die Hände waschen`."""
    plural = noun.english != "face" or pronoun_for(subject).person == "plural"
    return NounPhrase(noun, BODY, plural=plural, possessor=pronoun_for(subject))


def instrument(noun: Noun) -> NounPhrase:
    """An instrument as one plays it: `Klavier spielen`."""
    return NounPhrase(noun, PLAYED)


def person_pronoun(dice: Dice) -> Pronoun:
    """A pronoun for somebody."""
    return dice.pick(_PRONOUNS)


def different(dice: Dice, nouns: tuple[Noun, ...], *taken: Nominal | None) -> Noun:
    """A noun that none of the other phrases of the clause has."""
    used = [phrase.noun for phrase in taken if isinstance(phrase, NounPhrase)]
    free = [noun for noun in nouns if noun not in used] if used else nouns
    if not free:
        raise ValueError(f"no noun is left beside {', '.join(noun.german for noun in used)}")
    return dice.pick(free)


def make_single(phrase: NounPhrase) -> None:
    """Speak of one thing only."""
    phrase.plural = False
    if not phrase.determiner.definite:
        phrase.determiner = A


def _kin(dice: Dice, noun: Noun, possessor: Pronoun | None) -> NounPhrase:
    plural = "parent" not in noun.tags and dice.rng(0.2)
    determiner = OWN if possessor and dice.rng(0.6) else THE
    owner = possessor if determiner is OWN else None
    return NounPhrase(noun, determiner, plural, _adjectives(dice, noun), owner)


def _phrase(
    dice: Dice,
    noun: Noun,
    openings: Weighted[Opening],
    possessor: Pronoun | None,
) -> NounPhrase:
    determiners, plural = dice.weighted(openings)
    determiner = dice.pick(determiners)
    # `the sheep` would leave the number open, so the definite is always one sheep
    if plural and determiner.definite and noun.english == noun.english_plural:
        plural = False
    if determiner is OWN and not (possessor and _ownable(noun)):
        determiner = THE
    owner = possessor if determiner is OWN else None
    return NounPhrase(noun, determiner, plural, _adjectives(dice, noun), owner)


def _can_own(nominal: Nominal) -> bool:
    return not isinstance(nominal, NounPhrase) or "person" in nominal.noun.tags


def _ownable(noun: Noun) -> bool:
    return not noun.tags.isdisjoint(_POSSESSIONS) and noun.tags.isdisjoint(("public", "beast"))


def _adjectives(dice: Dice, noun: Noun) -> tuple[Adjective, ...]:
    fitting = adjectives_for(noun)
    if not fitting or dice.rng(0.5):
        return ()
    first = dice.pick(fitting)
    if first.english in _SIZES and dice.rng(0.4):
        colours = [entry for entry in fitting if entry.english in _COLOURS]
        return (first, dice.pick(colours)) if colours else (first,)
    return (first,)
