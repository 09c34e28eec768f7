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
    """The package itself, what it stands on, and what those stand on."""
    below = MAY_IMPORT[package]
    return {package}.union(below, *(allowed(each) for each in below))


def package_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported_packages(path: Path) -> set[tuple[str, int]]:
    """Packages a file imports, wherever in the file, with the line."""
    found = set()
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
                found.add((parts[1], node.lineno))
    return found


FILES = sorted(SOURCE.rglob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_room_calls_only_what_it_stands_on(path: Path) -> None:
    package = package_of(path)
    for called, line in imported_packages(path):
        if called == "__version__":
            assert package in ("cli", "server")
            continue
        assert called in MAY_IMPORT, f"{path.name}:{line} imports regard.{called}, which is no package"
        assert called in allowed(package), f"{path.name}:{line}: {package} may not call {called}"


def test_a_step_backwards_is_noticed(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.py"
    wrong.write_text(
        "def f():\n    from regard.nn.kernel_regression import KernelRegression\n    import regard.cli.main\n"
    )
    assert imported_packages(wrong) == {("nn", 2), ("cli", 3)}
    assert "training" not in allowed("nn")
    assert "decoding" not in allowed("training")


def test_every_room_has_its_place_in_the_plan() -> None:
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
