"""Lexicon of closed classes: pronouns, determiners, modals, prepositions, adverbials, conjunctions."""

from dataclasses import dataclass
from typing import Literal

from regard.data.picturebook.lexical_entries import Preposition

Person = Literal["first", "third", "plural"]


@dataclass(frozen=True, eq=False, slots=True)
class Pronoun:
    """A personal pronoun with its case forms, possessive stem and reflexives in both languages."""

    person: Person
    nom: str
    acc: str
    dat: str
    german_possessive: str
    reflexive_acc: str
    reflexive_dat: str
    subject: str
    object: str
    possessive: str
    reflexive: str


_THIRD = ("sich", "sich")
_HE = ("he", "him", "his", "himself")
_SHE = ("she", "her", "her", "herself")
_IT = ("it", "it", "its", "itself")

ME = Pronoun("first", "ich", "mich", "mir", "mein", "mich", "mir", "I", "me", "my", "myself")
WE = Pronoun("plural", "wir", "uns", "uns", "unser", "uns", "uns", "we", "us", "our", "ourselves")
HE = Pronoun("third", "er", "ihn", "ihm", "sein", *_THIRD, *_HE)
SHE = Pronoun("third", "sie", "sie", "ihr", "ihr", *_THIRD, *_SHE)
# animals and children are `it` in English but keep their gender in German
IT_M = Pronoun("third", "er", "ihn", "ihm", "sein", *_THIRD, *_IT)
IT_F = Pronoun("third", "sie", "sie", "ihr", "ihr", *_THIRD, *_IT)
IT_N = Pronoun("third", "es", "es", "ihm", "sein", *_THIRD, *_IT)
THEY = Pronoun("plural", "sie", "sie", "ihnen", "ihr", *_THIRD, "they", "them", "their", "themselves")


@dataclass(frozen=True, eq=False, slots=True)
class Determiner:
    """A determiner; `declension` selects its German endings and those of the adjectives."""

    german: str
    english: str
    declension: Literal["der", "dieser", "ein", "viele", "bare"]
    english_plural: str = ""
    definite: bool = False


THE = Determiner("der", "the", "der", "the", definite=True)
A = Determiner("ein", "a", "ein")
BARE = Determiner("", "", "bare")
NO = Determiner("kein", "a", "ein", "any")
THIS = Determiner("dies", "this", "dieser", "these", definite=True)
EVERY = Determiner("jed", "every", "dieser", definite=True)
OWN = Determiner("", "", "ein", definite=True)  # possessive; its stem is the possessor's
BODY_PART = Determiner("der", "", "der", definite=True)  # `sich die Hände waschen`, English takes a possessive
OCCUPATION = Determiner("", "a", "bare")  # `Er ist Lehrer`, `He is a teacher`
INSTRUMENT = Determiner("", "the", "bare")  # `Klavier spielen`, `play the piano`
QUANTIFIERS = (
    Determiner("viel", "many", "viele", "many"),
    Determiner("einig", "some", "viele", "some"),
    Determiner("mehrer", "several", "viele", "several"),
)
NUMERALS = tuple(
    Determiner(german, english, "bare", english)
    for german, english in (
        ("zwei", "two"),
        ("drei", "three"),
        ("vier", "four"),
        ("fünf", "five"),
        ("sechs", "six"),
        ("sieben", "seven"),
        ("acht", "eight"),
        ("neun", "nine"),
        ("zehn", "ten"),
    )
)


@dataclass(frozen=True, eq=False, slots=True)
class Modal:
    """A modal verb; `english_kind` is the English construction, on which negation depends."""

    german: str
    first: str
    third: str
    english: str
    english_kind: Literal["plain", "verb", "be"]


CAN = Modal("können", "kann", "kann", "can", "plain")
WILL = Modal("werden", "werde", "wird", "will", "plain")
MODALS = (
    CAN,
    Modal("müssen", "muss", "muss", "have to", "verb"),
    Modal("wollen", "will", "will", "want to", "verb"),
    Modal("dürfen", "darf", "darf", "allowed to", "be"),
    Modal("sollen", "soll", "soll", "should", "plain"),
    Modal("möchten", "möchte", "möchte", "would like to", "plain"),
)

UNDER = Preposition("unter", "dat", "under")
BESIDE = Preposition("neben", "dat", "next to")
BEHIND = Preposition("hinter", "dat", "behind")
BEFORE = Preposition("vor", "dat", "in front of")
ON = Preposition("auf", "dat", "on")
IN = Preposition("in", "dat", "in")
AT = Preposition("an", "dat", "at")
ONTO = Preposition("auf", "acc", "onto")
LAID_ON = Preposition("auf", "acc", "on")
LAID_UNDER = Preposition("unter", "acc", "under")
LAID_BESIDE = Preposition("neben", "acc", "next to")
INTO = Preposition("in", "acc", "into")
OVER = Preposition("über", "acc", "over")
THROUGH = Preposition("durch", "acc", "through")
AROUND = Preposition("um", "acc", "around")
OUT_OF = Preposition("aus", "dat", "out of")
WITH = Preposition("mit", "dat", "with")
WITHOUT = Preposition("ohne", "acc", "without")
FOR = Preposition("für", "acc", "for")
BECAUSE_OF = Preposition("wegen", "gen", "because of")
DESPITE = Preposition("trotz", "gen", "despite")
PREPOSITIONS = (
    UNDER, BESIDE, BEHIND, BEFORE, ON, IN, AT, ONTO, OVER, THROUGH, AROUND, OUT_OF,
    WITH, WITHOUT, FOR, BECAUSE_OF, DESPITE,
)  # fmt: skip


@dataclass(frozen=True, eq=False, slots=True)
class Adverb:
    """An adverb or fixed adverbial phrase."""

    german: str
    english: str


NOW_TIMES = (
    Adverb("am Morgen", "in the morning"),
    Adverb("am Nachmittag", "in the afternoon"),
    Adverb("am Abend", "in the evening"),
    Adverb("in der Nacht", "at night"),
    Adverb("am Mittag", "at noon"),
    Adverb("heute", "today"),
    Adverb("jetzt", "now"),
)
_DAYS = (
    Adverb("am Montag", "on Monday"),
    Adverb("am Dienstag", "on Tuesday"),
    Adverb("am Mittwoch", "on Wednesday"),
    Adverb("am Donnerstag", "on Thursday"),
    Adverb("am Freitag", "on Friday"),
    Adverb("am Samstag", "on Saturday"),
    Adverb("am Sonntag", "on Sunday"),
    Adverb("am Wochenende", "on the weekend"),
    Adverb("im Frühling", "in the spring"),
    Adverb("im Sommer", "in the summer"),
    Adverb("im Herbst", "in the fall"),
    Adverb("im Winter", "in the winter"),
)
PAST_TIMES = (
    *_DAYS,
    Adverb("gestern", "yesterday"),
    Adverb("letzte Woche", "last week"),
    Adverb("letzten Monat", "last month"),
    Adverb("letztes Jahr", "last year"),
    Adverb("vor drei Tagen", "three days ago"),
    Adverb("vor einer Stunde", "an hour ago"),
)
FUTURE_TIMES = (
    *_DAYS,
    Adverb("morgen", "tomorrow"),
    Adverb("nächste Woche", "next week"),
    Adverb("bald", "soon"),
    Adverb("später", "later"),
)
MODAL_TIMES = (Adverb("heute", "today"), Adverb("morgen", "tomorrow"), Adverb("am Abend", "in the evening"))
MANNERS: dict[str, tuple[Adverb, ...]] = {
    "fast": (Adverb("schnell", "quickly"), Adverb("langsam", "slowly")),
    "loud": (Adverb("laut", "loudly"), Adverb("leise", "quietly")),
    "care": (Adverb("vorsichtig", "carefully"), Adverb("geduldig", "patiently")),
}
TOGETHER = Adverb("zusammen", "together")

BECAUSE = Adverb("weil", "because")
WHILE = Adverb("während", "while")
ALTHOUGH = Adverb("obwohl", "although")
WHEN_PAST = Adverb("als", "when")
BEFORE_THAT = Adverb("bevor", "before")
IF = Adverb("wenn", "if")
AS_SOON_AS = Adverb("sobald", "as soon as")
SO_THAT = Adverb("damit", "so that")
THAT = Adverb("dass", "that")
AND = Adverb("und", "and")
BUT = Adverb("aber", "but")
CONJUNCTIONS = (
    BECAUSE, WHILE, ALTHOUGH, WHEN_PAST, BEFORE_THAT, IF, AS_SOON_AS, SO_THAT, THAT, AND, BUT,
    Adverb("um", "in order"),
)  # fmt: skip
