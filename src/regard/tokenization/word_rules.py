"""Rule-based word tokenizer and detokenizer for English, German and French.

`split_words` separates punctuation, clitics and elisions from words; `detokenize` is its inverse. Both apply
the same rules to all languages.
"""

import re
from collections.abc import Iterable
from functools import lru_cache

APOSTROPHE = "['’‘]"
CLITIC = rf"n{APOSTROPHE}t|{APOSTROPHE}(?:s|re|ve|ll|m|d)"
ELISION = rf"(?:[ldjmtscn]|qu|jusqu|lorsqu|puisqu|quoiqu){APOSTROPHE}"


def split_words(text: str) -> list[str]:
    """Words and punctuation of a text: "I don't." -> I, do, n't, . (hyphens, numbers, URLs stay whole)."""
    return [word for chunk in text.split() for word in _split_chunk(chunk)]


# Characters of words that `\w` does not match: combining marks, Indic and Thai vowel signs, joiners.
_MARKS = (
    "\u0300-\u036f\u0483-\u0489\u0591-\u05bd\u0610-\u061a\u064b-\u065f\u0900-\u0963\u0966-\u0dff"
    "\u0e31-\u0e3a\u0e47-\u0e4e\u1ab0-\u1aff\u200c\u200d\u20d0-\u20ff"
)
_CHARACTER = rf"[\w{_MARKS}]"
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
            r"&\w+;",  # an HTML entity
            r"\.{2,}|-{2,}|''|``",
            r".",
        ]
    ),
    re.DOTALL,
)
_WORD_WITH_CLITIC = re.compile(rf"(.+?)({CLITIC})", re.IGNORECASE | re.DOTALL)
_WORD_WITH_ELISION = re.compile(rf"({ELISION})(?=\w)", re.IGNORECASE)


@lru_cache(maxsize=1 << 16)  # words repeat: the regular expression runs once per distinct chunk
def _split_chunk(chunk: str) -> tuple[str, ...]:
    """Words of a chunk of text without whitespace."""
    return tuple(part for word in _TOKEN.findall(chunk) for part in _split_contraction(word))


def _split_contraction(word: str) -> list[str]:
    """don't -> do n't, man's -> man 's, l'eau -> l' eau; any other word is unchanged."""
    if match := _WORD_WITH_CLITIC.fullmatch(word):
        return [match[1], match[2]]
    if (match := _WORD_WITH_ELISION.match(word)) and match.end() < len(word):
        return [match[1], word[match.end() :]]
    return [word]


def detokenize(words: Iterable[str], *, join_hyphens: bool = False) -> str:
    """Natural text from words: the inverse of `split_words`.

    Args:
        words: Words and punctuation.
        join_hyphens: Whether a lone hyphen joins its neighbours; spaCy splits blond-haired into three words.
    """
    sentence = list(words)
    quotes = _QuoteTracker(sentence)
    text: list[str] = []
    attached = True  # the first word has no blank before it
    for index, word in enumerate(sentence):
        if word in _QUOTES:
            attach_left, attach_right = quotes.attachment(index)
        else:
            attach_left, attach_right = _attachment(sentence, index, join_hyphens)
        text.append(word if attached or attach_left else " " + word)
        attached = attach_right
    return "".join(text)


_QUOTES = frozenset("\"'„“”‚‘’«»`")
_CLOSING = frozenset(".,;:!?)]}%…") | {"...", ".."}
_OPENING = frozenset("([{¿¡")
_BEFORE_NUMBER = frozenset("$£#")
_ENDS = frozenset("“”\"'’)]».")
_ATTACHED_LEFT = re.compile(CLITIC, re.IGNORECASE)
_ATTACHED_RIGHT = re.compile(ELISION, re.IGNORECASE)


def _attachment(sentence: list[str], index: int, join_hyphens: bool) -> tuple[bool, bool]:
    """Whether a word attaches to its left and to its right neighbour, without a blank."""
    word = sentence[index]
    after = sentence[index + 1][:1] if index + 1 < len(sentence) else ""
    if word in _CLOSING:
        return True, False
    if word.isspace():  # for spaCy, the second of two blanks is a word
        return False, True
    if word in _OPENING:
        return False, True
    if word == "/" or (join_hyphens and word == "-" and index > 0 and after.isalnum()):
        return True, True
    if word in _BEFORE_NUMBER:
        return False, after.isdigit()
    if len(word) > 1 and word[0] == "-" and index and sentence[index - 1][-1] in _ENDS:  # „BBQ“-Schild
        return True, False
    return bool(_ATTACHED_LEFT.fullmatch(word)), bool(_ATTACHED_RIGHT.fullmatch(word))


class _QuoteTracker:
    """Decides, from left to right, which quotation marks of a sentence open and which close."""

    def __init__(self, sentence: list[str]) -> None:
        self.sentence = sentence
        self.open_marks: list[str] = []
        self.single_quotes = sentence.count("'")

    def attachment(self, index: int) -> tuple[bool, bool]:
        """Opening marks attach to the right neighbour, closing ones to the left."""
        mark = self.sentence[index]
        if self._closes(mark, index):
            if self.open_marks:
                self.open_marks.pop()
            return True, False
        self.open_marks.append(mark)
        return False, True

    def _closes(self, mark: str, index: int) -> bool:
        innermost = self.open_marks[-1] if self.open_marks else ""
        last = index == len(self.sentence) - 1
        if mark in "„‚":
            return False
        if mark == "’":
            return True
        if mark == "'":
            return innermost == "'" or last or self._is_apostrophe(index)
        if mark == "‘":
            return innermost == "‚"
        if mark in "«»":
            return innermost in ("«", "»") and innermost != mark
        return innermost in ("„", "“", "”", '"') or (mark == "”" and last)

    def _is_apostrophe(self, index: int) -> bool:
        """A plural possessive as in the farmers' market: an apostrophe after an s, in an odd number of them."""
        return self.single_quotes % 2 == 1 and index > 0 and self.sentence[index - 1][-1:] in "sxzS"
