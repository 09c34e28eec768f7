"""The direction of imports: a package imports only those below it (README, "The packages")."""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "regard"

MAY_IMPORT: dict[str, set[str]] = {
    "mkl": set(),
    "errors": set(),
    "limits": {"errors"},
    "storage": {"errors"},
    "config": {"limits"},
    "tensor_files": set(),
    "nn": {"config"},
    "tokenization": {"storage"},
    "engine": {"storage", "nn"},
    "data": {"nn", "tokenization"},
    "training": {"engine", "data", "tensor_files"},
    "decoding": {"engine", "tokenization", "tensor_files"},
    "viz": {"nn", "errors"},
    "lessons": {"training", "decoding", "viz"},
    "metrics": {"decoding", "data"},
    "interop": {"decoding"},
    "tasks": {"training", "metrics", "viz", "interop"},
    "server": {"tasks"},
    "cli": {"mkl", "lessons", "server", "tasks"},
    "__init__": {"mkl", "tasks"},
    "__main__": {"cli"},
}


def allowed(package: str) -> set[str]:
    """The package itself and all packages below it."""
    below = MAY_IMPORT[package]
    return {package}.union(below, *(allowed(name) for name in below))


def package_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported_packages(path: Path) -> set[tuple[str, int]]:
    """The packages a file imports anywhere, with the line."""
    imported = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: relative import"
            names = [node.module or ""]
            if node.module == "regard":
                names = [f"regard.{alias.name}" for alias in node.names]
        for name in names:
            parts = name.split(".")
            if parts[0] == "regard" and len(parts) > 1:
                imported.add((parts[1], node.lineno))
    return imported


FILES = sorted(SOURCE.rglob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_packages_import_only_those_below(path: Path) -> None:
    package = package_of(path)
    for called, line in imported_packages(path):
        if called == "__version__":
            assert package in ("cli", "server")
            continue
        assert called in MAY_IMPORT, f"{path.name}:{line} imports regard.{called}, which is no package"
        assert called in allowed(package), f"{path.name}:{line}: {package} may not import {called}"


def test_an_upward_import_is_detected(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.py"
    wrong.write_text(
        "def f():\n    from regard.nn.kernel_regression import KernelRegression\n    import regard.cli.main\n"
    )
    assert imported_packages(wrong) == {("nn", 2), ("cli", 3)}
    assert "training" not in allowed("nn")
    assert "decoding" not in allowed("training")


def test_every_package_is_listed() -> None:
    assert {package_of(path) for path in FILES} <= set(MAY_IMPORT)


NATIVE = {
    "ctypes",
    "cffi",
    "regard.engine.library",
    "regard.engine.header",
    *(f"regard.engine.ops.{name}" for name in ("prepack", "linear_packed", "weight_gradient")),
}


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda path: str(path.relative_to(SOURCE)))
def test_only_the_engine_touches_native_code(path: Path) -> None:
    """No ctypes, no addresses of tensors and no kernel outside engine/."""
    if path.is_relative_to(SOURCE / "engine"):
        return
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Attribute):
            assert node.attr != "data_ptr", f"{path.name}:{node.lineno}: the address of a tensor"
        for name in names:
            assert name not in NATIVE, f"{path.name}:{getattr(node, 'lineno', 0)}: {name}"


def test_nn_imports_no_engine() -> None:
    assert allowed("nn") == {"nn", "config", "limits", "errors"}
