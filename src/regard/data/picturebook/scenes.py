"""Drawing sentences of one main clause, and the clauses that longer sentences are made of."""

from regard.data.picturebook.circumstances import add_time, location
from regard.data.picturebook.clauses import action, action_of, clash, negate, parts, subject_of, trade
from regard.data.picturebook.dice import Dice
from regard.data.picturebook.entries import Noun, Verb
from regard.data.picturebook.lexicon import adjectives_for, noun, nouns_with, verbs_of_subject
from regard.data.picturebook.meaning import (
    Clause,
    Coordination,
    Existential,
    Front,
    Nominal,
    NounPhrase,
    Predicate,
    Sentence,
    Simple,
    Tense,
    pronoun_for,
)
from regard.data.picturebook.phrases import different, subject_phrase
from regard.data.picturebook.relatives import describe_object, describe_subject
from regard.data.picturebook.verbs import ACTIONS, BE
from regard.data.picturebook.words import EVERY, ME, NUMERALS, THE, WE, A, Pronoun

_POSTURES = tuple(verb for verb in ACTIONS if "there" in verb.flags)
_COMPARED = ("person", "animal", "vehicle", "clothes", "toy", "text", "building")
_DESCRIBED = (
    *_COMPARED,
    "baby",
    "food",
    "drink",
    "furniture",
    "portable",
    "plant",
    "instrument",
    "outdoors",
    "room",
)


def simple(dice: Dice) -> Sentence:
    """Who does what, with a time or a place perhaps before the verb."""
    clause = action(dice)
    add_time(dice, clause, 0.4)
    if dice.rng(0.1):
        negate(clause)
    return Simple(clause, front(dice, clause))


def described(dice: Dice) -> Sentence:
    """A clause whose subject or object has a relative clause."""
    clause = action(dice)
    if clause.object and dice.rng(0.5):
        describe_object(dice, clause)
    else:
        describe_subject(dice, clause)
    return Simple(clause)


def quality(dice: Dice) -> Sentence:
    """What somebody or something is like."""
    entry = dice.pick([entry for entry in nouns_with(*_DESCRIBED) if adjectives_for(entry)])
    subject = subject_phrase(dice, entry)
    # `Der rote Ball ist rot` says nothing
    subject.adjectives = ()
    if not subject.plural and subject.determiner is A:
        subject.determiner = THE
    clause = Clause(subject, BE, predicate=Predicate(dice.pick(adjectives_for(entry))))
    clause.tense = Tense.PAST if dice.rng(0.15) else Tense.PRESENT
    clause.negated = subject.determiner.definite and subject.determiner is not EVERY and dice.rng(0.2)
    return Simple(clause)


def comparison(dice: Dice) -> Sentence:
    """`größer als` and `so groß wie`."""
    tag = dice.pick(_COMPARED)
    entry = dice.pick(nouns_with(tag))
    other = different(dice, nouns_with(tag), NounPhrase(entry))
    shared = [word for word in adjectives_for(entry) if word.german_comparative and word.fits(other)]
    # a chicken is not bigger than a shark
    shared = [word for word in shared if tag != "animal" or word.english not in ("big", "small")]
    if not shared:
        return quality(dice)
    adjective = dice.pick(shared)
    subject, standard = subject_phrase(dice, entry), subject_phrase(dice, other)
    subject.adjectives = standard.adjectives = ()
    for phrase in (subject, standard):
        if not phrase.determiner.definite or phrase.determiner is EVERY:
            phrase.determiner, phrase.plural = THE, False
    if dice.rng(0.3):
        return Simple(Clause(subject, BE, predicate=Predicate(adjective, like=standard)))
    return Simple(Clause(subject, BE, predicate=Predicate(adjective, than=standard)))


def occupation(dice: Dice) -> Sentence:
    """`Meine Tante ist Ärztin`."""
    subject = subject_phrase(dice, dice.pick(nouns_with("kin")))
    subject.plural = False
    return Simple(trade(dice, subject))


def existential(dice: Dice) -> Sentence:
    """Something indefinite found at a place."""
    verb = dice.pick(_POSTURES)
    entry = dice.pick([entry for entry in nouns_with(*verb.subjects) if "kin" not in entry.tags])
    subject = subject_phrase(dice, entry)
    subject.owner = subject.possessor = None
    if subject.determiner not in (A, *NUMERALS):
        subject.determiner = A
    clause = Clause(subject, verb)
    clause.place = location(dice, clause)
    return Existential(clause)


def scene(dice: Dice) -> Clause:
    """A clause in the present that a picture could show."""
    clause = action(dice)
    while not clause.verb.flags.isdisjoint(("stative", "done")):
        clause = action(dice)
    clause.tense, clause.modal = Tense.PRESENT, None
    return clause


def other_scene(dice: Dice, first: Clause) -> Clause:
    """A scene with somebody else in it."""
    second = scene(dice)
    while not _strangers(first.subject, second.subject):
        second = scene(dice)
    return second


def scene_of(dice: Dice, verb: Verb) -> Clause:
    """A clause in the present with a given verb."""
    return action_of(dice, subject_of(dice, verb), verb)


def another_scene(dice: Dice, main: Clause) -> Clause | None:
    """Something else that the subject of a clause does in the same tense, as a pronoun."""
    options = set.intersection(*(set(verbs_of_subject(entry)) for entry in referents(main.subject)))
    verbs = [
        verb
        for verb in calm_verbs(referents(main.subject)[0])
        if verb in options and not clash(verb, main.verb)
    ]
    if not verbs:
        return None
    clause = action_of(dice, pronoun_for(main.subject), dice.pick(verbs))
    clause.tense = main.tense
    objects = (clause.object, clause.recipient, clause.about.noun_phrase if clause.about else None)
    # the subject is hidden in a pronoun here, and must not meet itself
    met = [part.noun for nominal in objects if nominal for part in parts(nominal)]
    return None if any(entry in met for entry in referents(main.subject)) else clause


def _strangers(first: Nominal, second: Nominal) -> bool:
    if isinstance(first, Pronoun) or isinstance(second, Pronoun):
        # beside a noun, `er` and `sie` would be taken to mean that noun
        return first is not second and (first in (ME, WE) or second in (ME, WE))
    nouns = [part.noun for part in parts(first)]
    return all(part.noun not in nouns for part in parts(second))


def calm_verbs(entry: Noun) -> list[Verb]:
    """The verbs of a subject that can stand in any tense and in the English progressive."""
    return [verb for verb in verbs_of_subject(entry) if verb.flags.isdisjoint(("stative", "done"))]


def referents(nominal: Nominal) -> tuple[Noun, ...]:
    """The nouns a nominal speaks of; a pronoun may be any person."""
    if isinstance(nominal, Pronoun):
        return (noun("student"),)
    if isinstance(nominal, Coordination):
        return tuple(part.noun for part in nominal.parts)
    return (nominal.noun,)


def front(dice: Dice, clause: Clause) -> Front:
    """What opens the sentence; a posture's place is left to the existential."""
    if clause.time and dice.rng(0.5):
        return Front.TIME
    if clause.place and clause.manner is None and "there" not in clause.verb.flags and dice.rng(0.3):
        return Front.PLACE
    return Front.SUBJECT
