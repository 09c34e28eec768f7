"""The reference pages of the Python API, generated from signatures and docstrings."""

import ast
import dataclasses
import importlib
import inspect
import re
from collections.abc import Iterator
from textwrap import dedent
from typing import Any

from command_pages import escape_markdown
from recipe_keys import field_docs
from sources import SOURCE, child, module_of

WIDTH = 88
"""Longest signature on one line."""
SECTION = re.compile(r"(Args|Returns|Raises|Yields|Examples?):$")
ITEM = re.compile(r"(\*{0,2}[\w./]+): (.*)", re.DOTALL)

Definition = ast.FunctionDef | ast.ClassDef | ast.Assign | ast.AnnAssign


def package(name: str) -> str:
    """Every module of a package, such as `regard.nn`, with what is public in it."""
    paths = sorted(SOURCE.joinpath(*name.split(".")).glob("*.py"))
    return "\n".join(module(f"{name}.{path.stem}", "##") for path in paths if path.stem != "__init__")


def module(name: str, heading: str = "") -> str:
    """A module's docstring and public definitions; without a heading, only the definitions."""
    source = module_of(f"{name}.x")[0].read_text("utf-8")
    tree = ast.parse(source)
    lines = [f"{heading} {name}", "", docstring_markdown(ast.get_docstring(tree) or "")] if heading else []
    parts = [definition_markdown(name, node, doc, source) for node, doc in documented(tree)]
    return "\n".join([*lines, *parts])


def objects(names: list[str]) -> str:
    """Definitions by their dotted names."""
    parts = []
    for name in names:
        path, [inner] = module_of(name)
        source = path.read_text("utf-8")
        tree = ast.parse(source)
        node = child(tree, inner, name)
        doc = next(doc for other, doc in documented(tree) if other.lineno == getattr(node, "lineno", 0))
        parts.append(definition_markdown(name.rpartition(".")[0], node, doc, source))
    return "\n".join(parts)


def documented(tree: ast.Module | ast.ClassDef) -> Iterator[tuple[Definition, str]]:
    """Public definitions with their docstrings; those without one are left out."""
    for node, after in zip(tree.body, [*tree.body[1:], ast.Pass()], strict=True):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            name, doc = node.name, ast.get_docstring(node)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
            name, doc = getattr(target, "id", "_"), text_of(after)
        else:
            continue
        if doc and not name.startswith("_"):
            yield node, doc


def text_of(node: ast.stmt) -> str | None:
    """A string that stands alone as a statement."""
    if (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    ):
        return inspect.cleandoc(node.value.value)
    return None


def definition_markdown(module_name: str, node: Any, doc: str, source: str) -> str:
    """A function, class or constant under a heading of its own."""
    if isinstance(node, ast.FunctionDef):
        return function_markdown(node, node.name, "###", doc)
    if isinstance(node, ast.ClassDef):
        return class_markdown(getattr(importlib.import_module(module_name), node.name), node, doc)
    [name] = [node.target.id] if isinstance(node, ast.AnnAssign) else [node.targets[0].id]
    return "\n".join(
        [f"### {name}", "", fence(ast.get_source_segment(source, node) or ""), "", docstring_markdown(doc)]
    )


def function_markdown(node: ast.FunctionDef, name: str, heading: str, doc: str) -> str:
    return "\n".join([f"{heading} {name}", "", fence(signature(node, node.name)), "", docstring_markdown(doc)])


def class_markdown(shape: type, node: ast.ClassDef, doc: str) -> str:
    """A class: how it is constructed, its attributes as a table, its methods."""
    constructor = next((part for part in node.body if getattr(part, "name", "") == "__init__"), None)
    lines = [f"### {node.name}", ""]
    if isinstance(constructor, ast.FunctionDef):
        lines += [fence(signature(constructor, node.name, returns=False)), ""]
    lines += [docstring_markdown(doc), *attribute_table(shape, node)]
    for part, text in documented(node):
        if isinstance(part, ast.FunctionDef) and part.name != "forward" and not is_property(part):
            lines += [function_markdown(part, f"{node.name}.{part.name}", "####", text)]
    return "\n".join(lines)


def attribute_table(shape: type, node: ast.ClassDef) -> list[str]:
    """Fields of a dataclass, also its bases'; documented attributes and properties of any class."""
    rows: list[tuple[str, str, str, str]] = []
    if dataclasses.is_dataclass(shape):
        docs = {name: text for base in reversed(shape.__mro__) for name, text in field_docs(base).items()}
        rows = [
            (field.name, type_name(field.type), default(field), docs.get(field.name, ""))
            for field in dataclasses.fields(shape)
            if not field.name.startswith("_")
        ]
    fields = {row[0] for row in rows}
    for part, doc in documented(node):
        if isinstance(part, ast.FunctionDef) and is_property(part):
            rows.append((part.name, annotation(part.returns), "", doc))
        elif isinstance(part, ast.AnnAssign) and (name := ast.unparse(part.target)) not in fields:
            rows.append((name, annotation(part.annotation), "", doc))
    if not rows:
        return []
    defaults = any(value for _, _, value, _ in rows)
    table = ["| attribute | type | default | meaning |", "|---|---|---|---|"]
    if not defaults:
        table = ["| attribute | type | meaning |", "|---|---|---|"]
    for name, kind, value, doc in rows:
        cells = [f"`{name}`", code(kind), *([code(value)] if defaults else [])]
        table.append(f"| {' | '.join(cells)} | {escape_markdown(' '.join(doc.split()))} |")
    return [*table, ""]


def is_property(node: ast.FunctionDef) -> bool:
    return any(ast.unparse(decorator).endswith("property") for decorator in node.decorator_list)


def type_name(hint: Any) -> str:
    """A type as it is written in the source."""
    if isinstance(hint, str):
        return annotation(ast.parse(hint, mode="eval").body)
    text = inspect.formatannotation(hint)
    return re.sub(r"\b(?:\w+\.)+(?=\w)", "", text)


def default(field: "dataclasses.Field[Any]") -> str:
    if field.default is not dataclasses.MISSING:
        return repr(field.default).replace("'", '"')
    return "" if field.default_factory is dataclasses.MISSING else f"{field.default_factory.__name__}()"


def code(text: str) -> str:
    return f"`{text}`".replace("|", "\\|") if text else ""


def annotation(node: ast.expr | None) -> str:
    """A type as written, without the quotes of forward references."""
    text = ast.unparse(node) if node is not None else ""
    return text.replace("'", '"' if "Literal" in text else "")


def signature(node: ast.FunctionDef, name: str, *, returns: bool = True) -> str:
    """The call of a function on one line, or one parameter per line."""
    parameters = list(parameter_texts(node))
    if parameters and parameters[0] in ("self", "cls"):
        parameters = parameters[1:]
    result = f" -> {annotation(node.returns)}" if returns and node.returns is not None else ""
    line = f"{name}({', '.join(parameters)}){result}"
    if len(line) <= WIDTH:
        return line
    return "\n".join([f"{name}(", *(f"    {parameter}," for parameter in parameters), f"){result}"])


def parameter_texts(node: ast.FunctionDef) -> Iterator[str]:
    arguments = node.args
    positional = [*arguments.posonlyargs, *arguments.args]
    defaults = [None] * (len(positional) - len(arguments.defaults)) + list(arguments.defaults)
    for number, (argument, value) in enumerate(zip(positional, defaults, strict=True), 1):
        yield parameter_text(argument, value)
        if number == len(arguments.posonlyargs):
            yield "/"
    if arguments.vararg:
        yield f"*{parameter_text(arguments.vararg, None)}"
    elif arguments.kwonlyargs:
        yield "*"
    for argument, value in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        yield parameter_text(argument, value)
    if arguments.kwarg:
        yield f"**{parameter_text(arguments.kwarg, None)}"


def parameter_text(argument: ast.arg, value: ast.expr | None) -> str:
    text = f"{argument.arg}: {annotation(argument.annotation)}" if argument.annotation else argument.arg
    if value is None:
        return text
    written = ast.unparse(value).replace("'", '"')
    return f"{text} = {written}" if argument.annotation else f"{text}={written}"


def fence(text: str) -> str:
    return f"```python\n{text}\n```"


def docstring_markdown(doc: str) -> str:
    """Paragraphs, `Args:` and the like as lists, and indented text as code."""
    lines: list[str] = []
    for block in re.split(r"\n[ ]*\n", doc.rstrip()):
        first, _, rest = block.partition("\n")
        if SECTION.match(first):
            lines += [f"**{first}**", "", *section_markdown(dedent(rest)), ""]
        elif block.startswith((" ", ">>>")):
            lines += ["```text", dedent(block), "```", ""]
        else:
            lines += [escape_markdown(block), ""]
    return "\n".join(lines)


def section_markdown(text: str) -> list[str]:
    """The entries of a section, each on one line."""
    entries: list[str] = []
    for line in text.splitlines():
        if line.startswith(" ") and entries:
            entries[-1] += f" {line.strip()}"
        else:
            entries.append(line.strip())
    named = [ITEM.fullmatch(entry) for entry in entries]
    if not all(named):
        return [escape_markdown(" ".join(entries))]
    return [f"- `{entry[1]}`: {escape_markdown(entry[2])}" for entry in named if entry]
