"""Source code by dotted name, so that pages never hold a copy."""

import ast
import re
from pathlib import Path
from textwrap import TextWrapper
from typing import TypeGuard

SOURCE = Path(__file__).parents[2] / "src"


def source_of(name: str) -> str:
    """Source of a function, class or method: `regard.nn.attention.attend`, `....ScaledDot.compare`."""
    path, inner = module_of(name)
    text = path.read_text("utf-8")
    node: ast.AST = ast.parse(text)
    for part in inner:
        node = child(node, part, name)
    assert isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Assign | ast.AnnAssign)
    first = min([node.lineno, *(decorator.lineno for decorator in getattr(node, "decorator_list", []))])
    lines = text.splitlines()[first - 1 : node.end_lineno]
    indent = len(lines[0]) - len(lines[0].lstrip())
    return "\n".join(line[indent:] if line[:indent].isspace() else line for line in lines)


def module_of(name: str) -> tuple[Path, list[str]]:
    """The file that defines a dotted name, and the names inside it."""
    parts = name.split(".")
    for length in range(len(parts) - 1, 0, -1):
        module = SOURCE.joinpath(*parts[:length])
        for path in (module.with_suffix(".py"), module / "__init__.py"):
            if path.exists():
                return path, parts[length:]
    raise ValueError(f"there is no module for {name}")


def child(node: ast.AST, part: str, name: str) -> ast.AST:
    for statement in getattr(node, "body", []):
        targets = getattr(statement, "targets", [getattr(statement, "target", None)])
        if part in [getattr(statement, "name", None), *(getattr(target, "id", None) for target in targets)]:
            return statement
    raise ValueError(f"{name}: {part} not found")


ENTRY = re.compile(r"[*\w]+: ")
"""How an entry of `Args:` begins."""


def wrap_docstrings(code: str, width: int) -> str:
    """Fill the paragraphs of docstrings and comments that have a wider line; the code itself stays as it is."""
    doc_lines = {
        number
        for node in ast.walk(ast.parse(code))
        if is_text(node)
        for number in range(node.lineno - 1, (node.end_lineno or 0))
    }
    paragraphs: list[tuple[str, str, list[str]]] = []  # prefix of the first line, of the others, text
    for number, line in enumerate(code.splitlines()):
        text = line.strip()
        indent = line[: len(line) - len(line.lstrip())]
        entry = False
        if text.startswith("# "):
            first = rest = f"{indent}# "
            text = text.removeprefix("# ")
        elif number in doc_lines and text not in ("", '"""'):
            entry = bool(ENTRY.match(text))
            first, rest = indent, indent + ("    " if entry else "")
        else:
            paragraphs.append((line, "", []))
            continue
        if paragraphs and paragraphs[-1][2] and first == paragraphs[-1][1] and not entry:
            paragraphs[-1][2].append(text)
        else:
            paragraphs.append((first, rest, [text]))
    return "\n".join(line for paragraph in paragraphs for line in filled(*paragraph, width))


def filled(first: str, rest: str, texts: list[str], width: int) -> list[str]:
    """The lines of a paragraph, as they are where none is too wide."""
    if all(len(rest) + len(text) <= width for text in texts):
        return [first + "".join(texts[:1]), *(rest + text for text in texts[1:])]
    wrapper = TextWrapper(width, initial_indent=first, subsequent_indent=rest)
    wrapper.break_long_words = wrapper.break_on_hyphens = False
    return wrapper.wrap(" ".join(texts))


def is_text(node: ast.AST) -> TypeGuard[ast.Expr]:
    """Whether a statement is a string alone: a docstring."""
    return isinstance(node, ast.Expr) and isinstance(getattr(node.value, "value", None), str)
