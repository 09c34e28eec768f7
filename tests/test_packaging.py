"""What is put on the package index: one version, all files inside, and it works without the source tree."""

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
from regard.engine import build

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("build", reason="the package `build` is not installed")
    pytest.importorskip("hatchling", reason="hatchling is not installed")
    folder = tmp_path_factory.mktemp("dist")
    return build_into(folder, "--sdist", "--wheel")  # from here: libraries that are up to date are taken


def build_into(folder: Path, *options: str, source: Path = ROOT, **environment: str) -> Path:
    command = [sys.executable, "-m", "build", "--no-isolation", *options, "--outdir", str(folder), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment})
    assert done.returncode == 0, done.stderr
    (folder / "log").write_text(done.stdout + done.stderr)
    return folder


def run(*command: str | Path, **options) -> subprocess.CompletedProcess[str]:
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, **options)


def test_the_wheel_holds_every_file_of_the_package(built: Path) -> None:
    [wheel] = built.glob("*.whl")
    inside = set(zipfile.ZipFile(wheel).namelist())
    here = {
        str(path.relative_to(ROOT / "src"))
        for path in (ROOT / "src" / "regard").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and path.parent != build.SHIPPED
    }
    assert here <= inside
    assert {
        "regard/py.typed",
        "regard/engine/csrc/kernels.c",
        "regard/engine/csrc/beam_search.c",
        "regard/engine/csrc/engine.h",
        "regard/recipes/picturebook.toml",
    } <= inside


def platform_wheel(folder: Path) -> Path:
    [wheel] = folder.glob("*.whl")
    if wheel.name.endswith("-none-any.whl"):
        pytest.skip("no C compiler: the wheel is pure")
    return wheel


def test_the_wheel_carries_a_library_for_every_target(built: Path, tmp_path: Path) -> None:
    wheel = platform_wheel(built)
    zipfile.ZipFile(wheel).extractall(tmp_path)
    folder = tmp_path / "regard" / "engine" / "lib"
    manifest = build.read_manifest(folder)
    assert manifest["sources"] == build.source_digest()
    assert [library["target"] for library in manifest["libraries"]] == [
        target.name for target in build.targets()
    ]
    files = {library["file"]: library["sha256"] for library in manifest["libraries"]}
    assert {path.name for path in folder.iterdir()} == {build.MANIFEST, *files}
    assert {name: build.sha256(folder / name) for name in files} == files
    [description] = tmp_path.glob("*.dist-info/WHEEL")
    tag = build.wheel_tag([folder / name for name in files])
    assert {"Root-Is-Purelib: false", f"Tag: {tag}"} <= set(description.read_text().splitlines())
    assert wheel.name == f"regard-{regard.__version__}-{tag}.whl"


def test_the_tag_names_the_oldest_glibc_that_is_new_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = tmp_path / "engine.so"
    library.write_bytes(b"\0GLIBC_2.2.5\0GLIBC_2.34\0GLIBC_2.4\0")
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    monkeypatch.setattr("platform.libc_ver", lambda: ("glibc", "2.36"))
    assert build.wheel_tag([library]) == "py3-none-manylinux_2_34_aarch64"
    library.write_bytes(b"\0GLIBC_2.2.5\0")
    assert build.wheel_tag([library]) == "py3-none-manylinux_2_17_aarch64"
    monkeypatch.setattr("platform.libc_ver", lambda: ("", ""))
    assert build.wheel_tag([library]) == "py3-none-linux_aarch64"


def test_a_library_needs_glibc_alone(built: Path, tmp_path: Path) -> None:
    wheel = platform_wheel(built)
    if shutil.which("readelf") is None:
        pytest.skip("there is no readelf on this machine")
    zipfile.ZipFile(wheel).extractall(tmp_path)
    for path in (tmp_path / "regard" / "engine" / "lib").glob("*.so"):
        needed = re.findall(r"\(NEEDED\).*\[(.+?)\.so", run("readelf", "-d", path).stdout)
        assert set(needed) <= {"libc", "libm"}, path.name


def test_without_a_compiler_the_wheel_is_pure(built: Path, tmp_path: Path) -> None:
    [archive] = built.glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        opened.extractall(tmp_path, filter="data")
    [source] = tmp_path.iterdir()
    (tmp_path / "dist").mkdir()
    build_into(tmp_path / "dist", "--wheel", source=source, PATH=str(tmp_path), CC="nothing")
    [wheel] = (tmp_path / "dist").glob("*.whl")
    assert wheel.name == f"regard-{regard.__version__}-py3-none-any.whl"
    assert not [name for name in zipfile.ZipFile(wheel).namelist() if "engine/lib/" in name]
    assert "no C compiler found" in (tmp_path / "dist" / "log").read_text()


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
        "hatch_build.py",
        "tests/test_packaging.py",
    } <= inside
    assert not [name for name in inside if "engine/lib/" in name]


def test_the_version_is_defined_once_and_used_everywhere(built: Path) -> None:
    archives = [path.name for path in built.glob("regard-*")]
    assert {name.split("-")[1].removesuffix(".tar.gz") for name in archives} == {regard.__version__}
    assert importlib.metadata.version("regard") == regard.__version__
    version = re.search(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    assert version is not None
    assert version[1] == regard.__version__


def test_the_wheel_metadata_for_the_package_index(built: Path) -> None:
    [wheel] = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as opened:
        [name] = [member for member in opened.namelist() if member.endswith("METADATA")]
        metadata = opened.read(name).decode()
    for line in ("License-Expression: Apache-2.0", "Requires-Python: >=3.11", "Classifier: Typing :: Typed"):
        assert line in metadata
    assert re.findall("^Classifier: (Operating System.*)$", metadata, re.MULTILINE) == [
        "Operating System :: POSIX :: Linux"
    ]  # docs/reference/platforms.md
    assert "Description-Content-Type: text/markdown" in metadata
    assert "\n# regard\n" in metadata


def test_the_unpacked_wheel_trains_in_an_empty_folder(built: Path, tmp_path: Path) -> None:
    """With the libraries of this environment, but without its regard; importing torch takes most of the time."""
    [wheel] = built.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    (tmp_path / "empty").mkdir()
    surroundings = {**os.environ, "PYTHONPATH": str(tmp_path / "site"), "REGARD_CACHE": str(tmp_path / "cache")}
    program = "import regard; assert regard.__file__.startswith({!r}); from regard.cli.main import main; main()"
    done = run(
        *(sys.executable, "-c", program.format(str(tmp_path / "site"))),
        *("train", "kernel", "train.steps=5"),
        cwd=tmp_path / "empty",
        env=surroundings,
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "empty" / "runs" / "kernel" / "model.safetensors").exists()


@pytest.fixture(scope="module")
def clean(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment into which the wheel, made from the source archive, was installed by pip."""
    folder = tmp_path_factory.mktemp("clean")
    [archive] = built.glob("*.tar.gz")
    dist = tmp_path_factory.mktemp("from-archive")
    with tarfile.open(archive) as opened:
        opened.extractall(dist / "source", filter="data")
    [source] = (dist / "source").iterdir()
    build_into(dist, "--wheel", source=source)
    venv.create(folder, with_pip=True)
    surroundings = {
        key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "REGARD_"))
    }
    [wheel] = dist.glob("*.whl")
    installed = run(
        folder / "bin" / "pip", "install", "-q", "-c", ROOT / "constraints.txt", wheel, env=surroundings
    )
    assert installed.returncode == 0, installed.stderr
    return folder


def without_compiler(clean: Path, cache: Path) -> dict[str, str]:
    """PATH holds the programs of the environment only."""
    return {"PATH": str(clean / "bin"), "HOME": str(cache), "REGARD_CACHE": str(cache), "MPLBACKEND": "agg"}


@pytest.mark.slow
@pytest.mark.parametrize("target", ["", *(target.name for target in build.targets())])
def test_the_wheel_is_fast_without_a_compiler(target: str, clean: Path, tmp_path: Path) -> None:
    if build.find_compiler() is None:
        pytest.skip("no C compiler to build the wheel with")
    surroundings = without_compiler(clean, tmp_path / "cache")
    if target:
        surroundings["REGARD_TARGET"] = target
    said = run(clean / "bin" / "regard", "doctor", cwd=tmp_path, env=surroundings)
    match = re.search(r"native engine: (.*)", said.stdout)
    assert match is not None, said.stderr
    print(match[0])
    if target and "illegal instruction" in match[1]:
        pytest.skip(match[1])
    assert match[1].startswith(f"shipped for {target}")
    assert "token loss: native; beam search: native" in match[1]


@pytest.mark.slow
def test_the_wheel_is_as_fast_as_a_build_from_source(clean: Path) -> None:
    command = [sys.executable, ROOT / "benchmarks" / "wheel.py", "--python", clean / "bin" / "python"]
    said = run(*command, cwd=clean)
    print(said.stdout)
    ratios = [float(ratio) for ratio in re.findall(r"/ same flags: ([\d.]+)", said.stdout)]
    assert len(ratios) == 2, said.stderr
    assert max(ratios) < 1.1


@pytest.mark.slow
def test_the_wheel_trains_in_a_separate_environment(clean: Path, tmp_path: Path) -> None:
    """The embedded corpus from an empty folder: a minute of training, and a translation."""
    bin_folder, empty = clean / "bin", tmp_path / "empty"
    empty.mkdir()
    surroundings = without_compiler(clean, tmp_path / "cache")
    trained = run(bin_folder / "regard", "train", "picturebook", "train.minutes=1", cwd=empty, env=surroundings)
    assert trained.returncode == 0, trained.stderr
    assert "BLEU" in trained.stdout
    said = run(
        bin_folder / "regard",
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
        "import sys; sys.argv[0] = 'regard'; from regard.cli.main import main; main()",
    ]
    said = run(*program, env=surroundings).stdout
    assert [name for name in offered if name not in said] == []
    assert "evaluate" not in said
