"""Terms behind placeholders: hidden before a model sees them, shown again in its translation."""

import re
from dataclasses import dataclass
from pathlib import Path

PLACEHOLDERS = ("TERMA", "TERMB")
"""Words that no text contains; the model learns to carry them along."""


@dataclass(frozen=True)
class Glossary:
    """Source terms and what each is called in the target language."""

    terms: dict[str, str]

    @classmethod
    def read(cls, path: Path) -> "Glossary":
        """Two columns with a tab between."""
        lines = path.read_text("utf-8").splitlines()
        return cls(dict(line.split("\t") for line in lines if line.strip()))

    def hide(self, text: str) -> tuple[str, dict[str, str]]:
        """The text with placeholders for its terms, and what each stands for."""
        # The longest first: Gleitringdichtungen is not Dichtungen.
        pattern = "|".join(map(re.escape, sorted(self.terms, key=len, reverse=True)))
        meant: dict[str, str] = {}

        def placeholder(found: re.Match[str]) -> str:
            if len(meant) == len(PLACEHOLDERS):
                return found[0]
            name = PLACEHOLDERS[len(meant)]
            meant[name] = self.terms[found[0]]
            return name

        return re.sub(rf"\b(?:{pattern})\b", placeholder, text), meant


def show(text: str, meant: dict[str, str]) -> str | None:
    """The translation with its terms; nothing where one was lost or came twice."""
    if any(text.count(name) != 1 for name in meant):
        return None
    for name, term in meant.items():
        text = text.replace(name, term)
    return text
