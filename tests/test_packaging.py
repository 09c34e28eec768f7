"""What is put on the package index: one version, everything inside, and it works where nothing else is."""

import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

import regard

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("build", reason="the package `build` is not installed")
    pytest.importorskip("hatchling", reason="hatchling is not installed")
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder


def run(*command: str | Path, **options) -> subprocess.CompletedProcess[str]:
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, **options)


def test_the_wheel_holds_every_file_of_the_package(built: Path) -> None:
    [wheel] = built.glob("*.whl")
    inside = set(zipfile.ZipFile(wheel).namelist())
    here = {
        str(path.relative_to(ROOT / "src"))
        for path in (ROOT / "src" / "regard").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert here <= inside
    assert {
        "regard/py.typed",
        "regard/engine/csrc/kernels.c",
        "regard/engine/csrc/beam_search.c",
        "regard/engine/csrc/engine.h",
        "regard/recipes/picturebook.toml",
    } <= inside


def test_the_source_archive_can_be_tested_and_documented(built: Path) -> None:
    [archive] = built.glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        inside = {name.split("/", 1)[1] for name in opened.getnames() if "/" in name}
    assert {
        "Makefile",
        "constraints.txt",
        "LICENSE",
        "CITATION.cff",
        "mkdocs.yml",
        "tests/test_packaging.py",
    } <= inside


def test_the_version_stands_in_one_place_and_is_told_everywhere(built: Path) -> None:
    assert {path.name.split("-")[1].removesuffix(".tar.gz") for path in built.iterdir()} == {regard.__version__}
    assert importlib.metadata.version("regard") == regard.__version__
    told = re.search(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    assert told is not None
    assert told[1] == regard.__version__


def test_what_the_package_index_shows(built: Path) -> None:
    [wheel] = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as opened:
        [name] = [each for each in opened.namelist() if each.endswith("METADATA")]
        told = opened.read(name).decode()
    for line in ("License-Expression: Apache-2.0", "Requires-Python: >=3.11", "Classifier: Typing :: Typed"):
        assert line in told
    assert "Description-Content-Type: text/markdown" in told
    assert "\n# regard\n" in told


def test_the_unpacked_wheel_trains_where_nothing_else_is(built: Path, tmp_path: Path) -> None:
    """With the libraries of this environment, but not with its regard; torch is most of the time."""
    [wheel] = built.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    (tmp_path / "empty").mkdir()
    surroundings = {**os.environ, "PYTHONPATH": str(tmp_path / "site"), "REGARD_CACHE": str(tmp_path / "cache")}
    program = "import regard; assert regard.__file__.startswith({!r}); from regard.app.cli import main; main()"
    done = run(
        *(sys.executable, "-c", program.format(str(tmp_path / "site"))),
        *("train", "kernel", "train.steps=5"),
        cwd=tmp_path / "empty",
        env=surroundings,
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "empty" / "runs" / "kernel" / "model.safetensors").exists()


@pytest.mark.slow
def test_the_wheel_in_an_environment_of_its_own(built: Path, tmp_path: Path) -> None:
    """pip install, then the embedded corpus from an empty folder: a minute of training, and a translation."""
    venv.create(tmp_path / "clean", with_pip=True)
    places, empty = tmp_path / "clean" / "bin", tmp_path / "empty"
    empty.mkdir()
    [wheel] = built.glob("*.whl")
    surroundings = {
        key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "REGARD_"))
    }
    surroundings |= {"REGARD_CACHE": str(tmp_path / "cache")}
    installed = run(places / "pip", "install", "-q", "-c", ROOT / "constraints.txt", wheel, env=surroundings)
    assert installed.returncode == 0, installed.stderr
    trained = run(places / "regard", "train", "picturebook", "train.minutes=1", cwd=empty, env=surroundings)
    assert trained.returncode == 0, trained.stderr
    assert "BLEU" in trained.stdout
    said = run(
        places / "regard",
        "translate",
        "runs/picturebook",
        cwd=empty,
        env=surroundings,
        input="Ein Hund schläft.\n",
    )
    assert said.stdout.strip()
    print(trained.stdout, said.stdout)


def test_the_manual_page_names_every_command_and_is_sound() -> None:
    page = run(sys.executable, "-m", "regard", "man").stdout
    for name in ("train", "translate", "look", "serve", "export", "import", "show scaling", "data get", "man"):
        assert f".SS regard {name} " in page
    assert "regard train picturebook" in page
    if shutil.which("groff") is None:
        pytest.skip("there is no groff on this machine to read the page")
    read = subprocess.run(["groff", "-man", "-ww", "-Tutf8"], input=page, capture_output=True, text=True)
    assert (read.returncode, read.stderr) == (0, "")
    assert "REGARD(1)" in read.stdout


@pytest.mark.parametrize(
    ("begun", "offered"),
    [
        ("regard tr", ["train", "translate"]),
        ("regard train luong", ["luong-concat", "luong-dot", "luong-general"]),
        ("regard show sc", ["scaling", "schedule"]),
        ("regard serve --po", ["--port"]),
    ],
)
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_complete_commands_recipes_and_options(shell: str, begun: str, offered: list[str]) -> None:
    surroundings = {
        **os.environ,
        "_REGARD_COMPLETE": f"complete_{shell}",
        "COMP_WORDS": begun,
        "COMP_CWORD": str(len(begun.split()) - 1),
        "_TYPER_COMPLETE_ARGS": begun,
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
    }
    program = [
        sys.executable,
        "-c",
        "import sys; sys.argv[0] = 'regard'; from regard.app.cli import main; main()",
    ]
    said = run(*program, env=surroundings).stdout
    assert [name for name in offered if name not in said] == []
    assert "evaluate" not in said
