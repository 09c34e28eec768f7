"""Templates of one clause, and the clauses that `complex_sentences` combines."""

from regard.data.picturebook.adjuncts import add_time, sample_location
from regard.data.picturebook.clauses import (
    clause_for,
    incompatible,
    negate,
    noun_phrases_in,
    occupation_clause,
    sample_clause,
    sample_subject,
)
from regard.data.picturebook.function_words import EVERY, ME, NUMERALS, THE, WE, A, Pronoun
from regard.data.picturebook.lexical_entries import Noun, Verb
from regard.data.picturebook.lexicon import adjectives_for, noun, nouns_with, verbs_of_subject
from regard.data.picturebook.lexicon_verbs import ACTIONS, BE
from regard.data.picturebook.noun_phrases import other_noun, subject_phrase
from regard.data.picturebook.relative_clauses import add_object_relative, add_subject_relative
from regard.data.picturebook.sampling import Rng
from regard.data.picturebook.semantics import (
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

_POSTURES = tuple(verb for verb in ACTIONS if "there" in verb.flags)
_COMPARED = ("person", "animal", "vehicle", "clothes", "toy", "text", "building")
_QUALIFIED = (
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


def simple_sentence(rng: Rng) -> Sentence:
    """A clause with any verb, where a time or place adjunct may be fronted."""
    clause = sample_clause(rng)
    add_time(rng, clause, 0.4)
    if rng.bernoulli(0.1):
        negate(clause)
    return Simple(clause, sample_front(rng, clause))


def sentence_with_relative(rng: Rng) -> Sentence:
    """A clause whose subject or object has a relative clause."""
    clause = sample_clause(rng)
    if clause.object and rng.bernoulli(0.5):
        add_object_relative(rng, clause)
    else:
        add_subject_relative(rng, clause)
    return Simple(clause)


def quality_sentence(rng: Rng) -> Sentence:
    """An adjective predicated of a subject."""
    entry = rng.choice([entry for entry in nouns_with(*_QUALIFIED) if adjectives_for(entry)])
    subject = subject_phrase(rng, entry)
    # excludes `Der rote Ball ist rot`
    subject.adjectives = ()
    if not subject.plural and subject.determiner is A:
        subject.determiner = THE
    clause = Clause(subject, BE, predicate=Predicate(rng.choice(adjectives_for(entry))))
    clause.tense = Tense.PAST if rng.bernoulli(0.15) else Tense.PRESENT
    clause.negated = subject.determiner.definite and subject.determiner is not EVERY and rng.bernoulli(0.2)
    return Simple(clause)


def comparison_sentence(rng: Rng) -> Sentence:
    """A comparison with `größer als` or `so groß wie`."""
    tag = rng.choice(_COMPARED)
    entry = rng.choice(nouns_with(tag))
    other = other_noun(rng, nouns_with(tag), NounPhrase(entry))
    shared = [word for word in adjectives_for(entry) if word.german_comparative and word.fits(other)]
    # sizes of animals are not comparable by tags: no chicken is bigger than a shark
    shared = [word for word in shared if tag != "animal" or word.english not in ("big", "small")]
    if not shared:
        return quality_sentence(rng)
    adjective = rng.choice(shared)
    subject, standard = subject_phrase(rng, entry), subject_phrase(rng, other)
    subject.adjectives = standard.adjectives = ()
    for phrase in (subject, standard):
        if not phrase.determiner.definite or phrase.determiner is EVERY:
            phrase.determiner, phrase.plural = THE, False
    if rng.bernoulli(0.3):
        return Simple(Clause(subject, BE, predicate=Predicate(adjective, like=standard)))
    return Simple(Clause(subject, BE, predicate=Predicate(adjective, than=standard)))


def occupation_sentence(rng: Rng) -> Sentence:
    """`Meine Tante ist Ärztin`."""
    subject = subject_phrase(rng, rng.choice(nouns_with("kin")))
    subject.plural = False
    return Simple(occupation_clause(rng, subject))


def existential_sentence(rng: Rng) -> Sentence:
    """An indefinite subject at a place: `Auf dem Tisch liegt ein Buch`."""
    verb = rng.choice(_POSTURES)
    entry = rng.choice([entry for entry in nouns_with(*verb.subjects) if "kin" not in entry.tags])
    subject = subject_phrase(rng, entry)
    subject.owner = subject.possessor = None
    if subject.determiner not in (A, *NUMERALS):
        subject.determiner = A
    clause = Clause(subject, verb)
    clause.location = sample_location(rng, clause)
    return Existential(clause)


def present_clause(rng: Rng) -> Clause:
    """A clause in the present with a dynamic verb and no modal."""
    clause = sample_clause(rng)
    while not clause.verb.flags.isdisjoint(("stative", "done")):
        clause = sample_clause(rng)
    clause.tense, clause.modal = Tense.PRESENT, None
    return clause


def unrelated_clause(rng: Rng, first: Clause) -> Clause:
    """A present clause whose subject has another referent."""
    second = present_clause(rng)
    while not _disjoint_reference(first.subject, second.subject):
        second = present_clause(rng)
    return second


def clause_with_verb(rng: Rng, verb: Verb) -> Clause:
    """A clause in the present with a given verb."""
    return clause_for(rng, sample_subject(rng, verb), verb)


def same_subject_clause(rng: Rng, main: Clause) -> Clause | None:
    """Another action of the main clause's subject, in the same tense, with a pronoun as subject."""
    options = set.intersection(*(set(verbs_of_subject(entry)) for entry in referents(main.subject)))
    verbs = [
        verb
        for verb in dynamic_verbs(referents(main.subject)[0])
        if verb in options and not incompatible(verb, main.verb)
    ]
    if not verbs:
        return None
    clause = clause_for(rng, pronoun_for(main.subject), rng.choice(verbs))
    clause.tense = main.tense
    objects = (clause.object, clause.recipient, clause.oblique.noun_phrase if clause.oblique else None)
    # the subject is a pronoun here, so its noun must not occur as an object
    object_nouns = [part.noun for nominal in objects if nominal for part in noun_phrases_in(nominal)]
    return None if any(entry in object_nouns for entry in referents(main.subject)) else clause


def _disjoint_reference(first: Nominal, second: Nominal) -> bool:
    if isinstance(first, Pronoun) or isinstance(second, Pronoun):
        # next to a noun, `er` and `sie` would be read as referring to it
        return first is not second and (first in (ME, WE) or second in (ME, WE))
    nouns = [part.noun for part in noun_phrases_in(first)]
    return all(part.noun not in nouns for part in noun_phrases_in(second))


def dynamic_verbs(entry: Noun) -> list[Verb]:
    """The verbs of a subject that have every tense and the English progressive."""
    return [verb for verb in verbs_of_subject(entry) if verb.flags.isdisjoint(("stative", "done"))]


def referents(nominal: Nominal) -> tuple[Noun, ...]:
    """The nouns that a nominal may refer to; a pronoun stands for any person."""
    if isinstance(nominal, Pronoun):
        return (noun("student"),)
    if isinstance(nominal, Coordination):
        return tuple(part.noun for part in nominal.conjuncts)
    return (nominal.noun,)


def sample_front(rng: Rng, clause: Clause) -> Front:
    """The fronted constituent; the location of a posture verb is fronted by the existential only."""
    if clause.time and rng.bernoulli(0.5):
        return Front.TIME
    if clause.location and clause.manner is None and "there" not in clause.verb.flags and rng.bernoulli(0.3):
        return Front.LOCATION
    return Front.SUBJECT
