"""Source code by dotted name, so that pages never hold a copy."""

import ast
from pathlib import Path

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
        path = SOURCE.joinpath(*parts[:length]).with_suffix(".py")
        if path.exists():
            return path, parts[length:]
    raise ValueError(f"there is no module for {name}")


def child(node: ast.AST, part: str, name: str) -> ast.AST:
    for statement in getattr(node, "body", []):
        targets = getattr(statement, "targets", [getattr(statement, "target", None)])
        if part in [getattr(statement, "name", None), *(getattr(target, "id", None) for target in targets)]:
            return statement
    raise ValueError(f"{name}: {part} not found")
