"""German word order: from meanings to sentences."""

from regard.data.picturebook.entries import Case
from regard.data.picturebook.german_forms import (
    adjective_form,
    auxiliary,
    contract,
    determiner_form,
    infinitive,
    noun_form,
    present,
    relative_pronoun,
    zu_infinitive,
)
from regard.data.picturebook.meaning import (
    Clause,
    Coordination,
    Existential,
    Front,
    Gap,
    InfinitiveClause,
    Nominal,
    NounPhrase,
    PrepositionalPhrase,
    Relative,
    Sentence,
    Sequence,
    Simple,
    Subordination,
    Tense,
    pronoun_for,
    without_gap,
)
from regard.data.picturebook.words import BODY, OWN, Adverb, Pronoun


def sentence(meaning: Sentence) -> str:
    """The German sentence for a meaning."""
    match meaning:
        case Simple(clause, front):
            words = main_clause(clause, front)
        case Existential(clause):
            words = main_clause(clause, Front.PLACE)
        case Subordination():
            words = _subordination(meaning)
        case Sequence(first, conjunction, second, shared_subject):
            front = Front.NOTHING if shared_subject else Front.SUBJECT
            # a comma stands before aber, but not before und
            comma = [","] if conjunction.german == "aber" else []
            words = [*main_clause(first), *comma, conjunction.german]
            continued = main_clause(second, front, subject=not shared_subject)
            words += continued[1:] if shared_subject and _same_auxiliary(first, second) else continued
        case InfinitiveClause(main, clause, purpose):
            words = [*main_clause(main), ",", *(["um"] if purpose else []), *_zu_clause(clause)]
    return _written(words)


def main_clause(clause: Clause, front: Front = Front.SUBJECT, subject: bool = True) -> list[str]:
    """A verb-second clause; with `Front.NOTHING` something before it already fills the first place."""
    finite, end = _verb_second(clause)
    match front:
        case Front.SUBJECT:
            first = [nominal_phrase(clause.subject, "nom"), *_relative_after(clause.subject)]
            middle = _middle(clause, subject=False, time=True, place=True)
        case Front.TIME:
            first = [_adverbial(clause.time)]
            middle = _middle(clause, subject=subject, time=False, place=True)
        case Front.PLACE:
            first = [_adverbial(clause.place)]
            middle = _middle(clause, subject=subject, time=True, place=False)
        case Front.NOTHING:
            first = []
            middle = _middle(clause, subject=subject, time=True, place=True)
    return [*first, finite, *middle, *end, *_extraposed(clause)]


def final_clause(clause: Clause, subject: bool = True) -> list[str]:
    """A verb-final clause, as after a conjunction or a relative pronoun."""
    middle = _middle(clause, subject=subject, time=True, place=True)
    return [*middle, *_verb_final(clause), *_extraposed(clause)]


def nominal_phrase(nominal: Nominal, case: Case) -> str:
    """A noun phrase, coordination or pronoun in a case, without its relative clause."""
    if isinstance(nominal, Pronoun):
        return {"nom": nominal.nom, "acc": nominal.acc, "dat": nominal.dat}[case]
    if isinstance(nominal, Coordination):
        return " und ".join(nominal_phrase(part, case) for part in nominal.parts)
    gender = _gender(nominal)
    determiner = nominal.determiner
    stem = determiner.german
    if determiner is OWN and nominal.possessor:
        stem = nominal.possessor.german_possessive
    declension = determiner.declension
    if determiner.german == "ein" and nominal.plural:
        stem, declension = "", "bare"
    words = [determiner_form(stem, declension, case, gender)] if stem else []
    words += [adjective_form(entry.german, declension, case, gender) for entry in nominal.adjectives]
    words.append(noun_form(nominal.noun, case, nominal.plural))
    if nominal.owner:
        words.append(nominal_phrase(nominal.owner, "gen"))
    return " ".join(words)


def prepositional_phrase(phrase: PrepositionalPhrase) -> str:
    """A preposition with its noun phrase in the case it asks for."""
    preposition = phrase.preposition
    return contract(preposition.german, nominal_phrase(phrase.noun_phrase, preposition.case))


def _gender(phrase: NounPhrase) -> str:
    return "p" if phrase.plural else phrase.noun.gender


def _subordination(meaning: Subordination) -> list[str]:
    subordinate = [meaning.conjunction.german, *final_clause(meaning.subordinate)]
    if meaning.subordinate_first:
        return [*subordinate, ",", *main_clause(meaning.main, Front.NOTHING)]
    return [*main_clause(meaning.main, meaning.front), ",", *subordinate]


def _same_auxiliary(first: Clause, second: Clause) -> bool:
    """Whether the second clause can do without its auxiliary: `hat gelacht und getanzt`."""
    perfect = first.tense is Tense.PAST and second.tense is Tense.PAST
    return perfect and first.verb.auxiliary == second.verb.auxiliary


def _verb_second(clause: Clause) -> tuple[str, list[str]]:
    """The finite verb, and what closes the clause: prefix, participle or infinitive."""
    person = pronoun_for(clause.subject).person
    verb = clause.verb
    if clause.modal:
        modal = clause.modal
        finite = {"first": modal.first, "third": modal.third, "plural": modal.german}[person]
        return finite, [infinitive(verb)]
    if clause.tense is Tense.PAST:
        return auxiliary(verb, person), [verb.participle]
    return present(verb, person), [verb.prefix] if verb.prefix else []


def _verb_final(clause: Clause) -> list[str]:
    finite, end = _verb_second(clause)
    if clause.modal or clause.tense is Tense.PAST:
        return [*end, finite]
    return [clause.verb.prefix + finite]


def _zu_clause(clause: Clause) -> list[str]:
    middle = _middle(clause, subject=False, time=True, place=True)
    return [*middle, zu_infinitive(clause.verb), *_extraposed(clause)]


def _middle(clause: Clause, subject: bool, time: bool, place: bool) -> list[str]:
    """The middle field: pronouns, time, what is known, negation, manner, place, what is new."""
    known, new, pronouns = _objects(clause)
    words = _subject_and_pronouns(clause, subject, pronouns)
    if time and clause.time:
        words.append(_adverbial(clause.time))
    words += known
    if clause.negated and not _has_kein(clause):
        words.append("nicht")
    if clause.manner:
        words.append(clause.manner.german)
    if place and clause.place:
        words.append(prepositional_phrase(clause.place))
    words += new
    for phrase in (clause.about, clause.direction):
        if phrase:
            words.append(prepositional_phrase(phrase))
    return [*words, *_predicate(clause)]


def _subject_and_pronouns(clause: Clause, subject: bool, pronouns: list[str]) -> list[str]:
    short = [*_reflexive(clause), *pronouns]
    if not subject:
        return short
    word = nominal_phrase(clause.subject, "nom")
    if isinstance(clause.subject, Pronoun):
        return [word, *short]
    # short words go ahead of a full subject: `Am Abend wäscht sich die Frau`
    return [*short, word, *_relative_after(clause.subject)]


def _reflexive(clause: Clause) -> list[str]:
    if "self" not in clause.verb.flags:
        return []
    pronoun = pronoun_for(clause.subject)
    return [pronoun.reflexive_dat if "body" in clause.verb.flags else pronoun.reflexive_acc]


def _objects(clause: Clause) -> tuple[list[str], list[str], list[str]]:
    """The objects as known (definite), new (indefinite) and pronouns, in that order of lists."""
    known: list[str] = []
    new: list[str] = []
    pronouns: list[str] = []
    slots: tuple[tuple[Nominal | None, Case], ...] = ((clause.recipient, "dat"), (clause.object, "acc"))
    for nominal, case in slots:
        if nominal is None:
            continue
        if isinstance(nominal, Pronoun):
            pronouns.append(nominal_phrase(nominal, case))
        # the recipient stands before the thing given, be it definite or not
        elif _definite(nominal) or case == "dat":
            known.append(nominal_phrase(nominal, case))
        else:
            new.append(nominal_phrase(nominal, case))
    return known, new, pronouns


def _definite(nominal: NounPhrase | Coordination) -> bool:
    if isinstance(nominal, Coordination):
        return all(_definite(part) for part in nominal.parts)
    return nominal.determiner.definite or nominal.determiner is BODY


def _has_kein(clause: Clause) -> bool:
    return isinstance(clause.object, NounPhrase) and clause.object.determiner.german == "kein"


def _predicate(clause: Clause) -> list[str]:
    predicate = clause.predicate
    if predicate is None:
        return []
    if predicate.trade:
        return [nominal_phrase(predicate.trade, "nom")]
    if predicate.adjective is None:
        return []
    if predicate.than:
        return [predicate.adjective.german_comparative, "als", nominal_phrase(predicate.than, "nom")]
    if predicate.like:
        return ["so", predicate.adjective.german, "wie", nominal_phrase(predicate.like, "nom")]
    return [predicate.adjective.german]


def _adverbial(adverbial: Adverb | PrepositionalPhrase | None) -> str:
    if adverbial is None:
        raise ValueError("the clause has no adverbial to put before its verb: fill `time` or `place`")
    return adverbial.german if isinstance(adverbial, Adverb) else prepositional_phrase(adverbial)


def _extraposed(clause: Clause) -> list[str]:
    """The relative clause of the object, which waits behind the verb: `hebt den Ball auf, der ...`."""
    about = clause.about.noun_phrase if clause.about else None
    return [word for slot in (clause.object, about) if slot for word in _relative_after(slot)]


def _relative_after(nominal: Nominal) -> list[str]:
    if not isinstance(nominal, NounPhrase) or nominal.relative is None:
        return []
    return [",", *_relative(nominal.relative), ","]


def _relative(relative: Relative) -> list[str]:
    clause = relative.clause
    remaining = without_gap(relative)
    rest = final_clause(remaining, subject=relative.gap not in (Gap.SUBJECT, Gap.OWNER))
    match relative.gap:
        case Gap.SUBJECT:
            return [_pronoun_of(clause.subject, "nom"), *rest]
        case Gap.OBJECT:
            return [_pronoun_of(clause.object, "acc"), *rest]
        case Gap.RECIPIENT:
            return [_pronoun_of(clause.recipient, "dat"), *rest]
        case Gap.OWNER:
            owner = clause.subject.owner if isinstance(clause.subject, NounPhrase) else None
            # nothing, not even a reflexive, comes between the owner and what is owned
            return [_pronoun_of(owner, "gen"), nominal_phrase(remaining.subject, "nom"), *rest]
        case Gap.PLACE:
            if clause.place is None:
                raise ValueError("a relative clause with Gap.PLACE needs a clause with a place")
            preposition = clause.place.preposition
            pronoun = _pronoun_of(clause.place.noun_phrase, preposition.case)
            return [preposition.german, pronoun, *rest]


def _pronoun_of(nominal: Nominal | None, case: Case) -> str:
    if not isinstance(nominal, NounPhrase):
        raise TypeError(f"the gap of a relative clause must hold its head, not {nominal!r}")
    return relative_pronoun(case, _gender(nominal))


def _written(words: list[str]) -> str:
    """Words as text: commas closed up and none doubled or left at the end, capital and full stop."""
    text = " ".join(words).replace(" ,", ",").replace(",,", ",").rstrip(",")
    return text[0].upper() + text[1:] + "."
