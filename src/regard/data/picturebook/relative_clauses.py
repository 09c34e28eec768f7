"""Samples relative clauses for the subject or the object of a clause."""

from dataclasses import replace

from regard.data.picturebook.adjuncts import sample_location
from regard.data.picturebook.clauses import clause_for, sample_subject
from regard.data.picturebook.function_words import BARE, BODY_PART, INSTRUMENT, NO, ON, OWN
from regard.data.picturebook.lexicon import nouns_with, verb, verbs_of_object, verbs_of_subject
from regard.data.picturebook.noun_phrases import other_noun, subject_phrase
from regard.data.picturebook.sampling import Rng
from regard.data.picturebook.semantics import (
    Clause,
    Gap,
    NounPhrase,
    PrepositionalPhrase,
    Relative,
    Tense,
    gap_phrase,
)

_RESTING_VERBS = tuple(map(verb, ("schlafen sleep", "sitzen sit")))


def add_subject_relative(rng: Rng, clause: Clause) -> None:
    """Attach a relative clause to the subject if it is a noun phrase."""
    subject = clause.subject
    # `mein Bruder` is unique, so its relative clause would be non-restrictive: commas in English
    if isinstance(subject, NounPhrase) and subject.owner is None and subject.determiner is not OWN:
        subject.relative = _relative(rng, subject, clause)


def add_object_relative(rng: Rng, clause: Clause) -> None:
    """Attach a relative clause to the object, and drop the adjuncts so that the object is last."""
    head = clause.object
    if "onto" in clause.verb.flags:
        return
    if (
        not isinstance(head, NounPhrase)
        or head.owner
        or head.determiner in (BODY_PART, INSTRUMENT, BARE, NO, OWN)
    ):
        return
    clause.location = clause.direction = clause.oblique = clause.time = clause.manner = None
    head.relative = _relative(rng, head, clause)


def _relative_tense(clause: Clause) -> Tense:
    return Tense.PAST if clause.tense is Tense.PAST else Tense.PRESENT


def _relative(rng: Rng, head: NounPhrase, main: Clause) -> Relative | None:
    tags = head.noun.tags
    tense = _relative_tense(main)
    if tags.isdisjoint(("person", "animal", "baby")):
        return _inanimate_relative(rng, head, main)
    if "person" in tags and rng.bernoulli(0.15):
        return _genitive_relative(rng, head, tense)
    # `die Frau, die das Kind sieht` is ambiguous; only the masculine accusative `den` marks an object
    if "person" in tags and head.noun.gender == "m" and not head.plural and rng.bernoulli(0.25):
        return (
            _object_relative(rng, head, main) if rng.bernoulli(0.6) else _recipient_relative(rng, head, tense)
        )
    verbs = [verb for verb in verbs_of_subject(head.noun) if verb.flags.isdisjoint(("stative", "done"))]
    # excludes `die Katze, die schläft, schläft ein`
    awake = main.subject is head
    verbs = [
        verb for verb in verbs if verb.german != main.verb.german and not (awake and "asleep" in verb.flags)
    ]
    if not verbs:
        return None
    clause = clause_for(rng, gap_phrase(head), rng.choice(verbs))
    clause.tense = tense
    return Relative(clause, Gap.SUBJECT)


def _inanimate_relative(rng: Rng, head: NounPhrase, main: Clause) -> Relative | None:
    if "seat" in head.noun.tags and not head.plural and rng.bernoulli(0.5):
        subject = subject_phrase(rng, rng.choice(nouns_with("pet", "kin")))
        location = PrepositionalPhrase(ON, gap_phrase(head))
        return Relative(
            Clause(subject, rng.choice(_RESTING_VERBS), _relative_tense(main), location=location), Gap.LOCATION
        )
    lies = verb("liegen lie")
    if not head.noun.tags.isdisjoint(("flat", "text")) and main.verb is not lies and rng.bernoulli(0.4):
        return Relative(clause_for(rng, gap_phrase(head), lies), Gap.SUBJECT)
    return _object_relative(rng, head, main)


def _object_relative(rng: Rng, head: NounPhrase, main: Clause) -> Relative | None:
    verbs = [verb for verb in verbs_of_object(head.noun) if verb.german != main.verb.german]
    if not verbs:
        return None
    relative_verb = rng.choice(verbs)
    subject = sample_subject(rng, relative_verb)
    while isinstance(subject, NounPhrase) and subject.noun is head.noun:
        subject = sample_subject(rng, relative_verb)
    clause = Clause(
        subject,
        relative_verb,
        Tense.PAST if "done" in relative_verb.flags else _relative_tense(main),
        object=gap_phrase(head),
    )
    if rng.bernoulli(0.3):
        clause.location = sample_location(rng, clause)
    return Relative(clause, Gap.OBJECT)


def _recipient_relative(rng: Rng, head: NounPhrase, tense: Tense) -> Relative:
    relative_verb = verb(rng.choice(("helfen help", "danken thank", "antworten answer", "folgen follow")))
    noun = other_noun(rng, nouns_with("person"), head)
    clause = Clause(subject_phrase(rng, noun), relative_verb, tense, recipient=gap_phrase(head))
    return Relative(clause, Gap.RECIPIENT)


def _genitive_relative(rng: Rng, head: NounPhrase, tense: Tense) -> Relative:
    noun = other_noun(rng, nouns_with("pet", "kin"), head)
    possession = replace(
        subject_phrase(rng, noun), determiner=BARE, plural=False, possessor=None, owner=gap_phrase(head)
    )
    verbs = [verb for verb in verbs_of_subject(noun) if verb.flags.isdisjoint(("stative", "done"))]
    clause = clause_for(rng, possession, rng.choice(verbs))
    clause.tense = tense
    return Relative(clause, Gap.OWNER)
