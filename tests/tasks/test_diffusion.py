"""Painting from pictures with labels to a run folder that paints, on two toys that are learned in seconds."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from support.small_images import idx
from support.small_painter import SIDE, SMALL, toys, write_toys

import regard
from regard.bench.painting import profile
from regard.cli.bench import paint as bench_paint
from regard.cli.look import look
from regard.cli.paint import paint
from regard.config.schema import parse_assignments
from regard.errors import RegardError
from regard.tasks.diffusion.model import ImageGenerator
from regard.tasks.translation.model import Translator


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("toys")
    write_toys(folder)
    return folder


def train(pictures: Path, out: Path, *more: str, **options):
    return regard.train(
        "paint", out, overrides=parse_assignments([f"data.path={pictures}", *SMALL, *more]), **options
    )


@pytest.fixture(scope="module")
def run(pictures: Path, tmp_path_factory: pytest.TempPathFactory):
    out = tmp_path_factory.mktemp("runs") / "paint"
    return train(pictures, out, "train.steps=160", "train.validate_every=80", "train.decay=0.98")


def nearest_toy(found: np.ndarray) -> list[int]:
    """Which toy each picture (..., side, side) is most like."""
    far = np.abs(found.reshape(-1, 1, SIDE, SIDE) - toys() / 255).mean((2, 3))
    return far.argmin(1).tolist()


def test_two_toys_are_painted_by_prompt(run) -> None:
    model = regard.load(run.folder)
    found = model.paint(["a zero", "eine Eins", "0", "the digit one"], each=4, seed=3)
    assert found.pictures.shape == (4, 4, SIDE, SIDE)
    right = np.equal(nearest_toy(found.pictures), np.repeat([0, 1, 0, 1], 4))
    assert right.mean() > 0.9
    assert 0 <= found.pictures.min() <= found.pictures.max() <= 1
    assert run.measured.scores["loss"] < 0.3
    assert run.on == "test"


def test_the_run_folder_is_complete_and_opens_elsewhere(run, tmp_path: Path) -> None:
    names = {path.name for path in run.folder.iterdir()}
    assert names == {
        "README.md", "checkpoints", "config.json", "curves.png", "curves.svg", "metrics.jsonl", "model.safetensors",
        "painted.png", "painted.svg", "recipe.toml", "tokenizer.json",
    }  # fmt: skip
    assert f"{run.measured.scores['loss']:.4f}" in (run.folder / "README.md").read_text("utf-8")
    shutil.copytree(run.folder, tmp_path / "moved")
    here, there = (
        regard.load(each).paint(["a zero"], seed=5).pictures for each in (run.folder, tmp_path / "moved")
    )
    assert np.array_equal(here, there)


def test_the_same_seed_gives_the_same_weights_and_so_does_a_resumed_run(pictures: Path, tmp_path: Path) -> None:
    common = ["train.validate_every=4", "train.schedule=constant", "model.dropout=0.1"]
    train(pictures, tmp_path / "whole", *common, "train.steps=8")
    train(pictures, tmp_path / "parts", *common, "train.steps=4")
    (tmp_path / "parts" / "config.json").unlink()  # as if it had been interrupted after step 4
    train(pictures, tmp_path / "parts", *common, "train.steps=8", resume=True)
    whole, parts = (regard.load(tmp_path / name).model.state_dict() for name in ("whole", "parts"))
    assert all(torch.equal(whole[name], parts[name]) for name in whole)


def test_the_command_writes_a_grid(run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = {"seed": 7, "steps": 4, "guidance": 1.0, "sampler": "ddpm", "merge": 0.5}
    one, other = tmp_path / "one.png", tmp_path / "other.png"
    paint(run.folder, ["a zero", "eine Eins"], one, 2, **options)
    assert capsys.readouterr().out.startswith(f"{one}: 4 pictures in ")
    paint(run.folder, ["a zero", "eine Eins"], other, 2, **options, as_json=True)
    assert json.loads(capsys.readouterr().out)["pictures"] == 4
    assert one.read_bytes() == other.read_bytes()
    with pytest.raises(RegardError, match=r"written as \.png or \.svg"):
        paint(run.folder, ["a zero"], tmp_path / "grid.gif")


@pytest.mark.parametrize(
    ("prompt", "told"),
    [
        ("a qwxy zero", "the prompt 'a qwxy zero' has unknown words: 'qwxy'; this model knows 0, 1, a, "),
        ("a sero and a xyz", "has unknown words: 'sero'; did you mean zero, 'and', 'xyz'; this model knows"),
        ("  ", "a prompt is empty; to paint without one, set the guidance to 0"),
    ],
)
def test_a_prompt_that_cannot_be_read_is_refused_in_a_sentence(run, prompt: str, told: str) -> None:
    with pytest.raises(RegardError) as caught:
        regard.load(run.folder).paint(["a zero", prompt])
    assert told in str(caught.value)


def test_capitals_and_composed_letters_are_the_same_word(run) -> None:
    model = regard.load(run.folder)
    found = model.paint(["EINE NULL", "eine Null"], seed=2).pictures
    assert np.allclose(found[0], found[1], atol=1e-5)


def test_pictures_of_another_size_and_of_one_label_are_refused(pictures: Path, tmp_path: Path) -> None:
    with pytest.raises(RegardError, match=r"model\.side: the pictures of .* are 8 x 8 pixels, not 16 x 16"):
        train(pictures, tmp_path / "run", "model.side=16", "model.attend_at=[8]")
    with pytest.raises(RegardError, match=r"data\.held_out: .* has 256 pictures; 256 cannot be held out"):
        train(pictures, tmp_path / "run", "data.held_out=256")
    with pytest.raises(RegardError, match=r"paint\.steps: 200 steps are more than the 100 of the noise"):
        train(pictures, tmp_path / "run", "paint.steps=200")
    with pytest.raises(
        RegardError, match=r"data\.path: this key is missing; it is the folder with the pictures"
    ):
        regard.train("paint", tmp_path / "run")
    write_toys(tmp_path)
    (tmp_path / "train-labels-idx1-ubyte").write_bytes(idx(np.ones(256, np.uint8)))
    with pytest.raises(RegardError, match="label '1'"):
        train(tmp_path, tmp_path / "run")


def test_a_painter_is_no_translator(run) -> None:
    with pytest.raises(RegardError, match="holds a model for diffusion, not one that translates"):
        Translator.load(run.folder)
    with pytest.raises(RegardError, match="`regard paint` runs it"):
        look(run.folder, "a zero")


def test_the_time_of_each_part_is_measured(run) -> None:
    found = profile(ImageGenerator.load(run.folder), pictures=2, steps=2, rounds=1)
    assert sum(part.share for part in found.parts) == pytest.approx(1)
    assert {(part.name, part.side) for part in found.parts} == {
        ("convolutions", 8), ("convolutions", 4), ("self-attention", 4), ("cross-attention", 4), ("feed-forward", 4), ("all else", 0),
    }  # fmt: skip
    assert all(part.seconds >= 0 for part in found.parts)
    assert 0 < found.attention < 1
    assert [speed.merge for speed in found.speeds] == [0.0, 0.5]
    assert found.speeds[0].ratio == 1
    assert "the text, full size: 83%" in found.as_text()


def test_the_profile_is_printed_and_written(run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "profile.json"
    bench_paint(run.folder, output=out, quick=True, as_json=True)
    told = json.loads(capsys.readouterr().out)
    assert told == json.loads(out.read_text("utf-8"))
    assert 0 < told["attention"] < 1
