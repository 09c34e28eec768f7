"""Image classification from a folder to a run folder, on horizontal and vertical bars."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from support.small_images import SMALL, write_folders, write_idx

import regard
from regard.cli.classify import classify
from regard.cli.evaluate import evaluate
from regard.cli.look import look
from regard.cli.tag import tag
from regard.config.schema import parse_assignments
from regard.errors import RegardError


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_folders(tmp_path_factory.mktemp("bars"), 300)


def train(path: Path, out: Path, *more: str, **options):
    return regard.train(
        "vit", out, overrides=parse_assignments([f"data.path={path}", *SMALL, *more]), **options
    )


@pytest.fixture(scope="module")
def run(folders: Path, tmp_path_factory: pytest.TempPathFactory):
    more = ["train.epochs=40", "train.minutes=2", "data.rotate=0", "data.crop=0", "model.activation=relu"]
    return train(folders, tmp_path_factory.mktemp("runs") / "bars", *more)


def test_bars_are_classified(run, folders: Path) -> None:
    assert run.measured.scores["accuracy"] > 0.9
    assert run.on == "validation"
    model = regard.load(run.folder)
    lying, standing = (sorted((folders / name).glob("*.png"))[0] for name in ("lying", "standing"))
    predictions = model.classify([lying, standing])
    assert [prediction.label for prediction in predictions] == ["lying", "standing"]
    assert sum(predictions[0].probabilities.values()) == pytest.approx(1, abs=1e-5)


def test_the_run_folder_is_complete_and_opens_elsewhere(run, folders: Path, tmp_path: Path) -> None:
    assert {path.name for path in run.folder.iterdir()} == {
        "README.md", "checkpoints", "config.json", "curves.png", "curves.svg", "labels.json", "metrics.jsonl",
        "model.safetensors", "recipe.toml",
    }  # fmt: skip
    assert "patches of 4 in 12 x 12" in (run.folder / "README.md").read_text("utf-8")
    shutil.copytree(run.folder, tmp_path / "moved")
    image = next((folders / "lying").iterdir())
    moved = regard.load(tmp_path / "moved")
    assert moved.classify([image]) == regard.load(run.folder).classify([image])


def test_classify_and_evaluate_commands(
    run, folders: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    image, other = sorted((folders / "standing").iterdir())[:2]
    classify(run.folder, [image])
    assert capsys.readouterr().out.startswith("standing\t")
    classify(run.folder, [image, other], tmp_path / "out.jsonl", as_json=True)
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [row["image"] for row in rows] == [str(image), str(other)]
    evaluate(run.folder, data=folders, as_json=True)
    measured = json.loads(capsys.readouterr().out)
    assert measured["examples"] == 300
    assert measured["scores"]["accuracy"] > 0.9
    with pytest.raises(RegardError, match="give image files"):
        classify(run.folder)
    with pytest.raises(RegardError, match="holds a model for image-classification, not one that tags words"):
        tag(run.folder)


def test_the_same_seed_gives_the_same_weights_and_so_does_a_resumed_run(tmp_path: Path) -> None:
    path = write_idx(tmp_path, 100, 20)
    common = ["train.validate_every=4", "train.schedule=constant", "model.dropout=0.1", "data.flip=true"]
    train(path, tmp_path / "whole", *common, "train.steps=8")
    train(path, tmp_path / "parts", *common, "train.steps=4")
    (tmp_path / "parts" / "config.json").unlink()  # as if it had been interrupted after step 4
    train(path, tmp_path / "parts", *common, "train.steps=8", resume=True)
    whole, parts = (regard.load(tmp_path / name).model.state_dict() for name in ("whole", "parts"))
    assert all(torch.equal(whole[name], parts[name]) for name in whole)


@pytest.mark.parametrize("prune", ["soft", "hard"])
def test_fine_tuning_a_run_with_token_pruning(run, folders: Path, tmp_path: Path, prune: str) -> None:
    more = [f"model.start={run.folder}", f"reduce.prune={prune}", "reduce.keep=0.6", "train.epochs=3"]
    pruned = train(folders, tmp_path / prune, *more, "train.lr=0.0005", "data.rotate=0", "data.crop=0")
    assert pruned.measured.scores["accuracy"] > 0.85
    loaded = regard.load(pruned.folder)
    assert loaded.model.vit.reduction is not None
    thresholds = loaded.model.vit.reduction.thresholds
    assert bool(thresholds.any()) == (prune == "soft")


def test_fine_tuning_a_run_with_token_merging(run, folders: Path, tmp_path: Path) -> None:
    more = [f"model.start={run.folder}", "reduce.merge=[0.2]", "train.steps=5"]
    merged = train(folders, tmp_path / "merged", *more)
    assert regard.load(merged.folder).model.vit.reduction.amounts == (0.2,)


def test_attention_maps_of_an_image(run, folders: Path, tmp_path: Path) -> None:
    image = next((folders / "standing").iterdir())
    maps = regard.load(run.folder).attention(image)
    assert maps.layers["encoder.1.self"].shape == (2, 10, 10)
    assert maps.source[:3] == ["[CLASS]", "0,0", "0,1"]


def refused(path: Path, out: Path, *more: str) -> str:
    with pytest.raises(RegardError) as caught:
        train(path, out, "train.steps=1", *more)
    return str(caught.value)


def test_impossible_requests_are_refused_with_a_message(run, folders: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert refused(tmp_path / "nowhere", out).startswith("no such folder")
    assert refused(folders, out, "model.patch=5") == "model.patch: patches of 5 do not divide the height of 12"
    one = tmp_path / "one" / "lying"
    one.mkdir(parents=True)
    image = next((folders / "lying").glob("*.png"))
    shutil.copy(image, one)
    assert "all images have the label 'lying'" in refused(tmp_path / "one", out)
    assert "merged or pruned, not both" in refused(folders, out, "reduce.merge=[1]", "reduce.prune=soft")
    with pytest.raises(RegardError, match=r"data.path: this key is missing"):
        regard.train("vit", out)
    broken = tmp_path / "broken.png"
    broken.write_bytes(image.read_bytes()[:80])
    with pytest.raises(RegardError, match=r"broken.png is a broken image"):
        regard.load(run.folder).classify([broken])
    with pytest.raises(RegardError, match=r"no such file"):
        regard.load(run.folder).classify([tmp_path / "none.png"])
    with pytest.raises(RegardError, match=r"give an image"):
        look(run.folder, "")
