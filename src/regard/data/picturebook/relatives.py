"""Drawing relative clauses for the subject or the object of a clause."""

from dataclasses import replace

from regard.data.picturebook.circumstances import location
from regard.data.picturebook.clauses import action_of, subject_of
from regard.data.picturebook.dice import Dice
from regard.data.picturebook.lexicon import nouns_with, verb, verbs_of_object, verbs_of_subject
from regard.data.picturebook.meaning import Clause, Gap, NounPhrase, PrepositionalPhrase, Relative, Tense, bare
from regard.data.picturebook.phrases import different, subject_phrase
from regard.data.picturebook.words import BARE, BODY, NO, ON, OWN, PLAYED

_SETTLED = tuple(map(verb, ("schlafen sleep", "sitzen sit")))


def describe_subject(dice: Dice, clause: Clause) -> None:
    """Hang a relative clause on the subject, if that is a noun phrase."""
    subject = clause.subject
    # `mein Bruder` is known already, and English would set his relative clause off with commas
    if isinstance(subject, NounPhrase) and subject.owner is None and subject.determiner is not OWN:
        subject.relative = _relative(dice, subject, clause)


def describe_object(dice: Dice, clause: Clause) -> None:
    """Hang a relative clause on the object, which must then end the English clause."""
    head = clause.object
    if "onto" in clause.verb.flags:
        return
    if not isinstance(head, NounPhrase) or head.owner or head.determiner in (BODY, PLAYED, BARE, NO, OWN):
        return
    clause.place = clause.direction = clause.about = clause.time = clause.manner = None
    head.relative = _relative(dice, head, clause)


def _tense_beside(clause: Clause) -> Tense:
    return Tense.PAST if clause.tense is Tense.PAST else Tense.PRESENT


def _relative(dice: Dice, head: NounPhrase, main: Clause) -> Relative | None:
    tags = head.noun.tags
    tense = _tense_beside(main)
    if tags.isdisjoint(("person", "animal", "baby")):
        return _about_thing(dice, head, main)
    if "person" in tags and dice.rng(0.15):
        return _whose(dice, head, tense)
    # `die Frau, die das Kind sieht` could be read both ways; only `den` shows an object
    if "person" in tags and head.noun.gender == "m" and not head.plural and dice.rng(0.25):
        return _done_to(dice, head, main) if dice.rng(0.6) else _helped(dice, head, tense)
    verbs = [verb for verb in verbs_of_subject(head.noun) if verb.flags.isdisjoint(("stative", "done"))]
    # `die Katze, die schläft, schläft ein`
    awake = main.subject is head
    verbs = [
        verb for verb in verbs if verb.german != main.verb.german and not (awake and "asleep" in verb.flags)
    ]
    if not verbs:
        return None
    clause = action_of(dice, bare(head), dice.pick(verbs))
    clause.tense = tense
    return Relative(clause, Gap.SUBJECT)


def _about_thing(dice: Dice, head: NounPhrase, main: Clause) -> Relative | None:
    if "seat" in head.noun.tags and not head.plural and dice.rng(0.5):
        subject = subject_phrase(dice, dice.pick(nouns_with("pet", "kin")))
        place = PrepositionalPhrase(ON, bare(head))
        return Relative(Clause(subject, dice.pick(_SETTLED), _tense_beside(main), place=place), Gap.PLACE)
    lies = verb("liegen lie")
    if not head.noun.tags.isdisjoint(("flat", "text")) and main.verb is not lies and dice.rng(0.4):
        return Relative(action_of(dice, bare(head), lies), Gap.SUBJECT)
    return _done_to(dice, head, main)


def _done_to(dice: Dice, head: NounPhrase, main: Clause) -> Relative | None:
    verbs = [verb for verb in verbs_of_object(head.noun) if verb.german != main.verb.german]
    if not verbs:
        return None
    deed = dice.pick(verbs)
    subject = subject_of(dice, deed)
    while isinstance(subject, NounPhrase) and subject.noun is head.noun:
        subject = subject_of(dice, deed)
    clause = Clause(
        subject, deed, Tense.PAST if "done" in deed.flags else _tense_beside(main), object=bare(head)
    )
    if dice.rng(0.3):
        clause.place = location(dice, clause)
    return Relative(clause, Gap.OBJECT)


def _helped(dice: Dice, head: NounPhrase, tense: Tense) -> Relative:
    deed = verb(dice.pick(("helfen help", "danken thank", "antworten answer", "folgen follow")))
    noun = different(dice, nouns_with("person"), head)
    clause = Clause(subject_phrase(dice, noun), deed, tense, recipient=bare(head))
    return Relative(clause, Gap.RECIPIENT)


def _whose(dice: Dice, head: NounPhrase, tense: Tense) -> Relative:
    noun = different(dice, nouns_with("pet", "kin"), head)
    possession = replace(
        subject_phrase(dice, noun), determiner=BARE, plural=False, possessor=None, owner=bare(head)
    )
    verbs = [verb for verb in verbs_of_subject(noun) if verb.flags.isdisjoint(("stative", "done"))]
    clause = action_of(dice, possession, dice.pick(verbs))
    clause.tense = tense
    return Relative(clause, Gap.OWNER)
