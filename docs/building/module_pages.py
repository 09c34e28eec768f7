"""Reference pages generated from the docstrings of a package."""

from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src"
OPTIONS = "    options:\n      show_root_heading: false\n      show_root_toc_entry: false\n"


def package(name: str) -> str:
    """Every module of a package, such as `regard.nn`, as an mkdocstrings directive."""
    folder = SOURCE.joinpath(*name.split("."))
    modules = [path.stem for path in sorted(folder.glob("*.py")) if path.stem != "__init__"]
    return "\n\n".join(f"## {name}.{module}\n\n::: {name}.{module}\n{OPTIONS}" for module in modules)
