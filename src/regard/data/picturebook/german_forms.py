"""German inflection: nouns, determiners, adjectives, pronouns and verbs."""

from functools import cache

from regard.data.picturebook.entries import Case, Noun, Verb
from regard.data.picturebook.words import Person

_ADJECTIVE_ENDINGS: dict[str, dict[Case, dict[str, str]]] = {
    "strong": {
        "nom": {"m": "er", "f": "e", "n": "es", "p": "e"},
        "acc": {"m": "en", "f": "e", "n": "es", "p": "e"},
        "dat": {"m": "em", "f": "er", "n": "em", "p": "en"},
        "gen": {"m": "en", "f": "er", "n": "en", "p": "er"},
    },
    "weak": {
        "nom": {"m": "e", "f": "e", "n": "e", "p": "en"},
        "acc": {"m": "en", "f": "e", "n": "e", "p": "en"},
        "dat": {"m": "en", "f": "en", "n": "en", "p": "en"},
        "gen": {"m": "en", "f": "en", "n": "en", "p": "en"},
    },
    "mixed": {
        "nom": {"m": "er", "f": "e", "n": "es", "p": "en"},
        "acc": {"m": "en", "f": "e", "n": "es", "p": "en"},
        "dat": {"m": "en", "f": "en", "n": "en", "p": "en"},
        "gen": {"m": "en", "f": "en", "n": "en", "p": "en"},
    },
}
_DECLENSION = {"der": "weak", "dieser": "weak", "ein": "mixed", "viele": "strong", "bare": "strong"}

_ARTICLE: dict[Case, dict[str, str]] = {
    "nom": {"m": "der", "f": "die", "n": "das", "p": "die"},
    "acc": {"m": "den", "f": "die", "n": "das", "p": "die"},
    "dat": {"m": "dem", "f": "der", "n": "dem", "p": "den"},
    "gen": {"m": "des", "f": "der", "n": "des", "p": "der"},
}
_DETERMINER_ENDINGS: dict[Case, dict[str, str]] = {
    "nom": {"m": "er", "f": "e", "n": "es", "p": "e"},
    "acc": {"m": "en", "f": "e", "n": "es", "p": "e"},
    "dat": {"m": "em", "f": "er", "n": "em", "p": "en"},
    "gen": {"m": "es", "f": "er", "n": "es", "p": "er"},
}
_INDECLINABLE = ("rosa", "lila")
_CONTRACTIONS = {
    "in dem": "im",
    "an dem": "am",
    "in das": "ins",
    "an das": "ans",
    "zu dem": "zum",
    "zu der": "zur",
    "von dem": "vom",
}
_VOWELS = "aeiouyäöüé"


@cache
def determiner_form(stem: str, declension: str, case: Case, gender: str) -> str:
    """The determiner for a case and a gender, where gender `p` is the plural of all three."""
    if declension == "der":
        return _ARTICLE[case][gender]
    if declension == "bare":
        return stem
    ending = _DETERMINER_ENDINGS[case][gender]
    if declension == "ein" and (
        (gender == "m" and case == "nom") or (gender == "n" and case in ("nom", "acc"))
    ):
        return stem
    return stem + ending


@cache
def adjective_form(adjective: str, declension: str, case: Case, gender: str) -> str:
    """The attributive adjective after a determiner of the given declension."""
    if adjective in _INDECLINABLE:
        return adjective
    return _attributive_stem(adjective) + _ADJECTIVE_ENDINGS[_DECLENSION[declension]][case][gender]


@cache
def noun_form(noun: Noun, case: Case, plural: bool) -> str:
    """The noun in its case and number."""
    if plural:
        unmarked = case != "dat" or noun.german_plural.endswith(("n", "s"))
        return noun.german_plural + ("" if unmarked else "n")
    if noun.weak and case != "nom":
        return noun.german_plural
    if case == "gen" and noun.gender != "f":
        return _genitive(noun)
    return noun.german


def contract(preposition: str, phrase: str) -> str:
    """A preposition before a phrase, fused with a definite article where German does so."""
    article, _, rest = phrase.partition(" ")
    fused = _CONTRACTIONS.get(f"{preposition} {article}")
    return f"{fused} {rest}" if fused else f"{preposition} {phrase}"


@cache
def present(verb: Verb, person: Person) -> str:
    """The finite form in the present, without a separable prefix."""
    if verb.german == "sein":
        return {"first": "bin", "third": "ist", "plural": "sind"}[person]
    if person == "plural":
        return verb.german
    if person == "third":
        return verb.german_third
    if verb.german == "wissen":
        return "weiß"
    if verb.german.endswith("eln"):
        return verb.german[:-3] + "le"
    return verb.german.removesuffix("n").removesuffix("e") + "e"


@cache
def auxiliary(verb: Verb, person: Person) -> str:
    """The finite form of haben or sein in the perfect."""
    if verb.auxiliary == "sein":
        return {"first": "bin", "third": "ist", "plural": "sind"}[person]
    return {"first": "habe", "third": "hat", "plural": "haben"}[person]


def infinitive(verb: Verb) -> str:
    """The infinitive with its prefix: aufheben."""
    return verb.prefix + verb.german


def zu_infinitive(verb: Verb) -> str:
    """The infinitive with zu, which separable verbs take inside: aufzuheben."""
    return f"{verb.prefix}zu{verb.german}" if verb.prefix else f"zu {verb.german}"


def relative_pronoun(case: Case, gender: str) -> str:
    """The relative pronoun, which differs from the article in the genitive and the dative plural."""
    if case == "gen":
        return "dessen" if gender in "mn" else "deren"
    return "denen" if case == "dat" and gender == "p" else _ARTICLE[case][gender]


def _attributive_stem(adjective: str) -> str:
    if adjective == "hoch":
        return "hoh"
    # teuer, sauer, dunkel lose the e of their last syllable; müde would double it
    if adjective.endswith(("uer", "kel")):
        return adjective[:-2] + adjective[-1]
    return adjective.removesuffix("e")


def _genitive(noun: Noun) -> str:
    if noun.german_plural == noun.german + "se":
        return noun.german + "ses"
    if noun.german.endswith(("s", "ß", "x", "z", "sch", "arzt", "mann")):
        return noun.german + "es"
    borrowed = noun.german_plural.endswith("s") or noun.german[-1] in _VOWELS
    return noun.german + ("s" if borrowed or _syllables(noun.german) > 1 else "es")


def _syllables(word: str) -> int:
    lowered = word.lower()
    return sum(
        letter in _VOWELS and (index == 0 or lowered[index - 1] not in _VOWELS)
        for index, letter in enumerate(lowered)
    )
