"""Samples adjuncts (location, direction, time, manner, company) that the flags of a verb allow."""

from regard.data.picturebook.function_words import (
    AROUND,
    BECAUSE_OF,
    BEFORE,
    BEHIND,
    BESIDE,
    DESPITE,
    FOR,
    FUTURE_TIMES,
    IN,
    INTO,
    LAID_BESIDE,
    LAID_ON,
    LAID_UNDER,
    MANNERS,
    MODAL_TIMES,
    NOW_TIMES,
    ON,
    ONTO,
    OUT_OF,
    OVER,
    PAST_TIMES,
    THE,
    THROUGH,
    TOGETHER,
    UNDER,
    WILL,
    WITH,
    WITHOUT,
    Adverb,
)  # fmt: skip
from regard.data.picturebook.lexical_entries import Place, Preposition
from regard.data.picturebook.lexicon import noun, nouns_with, place_noun, places_with
from regard.data.picturebook.noun_phrases import landmark, make_singular, object_phrase, other_noun
from regard.data.picturebook.sampling import Rng
from regard.data.picturebook.semantics import Clause, NounPhrase, PrepositionalPhrase, Tense, pronoun_for

_PLACES_OF_FLAG: dict[str, tuple[str, ...]] = {
    "garden": ("garden", "field", "meadow", "yard"),
    "barn": ("barn", "farm"),
    "shop": ("shop", "market square", "bakery", "city"),
    "yard": ("garden", "playground", "yard", "park"),
    "station": ("train station", "airport"),
    "stage": ("theater", "market square", "zoo", "school"),
    "farmland": ("meadow", "field", "farm", "barn"),
}
_PASSED_THROUGH = ("garden", "park", "forest", "village", "city")
_CROSSED = ("street", "bridge", "meadow", "field", "yard", "market square", "hill")
_CIRCLED = ("lake", "house", "church", "tower", "castle", "playground")
_EXITED = ("house", "school", "shop", "café", "church", "barn", "kitchen", "cellar", "castle", "forest")
_GALLOPED = ("meadow", "field", "bridge", "hill")
_OVERFLOWN = (
    *_GALLOPED,
    "garden",
    "park",
    "forest",
    "village",
    "city",
    "lake",
    "river",
    "beach",
    "island",
    "house",
    "tower",
)
_SURFACES = ("bed", "table", "sofa", "bench", "chair")
_WEATHER_NOUNS = ("rain", "snow", "wind", "storm", "fog", "heat", "cold")


def add_adjuncts(rng: Rng, clause: Clause) -> None:
    """Add the adjuncts that the verb requires, and at random some that it allows."""
    flags = clause.verb.flags
    _add_companion(rng, clause)
    clause.direction = _sample_direction(rng, clause)
    if clause.direction is None and rng.bernoulli(0.5):
        clause.location = sample_location(rng, clause)
    if "there" in flags and clause.location is None:
        clause.location = sample_location(rng, clause)
    if (clause.object is None and clause.recipient is None and clause.oblique is None) or rng.bernoulli(0.25):
        clause.manner = _sample_manner(rng, clause)


def add_time(rng: Rng, clause: Clause, probability: float = 0.25) -> None:
    """Add, with this probability, a time that agrees with the tense; rarely a weather adjunct instead."""
    if rng.bernoulli(0.06) and clause.location and _has_human_subject(clause):
        clause.time = _weather(rng, clause)
    elif rng.bernoulli(probability) and not (clause.tense is Tense.PRESENT and "stative" in clause.verb.flags):
        clause.time = rng.choice(_times(clause))


def sample_location(rng: Rng, clause: Clause) -> PrepositionalPhrase | None:
    """A location that fits verb and subject, or None for verbs without one."""
    flags = clause.verb.flags
    for flag in ("garden", "barn", "shop", "yard", "station", "stage", "farmland"):
        if flag in flags:
            return _located_at(rng, place_noun(rng.choice(_PLACES_OF_FLAG[flag])))
    if "indoors" in flags:
        return _located_at(rng, rng.choice(places_with("room")))
    if "outside" in flags:
        return _located_at(rng, rng.choice(places_with("outdoors")))
    if "there" in flags:
        return _posture_location(rng, clause)
    if "behind" in flags:
        site = noun(rng.choice(("tree", "bush", "fence", "wall", "cupboard", "house", "barn")))
        return PrepositionalPhrase(BEHIND, landmark(rng, site))
    if "swims" in flags:
        return PrepositionalPhrase(IN, landmark(rng, noun(rng.choice(("lake", "river")))))
    if "anywhere" in flags:
        return _located_at(rng, rng.choice(_typical_places(clause)))
    return None


def _located_at(rng: Rng, site: Place) -> PrepositionalPhrase:
    return PrepositionalPhrase(site.located, landmark(rng, site.noun))


def _typical_places(clause: Clause) -> tuple[Place, ...]:
    """The places where a subject occurs: people and pets anywhere, other animals outdoors."""
    tags = clause.subject.noun.tags if isinstance(clause.subject, NounPhrase) else frozenset[str]()
    if "animal" in tags and "pet" not in tags:
        return places_with("outdoors")
    return places_with("outdoors", "building", "room")


def _posture_location(rng: Rng, clause: Clause) -> PrepositionalPhrase:
    tags = clause.subject.noun.tags if isinstance(clause.subject, NounPhrase) else frozenset(("person",))
    if "road" in tags:
        site = rng.choice(places_with("building")).noun
        return PrepositionalPhrase(rng.choice((BEFORE, BEHIND, BESIDE)), landmark(rng, site))
    if tags.isdisjoint(("person", "animal")):
        preposition = rng.choice((ON, ON, UNDER, BESIDE))
        return PrepositionalPhrase(preposition, landmark(rng, noun(rng.choice(_SURFACES))))
    if rng.bernoulli(0.4):
        return _located_at(rng, rng.choice(_typical_places(clause)))
    if rng.bernoulli(0.5):
        site = rng.choice(nouns_with("tree"))
        return PrepositionalPhrase(rng.choice((UNDER, BESIDE, BEHIND, BEFORE)), landmark(rng, site))
    # furniture is for people and pets only
    if clause.verb.english in ("sit", "lie") and not tags.isdisjoint(("person", "pet")):
        return PrepositionalPhrase(ON, landmark(rng, noun(rng.choice(("sofa", "bench", "bed", "carpet")))))
    site = rng.choice(places_with("building")).noun
    return PrepositionalPhrase(rng.choice((BEFORE, BEHIND, BESIDE)), landmark(rng, site))


def _sample_direction(rng: Rng, clause: Clause) -> PrepositionalPhrase | None:
    flags = clause.verb.flags
    if "onto" in flags:
        preposition = rng.choice((LAID_ON, LAID_ON, LAID_UNDER, LAID_BESIDE))
        return PrepositionalPhrase(preposition, landmark(rng, noun(rng.choice(_SURFACES))))
    if "goes" in flags:
        return _goal_or_source(rng, clause)
    if "route" in flags:
        return _route(rng)
    if "over" in flags:
        names = _GALLOPED if clause.verb.english == "gallop" else _OVERFLOWN
        return PrepositionalPhrase(OVER, landmark(rng, noun(rng.choice(names))))
    if "barred" in flags:
        return PrepositionalPhrase(OVER, landmark(rng, rng.choice(nouns_with("barrier"))))
    if "leaps" in flags:
        return _leap_direction(rng)
    if "down" in flags and rng.bernoulli(0.6):
        return PrepositionalPhrase(
            LAID_ON, landmark(rng, noun(rng.choice(("chair", "bench", "sofa", "bed", "carpet"))))
        )
    if "hauled" in flags and rng.bernoulli(0.5):
        return _goal_or_source(rng, clause)
    if "flung" in flags and rng.bernoulli(0.6):
        return _leap_direction(rng)
    return None


def _leap_direction(rng: Rng) -> PrepositionalPhrase:
    preposition, names = rng.choice(
        (
            (OVER, ("fence", "wall", "bush")),
            (ONTO, ("table", "bed", "chair", "sofa", "bench")),
            (INTO, ("lake", "river", "garden")),
        )
    )
    return PrepositionalPhrase(preposition, landmark(rng, noun(rng.choice(names))))


def _goal_or_source(rng: Rng, clause: Clause) -> PrepositionalPhrase:
    if rng.bernoulli(0.5):
        site = rng.choice(_typical_places(clause))
        return PrepositionalPhrase(site.entered, landmark(rng, site.noun))
    if rng.bernoulli(0.3):
        return PrepositionalPhrase(OUT_OF, landmark(rng, noun(rng.choice(_EXITED))))
    return _route(rng)


def _route(rng: Rng) -> PrepositionalPhrase:
    paths: tuple[tuple[Preposition, tuple[str, ...]], ...] = (
        (THROUGH, _PASSED_THROUGH),
        (OVER, _CROSSED),
        (AROUND, _CIRCLED),
    )
    preposition, names = rng.choice(paths)
    return PrepositionalPhrase(preposition, landmark(rng, noun(rng.choice(names))))


def _add_companion(rng: Rng, clause: Clause) -> None:
    """Add a beneficiary, an instrument or a companion where the verb allows it."""
    flags = clause.verb.flags
    if "benefit" in flags and rng.bernoulli(0.25):
        preposition, companion = FOR, other_noun(rng, nouns_with("person"), clause.subject)
    elif "knife" in flags and rng.bernoulli(0.5):
        preposition, companion = WITH, noun("knife")
    elif "company" in flags and rng.bernoulli(0.35):
        preposition = rng.choice((WITH, WITHOUT))
        companion = other_noun(rng, nouns_with("kin", "dog"), clause.subject)
    else:
        return
    phrase = object_phrase(rng, companion, clause.subject)
    if "knife" in flags:
        make_singular(phrase)
    clause.oblique = PrepositionalPhrase(preposition, phrase)


def _sample_manner(rng: Rng, clause: Clause) -> Adverb | None:
    for flag, manners in MANNERS.items():
        if flag in clause.verb.flags:
            return rng.choice(manners) if rng.bernoulli(0.3) else None
    social = "anywhere" in clause.verb.flags and pronoun_for(clause.subject).person == "plural"
    return TOGETHER if social and rng.bernoulli(0.15) else None


def _times(clause: Clause) -> tuple[Adverb, ...]:
    if clause.modal is WILL:
        return FUTURE_TIMES
    if clause.modal:
        return MODAL_TIMES
    return PAST_TIMES if clause.tense is Tense.PAST else NOW_TIMES


def _has_human_subject(clause: Clause) -> bool:
    return not isinstance(clause.subject, NounPhrase) or "person" in clause.subject.noun.tags


def _weather(rng: Rng, clause: Clause) -> PrepositionalPhrase:
    """`trotz des Regens` outdoors, `wegen des Regens` indoors."""
    site = clause.location.noun_phrase if clause.location else None
    outdoors = isinstance(site, NounPhrase) and "outdoors" in site.noun.tags
    weather_clause = NounPhrase(noun(rng.choice(_WEATHER_NOUNS)), THE)
    return PrepositionalPhrase(DESPITE if outdoors else BECAUSE_OF, weather_clause)
