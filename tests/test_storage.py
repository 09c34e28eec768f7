"""Files that are complete or not there at all; folders one process writes at a time."""

import errno
import multiprocessing
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save
from support.subprocess_functions import hold_lock

from regard import storage
from regard.errors import DiskError, RegardError


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    """A real file system of 256 kB, which only root can make."""
    place = tmp_path / "disk"
    place.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(place)], capture_output=True, check=False
    )
    if made.returncode:
        pytest.skip("a small file system cannot be mounted here (not root)")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_a_file_is_written_whole(tmp_path: Path) -> None:
    storage.write(tmp_path / "a", b"one")
    storage.write_text(tmp_path / "a", "zwölf")
    assert (tmp_path / "a").read_text("utf-8") == "zwölf"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_what_breaks_off_leaves_the_old_one(tmp_path: Path) -> None:
    storage.write(tmp_path / "a", b"old")
    with pytest.raises(ZeroDivisionError), storage.atomic_path(tmp_path / "a") as part:
        part.write_bytes(b"half" if 1 // 0 else b"")
    assert (tmp_path / "a").read_bytes() == b"old"


def test_a_folder_takes_the_place_of_another(tmp_path: Path) -> None:
    for content in ("one", "two"):
        with storage.atomic_path(tmp_path / "f") as part:
            part.mkdir()
            (part / content).write_text(content)
    assert [path.name for path in (tmp_path / "f").iterdir()] == ["two"]
    assert [path.name for path in tmp_path.iterdir()] == ["f"]


def test_a_full_disk_is_told_and_the_old_file_stays(tiny_disk: Path) -> None:
    storage.write(tiny_disk / "a", b"old")
    with pytest.raises(DiskError, match=r"a cannot be written: the disk is full") as caught:
        storage.write(tiny_disk / "a", bytes(2**20))
    assert caught.value.code == 1
    assert (tiny_disk / "a").read_bytes() == b"old"
    assert [path.name for path in tiny_disk.iterdir()] == ["a"]


def test_a_disk_that_may_only_be_read_is_told(tiny_disk: Path) -> None:
    storage.write(tiny_disk / "a", b"old")
    subprocess.run(["mount", "-o", "remount,ro", str(tiny_disk)], check=True)
    with pytest.raises(DiskError, match="read-only file system"):
        storage.write(tiny_disk / "a", b"new")
    assert (tiny_disk / "a").read_bytes() == b"old"


def test_nothing_leads_out_of_a_folder(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    (tmp_path / "secret").write_text("s")
    (folder / "link").symlink_to(tmp_path / "secret")
    (folder / "plain").write_text("p")
    (folder / "within").symlink_to(folder / "plain")
    assert storage.inside(folder, "plain").read_text() == "p"
    assert storage.inside(folder, "within").read_text() == "p"
    for name in ("link", "../secret", "/etc/passwd"):
        with pytest.raises(RegardError, match="leads out of the folder"):
            storage.inside(folder, name)
    os.mkfifo(folder / "pipe")
    with pytest.raises(RegardError, match="not a plain file"):
        storage.inside(folder, "pipe")


def test_the_second_in_a_folder_is_refused(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    ready, go = context.Event(), context.Event()
    other = context.Process(target=hold_lock, args=(tmp_path, ready, go))
    other.start()
    assert ready.wait(30)
    with (
        pytest.raises(RegardError, match=f"held by {other.pid}"),
        storage.exclusive_lock(tmp_path, lambda who: f"held by {who}"),
    ):
        pass
    other.kill()  # however it ends, the lock is given back
    other.join()
    with storage.exclusive_lock(tmp_path, str):
        assert (tmp_path / ".lock").read_text() == str(os.getpid())
    assert not (tmp_path / ".lock").exists()


# ---- Windows, where the system's calls behave in another way (simulated). ----


@pytest.fixture
def windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """os.open refuses folders, os.fsync refuses what is not open for writing, and there is no fcntl."""
    monkeypatch.setattr("sys.platform", "win32")
    monkeypatch.setitem(sys.modules, "fcntl", None)
    monkeypatch.setattr(shutil, "_use_fd_functions", False)
    modes: dict[int, int] = {}
    open_file, sync = os.open, os.fsync

    def refusing_open(path: str | Path, flags: int, *mode: int, **options: int) -> int:
        if Path(path).is_dir():
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        if flags & os.O_RDWR and not Path(path).stat().st_mode & stat.S_IWUSR:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        descriptor = open_file(path, flags, *mode, **options)
        modes[descriptor] = flags
        return descriptor

    def refusing_sync(descriptor: int) -> None:
        if not modes.get(descriptor, os.O_RDWR) & os.O_RDWR:
            raise OSError(errno.EBADF, "Bad file descriptor")
        sync(descriptor)

    monkeypatch.setattr(os, "open", refusing_open)
    monkeypatch.setattr(os, "fsync", refusing_sync)


@pytest.mark.usefixtures("windows")
def test_files_and_folders_are_saved_on_windows(tmp_path: Path) -> None:
    for content in ("one", "two"):
        storage.write_text(tmp_path / "file", content)
        with storage.atomic_path(tmp_path / "folder") as part:
            part.mkdir()
            (part / content).write_text(content)
            (part / "read-only").write_text("copied from a corpus")
            (part / "read-only").chmod(0o444)
    assert (tmp_path / "file").read_text() == "two"
    assert sorted(path.name for path in (tmp_path / "folder").iterdir()) == ["read-only", "two"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder"]


@pytest.mark.usefixtures("windows")
def test_without_locks_folders_are_used_on_windows(tmp_path: Path) -> None:
    with storage.exclusive_lock(tmp_path, str), storage.file_lock(tmp_path / "lock") as alone:
        assert alone


@pytest.mark.usefixtures("windows")
def test_a_model_is_saved_and_loaded_on_windows(tmp_path: Path) -> None:
    with storage.atomic_path(tmp_path / "run") as part:
        part.mkdir()
        (part / "model.safetensors").write_bytes(save({"weight": np.ones(3)}))
    assert load_file(tmp_path / "run" / "model.safetensors")["weight"].sum() == 3


@pytest.mark.parametrize("refused", [errno.EACCES, errno.EBADF])
def test_elsewhere_a_refusal_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: int) -> None:
    def fails(*_: object) -> int:
        raise OSError(refused, os.strerror(refused))

    monkeypatch.setattr(os, "open" if refused == errno.EACCES else "fsync", fails)
    with pytest.raises(DiskError, match=os.strerror(refused).lower()):
        storage.write(tmp_path / "a", b"new")
