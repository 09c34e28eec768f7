"""Drawing where, whither, when, how and with whom, as the flags of a verb allow."""

from regard.data.picturebook.dice import Dice
from regard.data.picturebook.entries import Place, Preposition
from regard.data.picturebook.lexicon import noun, nouns_with, place, places_with
from regard.data.picturebook.meaning import Clause, NounPhrase, PrepositionalPhrase, Tense, pronoun_for
from regard.data.picturebook.phrases import different, landmark, make_single, object_phrase
from regard.data.picturebook.words import (
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

_NAMED_PLACES: dict[str, tuple[str, ...]] = {
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
_LEFT = ("house", "school", "shop", "café", "church", "barn", "kitchen", "cellar", "castle", "forest")
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
_LYING = ("bed", "table", "sofa", "bench", "chair")
_OPEN_AIR = ("rain", "snow", "wind", "storm", "fog", "heat", "cold")


def add_circumstances(dice: Dice, clause: Clause) -> None:
    """Give a clause the circumstances its verb asks for, and by chance some that it allows."""
    flags = clause.verb.flags
    _add_companion(dice, clause)
    clause.direction = _direction(dice, clause)
    if clause.direction is None and dice.rng(0.5):
        clause.place = location(dice, clause)
    if "there" in flags and clause.place is None:
        clause.place = location(dice, clause)
    if (clause.object is None and clause.recipient is None and clause.about is None) or dice.rng(0.25):
        clause.manner = _manner(dice, clause)


def add_time(dice: Dice, clause: Clause, probability: float = 0.25) -> None:
    """Give a clause a time that suits its tense, or the weather it happens in."""
    if dice.rng(0.06) and clause.place and _of_person(clause):
        clause.time = _weather(dice, clause)
    elif dice.rng(probability) and not (clause.tense is Tense.PRESENT and "stative" in clause.verb.flags):
        clause.time = dice.pick(_times(clause))


def location(dice: Dice, clause: Clause) -> PrepositionalPhrase | None:
    """Where the verb can happen for this subject, or nothing if it does not say where."""
    flags = clause.verb.flags
    for flag in ("garden", "barn", "shop", "yard", "station", "stage", "farmland"):
        if flag in flags:
            return _at(dice, place(dice.pick(_NAMED_PLACES[flag])))
    if "indoors" in flags:
        return _at(dice, dice.pick(places_with("room")))
    if "outside" in flags:
        return _at(dice, dice.pick(places_with("outdoors")))
    if "there" in flags:
        return _posture(dice, clause)
    if "behind" in flags:
        spot = noun(dice.pick(("tree", "bush", "fence", "wall", "cupboard", "house", "barn")))
        return PrepositionalPhrase(BEHIND, landmark(dice, spot))
    if "swims" in flags:
        return PrepositionalPhrase(IN, landmark(dice, noun(dice.pick(("lake", "river")))))
    if "anywhere" in flags:
        return _at(dice, dice.pick(_haunts(clause)))
    return None


def _at(dice: Dice, spot: Place) -> PrepositionalPhrase:
    return PrepositionalPhrase(spot.located, landmark(dice, spot.noun))


def _haunts(clause: Clause) -> tuple[Place, ...]:
    """The places a subject is found at: people and pets anywhere, other animals out of doors."""
    tags = clause.subject.noun.tags if isinstance(clause.subject, NounPhrase) else frozenset[str]()
    if "animal" in tags and "pet" not in tags:
        return places_with("outdoors")
    return places_with("outdoors", "building", "room")


def _posture(dice: Dice, clause: Clause) -> PrepositionalPhrase:
    tags = clause.subject.noun.tags if isinstance(clause.subject, NounPhrase) else frozenset(("person",))
    if "road" in tags:
        spot = dice.pick(places_with("building")).noun
        return PrepositionalPhrase(dice.pick((BEFORE, BEHIND, BESIDE)), landmark(dice, spot))
    if tags.isdisjoint(("person", "animal")):
        preposition = dice.pick((ON, ON, UNDER, BESIDE))
        return PrepositionalPhrase(preposition, landmark(dice, noun(dice.pick(_LYING))))
    if dice.rng(0.4):
        return _at(dice, dice.pick(_haunts(clause)))
    if dice.rng(0.5):
        spot = dice.pick(nouns_with("tree"))
        return PrepositionalPhrase(dice.pick((UNDER, BESIDE, BEHIND, BEFORE)), landmark(dice, spot))
    # only people and pets come near the furniture
    if clause.verb.english in ("sit", "lie") and not tags.isdisjoint(("person", "pet")):
        return PrepositionalPhrase(ON, landmark(dice, noun(dice.pick(("sofa", "bench", "bed", "carpet")))))
    spot = dice.pick(places_with("building")).noun
    return PrepositionalPhrase(dice.pick((BEFORE, BEHIND, BESIDE)), landmark(dice, spot))


def _direction(dice: Dice, clause: Clause) -> PrepositionalPhrase | None:
    flags = clause.verb.flags
    if "onto" in flags:
        preposition = dice.pick((LAID_ON, LAID_ON, LAID_UNDER, LAID_BESIDE))
        return PrepositionalPhrase(preposition, landmark(dice, noun(dice.pick(_LYING))))
    if "goes" in flags:
        return _way(dice, clause)
    if "route" in flags:
        return _path(dice)
    if "over" in flags:
        names = _GALLOPED if clause.verb.english == "gallop" else _OVERFLOWN
        return PrepositionalPhrase(OVER, landmark(dice, noun(dice.pick(names))))
    if "barred" in flags:
        return PrepositionalPhrase(OVER, landmark(dice, dice.pick(nouns_with("barrier"))))
    if "leaps" in flags:
        return _leap(dice)
    if "down" in flags and dice.rng(0.6):
        return PrepositionalPhrase(
            LAID_ON, landmark(dice, noun(dice.pick(("chair", "bench", "sofa", "bed", "carpet"))))
        )
    if "hauled" in flags and dice.rng(0.5):
        return _way(dice, clause)
    if "flung" in flags and dice.rng(0.6):
        return _leap(dice)
    return None


def _leap(dice: Dice) -> PrepositionalPhrase:
    preposition, names = dice.pick(
        (
            (OVER, ("fence", "wall", "bush")),
            (ONTO, ("table", "bed", "chair", "sofa", "bench")),
            (INTO, ("lake", "river", "garden")),
        )
    )
    return PrepositionalPhrase(preposition, landmark(dice, noun(dice.pick(names))))


def _way(dice: Dice, clause: Clause) -> PrepositionalPhrase:
    if dice.rng(0.5):
        spot = dice.pick(_haunts(clause))
        return PrepositionalPhrase(spot.entered, landmark(dice, spot.noun))
    if dice.rng(0.3):
        return PrepositionalPhrase(OUT_OF, landmark(dice, noun(dice.pick(_LEFT))))
    return _path(dice)


def _path(dice: Dice) -> PrepositionalPhrase:
    paths: tuple[tuple[Preposition, tuple[str, ...]], ...] = (
        (THROUGH, _PASSED_THROUGH),
        (OVER, _CROSSED),
        (AROUND, _CIRCLED),
    )
    preposition, names = dice.pick(paths)
    return PrepositionalPhrase(preposition, landmark(dice, noun(dice.pick(names))))


def _add_companion(dice: Dice, clause: Clause) -> None:
    """Add for whom, with what or with whom, where the verb has room for it."""
    flags = clause.verb.flags
    if "benefit" in flags and dice.rng(0.25):
        preposition, companion = FOR, different(dice, nouns_with("person"), clause.subject)
    elif "knife" in flags and dice.rng(0.5):
        preposition, companion = WITH, noun("knife")
    elif "company" in flags and dice.rng(0.35):
        preposition = dice.pick((WITH, WITHOUT))
        companion = different(dice, nouns_with("kin", "dog"), clause.subject)
    else:
        return
    phrase = object_phrase(dice, companion, clause.subject)
    if "knife" in flags:
        make_single(phrase)
    clause.about = PrepositionalPhrase(preposition, phrase)


def _manner(dice: Dice, clause: Clause) -> Adverb | None:
    for flag, manners in MANNERS.items():
        if flag in clause.verb.flags:
            return dice.pick(manners) if dice.rng(0.3) else None
    social = "anywhere" in clause.verb.flags and pronoun_for(clause.subject).person == "plural"
    return TOGETHER if social and dice.rng(0.15) else None


def _times(clause: Clause) -> tuple[Adverb, ...]:
    if clause.modal is WILL:
        return FUTURE_TIMES
    if clause.modal:
        return MODAL_TIMES
    return PAST_TIMES if clause.tense is Tense.PAST else NOW_TIMES


def _of_person(clause: Clause) -> bool:
    return not isinstance(clause.subject, NounPhrase) or "person" in clause.subject.noun.tags


def _weather(dice: Dice, clause: Clause) -> PrepositionalPhrase:
    """Rain is defied out of doors and is a reason to be inside."""
    spot = clause.place.noun_phrase if clause.place else None
    outdoors = isinstance(spot, NounPhrase) and "outdoors" in spot.noun.tags
    weather = NounPhrase(noun(dice.pick(_OPEN_AIR)), THE)
    return PrepositionalPhrase(DESPITE if outdoors else BECAUSE_OF, weather)
