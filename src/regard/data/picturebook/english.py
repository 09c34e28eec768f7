"""English word order: from meanings to sentences."""

from regard.data.picturebook.english_forms import (
    article,
    modal_group,
    noun_form,
    past_group,
    possessive,
    present_group,
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
from regard.data.picturebook.words import BODY, NO, OWN, Adverb, Pronoun


def sentence(meaning: Sentence) -> str:
    """The English sentence for a meaning."""
    match meaning:
        case Simple(clause, front):
            words = _fronted(clause, front)
        case Existential(clause):
            words = _existential(clause)
        case Subordination(main, conjunction, subordinate, subordinate_first, front):
            behind = [conjunction.english, *full_clause(subordinate)]
            words = (
                [*behind, ",", *full_clause(main)] if subordinate_first else [*_fronted(main, front), *behind]
            )
        case Sequence(first, conjunction, second, shared_subject):
            words = [*full_clause(first), *([] if shared_subject else [","]), conjunction.english]
            words += _continued(second) if shared_subject else full_clause(second)
        case InfinitiveClause(main, clause, purpose):
            words = [*full_clause(main), "in order to" if purpose else "to", clause.verb.english]
            words += _complements(clause)
    return _written(words)


def full_clause(clause: Clause, time: bool = True, place: bool = True) -> list[str]:
    """Subject, verb group and all that follows."""
    subject = nominal_phrase(clause.subject, subject=True)
    return [subject, _verb_group(clause), *_complements(clause, time, place)]


def nominal_phrase(nominal: Nominal, subject: bool = False) -> str:
    """A noun phrase with its relative clause, a coordination or a pronoun."""
    if isinstance(nominal, Pronoun):
        return nominal.subject if subject else nominal.object
    if isinstance(nominal, Coordination):
        return " and ".join(nominal_phrase(part) for part in nominal.parts)
    words = [*(entry.english for entry in nominal.adjectives), noun_form(nominal.noun, nominal.plural)]
    opening = _opening(nominal, words[0])
    if opening:
        words.insert(0, opening)
    if nominal.relative:
        words += _relative(nominal.relative, "who" if "person" in nominal.noun.tags else "that")
    return " ".join(words)


def prepositional_phrase(phrase: PrepositionalPhrase) -> str:
    """A preposition with its noun phrase; some German prepositions have no counterpart."""
    return f"{phrase.preposition.english} {nominal_phrase(phrase.noun_phrase)}".lstrip()


def _opening(phrase: NounPhrase, following: str) -> str:
    """The word or possessive that opens a noun phrase."""
    if phrase.owner:
        return possessive(nominal_phrase(phrase.owner), phrase.owner.plural)
    determiner = phrase.determiner
    if determiner in (OWN, BODY) and phrase.possessor:
        return phrase.possessor.possessive
    if phrase.plural or (phrase.noun.mass and determiner is NO):
        return determiner.english_plural
    return article(following) if determiner.english == "a" else determiner.english


def _fronted(clause: Clause, front: Front) -> list[str]:
    if front is Front.TIME and clause.time:
        return [_adverbial(clause.time), ",", *full_clause(clause, time=False)]
    if front is Front.PLACE and clause.place:
        return [prepositional_phrase(clause.place), ",", *full_clause(clause, place=False)]
    return full_clause(clause)


def _existential(clause: Clause) -> list[str]:
    opening = "there are" if pronoun_for(clause.subject).person == "plural" else "there is"
    subject = nominal_phrase(clause.subject, subject=True)
    return [opening, subject, clause.verb.english_participle, *_complements(clause)]


def _continued(clause: Clause) -> list[str]:
    """A second verb phrase of the same subject, without repeating the auxiliary: `and reading a book`."""
    progressive = clause.tense is Tense.PRESENT and "stative" not in clause.verb.flags
    group = clause.verb.english_participle if progressive else _verb_group(clause)
    return [group, *_complements(clause)]


def _verb_group(clause: Clause) -> str:
    person = pronoun_for(clause.subject).person
    # an auxiliary before the verb agrees with `I` as with `they`, but for am and was
    if clause.modal:
        return modal_group(clause.modal, clause.verb, person, clause.negated)
    if clause.tense is Tense.PAST:
        return past_group(clause.verb, person, clause.negated)
    simple = clause.tense is Tense.TIMELESS or "stative" in clause.verb.flags
    return present_group(clause.verb, person, simple, clause.negated)


def _complements(clause: Clause, time: bool = True, place: bool = True) -> list[str]:
    """What follows the verb: predicate, reflexive, objects, manner, then where, then when."""
    words = _predicate(clause)
    if "oneself" in clause.verb.flags:
        words.append(pronoun_for(clause.subject).reflexive)
    words += [nominal_phrase(slot) for slot in (clause.recipient, clause.object) if slot]
    if clause.manner:
        words.append(clause.manner.english)
    phrases = (clause.direction, clause.about, clause.place if place else None)
    words += [prepositional_phrase(phrase) for phrase in phrases if phrase]
    if time and clause.time:
        words.append(_adverbial(clause.time))
    return words


def _predicate(clause: Clause) -> list[str]:
    predicate = clause.predicate
    if predicate is None:
        return []
    if predicate.trade:
        return [nominal_phrase(predicate.trade)]
    if predicate.adjective is None:
        return []
    if predicate.than:
        return [predicate.adjective.english_comparative, "than", nominal_phrase(predicate.than)]
    if predicate.like:
        return ["as", predicate.adjective.english, "as", nominal_phrase(predicate.like)]
    return [predicate.adjective.english]


def _adverbial(adverbial: Adverb | PrepositionalPhrase) -> str:
    return adverbial.english if isinstance(adverbial, Adverb) else prepositional_phrase(adverbial)


def _relative(relative: Relative, pronoun: str) -> list[str]:
    clause = without_gap(relative)
    match relative.gap:
        case Gap.SUBJECT:
            return [pronoun, _verb_group(clause), *_complements(clause)]
        case Gap.OBJECT | Gap.RECIPIENT:
            return [pronoun, *full_clause(clause)]
        case Gap.OWNER:
            return ["whose", *full_clause(clause)]
        case Gap.PLACE:
            place = relative.clause.place
            return [place.preposition.english if place else "", "which", *full_clause(clause)]


def _written(words: list[str]) -> str:
    """Words as text, with capital and full stop."""
    text = " ".join(words).replace(" ,", ",")
    return text[0].upper() + text[1:] + "."
