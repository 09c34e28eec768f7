"""Text longer than the model has places for: told, then split, cut or refused, as asked."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from regard.errors import RegardError
from regard.tokenization import Tokenizer

Policy = Literal["split", "cut", "refuse"]
Tell = Callable[[str], object]


@dataclass(frozen=True)
class Fitting:
    """Cuts texts into parts that fit; `max_length` counts the `</s>` that follows the text."""

    tokenizer: Tokenizer
    max_length: int
    policy: Policy
    tell: Tell

    def parts(self, text: str, line: int) -> list[str]:
        """The text itself where it fits, else its parts in order."""
        tokens = self.too_long(text)
        if tokens is None:
            return [text]
        found = f"line {line} has {tokens} tokens, the model allows {self.max_length}"
        if self.policy == "refuse":
            raise RegardError(f"{found}; split or cut, it could be translated")
        self.tell(f"{found}: {'translated in parts' if self.policy == 'split' else 'the rest is left out'}")
        return self.halves(text) if self.policy == "split" else [text]

    def too_long(self, text: str) -> int | None:
        """How many tokens the text has, if that is more than the model has places for."""
        return too_long(self.tokenizer, text, self.max_length)

    def halves(self, text: str) -> list[str]:
        """Cut near the middle, after a sentence's end where there is one, until each part fits."""
        if self.too_long(text) is None:
            return [text]
        words = text.split()
        if len(words) < 2:
            middle = len(text) // 2
            return self.halves(text[:middle]) + self.halves(text[middle:])
        ends = [place for place in range(1, len(words)) if words[place - 1][-1] in ".!?;:,"]
        middle = min(ends or range(1, len(words)), key=lambda place: abs(place - len(words) / 2))
        return self.halves(" ".join(words[:middle])) + self.halves(" ".join(words[middle:]))


def too_long(tokenizer: Tokenizer, text: str, max_length: int) -> int | None:
    """How many tokens a text has with the `</s>` after it, if that is more than `max_length`."""
    if len(text.encode()) < max_length:  # a token is at least a byte, so this need not be counted
        return None
    tokens = len(tokenizer.encode(text)) + 1
    return tokens if tokens > max_length else None
