"""Vague local names and worn phrases: `python tests/support/wording.py [PATH ...]` lists where one is left."""

import fnmatch
import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]

SEARCHED = ("src", "docs", "README.md", "CONTRIBUTING.md", "examples", "benchmarks", "tests")

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
    r"\bthe same bits\b": "bit-identical",
    r"(?<!make )\b(rooms?|bricks?)\b(?! for\b)": "package, module",
    r"\b(written|settled|laid) aside\b": "written to a temporary file",
    r"\blaid (over|together|upon)\b": "override, merge",
    r"\bunless given\b|\bleft out, `": "default",
    r"\b(knows|thinks|thought|remembers|listens)\b": "stores, computes, has",
    r"\bstrangers?\b": "untrusted",
    r"\b(likeness|foretells?)\b": "similarity, predict",
    r"\bleft-out error\b": "leave-one-out error",
    r"\bnothing lost\b|\bnobody (let in|looks|sees|asks|is)\b": "reliability and security; no query, no user",
    r"\b(translations?|hypotheses|beams?) kept open\b": "beam size",
    r"\bwho (look|see|saw)\w* (where|whom|what|at)\b": "attention weights",
    r"\bthere and back\b": "forward and backward, round trip",
    r"\bin any company\b": "in any batch",
    r"\bstands? (beside|next to it)\b": "is next to, is batched with",
    r"\b(mak|made|make)\w* up (its|their|the) minds?\b": "decide, converge",
    r"\b(midst|bearable|hence with)\b": "plain modern English",
    r"\bsublayers? (says?|said)\b|\bmodels? (says?|said)\b": "outputs, predicts",
    r"\bwhen to come again\b": "Retry-After",
    r"\bthe text at hand\b|\bthe one at hand\b": "the current one",
    r"\bis told (at once|token by token)\b": "streamed",
    r"\bhow much (it|they|he|she) (is|are) believed\b": "weight",
}
"""Phrases as patterns, and what to write."""

PATTERNS = [(re.compile(pattern, re.IGNORECASE), advice) for pattern, advice in PHRASES.items()]

ALLOWED = (
    # Words of the embedded corpus: lexicon entries, semantic classes and example sentences.
    ("src/regard/data/picturebook/*.py", r"rooms?|look at|tell|told|thought"),
    ("tests/data/test_picturebook.py", r"room|tell"),
    # A teacher asks the class.
    ("examples/classroom_hour/README.md", r"ask"),
)
"""Path and pattern of findings that are quoted words or people's actions."""


def python_prose(source: str) -> Iterator[tuple[int, str, bool]]:
    """Line, text and whether it is an identifier, for every name, comment and string of a Python file."""
    defined = False
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.NAME:
            if not re.match(r"\s*(@given\b|from hypothesis import)", token.line):
                yield token.start[0], token.string, True
            if defined:
                yield token.start[0], token.string.replace("_", " "), False
            defined = token.string in ("def", "class")
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


def matched_prose(pattern: str, source: str) -> Iterator[tuple[int, str, bool]]:
    """The lines of every match of a pattern."""
    for match in re.finditer(pattern, source, re.DOTALL):
        first = source.count("\n", 0, match.start()) + 1
        for offset, line in enumerate(match[0].splitlines()):
            yield first + offset, line, False


def toml_prose(source: str) -> Iterator[tuple[int, str, bool]]:
    """The comments of a TOML file; `#` in strings counts too."""
    return matched_prose(r"#[^\n]*", source)


def c_prose(source: str) -> Iterator[tuple[int, str, bool]]:
    """Comments and strings of a C file."""
    return matched_prose(r'//[^\n]*|/\*.*?\*/|"(?:[^"\\\n]|\\.)*"', source)


def javascript_prose(source: str) -> Iterator[tuple[int, str, bool]]:
    """Comments and strings of a script; a template literal may span lines."""
    strings = r'"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\'|`(?:[^`\\]|\\.)*`'
    return matched_prose(rf"//[^\n]*|/\*.*?\*/|{strings}", source)


def html_prose(source: str) -> Iterator[tuple[int, str, bool]]:
    """Texts, attributes and comments of a page, without scripts and styles."""
    blank = re.compile(r"<(script|style)\b.*?</\1>", re.DOTALL)
    return matched_prose(r"[^\n]+", blank.sub(lambda match: "\n" * match[0].count("\n"), source))


READERS = {
    ".py": python_prose,
    ".md": markdown_prose,
    ".toml": toml_prose,
    ".c": c_prose,
    ".h": c_prose,
    ".js": javascript_prose,
    ".html": html_prose,
}


def is_allowed(name: str, match: str) -> bool:
    return any(
        fnmatch.fnmatch(name, path) and re.fullmatch(pattern, match, re.IGNORECASE) for path, pattern in ALLOWED
    )


def worn(prose: Iterable[tuple[int, str, bool]]) -> Iterator[tuple[int, str, str]]:
    """Line, match and advice for every vague name and worn phrase of a text."""
    for number, text, is_name in prose:
        if not is_name:
            for pattern, advice in PATTERNS:
                yield from ((number, match[0], advice) for match in pattern.finditer(text))
        elif text in NAMES:
            yield number, text, "a name that says what it holds"


def findings(paths: list[str]) -> list[str]:
    """`file:line: what (what to write)` for every finding in the files under the paths."""
    listing = subprocess.run(
        ["git", "ls-files", *paths], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    lines = []
    for name in listing.splitlines():
        path = ROOT / name
        reader = READERS.get(path.suffix)
        if reader is None or path.name in ("wording.py", "old_names.py", "test_names.py") or not path.exists():
            continue
        lines += [
            f"{name}:{number}: {match} ({advice})"
            for number, match, advice in worn(reader(path.read_text("utf-8")))
            if not is_allowed(name, match)
        ]
    return lines


if __name__ == "__main__":
    listed = findings(sys.argv[1:] or list(SEARCHED))
    print("\n".join(listed) or "nothing found")
    sys.exit(bool(listed))
