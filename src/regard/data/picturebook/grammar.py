"""Drawing whole sentences: the templates of the picture book and how often each is used."""

from collections.abc import Callable

from regard.data.picturebook.circumstances import add_time
from regard.data.picturebook.clauses import (
    action,
    action_of,
    condition,
    is_alive,
    is_person,
    negate,
    parts,
    subject_of,
    weather,
)
from regard.data.picturebook.dice import Dice, Weighted
from regard.data.picturebook.meaning import (
    Clause,
    InfinitiveClause,
    Nominal,
    NounPhrase,
    Sentence,
    Sequence,
    Subordination,
    Tense,
    pronoun_for,
)
from regard.data.picturebook.relatives import describe_object, describe_subject
from regard.data.picturebook.scenes import (
    another_scene,
    calm_verbs,
    comparison,
    described,
    existential,
    front,
    occupation,
    other_scene,
    quality,
    referents,
    scene,
    scene_of,
    simple,
)
from regard.data.picturebook.verbs import ACTIONS, BE, CLAUSAL, INFINITIVAL
from regard.data.picturebook.words import (
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

_ERRANDS = tuple(
    verb for verb in ACTIONS if "person" in verb.subjects and not verb.flags.isdisjoint(("goes", "route"))
)
_PROJECTS = tuple(
    verb
    for verb in ACTIONS
    if verb.object_case in ("acc", "both")
    and "person" in verb.subjects
    and verb.flags.isdisjoint(("stative", "done", "stay"))
)


def draw(dice: Dice) -> Sentence:
    """A meaning drawn by chance."""
    return dice.weighted(_TEMPLATES)(dice)


def _reason(dice: Dice) -> Sentence:
    """`weil` and `obwohl`, before a state, the weather or something else the subject does."""
    main = action(dice)
    while "stative" in main.verb.flags or not is_alive(main.subject):
        main = action(dice)
    main.modal = None
    if dice.rng(0.25):
        subordinate = None
    elif main.tense is Tense.PRESENT and dice.rng(0.75):
        subordinate = _feeling(dice, main)
    else:
        subordinate = another_scene(dice, main)
        if subordinate and dice.rng(0.2):
            negate(subordinate)
    if subordinate is None:
        subordinate = weather(dice)
        subordinate.tense = main.tense
    conjunction = dice.pick((BECAUSE, BECAUSE, ALTHOUGH))
    return Subordination(main, conjunction, subordinate, dice.rng(0.3), front(dice, main))


def _feeling(dice: Dice, main: Clause) -> Clause | None:
    """How the subject of the main clause feels, which its own adjectives then leave to be said."""
    feeling = condition(dice, pronoun_for(main.subject), referents(main.subject))
    if feeling:
        for part in parts(main.subject):
            part.adjectives = ()
    return feeling


def _meanwhile(dice: Dice) -> Sentence:
    main = scene(dice)
    return Subordination(main, WHILE, other_scene(dice, main), dice.rng(0.4))


def _remembered(dice: Dice) -> Sentence:
    """`als` and `bevor` in the perfect."""
    main = scene(dice)
    subordinate = another_scene(dice, main) if dice.rng(0.5) else None
    subordinate = subordinate or other_scene(dice, main)
    main.tense = subordinate.tense = Tense.PAST
    return Subordination(main, dice.pick((WHEN_PAST, BEFORE_THAT)), subordinate, dice.rng(0.3))


def _condition(dice: Dice) -> Sentence:
    """`wenn` and `sobald` with the future before them."""
    main = scene(dice)
    while not is_alive(main.subject):
        main = scene(dice)
    main.modal = WILL
    subordinate = weather(dice) if dice.rng(0.3) else other_scene(dice, main)
    subordinate.tense = Tense.TIMELESS
    return Subordination(main, dice.pick((IF, IF, AS_SOON_AS)), subordinate, dice.rng(0.4))


def _enabling(dice: Dice) -> Sentence:
    """`damit`, before what somebody else can do then."""
    main = scene_of(dice, dice.pick(_PROJECTS))
    subordinate = other_scene(dice, main)
    while "person" not in subordinate.verb.subjects or "unwilled" in subordinate.verb.flags:
        subordinate = other_scene(dice, main)
    subordinate.modal = CAN
    return Subordination(main, SO_THAT, subordinate)


def _reported(dice: Dice) -> Sentence:
    """`dass`, after what somebody says or believes."""
    verb = dice.pick(CLAUSAL)
    content = action(dice)
    add_time(dice, content, 0.2)
    if dice.rng(0.1):
        negate(content)
    return Subordination(Clause(subject_of(dice, verb), verb), THAT, content)


def _shared_subject(dice: Dice) -> Sentence:
    """Two things somebody does: `Der Mann sitzt auf der Bank und liest eine Zeitung`."""
    first = scene(dice)
    if not isinstance(first.subject, NounPhrase):
        return simple(dice)
    verbs = [
        verb
        for verb in calm_verbs(first.subject.noun)
        if verb is not first.verb and verb.flags.isdisjoint(("there", "unwilled", "asleep"))
    ]
    if not verbs:
        return simple(dice)
    second = action_of(dice, first.subject, dice.pick(verbs))
    # one is at one place only
    second.place = None if first.place or first.direction else second.place
    first.tense = second.tense = Tense.PAST if dice.rng(0.25) else Tense.PRESENT
    return Sequence(first, AND, second, shared_subject=True)


def _two_scenes(dice: Dice) -> Sentence:
    first = scene(dice)
    second = other_scene(dice, first)
    if dice.rng(0.4):
        negate(second)
        return Sequence(first, BUT, second)
    return Sequence(first, AND, second)


def _purpose(dice: Dice) -> Sentence:
    """`um ... zu`: somebody goes somewhere in order to do something."""
    main = scene_of(dice, dice.pick(_ERRANDS))
    while not is_person(main.subject):
        main = scene_of(dice, dice.pick(_ERRANDS))
    main.tense = Tense.PAST if dice.rng(0.25) else Tense.PRESENT
    return InfinitiveClause(main, _project(dice, main.subject), purpose=True)


def _attempt(dice: Dice) -> Sentence:
    """`versuchen`, `beginnen` and others with a `zu` infinitive."""
    verb = dice.pick(INFINITIVAL)
    subject = subject_of(dice, verb)
    past = "done" in verb.flags or dice.rng(0.25)
    main = Clause(subject, verb, Tense.PAST if past else Tense.PRESENT)
    return InfinitiveClause(main, _project(dice, subject), purpose=False)


def _project(dice: Dice, subject: Nominal) -> Clause:
    clause = action_of(dice, subject, dice.pick(_PROJECTS))
    clause.place = clause.manner = None
    return clause


def _long(dice: Dice) -> Sentence:
    """A subordination whose clauses have relative clauses of their own."""
    sentence = dice.pick((_reason, _meanwhile, _remembered, _reported))(dice)
    if isinstance(sentence, Subordination):
        for clause in (sentence.main, sentence.subordinate):
            if clause.verb is not BE:
                describe_subject(dice, clause)
        if dice.rng(0.5):
            describe_object(dice, sentence.main if sentence.subordinate_first else sentence.subordinate)
    return sentence


_TEMPLATES: Weighted[Callable[[Dice], Sentence]] = Weighted(
    (33, simple),
    (12, described),
    (5, quality),
    (4, comparison),
    (1, occupation),
    (5, existential),
    (9, _reason),
    (4, _meanwhile),
    (4, _remembered),
    (3, _condition),
    (2, _enabling),
    (4, _reported),
    (5, _shared_subject),
    (3, _two_scenes),
    (3, _purpose),
    (3, _attempt),
    (7, _long),
)
