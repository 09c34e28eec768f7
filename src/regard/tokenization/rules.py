"""Split natural text into words by rule: English, German and French habits, no list of languages."""

import re
from functools import lru_cache

APOSTROPHE = "['’‘]"
CLITIC = rf"n{APOSTROPHE}t|{APOSTROPHE}(?:s|re|ve|ll|m|d)"
ELISION = rf"(?:[ldjmtscn]|qu|jusqu|lorsqu|puisqu|quoiqu){APOSTROPHE}"


def split(text: str) -> list[str]:
    """Words and punctuation of a text: "I don't." -> I, do, n't, . (hyphens, numbers, addresses stay whole)."""
    return [word for chunk in text.split() for word in _chunk(chunk)]


# Signs that belong to a letter though `\w` does not know them: combining marks, Indic and Thai vowels, joiners.
_SIGNS = (
    "\u0300-\u036f\u0483-\u0489\u0591-\u05bd\u0610-\u061a\u064b-\u065f\u0900-\u0963\u0966-\u0dff"
    "\u0e31-\u0e3a\u0e47-\u0e4e\u1ab0-\u1aff\u200c\u200d\u20d0-\u20ff"
)
_CHARACTER = rf"[\w{_SIGNS}]"
_LETTER = r"[^\W\d_]"
_NOT_IN_WORD = rf"(?!{_CHARACTER})"

_ABBREVIATIONS = (
    "Mr|Mrs|Ms|Dr|Prof|St|Jr|Sr|vs|etc|Inc|Ltd|Co|Corp|Ave|Blvd|Rd|Gov|Gen|Sgt|Capt|Lt|Rev|"
    "Jan|Feb|Aug|Sept|Oct|Nov|Dec|ca|bzw|usw|evtl|inkl|ggf|vgl|Nr|Str|Hr|Fr|Mio|Mrd|geb|sog|M|Mme|Mlle"
)

_TOKEN = re.compile(
    "|".join(
        [
            r"(?:https?://|www\.)[^\s<>\"“”„]*[\w/]",  # web address
            r"[\w.+-]+@[\w-]+(?:\.[\w-]+)*\.\w{2,}",  # mail address
            rf"[a-z0-9-]+(?:\.[a-z0-9-]+)*\.(?:com|org|net|edu|gov|info|io|de|at|ch|fr|uk|eu){_NOT_IN_WORD}",
            rf"{_LETTER}(?:\.{_LETTER})+{_NOT_IN_WORD}\.?",  # U.S., z.B., C.D
            rf"(?:{_ABBREVIATIONS})\.",
            rf"-?\d+(?:[.,:]\d+)+{_NOT_IN_WORD}",  # 3.14, 1,000, 12:30
            rf"{APOSTROPHE}(?:em|n|til|tis|twas|cause|\d0s){_NOT_IN_WORD}",
            rf"{APOSTROPHE}(?:s|re|ve|ll|m|d){_NOT_IN_WORD}",
            rf"(?:-(?!-))?{_CHARACTER}+(?:(?:-|{APOSTROPHE}|&amp;|&){_CHARACTER}+)*(?:-(?!-))?",
            r"&\w+;",  # an entity that a web page left behind
            r"\.{2,}|-{2,}|''|``",
            r".",
        ]
    ),
    re.DOTALL,
)
_WORD_WITH_CLITIC = re.compile(rf"(.+?)({CLITIC})", re.IGNORECASE | re.DOTALL)
_WORD_WITH_ELISION = re.compile(rf"({ELISION})(?=\w)", re.IGNORECASE)


@lru_cache(maxsize=1 << 16)  # captions repeat their words: the regular expression runs once a distinct chunk
def _chunk(chunk: str) -> tuple[str, ...]:
    """Words of a stretch without blanks."""
    return tuple(part for word in _TOKEN.findall(chunk) for part in _contraction(word))


def _contraction(word: str) -> list[str]:
    """don't -> do n't, man's -> man 's, l'eau -> l' eau; any other word is left whole."""
    if found := _WORD_WITH_CLITIC.fullmatch(word):
        return [found[1], found[2]]
    if (found := _WORD_WITH_ELISION.match(word)) and found.end() < len(word):
        return [found[1], word[found.end() :]]
    return [word]
