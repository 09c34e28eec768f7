"""Samples noun phrases: determiner, number and adjectives of a noun."""

from regard.data.picturebook.function_words import (
    BARE,
    BODY_PART,
    EVERY,
    HE,
    INSTRUMENT,
    ME,
    NUMERALS,
    OWN,
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
from regard.data.picturebook.lexical_entries import Adjective, Noun
from regard.data.picturebook.lexicon import adjectives_for, nouns_with
from regard.data.picturebook.sampling import Rng, WeightedItems
from regard.data.picturebook.semantics import Nominal, NounPhrase, pronoun_for

_SIZES = ("big", "small", "old", "new")
_COLOURS = ("red", "blue", "green", "yellow", "black", "white", "brown", "gray", "pink", "purple")
_SPEAKERS = (ME, WE)
_PRONOUNS = (ME, WE, HE, SHE, THEY)

_POSSESSIONS = (
    "pet", "farm", "clothes", "jewel", "toy", "portable", "food", "drink", "road", "cycle", "instrument",
    "narrative",
)  # fmt: skip

DeterminerChoice = tuple[tuple[Determiner, ...], bool]
"""Determiners, one of which is drawn, and whether they make the phrase plural."""

_SUBJECT_DETERMINERS: WeightedItems[DeterminerChoice] = WeightedItems(
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
_OBJECT_DETERMINERS: WeightedItems[DeterminerChoice] = WeightedItems(
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
_MASS_DETERMINERS: WeightedItems[DeterminerChoice] = WeightedItems(
    (60, ((BARE,), False)),
    (25, ((THE,), False)),
    (5, ((THIS,), False)),
)
_PLURAL_DETERMINERS: WeightedItems[DeterminerChoice] = WeightedItems(
    (50, ((A,), True)),
    (20, ((THE,), True)),
    (30, ((OWN,), True)),
)


def subject_phrase(rng: Rng, noun: Noun) -> NounPhrase:
    """A noun phrase for a subject."""
    if "kin" in noun.tags:
        return _kinship_phrase(rng, noun, rng.choice(_SPEAKERS))
    if noun.mass:
        return NounPhrase(noun, THE, adjectives=_adjectives(rng, noun))
    if _ownable(noun) and "person" not in noun.tags and rng.bernoulli(0.05):
        return possessed_phrase(rng, noun)
    return _phrase(rng, noun, _SUBJECT_DETERMINERS, rng.choice(_SPEAKERS))


def object_phrase(rng: Rng, noun: Noun, subject: Nominal) -> NounPhrase:
    """A noun phrase for an object, possibly with a possessive of the subject."""
    possessor = pronoun_for(subject) if _can_own(subject) else None
    if "kin" in noun.tags:
        return _kinship_phrase(rng, noun, possessor)
    if noun.mass:
        return _phrase(rng, noun, _MASS_DETERMINERS, possessor)
    if "paired" in noun.tags:
        return _phrase(rng, noun, _PLURAL_DETERMINERS, possessor)
    if _ownable(noun) and "food" not in noun.tags and rng.bernoulli(0.04):
        return possessed_phrase(rng, noun)
    return _phrase(rng, noun, _OBJECT_DETERMINERS, possessor)


def garment_phrase(rng: Rng, noun: Noun, subject: Nominal) -> NounPhrase:
    """A noun phrase for clothes; plural where the subject is plural."""
    if pronoun_for(subject).person == "plural":
        return _phrase(rng, noun, _PLURAL_DETERMINERS, pronoun_for(subject))
    phrase = object_phrase(rng, noun, subject)
    if phrase.plural and "paired" not in noun.tags:
        phrase.plural = False
        phrase.determiner = phrase.determiner if phrase.determiner.definite else A
    return phrase


def possessed_phrase(rng: Rng, noun: Noun) -> NounPhrase:
    """A noun phrase with an owner in the genitive: `der Hund des Mannes`."""
    owner = subject_phrase(rng, rng.choice(nouns_with("person")))
    while owner.determiner not in (THE, OWN):
        owner = subject_phrase(rng, rng.choice(nouns_with("person")))
    return NounPhrase(noun, adjectives=_adjectives(rng, noun), owner=owner)


def landmark(rng: Rng, noun: Noun) -> NounPhrase:
    """A noun phrase for the reference object of a location."""
    adjectives = _adjectives(rng, noun) if rng.bernoulli(0.4) else ()
    return NounPhrase(noun, A if rng.bernoulli(0.12) else THE, adjectives=adjectives)


def body_part_phrase(noun: Noun, subject: Nominal) -> NounPhrase:
    """A noun phrase for a part of the subject's body: `sich die Hände waschen`."""
    plural = noun.english != "face" or pronoun_for(subject).person == "plural"
    return NounPhrase(noun, BODY_PART, plural=plural, possessor=pronoun_for(subject))


def instrument_phrase(noun: Noun) -> NounPhrase:
    """A noun phrase for an instrument that is played: `Klavier spielen`."""
    return NounPhrase(noun, INSTRUMENT)


def personal_pronoun(rng: Rng) -> Pronoun:
    """A personal pronoun."""
    return rng.choice(_PRONOUNS)


def other_noun(rng: Rng, nouns: tuple[Noun, ...], *taken: Nominal | None) -> Noun:
    """A noun that is not the head of any phrase in `taken`."""
    used = [phrase.noun for phrase in taken if isinstance(phrase, NounPhrase)]
    free = [noun for noun in nouns if noun not in used] if used else nouns
    if not free:
        raise ValueError(f"no noun is left other than {', '.join(noun.german for noun in used)}")
    return rng.choice(free)


def make_singular(phrase: NounPhrase) -> None:
    """Make a phrase singular, and indefinite unless its determiner is definite."""
    phrase.plural = False
    if not phrase.determiner.definite:
        phrase.determiner = A


def _kinship_phrase(rng: Rng, noun: Noun, possessor: Pronoun | None) -> NounPhrase:
    plural = "parent" not in noun.tags and rng.bernoulli(0.2)
    determiner = OWN if possessor and rng.bernoulli(0.6) else THE
    owner = possessor if determiner is OWN else None
    return NounPhrase(noun, determiner, plural, _adjectives(rng, noun), owner)


def _phrase(
    rng: Rng,
    noun: Noun,
    choices: WeightedItems[DeterminerChoice],
    possessor: Pronoun | None,
) -> NounPhrase:
    determiners, plural = rng.weighted_choice(choices)
    determiner = rng.choice(determiners)
    # the number of `the sheep` is ambiguous, so it is singular
    if plural and determiner.definite and noun.english == noun.english_plural:
        plural = False
    if determiner is OWN and not (possessor and _ownable(noun)):
        determiner = THE
    owner = possessor if determiner is OWN else None
    return NounPhrase(noun, determiner, plural, _adjectives(rng, noun), owner)


def _can_own(nominal: Nominal) -> bool:
    return not isinstance(nominal, NounPhrase) or "person" in nominal.noun.tags


def _ownable(noun: Noun) -> bool:
    return not noun.tags.isdisjoint(_POSSESSIONS) and noun.tags.isdisjoint(("public", "beast"))


def _adjectives(rng: Rng, noun: Noun) -> tuple[Adjective, ...]:
    fitting = adjectives_for(noun)
    if not fitting or rng.bernoulli(0.5):
        return ()
    first = rng.choice(fitting)
    if first.english in _SIZES and rng.bernoulli(0.4):
        colours = [entry for entry in fitting if entry.english in _COLOURS]
        return (first, rng.choice(colours)) if colours else (first,)
    return (first,)
