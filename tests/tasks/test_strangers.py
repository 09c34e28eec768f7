"""Loading an untrusted run folder: no code is executed, no file outside it is read, sizes are checked."""

import json
import os
import pickle
import shutil
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from support.small_translation import train

import regard

LURED = "lured"


@pytest.fixture(scope="module")
def honest(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("strangers") / "run"
    train(corpus, folder, "train.steps=2", "train.validate_every=2")
    return folder


@pytest.fixture
def folder(honest: Path, tmp_path: Path) -> Path:
    shutil.copytree(honest, tmp_path / "run")
    return tmp_path / "run"


class Trap:
    """An object whose pickle makes a folder when it is loaded."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple:
        return os.mkdir, (str(self.mark),)


def renamed_pickle(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(pickle.dumps(Trap(folder.parent / LURED)))


def symlink_out(folder: Path) -> None:
    shutil.move(folder / "model.safetensors", folder.parent / "elsewhere")
    (folder / "model.safetensors").symlink_to(folder.parent / "elsewhere")


def tokenizer_out(folder: Path) -> None:
    shutil.move(folder / "tokenizer.json", folder.parent / "elsewhere")
    (folder / "tokenizer.json").symlink_to("../elsewhere")


def header(folder: Path, content: dict | bytes) -> None:
    raw = content if isinstance(content, bytes) else json.dumps(content).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(raw)) + raw)


def huge_tensor(folder: Path) -> None:
    header(folder, {"output_bias": {"dtype": "F32", "shape": [10**12], "data_offsets": [0, 4 * 10**12]}})


def huge_header(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", 2**62) + b"{}")


def outside_name(folder: Path) -> None:
    from safetensors.torch import load_file, save_file

    weights = load_file(folder / "model.safetensors")
    save_file({**weights, "../../x": next(iter(weights.values())).clone()}, folder / "model.safetensors")


def other_sizes(folder: Path) -> None:
    change(folder, "model", d_ff=65536)


def endless_layers(folder: Path) -> None:
    change(folder, "model", encoder_layers=10**9)


def change(folder: Path, section: str, **keys: object) -> None:
    config = json.loads((folder / "config.json").read_text())
    config[section] |= keys
    (folder / "config.json").write_text(json.dumps(config))


def deep_config(folder: Path) -> None:
    (folder / "config.json").write_text("[" * 100_000)


def long_config(folder: Path) -> None:
    (folder / "config.json").write_text(" " * 2_000_000)


def a_pipe(folder: Path) -> None:
    (folder / "config.json").unlink()
    os.mkfifo(folder / "config.json")


HOSTILE: list[tuple[Callable[[Path], None], str]] = [
    (renamed_pickle, "does not hold the weights of this configuration"),
    (symlink_out, "leads out of the folder"),
    (tokenizer_out, "leads out of the folder"),
    (huge_tensor, "does not hold the weights of this configuration"),
    (huge_header, "does not hold the weights of this configuration"),
    (outside_name, "'../../x' is no part of this model"),
    (other_sizes, "is 64 x 32, not 65536 x 32"),
    (endless_layers, "model.encoder_layers: 1000000000 is out of range"),
    (deep_config, "config.json is damaged"),
    (long_config, "config.json is damaged: it has 2,000,000 bytes"),
    (a_pipe, "is not a plain file"),
]


@pytest.mark.timeout(30)
@pytest.mark.parametrize(("plant", "sentence"), HOSTILE, ids=lambda value: getattr(value, "__name__", ""))
def test_a_hostile_folder_is_refused(folder: Path, plant, sentence: str) -> None:
    plant(folder)
    with pytest.raises(regard.RegardError) as refused:
        regard.load(folder)
    print(f"{plant.__name__:16} {refused.value}")
    assert sentence in str(refused.value)
    assert not (folder.parent / LURED).exists()


def test_an_honest_folder_opens(folder: Path) -> None:
    assert len(regard.load(folder).translate(["drei."])) == 1


def test_a_model_card_has_no_script(corpus: Path, tmp_path: Path) -> None:
    made = train(
        corpus, tmp_path / "run", "train.steps=1", "train.validate_every=1",
        'data.source_language=<script>alert("1")</script>', "data.target_language=a|b\n# c",
    )  # fmt: skip
    card = (made.folder / "README.md").read_text("utf-8")
    assert "<script" not in card
    assert "&lt;script&gt;" in card
    assert "\n# c" not in card
