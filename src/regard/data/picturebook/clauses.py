"""Samples clauses: a verb, and a subject and objects that its frame admits."""

from collections.abc import Sequence

from regard.data.picturebook.adjuncts import add_adjuncts
from regard.data.picturebook.function_words import (
    BARE,
    CAN,
    EVERY,
    HE,
    IT_N,
    ME,
    MODALS,
    NO,
    NUMERALS,
    OCCUPATION,
    OWN,
    QUANTIFIERS,
    SHE,
    THE,
    WE,
    WILL,
    A,
    Modal,
    Pronoun,
)  # fmt: skip
from regard.data.picturebook.lexical_entries import Noun, Verb
from regard.data.picturebook.lexicon import adjective, nouns_with
from regard.data.picturebook.lexicon_verbs import ACTIONS, BE, WEATHER
from regard.data.picturebook.noun_phrases import (
    body_part_phrase,
    garment_phrase,
    instrument_phrase,
    make_singular,
    object_phrase,
    other_noun,
    personal_pronoun,
    subject_phrase,
)
from regard.data.picturebook.sampling import Rng, WeightedItems
from regard.data.picturebook.semantics import (
    Clause,
    Coordination,
    Nominal,
    NounPhrase,
    Predicate,
    PrepositionalPhrase,
    Tense,
    pronoun_for,
)

_INTRANSITIVE = tuple(verb for verb in ACTIONS if not verb.object_case)
_TRANSITIVE = tuple(verb for verb in ACTIONS if verb.object_case == "acc")
_INDIRECT = tuple(verb for verb in ACTIONS if verb.object_case in ("dat", "both", "prep"))
_VERB_GROUPS: WeightedItems[Sequence[Verb]] = WeightedItems(
    (38, _INTRANSITIVE), (42, _TRANSITIVE), (20, _INDIRECT)
)
_MOTION_FLAGS = frozenset(("goes", "route", "leaps", "over", "barred", "swims", "down"))
# the tense, and whether a modal goes with it
_TENSES = WeightedItems((62, (Tense.PRESENT, False)), (22, (Tense.PAST, False)), (16, (Tense.PRESENT, True)))
_STATE_ADJECTIVES = tuple(
    adjective(english)
    for english in (
        "tired", "hungry", "thirsty", "sick", "healthy", "sad", "happy", "nervous", "proud", "curious",
        "brave", "angry", "shy", "lazy",
    )
)  # fmt: skip
# the accusative `sie` is ambiguous in number, so only these are direct objects
_OBJECT_PRONOUNS = (ME, WE, HE)
_RECIPIENT_PRONOUNS = (ME, WE, HE, SHE)


def sample_clause(rng: Rng) -> Clause:
    """A clause of any verb in any tense."""
    verb = rng.choice(rng.weighted_choice(_VERB_GROUPS))
    clause = clause_for(rng, sample_subject(rng, verb), verb)
    set_tense(rng, clause)
    return clause


def clause_for(rng: Rng, subject: Nominal, verb: Verb) -> Clause:
    """A clause with this subject and verb, in the present, or in the past for verbs with the flag `done`."""
    tense = Tense.PAST if "done" in verb.flags else Tense.PRESENT
    clause = Clause(subject, verb, tense)
    _add_objects(rng, clause)
    add_adjuncts(rng, clause)
    return clause


def sample_subject(rng: Rng, verb: Verb) -> Nominal:
    """A subject that the verb's frame admits."""
    nouns = nouns_with(*verb.subjects)
    if "person" in verb.subjects and rng.bernoulli(0.12):
        return personal_pronoun(rng)
    first = subject_phrase(rng, rng.choice(nouns))
    return _coordinated_subject(rng, nouns, first) if rng.bernoulli(0.06) else first


def _coordinated_subject(rng: Rng, nouns: tuple[Noun, ...], first: NounPhrase) -> NounPhrase | Coordination:
    """Two coordinated subjects, both human or both not."""
    kind = tuple(noun for noun in nouns if ("person" in noun.tags) == ("person" in first.noun.tags))
    if len(kind) < 4 or first.determiner is EVERY:
        return first
    second = subject_phrase(rng, other_noun(rng, kind, first))
    if second.determiner is EVERY:
        second.determiner = THE
    # excludes `der Koch und Jungen`
    bare_plural = any(phrase.plural and phrase.determiner is A for phrase in (first, second))
    return first if bare_plural else Coordination((first, second))


def set_tense(rng: Rng, clause: Clause) -> None:
    """Sample the tense of a clause: present or perfect, or present with a modal."""
    if not clause.verb.flags.isdisjoint(("done", "present")):
        return
    tense, modal = rng.weighted_choice(_TENSES)
    clause.tense = tense
    if modal and clause.verb.flags.isdisjoint(("stative", "there")):
        clause.modal = _modal(rng, clause)


def negate(clause: Clause) -> None:
    """Negate a clause, with `kein` where its object is indefinite and with `nicht` otherwise.

    Clauses with a quantified object, an indefinite subject or a coordination stay affirmative, since the scope
    of their negation would be ambiguous.
    """
    direct_object = clause.object
    quantified = isinstance(direct_object, NounPhrase) and direct_object.determiner in (*NUMERALS, *QUANTIFIERS)
    subject = clause.subject
    indefinite = isinstance(subject, NounPhrase) and (
        not subject.determiner.definite or subject.determiner is EVERY
    )
    if quantified or indefinite or isinstance(direct_object, Coordination) or isinstance(subject, Coordination):
        return
    clause.negated = True
    if isinstance(direct_object, NounPhrase) and direct_object.determiner in (A, BARE):
        direct_object.determiner = NO


def state_clause(rng: Rng, subject: Nominal, nouns: tuple[Noun, ...]) -> Clause | None:
    """A predication of a state (`müde`) that fits every noun the subject may refer to, or None."""
    fitting = [entry for entry in _STATE_ADJECTIVES if all(entry.fits(noun) for noun in nouns)]
    return Clause(subject, BE, predicate=Predicate(rng.choice(fitting))) if fitting else None


def weather_clause(rng: Rng) -> Clause:
    """`Es regnet`."""
    return Clause(IT_N, rng.choice(WEATHER))


def occupation_clause(rng: Rng, subject: NounPhrase) -> Clause:
    """`Die Frau ist Ärztin`: an occupation in the gender of the subject."""
    gender = "f" if pronoun_for(subject) is SHE else "m"
    nouns = [noun for noun in nouns_with("trade") if noun.gender == gender and noun is not subject.noun]
    return Clause(subject, BE, predicate=Predicate(noun=NounPhrase(rng.choice(nouns), OCCUPATION)))


def _modal(rng: Rng, clause: Clause) -> Modal:
    if "unwilled" in clause.verb.flags or rng.bernoulli(0.3):
        return WILL
    # wishes, duties and permissions are for people only
    if is_human(clause.subject):
        return rng.choice(MODALS)
    return CAN if is_animate(clause.subject) else WILL


def incompatible(first: Verb, second: Verb) -> bool:
    """Whether one subject cannot do both at once: the same verb twice, or a posture and a motion."""
    standing = "there" in first.flags, "there" in second.flags
    moving = not _MOTION_FLAGS.isdisjoint(first.flags), not _MOTION_FLAGS.isdisjoint(second.flags)
    return (
        first.german == second.german
        or (standing[0] and (moving[1] or standing[1]))
        or (moving[0] and standing[1])
    )


def is_animate(nominal: Nominal) -> bool:
    """Whether a nominal refers to people or animals only."""
    return all(not part.noun.tags.isdisjoint(("person", "animal", "baby")) for part in noun_phrases_in(nominal))


def is_human(nominal: Nominal) -> bool:
    """Whether a nominal refers to people only."""
    return all("person" in part.noun.tags for part in noun_phrases_in(nominal))


def _add_objects(rng: Rng, clause: Clause) -> None:
    verb = clause.verb
    match verb.object_case:
        case "acc":
            clause.object = _accusative(rng, clause)
        case "dat":
            clause.recipient = _recipient(rng, clause, verb.objects)
        case "both":
            clause.object = object_phrase(rng, rng.choice(nouns_with(*verb.objects)), clause.subject)
            clause.recipient = _recipient(rng, clause, ("person",))
        case "prep" if verb.preposition:
            noun = other_noun(rng, nouns_with(*verb.objects), clause.subject)
            phrase = object_phrase(rng, noun, clause.subject)
            if "single" in verb.flags:
                make_singular(phrase)
            clause.oblique = PrepositionalPhrase(verb.preposition, phrase)


def _accusative(rng: Rng, clause: Clause) -> NounPhrase | Coordination | Pronoun:
    verb, subject = clause.verb, clause.subject
    noun = other_noun(rng, nouns_with(*verb.objects), subject, *noun_phrases_in(subject))
    if "body" in verb.flags:
        return body_part_phrase(noun, subject)
    if "played" in verb.flags:
        return instrument_phrase(noun)
    if "garment" in verb.flags:
        return garment_phrase(rng, noun, subject)
    if "person" in noun.tags and rng.bernoulli(0.2):
        return _distinct_pronoun(rng, _OBJECT_PRONOUNS, subject)
    first = _patient_phrase(rng, clause, noun)
    return _coordinated(rng, clause, first) if rng.bernoulli(0.1) else first


def _patient_phrase(rng: Rng, clause: Clause, noun: Noun) -> NounPhrase:
    """The direct object, changed as the verb's flags require."""
    flags = clause.verb.flags
    phrase = object_phrase(rng, noun, clause.subject)
    if "unowned" in flags and phrase.determiner is OWN:
        phrase.determiner, phrase.possessor = THE, None
    if "many" in flags and noun.german_plural:
        phrase.plural = True
    if "creates" in flags:
        # an object that is being created is not yet old or dirty
        phrase.adjectives = ()
    return phrase


def _coordinated(rng: Rng, clause: Clause, first: NounPhrase) -> NounPhrase | Coordination:
    """The object coordinated with a second one of the same class, where the lexicon has enough of them."""
    kind = nouns_with(*(tag for tag in clause.verb.objects[:1] if tag in first.noun.tags))
    if len(kind) < 4 or first.owner:
        return first
    second_noun = other_noun(rng, kind, clause.subject, first, *noun_phrases_in(clause.subject))
    second = _patient_phrase(rng, clause, second_noun)
    # excludes `die Karotte und Brot`
    return Coordination((first, second)) if first.determiner.definite == second.determiner.definite else first


def _recipient(rng: Rng, clause: Clause, tags: tuple[str, ...]) -> NounPhrase | Pronoun:
    subject = clause.subject
    if "person" in tags and rng.bernoulli(0.25):
        return _distinct_pronoun(rng, _RECIPIENT_PRONOUNS, subject)
    noun = other_noun(rng, nouns_with(*tags), subject, *noun_phrases_in(subject))
    return object_phrase(rng, noun, subject)


def _distinct_pronoun(rng: Rng, pronouns: tuple[Pronoun, ...], subject: Nominal) -> Pronoun:
    """A pronoun that does not refer to the subject, which would require a reflexive."""
    taken = pronoun_for(subject)
    if taken in (ME, WE):
        return HE
    return rng.choice([pronoun for pronoun in pronouns if pronoun is not taken])


def noun_phrases_in(nominal: Nominal) -> tuple[NounPhrase, ...]:
    """The noun phrases in a nominal."""
    if isinstance(nominal, Coordination):
        return nominal.conjuncts
    return (nominal,) if isinstance(nominal, NounPhrase) else ()
