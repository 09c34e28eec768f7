"""Texts longer than the model's maximum length: split into parts, truncated or refused, with a warning."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from regard.errors import RegardError
from regard.tokenization import Tokenizer

LengthPolicy = Literal["split", "cut", "refuse"]
"""What is done with a text longer than the model allows."""


@dataclass(frozen=True)
class LengthLimit:
    """Applies a length policy to texts; `max_length` includes the `</s>` that follows the text."""

    tokenizer: Tokenizer
    max_length: int
    policy: LengthPolicy
    warn: Callable[[str], object]

    def split(self, text: str, line: int) -> list[str]:
        """The text itself where it fits, else its parts in order; under "cut" the caller truncates its ids.

        Raises:
            RegardError: The text is too long and the policy is "refuse".
        """
        tokens = self._tokens_if_too_long(text)
        if tokens is None:
            return [text]
        message = f"line {line} has {tokens} tokens, the model allows {self.max_length}"
        if self.policy == "refuse":
            raise RegardError(f"{message}; choose split or cut to translate it")
        self.warn(f"{message}: {'translated in parts' if self.policy == 'split' else 'the rest is left out'}")
        return self._split_in_half(text) if self.policy == "split" else [text]

    def _tokens_if_too_long(self, text: str) -> int | None:
        return tokens_if_too_long(self.tokenizer, text, self.max_length)

    def _split_in_half(self, text: str) -> list[str]:
        """Split near the middle, at punctuation where possible, recursively until each part fits."""
        if self._tokens_if_too_long(text) is None:
            return [text]
        words = text.split()
        if len(words) < 2:
            middle = len(text) // 2
            return self._split_in_half(text[:middle]) + self._split_in_half(text[middle:])
        ends = [index for index in range(1, len(words)) if words[index - 1][-1] in ".!?;:,"]
        middle = min(ends or range(1, len(words)), key=lambda index: abs(index - len(words) / 2))
        return self._split_in_half(" ".join(words[:middle])) + self._split_in_half(" ".join(words[middle:]))


def tokens_if_too_long(tokenizer: Tokenizer, text: str, max_length: int) -> int | None:
    """Number of tokens of a text with its `</s>` if that is more than `max_length`, else None."""
    if len(text.encode()) < max_length:  # a token is at least one byte, so there is no need to tokenize
        return None
    tokens = len(tokenizer.encode(text)) + 1
    return tokens if tokens > max_length else None
