"""Drawing clauses that make sense: a verb, a subject that can do it, and objects it can be done to."""

from collections.abc import Sequence

from regard.data.picturebook.circumstances import add_circumstances
from regard.data.picturebook.dice import Dice, Weighted
from regard.data.picturebook.entries import Noun, Verb
from regard.data.picturebook.lexicon import adjective, nouns_with
from regard.data.picturebook.meaning import (
    Clause,
    Coordination,
    Nominal,
    NounPhrase,
    Predicate,
    PrepositionalPhrase,
    Tense,
    pronoun_for,
)
from regard.data.picturebook.phrases import (
    body_part,
    different,
    instrument,
    make_single,
    object_phrase,
    person_pronoun,
    subject_phrase,
    worn_phrase,
)
from regard.data.picturebook.verbs import ACTIONS, BE, WEATHER
from regard.data.picturebook.words import (
    BARE,
    CAN,
    EVERY,
    HE,
    IT_N,
    ME,
    MODALS,
    NO,
    NUMERALS,
    OWN,
    QUANTIFIERS,
    SHE,
    THE,
    TRADE,
    WE,
    WILL,
    A,
    Modal,
    Pronoun,
)  # fmt: skip

_INTRANSITIVE = tuple(verb for verb in ACTIONS if not verb.object_case)
_TRANSITIVE = tuple(verb for verb in ACTIONS if verb.object_case == "acc")
_INDIRECT = tuple(verb for verb in ACTIONS if verb.object_case in ("dat", "both", "prep"))
_VERB_GROUPS: Weighted[Sequence[Verb]] = Weighted((38, _INTRANSITIVE), (42, _TRANSITIVE), (20, _INDIRECT))
_MOVES = frozenset(("goes", "route", "leaps", "over", "barred", "swims", "down"))
# the tense, and whether a modal goes with it
_TENSES = Weighted((62, (Tense.PRESENT, False)), (22, (Tense.PAST, False)), (16, (Tense.PRESENT, True)))
_CONDITIONS = tuple(
    adjective(english)
    for english in (
        "tired", "hungry", "thirsty", "sick", "healthy", "sad", "happy", "nervous", "proud", "curious",
        "brave", "angry", "shy", "lazy",
    )
)  # fmt: skip
# the accusative `sie` would leave open who is meant, so only these stand as objects
_OBJECT_PRONOUNS = (ME, WE, HE)
_RECIPIENT_PRONOUNS = (ME, WE, HE, SHE)


def action(dice: Dice) -> Clause:
    """A clause of any verb in any tense."""
    verb = dice.pick(dice.weighted(_VERB_GROUPS))
    clause = action_of(dice, subject_of(dice, verb), verb)
    set_tense(dice, clause)
    return clause


def action_of(dice: Dice, subject: Nominal, verb: Verb) -> Clause:
    """What a given subject does with a given verb, in the present, or in the past if the verb wants that."""
    tense = Tense.PAST if "done" in verb.flags else Tense.PRESENT
    clause = Clause(subject, verb, tense)
    _add_objects(dice, clause)
    add_circumstances(dice, clause)
    return clause


def subject_of(dice: Dice, verb: Verb) -> Nominal:
    """Somebody or something that can do what the verb says."""
    nouns = nouns_with(*verb.subjects)
    if "person" in verb.subjects and dice.rng(0.12):
        return person_pronoun(dice)
    first = subject_phrase(dice, dice.pick(nouns))
    return _joined(dice, nouns, first) if dice.rng(0.06) else first


def _joined(dice: Dice, nouns: tuple[Noun, ...], first: NounPhrase) -> NounPhrase | Coordination:
    """Two subjects of a kind, people with people and animals with animals."""
    kind = tuple(noun for noun in nouns if ("person" in noun.tags) == ("person" in first.noun.tags))
    if len(kind) < 4 or first.determiner is EVERY:
        return first
    second = subject_phrase(dice, different(dice, kind, first))
    if second.determiner is EVERY:
        second.determiner = THE
    # `der Koch und Jungen` would be lopsided
    bare_plural = any(phrase.plural and phrase.determiner is A for phrase in (first, second))
    return first if bare_plural else Coordination((first, second))


def set_tense(dice: Dice, clause: Clause) -> None:
    """Put a clause into the present, the perfect or under a modal."""
    if not clause.verb.flags.isdisjoint(("done", "present")):
        return
    tense, modal = dice.weighted(_TENSES)
    clause.tense = tense
    if modal and clause.verb.flags.isdisjoint(("stative", "there")):
        clause.modal = _modal(dice, clause)


def negate(clause: Clause) -> None:
    """Deny a clause, with `kein` when its object is indefinite and with `nicht` otherwise."""
    found = clause.object
    counted = isinstance(found, NounPhrase) and found.determiner in (*NUMERALS, *QUANTIFIERS)
    subject = clause.subject
    vague = isinstance(subject, NounPhrase) and (not subject.determiner.definite or subject.determiner is EVERY)
    if counted or vague or isinstance(found, Coordination) or isinstance(subject, Coordination):
        return
    clause.negated = True
    if isinstance(found, NounPhrase) and found.determiner in (A, BARE):
        found.determiner = NO


def condition(dice: Dice, subject: Nominal, nouns: tuple[Noun, ...]) -> Clause | None:
    """How a subject feels, by an adjective that fits all the nouns it may be one of."""
    fitting = [entry for entry in _CONDITIONS if all(entry.fits(noun) for noun in nouns)]
    return Clause(subject, BE, predicate=Predicate(dice.pick(fitting))) if fitting else None


def weather(dice: Dice) -> Clause:
    """`Es regnet`."""
    return Clause(IT_N, dice.pick(WEATHER))


def trade(dice: Dice, subject: NounPhrase) -> Clause:
    """`Die Frau ist Ärztin`, where a trade has a form for the subject."""
    gender = "f" if pronoun_for(subject) is SHE else "m"
    nouns = [noun for noun in nouns_with("trade") if noun.gender == gender and noun is not subject.noun]
    return Clause(subject, BE, predicate=Predicate(trade=NounPhrase(dice.pick(nouns), TRADE)))


def _modal(dice: Dice, clause: Clause) -> Modal:
    if "unwilled" in clause.verb.flags or dice.rng(0.3):
        return WILL
    # what animals and machines want, must or may do, a picture does not show
    if is_person(clause.subject):
        return dice.pick(MODALS)
    return CAN if is_alive(clause.subject) else WILL


def clash(first: Verb, second: Verb) -> bool:
    """Whether nobody does both at once: the same thing twice, or standing while running."""
    standing = "there" in first.flags, "there" in second.flags
    moving = not _MOVES.isdisjoint(first.flags), not _MOVES.isdisjoint(second.flags)
    return (
        first.german == second.german
        or (standing[0] and (moving[1] or standing[1]))
        or (moving[0] and standing[1])
    )


def is_alive(nominal: Nominal) -> bool:
    """Whether a nominal speaks of people or animals only."""
    return all(not part.noun.tags.isdisjoint(("person", "animal", "baby")) for part in parts(nominal))


def is_person(nominal: Nominal) -> bool:
    """Whether a nominal speaks of people only."""
    return all("person" in part.noun.tags for part in parts(nominal))


def _add_objects(dice: Dice, clause: Clause) -> None:
    verb = clause.verb
    match verb.object_case:
        case "acc":
            clause.object = _accusative(dice, clause)
        case "dat":
            clause.recipient = _recipient(dice, clause, verb.objects)
        case "both":
            clause.object = object_phrase(dice, dice.pick(nouns_with(*verb.objects)), clause.subject)
            clause.recipient = _recipient(dice, clause, ("person",))
        case "prep" if verb.preposition:
            noun = different(dice, nouns_with(*verb.objects), clause.subject)
            phrase = object_phrase(dice, noun, clause.subject)
            if "single" in verb.flags:
                make_single(phrase)
            clause.about = PrepositionalPhrase(verb.preposition, phrase)


def _accusative(dice: Dice, clause: Clause) -> NounPhrase | Coordination | Pronoun:
    verb, subject = clause.verb, clause.subject
    noun = different(dice, nouns_with(*verb.objects), subject, *parts(subject))
    if "body" in verb.flags:
        return body_part(noun, subject)
    if "played" in verb.flags:
        return instrument(noun)
    if "garment" in verb.flags:
        return worn_phrase(dice, noun, subject)
    if "person" in noun.tags and dice.rng(0.2):
        return _pronoun_other_than(dice, _OBJECT_PRONOUNS, subject)
    first = _thing(dice, clause, noun)
    return _coordinated(dice, clause, first) if dice.rng(0.1) else first


def _thing(dice: Dice, clause: Clause, noun: Noun) -> NounPhrase:
    """What is acted on, as the verb's flags would have it."""
    flags = clause.verb.flags
    phrase = object_phrase(dice, noun, clause.subject)
    if "unowned" in flags and phrase.determiner is OWN:
        phrase.determiner, phrase.possessor = THE, None
    if "many" in flags and noun.german_plural:
        phrase.plural = True
    if "creates" in flags:
        # what is only being made is not yet old or dirty
        phrase.adjectives = ()
    return phrase


def _coordinated(dice: Dice, clause: Clause, first: NounPhrase) -> NounPhrase | Coordination:
    """An object with a second of its kind beside it, if the lexicon has enough of them."""
    kind = nouns_with(*(tag for tag in clause.verb.objects[:1] if tag in first.noun.tags))
    if len(kind) < 4 or first.owner:
        return first
    other = different(dice, kind, clause.subject, first, *parts(clause.subject))
    second = _thing(dice, clause, other)
    # `die Karotte und Brot` would be lopsided
    return Coordination((first, second)) if first.determiner.definite == second.determiner.definite else first


def _recipient(dice: Dice, clause: Clause, tags: tuple[str, ...]) -> NounPhrase | Pronoun:
    subject = clause.subject
    if "person" in tags and dice.rng(0.25):
        return _pronoun_other_than(dice, _RECIPIENT_PRONOUNS, subject)
    noun = different(dice, nouns_with(*tags), subject, *parts(subject))
    return object_phrase(dice, noun, subject)


def _pronoun_other_than(dice: Dice, pronouns: tuple[Pronoun, ...], subject: Nominal) -> Pronoun:
    """A pronoun that cannot be the subject again, which would have to be a reflexive."""
    taken = pronoun_for(subject)
    if taken in (ME, WE):
        return HE
    return dice.pick([pronoun for pronoun in pronouns if pronoun is not taken])


def parts(nominal: Nominal) -> tuple[NounPhrase, ...]:
    """The noun phrases in a nominal."""
    if isinstance(nominal, Coordination):
        return nominal.parts
    return (nominal,) if isinstance(nominal, NounPhrase) else ()
