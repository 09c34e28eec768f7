"""Types of lexicon entries, and parsers of the lexicon tables."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

Gender = Literal["m", "f", "n"]
Case = Literal["nom", "acc", "dat", "gen"]

_GENDER_OF_ARTICLE: dict[str, Gender] = {"der": "m", "die": "f", "das": "n"}


@dataclass(frozen=True, eq=False, slots=True)
class Noun:
    """A noun in both languages; `plural` is empty for mass nouns."""

    german: str
    gender: Gender
    weak: bool
    german_plural: str
    english: str
    english_plural: str
    tags: frozenset[str]

    @property
    def mass(self) -> bool:
        """Whether the noun has no plural and no indefinite article."""
        return not self.german_plural


@dataclass(frozen=True, eq=False, slots=True)
class Preposition:
    """A preposition with the case it governs and its translation."""

    german: str
    case: Case
    english: str


@dataclass(frozen=True, eq=False, slots=True)
class Place:
    """A place noun with its locative and its directional preposition."""

    noun: Noun
    located: Preposition
    entered: Preposition


@dataclass(frozen=True, eq=False, slots=True)
class Adjective:
    """An adjective with the noun tags it fits and, where it is gradable, its comparatives."""

    german: str
    english: str
    german_comparative: str
    english_comparative: str
    tags: frozenset[str]
    excluded: frozenset[str]

    def fits(self, noun: Noun) -> bool:
        """Whether the adjective can modify this noun."""
        return not self.tags.isdisjoint(noun.tags) and self.excluded.isdisjoint(noun.tags)


@dataclass(frozen=True, eq=False, slots=True)
class Verb:
    """A verb in both languages with its frame: tags of subjects and objects, object case, flags."""

    german: str
    prefix: str
    german_third: str
    participle: str
    auxiliary: Literal["haben", "sein"]
    english: str
    english_past: str
    english_participle: str
    subjects: tuple[str, ...]
    object_case: Literal["", "acc", "dat", "both", "prep"]
    objects: tuple[str, ...]
    preposition: Preposition | None
    flags: frozenset[str]

    @property
    def name(self) -> str:
        """Both dictionary forms, with reflexive and preposition to distinguish homonyms."""
        reflexive = "sich etwas " if "body" in self.flags else "sich " if "self" in self.flags else ""
        governed = f" {self.preposition.german}" if self.preposition else ""
        return f"{reflexive}{self.prefix}{self.german}{governed} {self.english}"


def parse_noun(line: str, tags: str) -> Noun:
    """Parse `der Junge*, Jungen | boy | extra tags`; a star marks weak masculines, `-` mass nouns."""
    german, english, *extra = (cell.strip() for cell in line.split("|"))
    singular, german_plural = german.split(", ")
    article, word = singular.split(" ")
    forms = english.split(", ")
    return Noun(
        german=word.rstrip("*"),
        gender=_GENDER_OF_ARTICLE[article],
        weak=word.endswith("*"),
        german_plural="" if german_plural == "-" else german_plural,
        english=forms[0],
        english_plural=forms[-1] if len(forms) > 1 else _regular_plural(forms[0]),
        tags=frozenset(" ".join([tags, *extra]).split()),
    )


def parse_place_noun(line: str, tags: str) -> Place:
    """Parse `der Garten, Gärten | garden | in in | in into`: noun, locative and directional prepositions."""
    german, english, located, entered = (cell.strip() for cell in line.split("|"))
    entry = parse_noun(f"{german} | {english}", tags)
    entered_german, entered_english = entered.split(" ", 1)
    located_german, located_english = located.split(" ", 1)
    return Place(
        noun=entry,
        located=Preposition(located_german, "dat", located_english),
        entered=Preposition(entered_german, "dat" if entered_german == "zu" else "acc", entered_english),
    )


def parse_adjective(line: str) -> Adjective:
    """Parse `alt, älter | old, older | person -child`; a minus excludes a tag."""
    german, english, tags = (cell.strip().split(", ") for cell in line.split("|"))
    tag_cells = tags[0].split()
    return Adjective(
        german=german[0],
        english=english[0],
        german_comparative=german[1] if len(german) > 1 else "",
        english_comparative=english[1] if len(english) > 1 else "",
        tags=frozenset(tag for tag in tag_cells if not tag.startswith("-")),
        excluded=frozenset(tag[1:] for tag in tag_cells if tag.startswith("-")),
    )


def parse_verb(line: str) -> Verb:
    """Parse `auf|heben, hebt, gehoben, sein ; pick up, picked ; person > acc toy ; flags`."""
    german, english, frame, flags = (cell.strip() for cell in line.split(";"))
    infinitive, *irregular = german.split(", ")
    prefix, _, base = infinitive.rpartition("|")
    third, participle = irregular[:2] if len(irregular) >= 2 else _regular_german(base)
    past, english_participle = _english_forms(english.split(", "))
    subjects, _, rest = frame.partition(">")
    governs, *objects = rest.split() or [""]
    return Verb(
        german=base,
        prefix=prefix,
        german_third=third,
        participle=prefix + participle,
        auxiliary="sein" if irregular[-1:] == ["sein"] else "haben",
        english=english.split(", ")[0],
        english_past=past,
        english_participle=english_participle,
        subjects=tuple(subjects.split()),
        object_case=_object_case(governs),
        objects=tuple(objects),
        preposition=_parse_governed_preposition(governs),
        flags=frozenset(flags.split()),
    )


def table_rows(table: str) -> Iterator[str]:
    """The rows of a table, without blank lines."""
    return (line.strip() for line in table.splitlines() if line.strip())


def _object_case(governs: str) -> Literal["", "acc", "dat", "both", "prep"]:
    match governs:
        case "" | "acc" | "dat" | "both":
            return governs
        case _:
            return "prep"


def _parse_governed_preposition(governs: str) -> Preposition | None:
    """Parse `aus+dat/out_of`: the preposition a verb governs and its English counterpart, `-` for none."""
    if "+" not in governs:
        return None
    german, rest = governs.split("+")
    case, english = rest.split("/")
    return Preposition(german, "acc" if case == "acc" else "dat", english.strip("-").replace("_", " "))


def _regular_german(infinitive: str) -> tuple[str, str]:
    """Third person singular and participle of a weak verb: `kauft, gekauft`, `arbeitet, gearbeitet`."""
    stem = infinitive.removesuffix("n").removesuffix("e")
    linked = stem.endswith(("t", "d", "chn", "ffn"))
    third = stem + ("et" if linked else "t")
    # the inseparable prefixes and the verbs in -ieren form their participle without ge-
    unprefixed = stem.endswith("ier") or (
        stem.startswith(("be", "ver", "er", "zer", "um", "ent")) and stem not in _NOT_PREFIXED
    )
    return third, third if unprefixed else "ge" + third


_NOT_PREFIXED = ("bell", "ernt")


def _english_forms(forms: list[str]) -> tuple[str, str]:
    """Past tense and -ing form, from the table or by rule, followed by the verb's particle."""
    head, _, particle = forms[0].partition(" ")
    past = forms[1] if len(forms) > 1 else _regular_past(head)
    progressive = forms[2] if len(forms) > 2 else _regular_progressive(head)
    tail = f" {particle}" if particle else ""
    return past + tail, progressive + tail


def _regular_past(word: str) -> str:
    if word.endswith("e"):
        return word + "d"
    if word.endswith("y") and word[-2] not in "aeiou":
        return word[:-1] + "ied"
    return word + "ed"


def _regular_progressive(word: str) -> str:
    if word.endswith("ie"):
        return word[:-2] + "ying"
    return (word[:-1] if word.endswith("e") and not word.endswith("ee") else word) + "ing"


def _regular_plural(word: str) -> str:
    if word.endswith(("s", "x", "ch", "sh")):
        return word + "es"
    if word.endswith("y") and word[-2] not in "aeiou":
        return word[:-1] + "ies"
    return word + "s"
