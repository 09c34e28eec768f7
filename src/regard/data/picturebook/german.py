"""German surface realization: word order by topological fields, then morphology (declension, conjugation)."""

from functools import cache

from regard.data.picturebook.function_words import BODY_PART, OWN, Adverb, Person, Pronoun
from regard.data.picturebook.lexical_entries import Case, Noun, Verb
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


def realize(meaning: Sentence) -> str:
    """The German sentence for a meaning."""
    match meaning:
        case Simple(clause, front):
            words = main_clause(clause, front)
        case Existential(clause):
            words = main_clause(clause, Front.LOCATION)
        case Subordination():
            words = _subordination(meaning)
        case ClauseCoordination(first, conjunction, second, shared_subject):
            front = Front.NONE if shared_subject else Front.SUBJECT
            # a comma stands before aber, but not before und
            comma = [","] if conjunction.german == "aber" else []
            words = [*main_clause(first), *comma, conjunction.german]
            continued = main_clause(second, front, subject=not shared_subject)
            words += continued[1:] if shared_subject and _same_auxiliary(first, second) else continued
        case InfinitiveClause(main, clause, purpose):
            words = [*main_clause(main), ",", *(["um"] if purpose else []), *_zu_clause(clause)]
    return _detokenize(words)


def main_clause(clause: Clause, front: Front = Front.SUBJECT, subject: bool = True) -> list[str]:
    """A verb-second clause; with `Front.NONE` a preceding clause fills the prefield."""
    finite, end = _verb_second(clause)
    match front:
        case Front.SUBJECT:
            first = [nominal_phrase(clause.subject, "nom"), *_relative_after(clause.subject)]
            middle_field = _middle_field(clause, subject=False, time=True, location=True)
        case Front.TIME:
            first = [_adverbial(clause.time)]
            middle_field = _middle_field(clause, subject=subject, time=False, location=True)
        case Front.LOCATION:
            first = [_adverbial(clause.location)]
            middle_field = _middle_field(clause, subject=subject, time=True, location=False)
        case Front.NONE:
            first = []
            middle_field = _middle_field(clause, subject=subject, time=True, location=True)
    return [*first, finite, *middle_field, *end, *_extraposed(clause)]


def verb_final_clause(clause: Clause, subject: bool = True) -> list[str]:
    """A verb-final clause, as after a conjunction or a relative pronoun."""
    middle_field = _middle_field(clause, subject=subject, time=True, location=True)
    return [*middle_field, *_verb_final(clause), *_extraposed(clause)]


def nominal_phrase(nominal: Nominal, case: Case) -> str:
    """A noun phrase, coordination or pronoun in a case, without its relative clause."""
    if isinstance(nominal, Pronoun):
        return {"nom": nominal.nom, "acc": nominal.acc, "dat": nominal.dat}[case]
    if isinstance(nominal, Coordination):
        return " und ".join(nominal_phrase(part, case) for part in nominal.conjuncts)
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
    """A preposition with its noun phrase in the case it governs."""
    preposition = phrase.preposition
    return contract(preposition.german, nominal_phrase(phrase.noun_phrase, preposition.case))


def _gender(phrase: NounPhrase) -> str:
    return "p" if phrase.plural else phrase.noun.gender


def _subordination(meaning: Subordination) -> list[str]:
    subordinate = [meaning.conjunction.german, *verb_final_clause(meaning.subordinate)]
    if meaning.subordinate_first:
        return [*subordinate, ",", *main_clause(meaning.main, Front.NONE)]
    return [*main_clause(meaning.main, meaning.front), ",", *subordinate]


def _same_auxiliary(first: Clause, second: Clause) -> bool:
    """Whether the second clause omits its auxiliary: `hat gelacht und getanzt`."""
    perfect = first.tense is Tense.PAST and second.tense is Tense.PAST
    return perfect and first.verb.auxiliary == second.verb.auxiliary


def _verb_second(clause: Clause) -> tuple[str, list[str]]:
    """The finite verb, and the closing bracket: prefix, participle or infinitive."""
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
    middle_field = _middle_field(clause, subject=False, time=True, location=True)
    return [*middle_field, zu_infinitive(clause.verb), *_extraposed(clause)]


def _middle_field(clause: Clause, subject: bool, time: bool, location: bool) -> list[str]:
    """The middle field: pronouns, time, given objects, negation, manner, location, new objects."""
    given_objects, new_objects, pronouns = _objects(clause)
    words = _subject_and_pronouns(clause, subject, pronouns)
    if time and clause.time:
        words.append(_adverbial(clause.time))
    words += given_objects
    if clause.negated and not _has_kein(clause):
        words.append("nicht")
    if clause.manner:
        words.append(clause.manner.german)
    if location and clause.location:
        words.append(prepositional_phrase(clause.location))
    words += new_objects
    for phrase in (clause.oblique, clause.direction):
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
    # pronouns precede a full subject: `Am Abend wäscht sich die Frau`
    return [*short, word, *_relative_after(clause.subject)]


def _reflexive(clause: Clause) -> list[str]:
    if "self" not in clause.verb.flags:
        return []
    pronoun = pronoun_for(clause.subject)
    return [pronoun.reflexive_dat if "body" in clause.verb.flags else pronoun.reflexive_acc]


def _objects(clause: Clause) -> tuple[list[str], list[str], list[str]]:
    """The objects as three lists: given (definite), new (indefinite) and pronouns."""
    given_objects: list[str] = []
    new_objects: list[str] = []
    pronouns: list[str] = []
    slots: tuple[tuple[Nominal | None, Case], ...] = ((clause.recipient, "dat"), (clause.object, "acc"))
    for nominal, case in slots:
        if nominal is None:
            continue
        if isinstance(nominal, Pronoun):
            pronouns.append(nominal_phrase(nominal, case))
        # the recipient precedes the direct object, whether definite or not
        elif _definite(nominal) or case == "dat":
            given_objects.append(nominal_phrase(nominal, case))
        else:
            new_objects.append(nominal_phrase(nominal, case))
    return given_objects, new_objects, pronouns


def _definite(nominal: NounPhrase | Coordination) -> bool:
    if isinstance(nominal, Coordination):
        return all(_definite(part) for part in nominal.conjuncts)
    return nominal.determiner.definite or nominal.determiner is BODY_PART


def _has_kein(clause: Clause) -> bool:
    return isinstance(clause.object, NounPhrase) and clause.object.determiner.german == "kein"


def _predicate(clause: Clause) -> list[str]:
    predicate = clause.predicate
    if predicate is None:
        return []
    if predicate.noun:
        return [nominal_phrase(predicate.noun, "nom")]
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
    """The relative clause of the object, extraposed after the verb: `hebt den Ball auf, der ...`."""
    oblique = clause.oblique.noun_phrase if clause.oblique else None
    return [word for slot in (clause.object, oblique) if slot for word in _relative_after(slot)]


def _relative_after(nominal: Nominal) -> list[str]:
    if not isinstance(nominal, NounPhrase) or nominal.relative is None:
        return []
    return [",", *_relative(nominal.relative), ","]


def _relative(relative: Relative) -> list[str]:
    clause = relative.clause
    remaining = without_gap(relative)
    rest = verb_final_clause(remaining, subject=relative.gap not in (Gap.SUBJECT, Gap.OWNER))
    match relative.gap:
        case Gap.SUBJECT:
            return [_pronoun_of(clause.subject, "nom"), *rest]
        case Gap.OBJECT:
            return [_pronoun_of(clause.object, "acc"), *rest]
        case Gap.RECIPIENT:
            return [_pronoun_of(clause.recipient, "dat"), *rest]
        case Gap.OWNER:
            owner = clause.subject.owner if isinstance(clause.subject, NounPhrase) else None
            # nothing, not even a reflexive, separates the genitive pronoun from its noun
            return [_pronoun_of(owner, "gen"), nominal_phrase(remaining.subject, "nom"), *rest]
        case Gap.LOCATION:
            if clause.location is None:
                raise ValueError("a relative clause with Gap.PLACE needs a clause with a place")
            preposition = clause.location.preposition
            pronoun = _pronoun_of(clause.location.noun_phrase, preposition.case)
            return [preposition.german, pronoun, *rest]


def _pronoun_of(nominal: Nominal | None, case: Case) -> str:
    if not isinstance(nominal, NounPhrase):
        raise TypeError(f"the gap of a relative clause must hold its head, not {nominal!r}")
    return relative_pronoun(case, _gender(nominal))


def _detokenize(words: list[str]) -> str:
    """Words as text: no space before a comma, no double or final comma, a capital and a full stop."""
    text = " ".join(words).replace(" ,", ",").replace(",,", ",").rstrip(",")
    return text[0].upper() + text[1:] + "."


# Morphology


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
    """A preposition with its phrase, contracted with a definite article where German requires it."""
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
    # teuer, sauer and dunkel lose the e of their last syllable; müde loses its final e
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
