"""Sentence templates with their weights, and the templates of more than one clause."""

from collections.abc import Callable

from regard.data.picturebook.adjuncts import add_time
from regard.data.picturebook.clauses import (
    clause_for,
    is_animate,
    is_human,
    negate,
    noun_phrases_in,
    sample_clause,
    sample_subject,
    state_clause,
    weather_clause,
)
from regard.data.picturebook.function_words import (
    ALTHOUGH,
    AND,
    AS_SOON_AS,
    BECAUSE,
    BEFORE_THAT,
    BUT,
    CAN,
    IF,
    SO_THAT,
    THAT,
    WHEN_PAST,
    WHILE,
    WILL,
)  # fmt: skip
from regard.data.picturebook.lexicon_verbs import ACTIONS, BE, CLAUSAL, INFINITIVAL
from regard.data.picturebook.relative_clauses import add_object_relative, add_subject_relative
from regard.data.picturebook.sampling import Rng, WeightedItems
from regard.data.picturebook.semantics import (
    Clause,
    ClauseCoordination,
    InfinitiveClause,
    Nominal,
    NounPhrase,
    Sentence,
    Subordination,
    Tense,
    pronoun_for,
)
from regard.data.picturebook.simple_sentences import (
    clause_with_verb,
    comparison_sentence,
    dynamic_verbs,
    existential_sentence,
    occupation_sentence,
    present_clause,
    quality_sentence,
    referents,
    same_subject_clause,
    sample_front,
    sentence_with_relative,
    simple_sentence,
    unrelated_clause,
)

_MOTION_VERBS = tuple(
    verb for verb in ACTIONS if "person" in verb.subjects and not verb.flags.isdisjoint(("goes", "route"))
)
_ACTIVITY_VERBS = tuple(
    verb
    for verb in ACTIONS
    if verb.object_case in ("acc", "both")
    and "person" in verb.subjects
    and verb.flags.isdisjoint(("stative", "done", "stay"))
)


def sample_sentence(rng: Rng) -> Sentence:
    """The meaning of a sentence, from a template drawn by weight."""
    return rng.weighted_choice(_TEMPLATES)(rng)


def _causal_sentence(rng: Rng) -> Sentence:
    """`weil` or `obwohl` with a state, the weather or another action of the subject."""
    main = sample_clause(rng)
    while "stative" in main.verb.flags or not is_animate(main.subject):
        main = sample_clause(rng)
    main.modal = None
    if rng.bernoulli(0.25):
        subordinate = None
    elif main.tense is Tense.PRESENT and rng.bernoulli(0.75):
        subordinate = _state_reason(rng, main)
    else:
        subordinate = same_subject_clause(rng, main)
        if subordinate and rng.bernoulli(0.2):
            negate(subordinate)
    if subordinate is None:
        subordinate = weather_clause(rng)
        subordinate.tense = main.tense
    conjunction = rng.choice((BECAUSE, BECAUSE, ALTHOUGH))
    return Subordination(main, conjunction, subordinate, rng.bernoulli(0.3), sample_front(rng, main))


def _state_reason(rng: Rng, main: Clause) -> Clause | None:
    """A state of the main clause's subject, whose own adjectives are removed so that they do not repeat it."""
    predication = state_clause(rng, pronoun_for(main.subject), referents(main.subject))
    if predication:
        for part in noun_phrases_in(main.subject):
            part.adjectives = ()
    return predication


def _while_sentence(rng: Rng) -> Sentence:
    main = present_clause(rng)
    return Subordination(main, WHILE, unrelated_clause(rng, main), rng.bernoulli(0.4))


def _past_temporal_sentence(rng: Rng) -> Sentence:
    """`als` or `bevor` with both clauses in the perfect."""
    main = present_clause(rng)
    subordinate = same_subject_clause(rng, main) if rng.bernoulli(0.5) else None
    subordinate = subordinate or unrelated_clause(rng, main)
    main.tense = subordinate.tense = Tense.PAST
    return Subordination(main, rng.choice((WHEN_PAST, BEFORE_THAT)), subordinate, rng.bernoulli(0.3))


def _conditional_sentence(rng: Rng) -> Sentence:
    """`wenn` or `sobald` with a main clause in the future."""
    main = present_clause(rng)
    while not is_animate(main.subject):
        main = present_clause(rng)
    main.modal = WILL
    subordinate = weather_clause(rng) if rng.bernoulli(0.3) else unrelated_clause(rng, main)
    subordinate.tense = Tense.TIMELESS
    return Subordination(main, rng.choice((IF, IF, AS_SOON_AS)), subordinate, rng.bernoulli(0.4))


def _enabling_sentence(rng: Rng) -> Sentence:
    """`damit` with something that another person can then do."""
    main = clause_with_verb(rng, rng.choice(_ACTIVITY_VERBS))
    subordinate = unrelated_clause(rng, main)
    while "person" not in subordinate.verb.subjects or "unwilled" in subordinate.verb.flags:
        subordinate = unrelated_clause(rng, main)
    subordinate.modal = CAN
    return Subordination(main, SO_THAT, subordinate)


def _reported_speech(rng: Rng) -> Sentence:
    """`dass` after a verb of saying or believing."""
    verb = rng.choice(CLAUSAL)
    content = sample_clause(rng)
    add_time(rng, content, 0.2)
    if rng.bernoulli(0.1):
        negate(content)
    return Subordination(Clause(sample_subject(rng, verb), verb), THAT, content)


def _verb_phrase_coordination(rng: Rng) -> Sentence:
    """Two verb phrases of one subject: `Der Mann sitzt auf der Bank und liest eine Zeitung`."""
    first = present_clause(rng)
    if not isinstance(first.subject, NounPhrase):
        return simple_sentence(rng)
    verbs = [
        verb
        for verb in dynamic_verbs(first.subject.noun)
        if verb is not first.verb and verb.flags.isdisjoint(("there", "unwilled", "asleep"))
    ]
    if not verbs:
        return simple_sentence(rng)
    second = clause_for(rng, first.subject, rng.choice(verbs))
    # a subject is at one place at a time
    second.location = None if first.location or first.direction else second.location
    first.tense = second.tense = Tense.PAST if rng.bernoulli(0.25) else Tense.PRESENT
    return ClauseCoordination(first, AND, second, shared_subject=True)


def _clause_coordination(rng: Rng) -> Sentence:
    first = present_clause(rng)
    second = unrelated_clause(rng, first)
    if rng.bernoulli(0.4):
        negate(second)
        return ClauseCoordination(first, BUT, second)
    return ClauseCoordination(first, AND, second)


def _purpose_sentence(rng: Rng) -> Sentence:
    """`um ... zu` after a verb of motion."""
    main = clause_with_verb(rng, rng.choice(_MOTION_VERBS))
    while not is_human(main.subject):
        main = clause_with_verb(rng, rng.choice(_MOTION_VERBS))
    main.tense = Tense.PAST if rng.bernoulli(0.25) else Tense.PRESENT
    return InfinitiveClause(main, _infinitive_clause(rng, main.subject), purpose=True)


def _infinitive_sentence(rng: Rng) -> Sentence:
    """`versuchen`, `beginnen` and other verbs with a `zu` infinitive."""
    verb = rng.choice(INFINITIVAL)
    subject = sample_subject(rng, verb)
    past = "done" in verb.flags or rng.bernoulli(0.25)
    main = Clause(subject, verb, Tense.PAST if past else Tense.PRESENT)
    return InfinitiveClause(main, _infinitive_clause(rng, subject), purpose=False)


def _infinitive_clause(rng: Rng, subject: Nominal) -> Clause:
    clause = clause_for(rng, subject, rng.choice(_ACTIVITY_VERBS))
    clause.location = clause.manner = None
    return clause


def _nested_sentence(rng: Rng) -> Sentence:
    """A subordination with relative clauses in its clauses."""
    sentence = rng.choice((_causal_sentence, _while_sentence, _past_temporal_sentence, _reported_speech))(rng)
    if isinstance(sentence, Subordination):
        for clause in (sentence.main, sentence.subordinate):
            if clause.verb is not BE:
                add_subject_relative(rng, clause)
        if rng.bernoulli(0.5):
            add_object_relative(rng, sentence.main if sentence.subordinate_first else sentence.subordinate)
    return sentence


_TEMPLATES: WeightedItems[Callable[[Rng], Sentence]] = WeightedItems(
    (33, simple_sentence),
    (12, sentence_with_relative),
    (5, quality_sentence),
    (4, comparison_sentence),
    (1, occupation_sentence),
    (5, existential_sentence),
    (9, _causal_sentence),
    (4, _while_sentence),
    (4, _past_temporal_sentence),
    (3, _conditional_sentence),
    (2, _enabling_sentence),
    (4, _reported_speech),
    (5, _verb_phrase_coordination),
    (3, _clause_coordination),
    (3, _purpose_sentence),
    (3, _infinitive_sentence),
    (7, _nested_sentence),
)
