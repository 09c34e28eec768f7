"""Vague local names and worn phrases: `python tests/support/wording.py [PATH ...]` lists where one is left."""

import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]

NAMES = frozenset(
    [
        "each",
        "found",
        "told",
        "asked",
        "given",
        "place",
        "places",
        "some",
        "looked",
        "thought",
        "chance",
        "wish",
        "besides",
    ]
)
"""Identifiers that do not say what they hold."""

PHRASES = {
    r"\b(tokens?|sentences?|images?|requests?|bits?|loss|nats|updates?|steps?|texts?|pairs|lines?|MB|GB|numbers?)"
    r" an? (second|token|byte|line|step|minute|epoch|batch|sentence|letter|character)\b": "per",
    r"\b(go|goes|going|went|gone) on\b": "continue, resume, generate",
    r"\ba training(?=[.,;:)]| (was|is|that|which|of|into|in|may|does|has|goes|ends|begins|killed|runs)\b)": "a training run",
    r"\b(told|tells?|telling)\b": "passed, reported, printed",
    r"\b(asked|asks?|asking)\b": "queried, requested",
    r"\blook(s|ed|ing)? (at|into|back)\b": "attend to, read, inspect",
    r"\bby chance\b|\bof chance\b|\bchances\b": "at random, random, probability",
    r"\b(anew|lest|whoever|sooner|whence|hitherto)\b": "plain modern English",
    r"\bto the bit\b": "bit-identical",
    r"\b(rooms?|bricks?)\b": "package, module",
    r"\bwritten aside\b": "written to a temporary file",
    r"\bunless given\b": "default",
    r"\b(knows|thinks|thought|remembers|listens)\b": "stores, computes, has",
    r"\bstrangers?\b": "untrusted",
    r"\b(likeness|foretells?)\b": "similarity, predict",
}
"""Phrases as patterns, and what to write."""


def python_prose(source: str) -> Iterator[tuple[int, str, bool]]:
    """Line, text and whether it is an identifier, for every name, comment and string of a Python file."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.NAME:
            yield token.start[0], token.string, True
        elif token.type in (tokenize.COMMENT, tokenize.STRING) or token.type == getattr(
            tokenize, "FSTRING_MIDDLE", -1
        ):
            for offset, line in enumerate(token.string.splitlines()):
                yield token.start[0] + offset, line, False


def markdown_prose(source: str) -> Iterator[tuple[int, str, bool]]:
    """The lines of a Markdown file outside its code fences."""
    fence = ""
    for number, line in enumerate(source.splitlines(), start=1):
        if match := re.match(r"\s*(`{3,}|~{3,})", line):
            fence = "" if fence and match[1].startswith(fence) else fence or match[1]
        elif not fence:
            yield number, line, False


def findings(paths: list[str]) -> list[str]:
    """`file:line: what (what to write)` for every finding in the files under the paths."""
    listing = subprocess.run(
        ["git", "ls-files", *paths], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    patterns = [(re.compile(pattern, re.IGNORECASE), advice) for pattern, advice in PHRASES.items()]
    lines = []
    for name in listing.splitlines():
        path = ROOT / name
        if path.suffix not in (".py", ".md") or path.name in ("wording.py", "old_names.py"):
            continue
        reader = python_prose if path.suffix == ".py" else markdown_prose
        for number, text, is_name in reader(path.read_text("utf-8")):
            if is_name:
                if text in NAMES:
                    lines.append(f"{name}:{number}: name {text}")
                continue
            for pattern, advice in patterns:
                if match := pattern.search(text):
                    lines.append(f"{name}:{number}: {match[0]} ({advice})")
    return lines


if __name__ == "__main__":
    listed = findings(sys.argv[1:] or ["src", "README.md", "docs"])
    print("\n".join(listed) or "nothing found")
    sys.exit(bool(listed))
