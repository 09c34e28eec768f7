"""The whole lexicon, with lookups by name, tag and frame."""

from functools import cache

from regard.data.picturebook.function_words import (
    CONJUNCTIONS,
    EVERY,
    FUTURE_TIMES,
    HE,
    IT_N,
    MANNERS,
    ME,
    MODAL_TIMES,
    MODALS,
    NO,
    NOW_TIMES,
    NUMERALS,
    PAST_TIMES,
    PREPOSITIONS,
    QUANTIFIERS,
    SHE,
    THE,
    THEY,
    THIS,
    TOGETHER,
    WE,
    WILL,
    A,
)  # fmt: skip
from regard.data.picturebook.german import infinitive
from regard.data.picturebook.lexical_entries import Adjective, Noun, Place, Verb
from regard.data.picturebook.lexicon_adjectives import ADJECTIVES
from regard.data.picturebook.lexicon_nouns import CREATURES, PLACES, THINGS
from regard.data.picturebook.lexicon_verbs import ACTIONS, BE, CLAUSAL, INFINITIVAL, WEATHER

NOUNS: tuple[Noun, ...] = (*CREATURES, *THINGS, *(entry.noun for entry in PLACES))

_NOUN_OF = {entry.english: entry for entry in NOUNS}
_ADJECTIVE_OF = {entry.english: entry for entry in ADJECTIVES}
_PLACE_OF = {entry.noun.english: entry for entry in PLACES}
_VERB_OF = {entry.name: entry for entry in (*ACTIONS, *CLAUSAL, *INFINITIVAL, *WEATHER, BE)}


def lexemes() -> dict[str, list[tuple[str, str]]]:
    """Every lexeme by part of speech, as pairs of German and English dictionary forms."""
    pronouns = (ME, WE, HE, SHE, IT_N, THEY)
    times = (*NOW_TIMES, *PAST_TIMES, *FUTURE_TIMES, *MODAL_TIMES)
    manners = (entry for group in MANNERS.values() for entry in group)
    verbs = (*ACTIONS, *CLAUSAL, *INFINITIVAL, *WEATHER, BE)
    listed = {
        "noun": [(entry.german, entry.english) for entry in NOUNS],
        "adjective": [(entry.german, entry.english) for entry in ADJECTIVES],
        "verb": [(infinitive(entry), entry.english) for entry in verbs],
        "modal": [(entry.german, entry.english) for entry in (*MODALS, WILL)],
        "adverbial": [(entry.german, entry.english) for entry in (*times, *manners, TOGETHER)],
        "preposition": [(entry.german, entry.english) for entry in PREPOSITIONS],
        "conjunction": [(entry.german, entry.english) for entry in CONJUNCTIONS],
        "pronoun": [(entry.nom, entry.subject) for entry in pronouns],
        "determiner": [
            (entry.german, entry.english) for entry in (THE, A, NO, THIS, EVERY, *QUANTIFIERS, *NUMERALS)
        ],
    }
    return {part: list(dict.fromkeys(entries)) for part, entries in listed.items()}


def noun(english: str) -> Noun:
    """The noun with this English form."""
    return _NOUN_OF[english]


def adjective(english: str) -> Adjective:
    """The adjective with this English form."""
    return _ADJECTIVE_OF[english]


def place_noun(english: str) -> Place:
    """The place with this English form."""
    return _PLACE_OF[english]


def verb(name: str) -> Verb:
    """The verb with this name, such as `aufheben pick up` or `sich setzen sit down`."""
    return _VERB_OF[name]


@cache
def nouns_with(*tags: str) -> tuple[Noun, ...]:
    """The nouns that carry any of the tags."""
    return tuple(entry for entry in NOUNS if not entry.tags.isdisjoint(tags))


@cache
def places_with(*tags: str) -> tuple[Place, ...]:
    """The places whose noun carries any of the tags."""
    return tuple(entry for entry in PLACES if not entry.noun.tags.isdisjoint(tags))


@cache
def adjectives_for(entry: Noun) -> tuple[Adjective, ...]:
    """The adjectives that fit a noun."""
    return tuple(adjective for adjective in ADJECTIVES if adjective.fits(entry))


@cache
def verbs_of_subject(entry: Noun) -> tuple[Verb, ...]:
    """The verbs that admit the noun as subject."""
    return tuple(verb for verb in ACTIONS if not entry.tags.isdisjoint(verb.subjects))


@cache
def verbs_of_object(entry: Noun) -> tuple[Verb, ...]:
    """The verbs that admit the noun as accusative object, without special constructions."""
    return tuple(
        verb
        for verb in ACTIONS
        if verb.object_case == "acc"
        and not entry.tags.isdisjoint(verb.objects)
        and verb.flags.isdisjoint(("body", "played", "onto", "stative"))
        and "person" in verb.subjects
    )
