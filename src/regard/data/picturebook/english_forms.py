"""English inflection: articles, plurals, possessives and verb groups."""

from functools import cache

from regard.data.picturebook.entries import Noun, Verb
from regard.data.picturebook.words import Modal, Person

_BE = {"first": "am", "third": "is", "plural": "are"}
_WAS = {"first": "was", "third": "was", "plural": "were"}


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
    """The third person singular of the simple present, with any particle kept behind: picks up."""
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
    """The present: simple for states, progressive for what a picture shows."""
    refusal = " not" if negated else ""
    if verb.english == "be":
        return _BE[person] + refusal
    if not simple:
        return f"{_BE[person]}{refusal} {verb.english_participle}"
    if negated:
        return f"{'does' if person == 'third' else 'do'} not {verb.english}"
    return third_person(verb.english) if person == "third" else verb.english


def past_group(verb: Verb, person: Person, negated: bool) -> str:
    """The simple past, which is what the German perfect becomes."""
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
