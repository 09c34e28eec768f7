"""Placeholders for glossary terms: inserted before translation, replaced in the output."""

import re
from dataclasses import dataclass
from pathlib import Path

PLACEHOLDERS = ("TERMA", "TERMB")
"""Words that occur in no text; the model learns to copy them."""


@dataclass(frozen=True)
class Glossary:
    """Source terms and their translations."""

    terms: dict[str, str]

    @classmethod
    def read(cls, path: Path) -> "Glossary":
        """Reads two tab-separated columns."""
        lines = path.read_text("utf-8").splitlines()
        return cls(dict(line.split("\t") for line in lines if line.strip()))

    def hide(self, text: str) -> tuple[str, dict[str, str]]:
        """The text with placeholders for its terms, and the translation of each placeholder."""
        # Longest terms first: Gleitringdichtungen contains Dichtungen.
        pattern = "|".join(map(re.escape, sorted(self.terms, key=len, reverse=True)))
        translations: dict[str, str] = {}

        def placeholder(match: re.Match[str]) -> str:
            if len(translations) == len(PLACEHOLDERS):
                return match[0]
            name = PLACEHOLDERS[len(translations)]
            translations[name] = self.terms[match[0]]
            return name

        return re.sub(rf"\b(?:{pattern})\b", placeholder, text), translations


def reveal(text: str, translations: dict[str, str]) -> str | None:
    """The text with placeholders replaced; None if one is missing or occurs twice."""
    if any(text.count(name) != 1 for name in translations):
        return None
    for name, term in translations.items():
        text = text.replace(name, term)
    return text
