"""Image generation from labelled images to a run folder, with two toy images learned in seconds."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from support.small_diffusion import SIDE, SMALL, toys, write_toys
from support.small_images import idx

import regard
from regard.cli.bench import paint as bench_paint
from regard.cli.look import look
from regard.cli.paint import paint
from regard.config.schema import parse_assignments
from regard.errors import RegardError
from regard.tasks.diffusion.model import ImageGenerator
from regard.tasks.diffusion.profile import profile
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
    return train(pictures, out, "train.steps=160", "train.validate_every=80", "train.ema_decay=0.98")


def nearest_toy(generated: np.ndarray) -> list[int]:
    """The toy image most similar to each generated image (..., side, side)."""
    distance = np.abs(generated.reshape(-1, 1, SIDE, SIDE) - toys() / 255).mean((2, 3))
    return distance.argmin(1).tolist()


def test_two_toy_images_are_generated_by_prompt(run) -> None:
    model = regard.load(run.folder)
    generated = model.paint(["a zero", "eine Eins", "0", "the digit one"], count=4, seed=3)
    assert generated.pictures.shape == (4, 4, SIDE, SIDE)
    is_correct = np.equal(nearest_toy(generated.pictures), np.repeat([0, 1, 0, 1], 4))
    assert is_correct.mean() > 0.9
    assert 0 <= generated.pictures.min() <= generated.pictures.max() <= 1
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
        regard.load(folder).paint(["a zero"], seed=5).pictures for folder in (run.folder, tmp_path / "moved")
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
    ("prompt", "message"),
    [
        ("a qwxy zero", "the prompt 'a qwxy zero' has unknown words: 'qwxy'; allowed: 0, 1, a, "),
        ("a sero and a xyz", "has unknown words: 'sero'; did you mean zero, 'and', 'xyz'; allowed:"),
        ("  ", "a prompt is empty; for images without a prompt set the guidance scale to 0"),
    ],
)
def test_an_invalid_prompt_is_refused(run, prompt: str, message: str) -> None:
    with pytest.raises(RegardError) as caught:
        regard.load(run.folder).paint(["a zero", prompt])
    assert message in str(caught.value)


def test_prompts_are_normalized(run) -> None:
    model = regard.load(run.folder)
    generated = model.paint(["EINE NULL", "eine Null"], seed=2).pictures
    assert np.allclose(generated[0], generated[1], atol=1e-5)


def test_unsuitable_images_and_settings_are_refused(pictures: Path, tmp_path: Path) -> None:
    with pytest.raises(RegardError, match=r"model\.side: the images of .* are 8 x 8 pixels, not 16 x 16"):
        train(pictures, tmp_path / "run", "model.side=16", "model.attend_at=[8]")
    with pytest.raises(RegardError, match=r"data\.held_out: .* has 256 images; 256 cannot be held out"):
        train(pictures, tmp_path / "run", "data.held_out=256")
    with pytest.raises(RegardError, match=r"paint\.steps: 200 is more than model\.noise_steps = 100"):
        train(pictures, tmp_path / "run", "paint.steps=200")
    with pytest.raises(
        RegardError, match=r"data\.path: this key is missing; set it to the folder with the images"
    ):
        regard.train("paint", tmp_path / "run")
    write_toys(tmp_path)
    (tmp_path / "train-labels-idx1-ubyte").write_bytes(idx(np.ones(256, np.uint8)))
    with pytest.raises(RegardError, match="label '1'"):
        train(tmp_path, tmp_path / "run")


def test_other_tasks_refuse_a_diffusion_model(run) -> None:
    with pytest.raises(RegardError, match="holds a model for diffusion, not one that translates"):
        Translator.load(run.folder)
    with pytest.raises(RegardError, match="`regard paint` runs it"):
        look(run.folder, "a zero")


def test_the_profile_measures_the_time_of_each_part(run) -> None:
    measured = profile(ImageGenerator.load(run.folder), pictures=2, steps=2, rounds=1)
    assert sum(part.share for part in measured.parts) == pytest.approx(1)
    assert {(part.name, part.side) for part in measured.parts} == {
        ("convolutions", 8), ("convolutions", 4), ("self-attention", 4), ("cross-attention", 4), ("feed-forward", 4), ("all else", 0),
    }  # fmt: skip
    assert all(part.seconds >= 0 for part in measured.parts)
    assert 0 < measured.attention < 1
    assert [speed.merge for speed in measured.speeds] == [0.0, 0.5]
    assert measured.speeds[0].ratio == 1
    assert "the text, full size: 83%" in measured.as_text()


def test_the_profile_command_prints_and_writes(run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "profile.json"
    bench_paint(run.folder, output=out, quick=True, as_json=True)
    printed = json.loads(capsys.readouterr().out)
    assert printed == json.loads(out.read_text("utf-8"))
    assert 0 < printed["attention"] < 1
