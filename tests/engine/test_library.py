"""The native library is compiled once, tried in a child process, verified before it is loaded, and optional."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from engine_calls import child_environment

from regard.engine import library
from regard.engine.library import compiled, find_library, key


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("REGARD_NATIVE", str(tmp_path / "native"))
    monkeypatch.delenv("REGARD_CFLAGS", raising=False)
    return tmp_path / "native"


SMALL = "int works(void) { return 1; }\n"


@pytest.fixture
def small_source(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Compiled in no time, where only the cache is tested."""
    folder = tmp_path / "csrc"
    folder.mkdir()
    (folder / "kernels.c").write_text(SMALL)
    monkeypatch.setattr(library, "SOURCE", folder / "kernels.c")
    return folder / "kernels.c"


def find() -> tuple[Path | None, str]:
    return find_library.__wrapped__()


def built() -> Path:
    path, sentence = find()
    if path is None:
        pytest.skip(sentence)
    assert "compiled by" in sentence
    return path


def digest_of(path: Path) -> Path:
    return path.with_name(path.name + ".sha256")


def test_compiled_once_and_found_again(monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    path = built()
    assert sorted(each.name for each in cache.iterdir()) == [path.name, path.name + ".sha256"]
    monkeypatch.setattr(library, "compiled", lambda *_: pytest.fail("compiled twice"))
    assert find()[0] == path


def test_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGARD_NATIVE", "0")
    assert find() == (None, "switched off by REGARD_NATIVE=0")


def test_no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda _: None)
    path, sentence = find()
    assert path is None
    assert "no C compiler found" in sentence


def test_a_compiler_that_fails_leaves_nothing(monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    monkeypatch.setenv("CC", "false")
    path, sentence = find()
    assert path is None
    assert "could not be compiled" in sentence
    assert not list(cache.iterdir())


def test_instructions_the_machine_does_not_run_are_noticed(small_source: Path, cache: Path) -> None:
    small_source.write_text("int works(void) { __builtin_trap(); }\n")
    path = cache / "trap.so"
    assert "its trial run ended with -" in compiled("cc", "", path)
    assert not list(cache.iterdir())


@pytest.mark.parametrize("part", ["processor", "compiler_version", "flags", "libc"])
def test_the_key_covers(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    here = key("cc", "")
    assert key("cc", "") == here
    if part == "libc":
        monkeypatch.setattr("platform.libc_ver", lambda: ("glibc", "1.0"))
    elif part == "flags":
        monkeypatch.setenv("REGARD_CFLAGS", "-DOTHER")
    else:
        monkeypatch.setattr(library, part, lambda *_: "another")
    assert key("cc", "") != here


def test_the_compiler_tells_its_version() -> None:
    assert re.search(r"\d+\.\d+", library.compiler_version("cc"))
    assert library.compiler_version("/nonexistent") == ""


# ---- What may be loaded from the cache. ----


def spoiled(path: Path, how: str) -> None:
    content = path.read_bytes()
    if how in ("truncated", "empty", "foreign content", "one bit"):
        path.unlink()  # this process has loaded it: what is mapped must not change
    if how == "truncated":
        path.write_bytes(content[: len(content) // 2])
    elif how == "empty":
        path.write_bytes(b"")
    elif how == "foreign content":
        path.write_bytes(b"not a library")
    elif how == "one bit":
        path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    elif how == "writable by others":
        path.chmod(0o757)
    elif how == "writable by the group":
        path.chmod(0o775)
    elif how == "symbolic link":
        path.rename(path.with_name("elsewhere"))
        path.symlink_to("elsewhere")
    elif how == "digest missing":
        digest_of(path).unlink()
    elif how == "digest of something else":
        digest_of(path).write_text("0" * 64 + "\n")
    elif how == "digest is not text":
        digest_of(path).write_bytes(b"\xff\xfe")
    elif how == "digest writable by others":
        digest_of(path).chmod(0o666)
    else:
        os.chown(path if how == "another user's" else digest_of(path), 12345, -1)


WAYS = [
    *("truncated", "empty", "foreign content", "one bit", "writable by others", "writable by the group"),
    *("symbolic link", "digest missing", "digest of something else", "digest is not text"),
    *("digest writable by others", "another user's", "digest another user's"),
]


@pytest.mark.usefixtures("small_source")
@pytest.mark.parametrize("how", WAYS)
def test_a_library_that_cannot_be_trusted_is_compiled_again(how: str) -> None:
    if "user's" in how and os.geteuid() != 0:
        pytest.skip("only root may give a file to another user")
    path = built()
    before = path.read_bytes()
    spoiled(path, how)
    assert not library.is_intact(path)
    assert find() == (path, "compiled by cc -march=native")
    assert library.is_intact(path)
    assert path.read_bytes() == before
    assert path.stat().st_mode & 0o777 == 0o755


def test_a_truncated_library_does_not_end_the_process(cache: Path) -> None:
    path = built()
    spoiled(path, "truncated")
    code = "from regard.engine.library import kernels; kernels().use_threads(1); print('loaded')"
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=child_environment(), check=False
    )
    assert (ran.returncode, ran.stdout) == (0, "loaded\n"), ran.stderr


@pytest.mark.usefixtures("small_source")
def test_a_spoiled_library_that_cannot_be_compiled_again_is_not_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    path = built()
    spoiled(path, "truncated")
    monkeypatch.setattr(library, "compiled", lambda *_: "the disk is full")
    assert find() == (
        None,
        "the native library could not be compiled (the disk is full): PyTorch operations are used, which are slower",
    )


@pytest.mark.usefixtures("small_source")
@pytest.mark.parametrize("mode", [0o777, 0o775, 0o1777])
def test_a_folder_that_others_may_write_to_is_not_used(cache: Path, mode: int) -> None:
    built()
    cache.chmod(mode)
    path, sentence = find()
    assert path is None
    assert sentence == (
        f"other users may write to the folder {cache} (chmod go-w), so no native library is loaded from it: "
        "PyTorch operations are used, which are slower"
    )


@pytest.mark.usefixtures("small_source")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give a folder to another user")
def test_another_users_folder_is_not_used(cache: Path) -> None:
    built()
    os.chown(cache, 12345, -1)
    path, sentence = find()
    assert path is None
    assert "belongs to another user" in sentence


@pytest.mark.usefixtures("small_source")
def test_our_own_cache_is_closed_to_others(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("REGARD_NATIVE")
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "cache" / "native"
    folder.mkdir(parents=True)
    folder.chmod(0o775)  # as a umask of 002 leaves it
    assert built().parent == folder
    assert folder.stat().st_mode & 0o777 == 0o755


@pytest.mark.usefixtures("small_source")
def test_a_folder_that_cannot_be_made(cache: Path) -> None:
    cache.write_text("a file")
    path, sentence = find()
    assert path is None
    assert f"the folder {cache} cannot be used for the native library" in sentence


@pytest.mark.usefixtures("small_source")
def test_a_library_that_the_linker_refuses(cache: Path) -> None:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    cache.mkdir()
    foreign = cache / f"{key(compiler, '-march=native')}.so"
    foreign.write_bytes(b"not a library")
    digest_of(foreign).write_text(library.digest(foreign))  # so that only the linker notices
    assert library.is_intact(foreign)
    path, sentence = find()
    assert path is None
    assert sentence.startswith(f"the native library {foreign} cannot be loaded (")
    assert sentence.endswith("): PyTorch operations are used, which are slower")


@pytest.mark.usefixtures("small_source")
@pytest.mark.parametrize("umask", [0o000, 0o002, 0o077])
def test_any_umask(umask: int) -> None:
    before = os.umask(umask)
    try:
        path = built()
    finally:
        os.umask(before)
    assert library.is_intact(path)
    assert find()[0] == path


def test_two_processes_at_once(cache: Path) -> None:
    code = "from regard.engine.library import find_library, kernels; kernels().use_threads(1); print(*find_library())"
    command = [sys.executable, "-c", code]
    both = [
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=child_environment()) for _ in range(2)
    ]
    said = [process.communicate()[0] for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert said[0] == said[1]
    (path,) = cache.glob("*.so")
    assert library.is_intact(path)
    assert not list(cache.glob("*.part*"))


def test_two_installations_at_once_without_a_lock(small_source: Path, cache: Path) -> None:
    """Each installs a file and its digest; another one's digest at most means that it is compiled again."""
    path = built()
    assert not compiled("cc", "-march=native", path)
    assert library.is_intact(path)
    small_source.write_text(SMALL.replace("1", "2"))
    other = cache / "other.so"
    assert not compiled("cc", "", other)
    other.replace(path)  # between the two renames of another process
    assert not library.is_intact(path)


def test_training_works_without_the_native_library() -> None:
    code = "from regard.engine.library import kernels; assert kernels() is None; from regard.nn import FeedForward; import torch; assert FeedForward(4, 8)(torch.ones(2, 4)).shape == (2, 4)"
    subprocess.run([sys.executable, "-c", code], check=True, env=child_environment(REGARD_NATIVE="0"))
