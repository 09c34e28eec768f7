"""English surface realization: word order, then morphology (articles, plurals, possessives, verb groups)."""

from functools import cache

from regard.data.picturebook.function_words import BODY_PART, NO, OWN, Adverb, Modal, Person, Pronoun
from regard.data.picturebook.lexical_entries import Noun, Verb
from regard.data.picturebook.semantics import (
    Clause,
    ClauseCoordination,
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
    Simple,
    Subordination,
    Tense,
    pronoun_for,
    without_gap,
)

_BE = {"first": "am", "third": "is", "plural": "are"}
_WAS = {"first": "was", "third": "was", "plural": "were"}


def realize(meaning: Sentence) -> str:
    """The English sentence for a meaning."""
    match meaning:
        case Simple(clause, front):
            words = _fronted(clause, front)
        case Existential(clause):
            words = _existential(clause)
        case Subordination(main, conjunction, subordinate, subordinate_first, front):
            subordinate_words = [conjunction.english, *full_clause(subordinate)]
            if subordinate_first:
                words = [*subordinate_words, ",", *full_clause(main)]
            else:
                words = [*_fronted(main, front), *subordinate_words]
        case ClauseCoordination(first, conjunction, second, shared_subject):
            words = [*full_clause(first), *([] if shared_subject else [","]), conjunction.english]
            words += _continued_verb_phrase(second) if shared_subject else full_clause(second)
        case InfinitiveClause(main, clause, purpose):
            words = [*full_clause(main), "in order to" if purpose else "to", clause.verb.english]
            words += _complements(clause)
    return _detokenize(words)


def full_clause(clause: Clause, time: bool = True, location: bool = True) -> list[str]:
    """Subject, verb group and complements."""
    subject = nominal_phrase(clause.subject, subject=True)
    return [subject, _verb_group(clause), *_complements(clause, time, location)]


def nominal_phrase(nominal: Nominal, subject: bool = False) -> str:
    """A noun phrase with its relative clause, a coordination or a pronoun."""
    if isinstance(nominal, Pronoun):
        return nominal.subject if subject else nominal.object
    if isinstance(nominal, Coordination):
        return " and ".join(nominal_phrase(part) for part in nominal.conjuncts)
    words = [*(entry.english for entry in nominal.adjectives), noun_form(nominal.noun, nominal.plural)]
    opening = _determiner(nominal, words[0])
    if opening:
        words.insert(0, opening)
    if nominal.relative:
        words += _relative(nominal.relative, "who" if "person" in nominal.noun.tags else "that")
    return " ".join(words)


def prepositional_phrase(phrase: PrepositionalPhrase) -> str:
    """A preposition with its noun phrase; some German prepositions have no counterpart."""
    return f"{phrase.preposition.english} {nominal_phrase(phrase.noun_phrase)}".lstrip()


def _determiner(phrase: NounPhrase, following: str) -> str:
    """The determiner or possessive of a noun phrase."""
    if phrase.owner:
        return possessive(nominal_phrase(phrase.owner), phrase.owner.plural)
    determiner = phrase.determiner
    if determiner in (OWN, BODY_PART) and phrase.possessor:
        return phrase.possessor.possessive
    if phrase.plural or (phrase.noun.mass and determiner is NO):
        return determiner.english_plural
    return article(following) if determiner.english == "a" else determiner.english


def _fronted(clause: Clause, front: Front) -> list[str]:
    if front is Front.TIME and clause.time:
        return [_adverbial(clause.time), ",", *full_clause(clause, time=False)]
    if front is Front.LOCATION and clause.location:
        return [prepositional_phrase(clause.location), ",", *full_clause(clause, location=False)]
    return full_clause(clause)


def _existential(clause: Clause) -> list[str]:
    opening = "there are" if pronoun_for(clause.subject).person == "plural" else "there is"
    subject = nominal_phrase(clause.subject, subject=True)
    return [opening, subject, clause.verb.english_participle, *_complements(clause)]


def _continued_verb_phrase(clause: Clause) -> list[str]:
    """A second verb phrase of the same subject, without its auxiliary: `and reading a book`."""
    progressive = clause.tense is Tense.PRESENT and "stative" not in clause.verb.flags
    group = clause.verb.english_participle if progressive else _verb_group(clause)
    return [group, *_complements(clause)]


def _verb_group(clause: Clause) -> str:
    person = pronoun_for(clause.subject).person
    # auxiliaries have one form for `I` and `they`, except am and was
    if clause.modal:
        return modal_group(clause.modal, clause.verb, person, clause.negated)
    if clause.tense is Tense.PAST:
        return past_group(clause.verb, person, clause.negated)
    simple = clause.tense is Tense.TIMELESS or "stative" in clause.verb.flags
    return present_group(clause.verb, person, simple, clause.negated)


def _complements(clause: Clause, time: bool = True, location: bool = True) -> list[str]:
    """The words after the verb: predicate, reflexive, objects, manner, location, time."""
    words = _predicate(clause)
    if "oneself" in clause.verb.flags:
        words.append(pronoun_for(clause.subject).reflexive)
    words += [nominal_phrase(slot) for slot in (clause.recipient, clause.object) if slot]
    if clause.manner:
        words.append(clause.manner.english)
    phrases = (clause.direction, clause.oblique, clause.location if location else None)
    words += [prepositional_phrase(phrase) for phrase in phrases if phrase]
    if time and clause.time:
        words.append(_adverbial(clause.time))
    return words


def _predicate(clause: Clause) -> list[str]:
    predicate = clause.predicate
    if predicate is None:
        return []
    if predicate.noun:
        return [nominal_phrase(predicate.noun)]
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
        case Gap.LOCATION:
            location = relative.clause.location
            return [location.preposition.english if location else "", "which", *full_clause(clause)]


def _detokenize(words: list[str]) -> str:
    """Words as text, with a capital and a full stop."""
    text = " ".join(words).replace(" ,", ",")
    return text[0].upper() + text[1:] + "."


# Morphology


def article(following: str) -> str:
    """`a` or `an`, by the sound of the word that follows."""
    vowel = following[0] in "aeiou" and not following.startswith("uni")
    return "an" if vowel else "a"


def noun_form(noun: Noun, plural: bool) -> str:
    """The noun in its number."""
    return noun.english_plural if plural else noun.english


def possessive(phrase: str, plural: bool) -> str:
    """A phrase with the possessive ending: the boy's, the boys', the children's."""
    return phrase + ("'" if plural and phrase.endswith("s") else "'s")


@cache
def third_person(verb: str) -> str:
    """The third person singular of the simple present, followed by the particle: picks up."""
    head, _, particle = verb.partition(" ")
    if head == "have":
        form = "has"
    elif head.endswith(("s", "sh", "ch", "x", "o")):
        form = head + "es"
    elif head.endswith("y") and head[-2] not in "aeiou":
        form = head[:-1] + "ies"
    else:
        form = head + "s"
    return f"{form} {particle}" if particle else form


def present_group(verb: Verb, person: Person, simple: bool, negated: bool) -> str:
    """The present: simple for states, progressive for actions."""
    refusal = " not" if negated else ""
    if verb.english == "be":
        return _BE[person] + refusal
    if not simple:
        return f"{_BE[person]}{refusal} {verb.english_participle}"
    if negated:
        return f"{'does' if person == 'third' else 'do'} not {verb.english}"
    return third_person(verb.english) if person == "third" else verb.english


def past_group(verb: Verb, person: Person, negated: bool) -> str:
    """The simple past, the translation of the German perfect."""
    if verb.english == "be":
        return _WAS[person] + (" not" if negated else "")
    return f"did not {verb.english}" if negated else verb.english_past


def modal_group(modal: Modal, verb: Verb, person: Person, negated: bool) -> str:
    """A modal with its infinitive: can, has to, is allowed to."""
    head, _, tail = f"{modal.english} {verb.english}".partition(" ")
    if modal.english_kind == "be":
        return f"{_BE[person]}{' not' if negated else ''} {head} {tail}"
    if modal.english_kind == "verb":
        if negated:
            return f"{'does' if person == 'third' else 'do'} not {head} {tail}"
        return f"{third_person(head) if person == 'third' else head} {tail}"
    if not negated:
        return f"{head} {tail}"
    return f"cannot {tail}" if head == "can" else f"{head} not {tail}"
