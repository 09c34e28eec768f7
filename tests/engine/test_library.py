"""A native library is shipped or compiled, tried in a child process, verified before it is loaded, and optional."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from support.engine_calls import child_environment

from regard.engine import build, locate
from regard.engine.build import Target, cache_key
from regard.engine.locate import compile_into_cache, find_library
from regard.errors import RegardError

GENERIC, BETTER = Target("generic"), Target("better", ("-DBETTER",), frozenset({"strong"}))
SLOWER = "PyTorch operations are used, which are slower"
EXPORT = '#define EXPORT __attribute__((visibility("default")))\n'
SMALL = EXPORT + "EXPORT int self_test(void) { return 1; }\n"
ILLEGAL_WHERE_BETTER = f"""{EXPORT}
EXPORT int self_test(void) {{
#ifdef BETTER
    __builtin_trap();
#endif
    return 1;
}}
"""


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("REGARD_NATIVE", str(tmp_path / "native"))
    monkeypatch.delenv("REGARD_CFLAGS", raising=False)
    monkeypatch.delenv("REGARD_TARGET", raising=False)
    return tmp_path / "native"


@pytest.fixture
def small_source(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Compiled in no time, where only the choice and the cache are tested: two targets, and a processor for both."""
    folder = tmp_path / "csrc"
    folder.mkdir()
    (folder / "kernels.c").write_text(SMALL)
    monkeypatch.setattr(build, "CSRC", folder)
    monkeypatch.setattr(build, "SOURCES", (folder / "kernels.c",))
    monkeypatch.setattr(build, "targets", lambda: (BETTER, GENERIC))
    monkeypatch.setattr(build, "SHIPPED", tmp_path / "lib")
    announce(monkeypatch, "fpu strong")
    return folder / "kernels.c"


def announce(monkeypatch: pytest.MonkeyPatch, features: str) -> None:
    monkeypatch.setattr(locate, "processor_features", lambda: features)


@pytest.fixture
def ship(
    small_source: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Callable[[str], tuple[Path, Path]]:
    """Builds shipped libraries from a source; nothing may be compiled afterwards."""

    def shipped(source: str = SMALL) -> tuple[Path, Path]:
        if build.find_compiler() is None:
            pytest.skip("no C compiler")
        small_source.write_text(source)
        assert len(build.build_shipped(build.SHIPPED, log=lambda _: None)) == 3
        monkeypatch.delenv("REGARD_NATIVE")
        monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
        monkeypatch.setattr(build, "find_compiler", lambda: None)
        return build.SHIPPED / BETTER.file, build.SHIPPED / GENERIC.file

    return shipped


Ship = Callable[..., tuple[Path, Path]]


def find() -> tuple[Path | None, str]:
    return find_library.__wrapped__()


def built() -> Path:
    path, sentence = find()
    if path is None:
        pytest.skip(sentence)
    assert "compiled by" in sentence
    return path


def tokenizer_digest(path: Path) -> Path:
    return path.with_name(path.name + ".sha256")


def no_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locate, "run_trial", lambda *_: pytest.fail("tried again"))


# ---- Compiling into the cache. ----


def test_compiled_and_tried_once_and_found_again(monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    path = built()
    (note,) = cache.glob("*.trial")
    assert sorted(each.name for each in cache.iterdir()) == sorted(
        [path.name, path.name + ".sha256", note.name]
    )
    monkeypatch.setattr(locate, "compile_into_cache", lambda *_: pytest.fail("compiled twice"))
    no_trial(monkeypatch)
    assert find()[0] == path


def test_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGARD_NATIVE", "0")
    assert find() == (None, "switched off by REGARD_NATIVE=0")


@pytest.mark.parametrize("system", ["darwin", "win32"])
def test_other_systems_use_pytorch(system: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", system)
    assert find() == (None, f"the native engine is built on Linux only: {SLOWER}")


def test_no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda _: None)
    assert find() == (None, f"no C compiler found: {SLOWER}")


def test_a_compiler_that_fails_leaves_nothing(monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    monkeypatch.setenv("CC", "false")
    path, sentence = find()
    assert path is None
    assert "could not be compiled" in sentence
    assert not list(cache.iterdir())


def test_a_target_that_the_compiler_does_not_know_is_left_out(
    small_source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    future = Target("future", ("-march=of-the-future",))
    monkeypatch.setattr(build, "targets", lambda: (future, GENERIC))
    path, sentence = find()
    assert path is not None
    assert re.match(r"compiled by cc for generic \(future: .*of-the-future", sentence)
    log: list[str] = []
    files = build.build_shipped(build.SHIPPED, log=log.append)
    assert [path.name for path in files] == [build.MANIFEST, GENERIC.file]
    assert "cc does not compile for future" in log[0]
    assert log[-1] == "regard: native libraries for generic"


@pytest.mark.parametrize("part", ["sources", "header", "compiler_version", "flags", "target", "libc"])
def test_the_key_covers(part: str, small_source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = cache_key("cc", GENERIC)
    assert cache_key("cc", GENERIC) == here
    target = GENERIC
    if part == "sources":
        small_source.write_text(SMALL + "\n")
    elif part == "header":
        (small_source.parent / "engine.h").write_text("")
    elif part == "libc":
        monkeypatch.setattr("platform.libc_ver", lambda: ("glibc", "1.0"))
    elif part == "flags":
        monkeypatch.setenv("REGARD_CFLAGS", "-DOTHER")
    elif part == "target":
        target = BETTER
    else:
        monkeypatch.setattr(build, part, lambda *_: "another")
    assert cache_key("cc", target) != here


def test_the_version_of_the_compiler() -> None:
    assert re.search(r"\d+\.\d+", build.compiler_version("cc"))
    assert build.compiler_version("/nonexistent") == ""


def test_sources_are_compiled_one_by_one(small_source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = small_source.with_name("other.c")
    other.write_text("static int helper;\nint *part(void) { return &helper; }\n")
    small_source.write_text(
        EXPORT
        + "static int helper;\nint *part(void);\nEXPORT int self_test(void) { return part() != &helper; }\n"
    )
    monkeypatch.setattr(build, "SOURCES", (small_source, other))
    assert built()
    other.write_text("no C\n")
    assert find()[0] is None


# ---- Choosing a target. ----


def test_the_best_target_that_the_processor_announces(ship: Ship, monkeypatch: pytest.MonkeyPatch) -> None:
    better, generic = ship()
    assert find() == (better, "shipped for better")
    announce(monkeypatch, "fpu")
    assert find() == (generic, "shipped for generic")
    announce(monkeypatch, "")
    assert find() == (generic, "shipped for generic")


def test_targets_of_known_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    for features, names in {
        "fpu sse2": ["x86-64"],
        "fpu avx2 fma": ["x86-64"],
        "bmi2 avx2 fma bmi1 f16c": ["x86-64-v3", "x86-64"],
        "bmi2 avx2 fma bmi1 f16c avx512f": ["x86-64-v3", "x86-64"],
        "bmi2 avx2 fma bmi1 f16c avx512f avx512bw avx512cd avx512dq avx512vl avx512_vnni": [
            "x86-64-v4",
            "x86-64-v3",
            "x86-64",
        ],
    }.items():
        announce(monkeypatch, features)
        assert [target.name for target in locate.candidate_targets()] == names
    announce(monkeypatch, "fp asimd")
    for machine, name in {"aarch64": "armv8-a", "riscv64": "riscv64", "": "generic"}.items():
        monkeypatch.setattr("platform.machine", lambda machine=machine: machine)
        assert [target.name for target in locate.candidate_targets()] == [name]


def test_a_processor_that_announces_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(*_: object) -> str:
        raise OSError

    monkeypatch.setattr(Path, "read_text", refuses)
    assert locate.processor_features.__wrapped__() == ""


def test_an_illegal_instruction_makes_the_next_target_be_taken(
    ship: Ship, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, generic = ship(ILLEGAL_WHERE_BETTER)
    answer = (generic, "shipped for generic (better: its trial run ended with an illegal instruction)")
    assert find() == answer
    no_trial(monkeypatch)  # both results are remembered
    assert find() == answer


def test_no_target_runs(ship: Ship) -> None:
    ship(EXPORT + "EXPORT int self_test(void) { __builtin_trap(); }\n")
    illegal = "its trial run ended with an illegal instruction"
    assert find() == (None, f"no shipped library runs here (better: {illegal}; generic: {illegal}): {SLOWER}")


def test_a_compiled_target_that_does_not_run_is_left_out(small_source: Path) -> None:
    small_source.write_text(ILLEGAL_WHERE_BETTER)
    path, sentence = find()
    assert path is not None
    assert sentence == "compiled by cc for generic (better: its trial run ended with an illegal instruction)"


def test_a_trial_is_cached_for_one_processor_and_one_library(
    ship: Ship, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    better, _ = ship()
    find()
    notes = tmp_path / "cache" / "native"
    assert [path.read_text() for path in notes.iterdir()] == ["runs\n"]
    for features in ("fpu strong other", "fpu strong"):
        announce(monkeypatch, features)
        assert find()[0] == better
    assert len(list(notes.iterdir())) == 2


@pytest.mark.parametrize("how", ["nonsense", "not text", "another's", "writable by others"])
def test_a_note_that_cannot_be_trusted_is_written_again(ship: Ship, how: str, tmp_path: Path) -> None:
    better, _ = ship()
    find()
    (note,) = (tmp_path / "cache" / "native").iterdir()
    note.write_bytes({"nonsense": b"perhaps", "not text": b"\xff"}.get(how, locate.ILLEGAL.encode()))
    if how == "another's":
        if os.geteuid() != 0:
            pytest.skip("only root may give a file to another user")
        os.chown(note, 12345, -1)
    elif how == "writable by others":
        note.chmod(0o666)
    assert find() == (better, "shipped for better")
    assert (note.read_text(), note.stat().st_mode & 0o777) == ("runs\n", 0o644)


def test_results_that_may_change_are_not_cached(
    ship: Ship, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    better, _ = ship()
    with monkeypatch.context() as patch:
        patch.setattr("sys.executable", "/nonexistent")
        path, sentence = find()
        assert path is None
        assert "its trial run failed: " in sentence
    assert not list((tmp_path / "cache" / "native").iterdir())
    assert find()[0] == better


def test_without_a_cache_the_trial_is_run_each_time(ship: Ship, tmp_path: Path) -> None:
    better, _ = ship()
    (tmp_path / "cache").write_text("a file")
    assert find() == (better, "shipped for better")


def test_a_target_can_be_forced(ship: Ship, monkeypatch: pytest.MonkeyPatch) -> None:
    better, generic = ship(ILLEGAL_WHERE_BETTER)
    announce(monkeypatch, "fpu")
    monkeypatch.setenv("REGARD_TARGET", "generic")
    assert find() == (generic, "shipped for generic")
    monkeypatch.setenv("REGARD_TARGET", "better")  # whatever the processor announces, but not what does not run
    path, sentence = find()
    assert path is None
    assert "better: its trial run ended with an illegal instruction" in sentence
    assert better.exists()


def test_an_unknown_target_is_refused(ship: Ship, monkeypatch: pytest.MonkeyPatch) -> None:
    ship()
    monkeypatch.setenv("REGARD_TARGET", "avx1024")
    with pytest.raises(
        RegardError, match=r"^REGARD_TARGET=avx1024 is not a target of this machine; allowed: better, generic$"
    ):
        find()


# ---- The OpenMP runtime. ----


ONE_RUNTIME = """
from pathlib import Path
from regard.engine import openmp
path, why = openmp.load_runtime()
assert not why, why
loaded = {line.split()[-1] for line in open("/proc/self/maps") if "gomp" in line}
assert loaded == {str(Path(path).resolve())}, loaded
"""


def test_the_runtime_is_the_one_of_pytorch() -> None:
    """In a process of its own: other packages bring runtimes of other names."""
    subprocess.run([sys.executable, "-c", ONE_RUNTIME], check=True, env=child_environment())


def test_a_library_is_not_linked_with_a_runtime() -> None:
    if "clang" in build.compiler_version(build.find_compiler() or ""):
        pytest.skip("Clang's runtime has to be linked")
    assert b"libgomp" not in built().read_bytes()


def test_no_runtime(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locate, "load_runtime", lambda: ("", "there is none"))
    assert find() == (None, f"there is none: {SLOWER}")


# ---- What may be loaded of what was shipped. ----


def test_shipped_libraries_are_kept_while_their_sources_are(ship: Ship, small_source: Path) -> None:
    better, _ = ship()
    before = better.stat().st_mtime_ns
    log: list[str] = []
    assert len(build.build_shipped(build.SHIPPED, log=log.append)) == 3  # without a compiler
    assert log == [f"regard: the native libraries in {build.SHIPPED} are up to date"]
    assert better.stat().st_mtime_ns == before
    small_source.write_text(SMALL + "\n")
    assert build.build_shipped(build.SHIPPED, log=log.append) == []
    assert "no C compiler found" in log[-1]


def test_edited_sources_are_compiled(
    ship: Ship, small_source: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ship()
    small_source.write_text(SMALL + "\n")
    reason = "the shipped library was built from other C sources"
    assert find() == (None, f"no C compiler found ({reason}): {SLOWER}")
    monkeypatch.setattr(build, "find_compiler", lambda: shutil.which("cc"))
    path, sentence = find()
    assert path is not None
    assert path.parent == tmp_path / "cache" / "native"
    assert sentence == f"compiled by cc for better ({reason})"


@pytest.mark.parametrize("variable", ["REGARD_NATIVE", "REGARD_CFLAGS"])
def test_what_forces_compiling(
    variable: str, ship: Ship, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ship()
    monkeypatch.setattr(build, "find_compiler", lambda: shutil.which("cc"))
    monkeypatch.setenv(variable, {"REGARD_NATIVE": str(tmp_path / "own"), "REGARD_CFLAGS": "-O1"}[variable])
    assert find()[1] == "compiled by cc for better"


def spoil_shipped(how: str, better: Path) -> str:
    """What `find` says about it."""
    folder, manifest = better.parent, better.parent / build.MANIFEST
    content = json.loads(manifest.read_text())
    if how == "tampered":
        better.write_bytes(better.read_bytes() + b"\0")
        return f"{better} is not the file that was shipped"
    if how == "removed":
        better.unlink()
        return "the shipped library cannot be read (No such file or directory)"
    if how == "symbolic link":
        better.rename(better.with_name("elsewhere"))
        better.symlink_to("elsewhere")
        return f"{better} is not a plain file or folder"
    if how.startswith("another user's"):
        if os.geteuid() != 0:
            pytest.skip("only root may give a file to another user")
        path = {"library": better, "manifest": manifest, "folder": folder}[how.split()[-1]]
        os.chown(path, 12345, -1)
        return f"{path} belongs to another user"
    if how == "no JSON":
        manifest.write_text("{")
        return f"{manifest} is not a manifest (Expecting"
    if how == "no sources":
        manifest.write_text("[]")
        return f"{manifest} is not a manifest (it has no digest of the sources)"
    if how == "no libraries":
        manifest.write_text(json.dumps({**content, "libraries": {}}))
        return f"{manifest} is not a manifest (it has no list of libraries)"
    assert how == "no digest"
    del content["libraries"][0]["sha256"]
    manifest.write_text(json.dumps(content))
    return f"{manifest} is not a manifest (a library has no target, file or sha256)"


SPOILED = [
    *("tampered", "removed", "symbolic link", "another user's library", "another user's manifest"),
    *("another user's folder", "no JSON", "no sources", "no libraries", "no digest"),
]


@pytest.mark.parametrize("how", SPOILED)
def test_a_shipped_library_that_cannot_be_trusted(
    how: str, ship: Ship, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    better, _ = ship()
    reason = spoil_shipped(how, better)
    path, sentence = find()
    assert path is None
    assert sentence.startswith(f"no C compiler found ({reason}")
    assert sentence.endswith(f"): {SLOWER}")
    monkeypatch.setattr(build, "find_compiler", lambda: shutil.which("cc"))
    path, sentence = find()
    assert path is not None
    assert path.parent == tmp_path / "cache" / "native"
    assert sentence.startswith(f"compiled by cc for better ({reason}")


def test_the_manifest_leads_to_no_other_file(ship: Ship, tmp_path: Path) -> None:
    better, _ = ship()
    manifest = better.parent / build.MANIFEST
    content = json.loads(manifest.read_text())
    for each in content["libraries"]:
        each["file"] = "../elsewhere.so"
    manifest.write_text(json.dumps(content))
    assert find()[0] == better
    assert build.build_shipped(build.SHIPPED, log=lambda _: None) == []


@pytest.mark.parametrize("what", ["library", "manifest", "folder"])
@pytest.mark.parametrize("mode", [0o775, 0o777])
def test_own_files_are_closed_to_others(what: str, mode: int, ship: Ship) -> None:
    """As pip leaves them under a umask of 002."""
    better, _ = ship()
    path = {"library": better, "manifest": better.parent / build.MANIFEST, "folder": better.parent}[what]
    path.chmod(mode)
    assert find()[0] == better
    assert path.stat().st_mode & 0o777 == 0o755


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give a file to another user")
def test_another_ones_files_that_others_may_write_to_are_refused(
    ship: Ship, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Installed by an administrator who owns regard's modules too, with group write permission."""
    better, _ = ship()
    monkeypatch.setattr(locate, "is_ours", lambda _: True)
    os.chown(better, 12345, -1)
    better.chmod(0o775)
    path, sentence = find()
    assert path is None
    assert sentence == f"no C compiler found (other users may write to {better} (chmod go-w)): {SLOWER}"


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
        tokenizer_digest(path).unlink()
    elif how == "digest of something else":
        tokenizer_digest(path).write_text("0" * 64 + "\n")
    elif how == "digest is not text":
        tokenizer_digest(path).write_bytes(b"\xff\xfe")
    elif how == "digest writable by others":
        tokenizer_digest(path).chmod(0o666)
    else:
        os.chown(path if how == "another user's" else tokenizer_digest(path), 12345, -1)


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
    assert not locate.is_intact(path)
    assert find() == (path, "compiled by cc for better")
    assert locate.is_intact(path)
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
    announce(monkeypatch, "fpu strong")
    monkeypatch.setattr(locate, "compile_into_cache", lambda *_: "the disk is full")
    assert find() == (
        None,
        "the native library could not be compiled (better: the disk is full; generic: the disk is full): "
        "PyTorch operations are used, which are slower",
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


def test_a_library_that_the_linker_refuses(
    small_source: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    monkeypatch.setattr(build, "targets", lambda: (GENERIC,))
    cache.mkdir()
    foreign = cache / f"engine-generic-{cache_key(compiler, GENERIC)}.so"
    foreign.write_bytes(b"not a library")
    tokenizer_digest(foreign).write_text(locate.digest(foreign))  # so that only the linker notices
    assert locate.is_intact(foreign)
    path, sentence = find()
    assert path is None
    assert "generic: its trial run ended with 1 (OSError: " in sentence
    assert sentence.endswith(f"): {SLOWER}")
    monkeypatch.setattr(locate, "run_trial", lambda *_: locate.RUNS)
    path, sentence = find()
    assert path is None
    assert "generic: it cannot be loaded (" in sentence


@pytest.mark.usefixtures("small_source")
@pytest.mark.parametrize("umask", [0o000, 0o002, 0o077])
def test_any_umask(umask: int) -> None:
    before = os.umask(umask)
    try:
        path = built()
    finally:
        os.umask(before)
    assert locate.is_intact(path)
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
    assert locate.is_intact(path)
    assert not list(cache.glob("*.part*"))


def test_two_installations_at_once_without_a_lock(small_source: Path, cache: Path) -> None:
    """Each installs a file and its digest; another one's digest at most means that it is compiled again."""
    path = built()
    assert not compile_into_cache("cc", BETTER, path)
    assert locate.is_intact(path)
    small_source.write_text(SMALL.replace("1", "2"))
    other = cache / "other.so"
    assert not compile_into_cache("cc", GENERIC, other)
    other.replace(path)  # between the two renames of another process
    assert not locate.is_intact(path)


def test_training_works_without_the_native_library() -> None:
    code = "from regard.engine.library import kernels; assert kernels() is None; from regard.nn import FeedForward; import torch; assert FeedForward(4, 8)(torch.ones(2, 4)).shape == (2, 4)"
    subprocess.run([sys.executable, "-c", code], check=True, env=child_environment(REGARD_NATIVE="0"))


# ---- The engine's own sources. ----


def environment(target: str) -> dict[str, str]:
    return child_environment(REGARD_TARGET=target, OMP_NUM_THREADS="2")


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("target", [target.name for target in build.targets()])
def test_every_target_computes_the_same(target: str) -> None:
    """Products, and the conformance grid of the GPT, in a child process."""
    code = "from regard.engine.library import find_library, kernels; kernels(); print(find_library()[1])"
    said = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment(target), check=True
    ).stdout
    if f"for {target}" not in said:
        pytest.skip(said)
    tests = Path(__file__).parent
    for command in (["test_gemm.py"], ["test_stack.py"], ["test_conformance.py", "-k", "gpt"]):
        ran = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tests / command[0]), *command[1:]],
            capture_output=True, text=True, check=False, env=environment(target), cwd=tests.parents[1],
        )  # fmt: skip
        assert ran.returncode == 0, ran.stdout[-5000:] + ran.stderr[-5000:]
        print(target, command, ran.stdout.splitlines()[-1])
