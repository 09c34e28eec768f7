"""Put words back into natural text: the inverse of `split`, by rule."""

import re
from collections.abc import Iterable

from regard.tokenization.rules import CLITIC, ELISION


def join(words: Iterable[str], *, hyphens: bool = False) -> str:
    """Natural text of words: punctuation attached, quotes opened and closed in turn.

    `hyphens`: a lone hyphen joins its neighbours, as spaCy splits blond-haired in three.
    """
    sentence = list(words)
    quotes = _Quotes(sentence)
    text: list[str] = []
    glue = True  # nothing stands before the first word
    for place, word in enumerate(sentence):
        left, right = quotes.glue(place) if word in _QUOTES else _glue(sentence, place, hyphens)
        text.append(word if glue or left else " " + word)
        glue = right
    return "".join(text)


_QUOTES = frozenset("\"'„“”‚‘’«»`")
_CLOSING = frozenset(".,;:!?)]}%…") | {"...", ".."}
_OPENING = frozenset("([{¿¡")
_BEFORE_NUMBER = frozenset("$£#")
_ENDS = frozenset("“”\"'’)]».")
_ATTACHED_LEFT = re.compile(CLITIC, re.IGNORECASE)
_ATTACHED_RIGHT = re.compile(ELISION, re.IGNORECASE)


def _glue(sentence: list[str], place: int, hyphens: bool) -> tuple[bool, bool]:
    """Whether the word at a place touches its left and its right neighbour."""
    word = sentence[place]
    after = sentence[place + 1][:1] if place + 1 < len(sentence) else ""
    if word in _CLOSING:
        return True, False
    if word.isspace():  # spaCy keeps the second of two blanks as a word
        return False, True
    if word in _OPENING:
        return False, True
    if word == "/" or (hyphens and word == "-" and place > 0 and after.isalnum()):
        return True, True
    if word in _BEFORE_NUMBER:
        return False, after.isdigit()
    if len(word) > 1 and word[0] == "-" and place and sentence[place - 1][-1] in _ENDS:  # „BBQ“-Schild
        return True, False
    return bool(_ATTACHED_LEFT.fullmatch(word)), bool(_ATTACHED_RIGHT.fullmatch(word))


class _Quotes:
    """Which quotation marks of a sentence open and which close; fed from left to right."""

    def __init__(self, sentence: list[str]) -> None:
        self.sentence = sentence
        self.open: list[str] = []
        self.single = sentence.count("'")

    def glue(self, place: int) -> tuple[bool, bool]:
        """Opening marks touch the right neighbour, closing ones the left."""
        mark = self.sentence[place]
        if self._closes(mark, place):
            if self.open:
                self.open.pop()
            return True, False
        self.open.append(mark)
        return False, True

    def _closes(self, mark: str, place: int) -> bool:
        inside = self.open[-1] if self.open else ""
        last = place == len(self.sentence) - 1
        if mark in "„‚":
            return False
        if mark == "’":
            return True
        if mark == "'":
            return inside == "'" or last or self._is_apostrophe(place)
        if mark == "‘":
            return inside == "‚"
        if mark in "«»":
            return inside in ("«", "»") and inside != mark
        return inside in ("„", "“", "”", '"') or (mark == "”" and last)

    def _is_apostrophe(self, place: int) -> bool:
        """The plural's apostrophe, as in the farmers' market: an odd one after an s."""
        return self.single % 2 == 1 and place > 0 and self.sentence[place - 1][-1:] in "sxzS"
