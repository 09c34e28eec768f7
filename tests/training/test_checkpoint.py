"""Checkpoints: every write fails in every way; the messages, and which checkpoints are kept."""

import errno
import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors import SafetensorError
from support.small_training import run_training, same_weights, training

from regard import storage, tensor_files
from regard.data.token_store import TokenStore
from regard.errors import DiskError, TrainingError
from regard.training import checkpoint
from regard.training.state import Training


@pytest.fixture
def saved_run(store: TokenStore, tmp_path: Path) -> tuple[Training, Path]:
    """A training run with checkpoints of steps 4 and 8."""
    state = training(store, steps=8)
    run_training(state, tmp_path / "checkpoints")
    return state, tmp_path / "checkpoints"


def raising(number: int) -> Callable[..., object]:
    def fail(*_: object, **__: object) -> object:
        raise OSError(number, os.strerror(number))

    return fail


def serialization_error(*_: object, **__: object) -> None:
    raise SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")


WRITES = {
    "the folder is created": (Path, "mkdir"),
    "the tensors are written": (tensor_files, "save_file"),
    "their digest is taken": (storage, "digest"),
    "the numbers are written": (Path, "write_text"),
    "all is flushed": (os, "fsync"),
    "it is renamed": (Path, "replace"),
}
FAULTS = {
    "disk full": (errno.ENOSPC, "the disk is full"),
    "permission": (errno.EACCES, "permission denied"),
    "read-only": (errno.EROFS, "read-only file system"),
    "device": (errno.EIO, "input/output error"),
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("write", WRITES)
def test_a_failed_write_keeps_the_previous_checkpoints(
    saved_run: tuple[Training, Path],
    store: TokenStore,
    write: str,
    fault: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    state, folder = saved_run
    state.step = 9
    owner, name = WRITES[write]
    number, words = FAULTS[fault]
    with monkeypatch.context() as patch:
        patch.setattr(owner, name, raising(number))
        with pytest.raises(DiskError, match=rf"checkpoints/9 cannot be written: {words}") as caught:
            checkpoint.save(state, folder, 2)
    print(f"{write:28} {fault:12} {caught.value}  kept: {checkpoint.saved_steps(folder)}")
    assert checkpoint.saved_steps(folder) == [4, 8]
    assert checkpoint.resume(training(store), folder, pytest.fail)
    checkpoint.save(state, folder, 2)  # the disk has free space again
    assert checkpoint.saved_steps(folder) == [8, 9]
    assert sorted(path.name for path in folder.iterdir()) == ["8", "9"]


def test_a_serialization_error_is_reported_as_a_disk_error(
    saved_run: tuple[Training, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    state, folder = saved_run
    state.step = 9
    monkeypatch.setattr(tensor_files, "save_file", serialization_error)
    with pytest.raises(DiskError, match="checkpoints/9 cannot be written: the disk is full"):
        checkpoint.save(state, folder, 2)
    assert checkpoint.saved_steps(folder) == [4, 8]


def test_a_full_file_system(saved_run: tuple[Training, Path], tmp_path: Path) -> None:
    state, folder = saved_run
    small = tmp_path / "disk"
    small.mkdir()
    size = 3 * sum(path.stat().st_size for path in (folder / "8").iterdir()) // 2
    mounted = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(small)]
    if subprocess.run(mounted, capture_output=True, check=False).returncode:
        pytest.skip("a small file system cannot be mounted here (not root)")
    try:
        checkpoint.save(state, small, 2)
        state.step = 9
        with pytest.raises(DiskError, match="9 cannot be written: the disk is full"):
            checkpoint.save(state, small, 2)
        assert sorted(path.name for path in small.iterdir()) == ["8"]
    finally:
        subprocess.run(["umount", str(small)], check=True)


def truncated(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def flipped(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


DAMAGE = {
    "truncated": truncated,
    "emptied": lambda path: path.write_bytes(b""),
    "one bit flipped": flipped,
    "removed": Path.unlink,
    "another file": lambda path: path.write_bytes(b"PK\x03\x04 something else"),
}


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("file", [checkpoint.TENSORS, checkpoint.NUMBERS])
def test_a_damaged_checkpoint_is_reported_and_the_previous_one_used(
    saved_run: tuple[Training, Path],
    store: TokenStore,
    file: str,
    damage: str,
) -> None:
    _, folder = saved_run
    whole = training(store, steps=8)
    run_training(whole)
    DAMAGE[damage](folder / "8" / file)
    messages: list[str] = []
    resumed = training(store, steps=8)
    assert checkpoint.resume(resumed, folder, messages.append)
    [message] = messages
    print(f"{file:20} {damage:16} {message}")
    assert f"checkpoint {folder / '8'} is damaged" in message
    assert message.endswith("the one of step 4 is used")
    assert resumed.step == 4
    run_training(resumed, folder)
    assert same_weights(resumed, whole)
    assert checkpoint.resume(training(store), folder, pytest.fail)  # the damaged one was overwritten


def test_without_an_intact_checkpoint_all_damaged_ones_are_named(
    saved_run: tuple[Training, Path], store: TokenStore
) -> None:
    _, folder = saved_run
    for step in ("4", "8"):
        (folder / step / checkpoint.NUMBERS).write_text("{}")
    with pytest.raises(TrainingError, match=r"8 is damaged.*4 is damaged.*no intact checkpoint is left"):
        checkpoint.resume(training(store), folder, pytest.fail)


def test_edited_numbers_do_not_match_their_checksum(saved_run: tuple[Training, Path]) -> None:
    _, folder = saved_run
    path = folder / "8" / checkpoint.NUMBERS
    path.write_text(json.dumps(json.loads(path.read_text()) | {"step": 800}))
    with pytest.raises(ValueError, match=r"the checksum of state\.json does not match"):
        checkpoint.verified(json.loads(path.read_text()))


def test_a_checkpoint_of_another_model_is_refused_before_anything_changes(
    saved_run: tuple[Training, Path],
    store: TokenStore,
) -> None:
    _, folder = saved_run
    other = training(store)
    other.model.output_bias = torch.nn.Parameter(torch.zeros(31))
    before = [parameter.clone() for parameter in other.model.parameters()]
    with pytest.raises(TrainingError, match=r"is of another model: output_bias is \(31,\) here, \(30,\) there"):
        checkpoint.resume(other, folder, pytest.fail)
    assert all(torch.equal(a, b) for a, b in zip(before, other.model.parameters(), strict=True))


def test_shapes_of_stored_weights(tmp_path: Path) -> None:
    tensor_files.write_tensors({"a": torch.zeros(2, 3)}, tmp_path / "w")
    assert tensor_files.shapes_in(tmp_path / "w") == {"a": (2, 3)}
    tensor_files.write_tensors({"a": torch.zeros(2, dtype=torch.long)}, tmp_path / "w")
    with pytest.raises(ValueError, match="is stored as I64"):
        tensor_files.shapes_in(tmp_path / "w")
