"""The rooms of the package as pages of the reference; what they say is their docstrings."""

from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src"
OPTIONS = "    options:\n      show_root_heading: false\n      show_root_toc_entry: false\n"


def room(name: str) -> str:
    """Every module of a room, such as `regard.nn`, as a directive of mkdocstrings."""
    folder = SOURCE.joinpath(*name.split("."))
    modules = [path.stem for path in sorted(folder.glob("*.py")) if path.stem != "__init__"]
    return "\n\n".join(f"## {name}.{each}\n\n::: {name}.{each}\n{OPTIONS}" for each in modules)
