"""Every write of a checkpoint, broken in every way: what is said, and what is kept."""

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
from regard.data.store import TokenStore
from regard.errors import DiskError, TrainingError
from regard.training import checkpoint
from regard.training.state import Training


@pytest.fixture
def begun(store: TokenStore, tmp_path: Path) -> tuple[Training, Path]:
    """A training with checkpoints of step 4 and 8."""
    made = training(store, steps=8)
    run_training(made, tmp_path / "checkpoints")
    return made, tmp_path / "checkpoints"


def refused(number: int) -> Callable[..., object]:
    def refuse(*_: object, **__: object) -> object:
        raise OSError(number, os.strerror(number))

    return refuse


def told_by_safetensors(*_: object, **__: object) -> None:
    raise SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")


WRITES = {
    "the folder is made": (Path, "mkdir"),
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
def test_a_write_that_fails_keeps_the_checkpoint_before(
    begun: tuple[Training, Path],
    store: TokenStore,
    write: str,
    fault: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made, folder = begun
    made.step = 9
    owner, name = WRITES[write]
    number, words = FAULTS[fault]
    with monkeypatch.context() as patch:
        patch.setattr(owner, name, refused(number))
        with pytest.raises(DiskError, match=rf"checkpoints/9 cannot be written: {words}") as caught:
            checkpoint.save(made, folder, 2)
    print(f"{write:28} {fault:12} {caught.value}  kept: {checkpoint.steps_in(folder)}")
    assert checkpoint.steps_in(folder) == [4, 8]
    assert checkpoint.resume(training(store), folder, pytest.fail)
    checkpoint.save(made, folder, 2)  # the disk has room again
    assert checkpoint.steps_in(folder) == [8, 9]
    assert sorted(path.name for path in folder.iterdir()) == ["8", "9"]


def test_what_safetensors_cannot_write_is_told_the_same_way(
    begun: tuple[Training, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    made, folder = begun
    made.step = 9
    monkeypatch.setattr(tensor_files, "save_file", told_by_safetensors)
    with pytest.raises(DiskError, match="checkpoints/9 cannot be written: the disk is full"):
        checkpoint.save(made, folder, 2)
    assert checkpoint.steps_in(folder) == [4, 8]


def test_a_disk_that_is_really_full(begun: tuple[Training, Path], tmp_path: Path) -> None:
    made, folder = begun
    small = tmp_path / "disk"
    small.mkdir()
    size = 3 * sum(path.stat().st_size for path in (folder / "8").iterdir()) // 2
    mounted = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(small)]
    if subprocess.run(mounted, capture_output=True, check=False).returncode:
        pytest.skip("a small file system cannot be mounted here (not root)")
    try:
        checkpoint.save(made, small, 2)
        made.step = 9
        with pytest.raises(DiskError, match="9 cannot be written: the disk is full"):
            checkpoint.save(made, small, 2)
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
def test_a_damaged_checkpoint_is_noticed_and_the_one_before_is_used(
    begun: tuple[Training, Path],
    store: TokenStore,
    file: str,
    damage: str,
) -> None:
    _, folder = begun
    whole = training(store, steps=8)
    run_training(whole)
    DAMAGE[damage](folder / "8" / file)
    told: list[str] = []
    resumed = training(store, steps=8)
    assert checkpoint.resume(resumed, folder, told.append)
    [sentence] = told
    print(f"{file:20} {damage:16} {sentence}")
    assert f"checkpoint {folder / '8'} is damaged" in sentence
    assert sentence.endswith("the one of step 4 is used")
    assert resumed.step == 4
    run_training(resumed, folder)
    assert same_weights(resumed, whole)
    assert checkpoint.resume(training(store), folder, pytest.fail)  # the damaged one was written anew


def test_when_none_is_left_all_are_named(begun: tuple[Training, Path], store: TokenStore) -> None:
    _, folder = begun
    for step in ("4", "8"):
        (folder / step / checkpoint.NUMBERS).write_text("{}")
    with pytest.raises(TrainingError, match=r"8 is damaged.*4 is damaged.*none is left"):
        checkpoint.resume(training(store), folder, pytest.fail)


def test_numbers_changed_by_hand_are_noticed(begun: tuple[Training, Path]) -> None:
    _, folder = begun
    path = folder / "8" / checkpoint.NUMBERS
    path.write_text(json.dumps(json.loads(path.read_text()) | {"step": 800}))
    with pytest.raises(ValueError, match="is not the one that was written"):
        checkpoint.unsealed(json.loads(path.read_text()))


def test_a_checkpoint_of_another_model_is_refused_before_anything_changes(
    begun: tuple[Training, Path],
    store: TokenStore,
) -> None:
    _, folder = begun
    other = training(store)
    other.model.output_bias = torch.nn.Parameter(torch.zeros(31))
    before = [each.clone() for each in other.model.parameters()]
    with pytest.raises(TrainingError, match=r"is of another model: output_bias is \(31,\) here, \(30,\) there"):
        checkpoint.resume(other, folder, pytest.fail)
    assert all(torch.equal(a, b) for a, b in zip(before, other.model.parameters(), strict=True))


def test_weights_that_are_all_there_are_read_with_their_shapes(tmp_path: Path) -> None:
    tensor_files.write_tensors({"a": torch.zeros(2, 3)}, tmp_path / "w")
    assert tensor_files.shapes_in(tmp_path / "w") == {"a": (2, 3)}
    tensor_files.write_tensors({"a": torch.zeros(2, dtype=torch.long)}, tmp_path / "w")
    with pytest.raises(ValueError, match="is stored as I64"):
        tensor_files.shapes_in(tmp_path / "w")
