"""The code of a brick by its name, taken from the source: pages never hold a copy."""

import ast
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src"


def source_of(name: str) -> str:
    """The text of a function, class or method: `regard.nn.attention.attend`, `....ScaledDot.compare`."""
    path, inner = module_of(name)
    text = path.read_text("utf-8")
    node: ast.AST = ast.parse(text)
    for part in inner:
        node = child(node, part, name)
    assert isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Assign | ast.AnnAssign)
    first = min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", []))])
    lines = text.splitlines()[first - 1 : node.end_lineno]
    indent = len(lines[0]) - len(lines[0].lstrip())
    return "\n".join(line[indent:] if line[:indent].isspace() else line for line in lines)


def module_of(name: str) -> tuple[Path, list[str]]:
    """The file a dotted name lies in, and the names inside it."""
    parts = name.split(".")
    for length in range(len(parts) - 1, 0, -1):
        path = SOURCE.joinpath(*parts[:length]).with_suffix(".py")
        if path.exists():
            return path, parts[length:]
    raise ValueError(f"there is no module for {name}")


def child(node: ast.AST, wanted: str, name: str) -> ast.AST:
    for each in getattr(node, "body", []):
        targets = getattr(each, "targets", [getattr(each, "target", None)])
        if wanted in [getattr(each, "name", None), *(getattr(target, "id", None) for target in targets)]:
            return each
    raise ValueError(f"{name}: there is no {wanted}")
