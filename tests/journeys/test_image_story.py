"""A Vision Transformer through the command line: train, classify, evaluate, look, merge; mistakes."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image
from support.small_images import SMALL, write_folders

from regard.cli.main import main

Command = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def bars(tmp_path_factory: pytest.TempPathFactory, regard: Command) -> Path:
    folder = tmp_path_factory.mktemp("bars")
    write_folders(folder / "bars", 240)
    more = ["train.epochs=40", "data.rotate=0", "data.crop=0", "model.activation=relu"]
    done = regard("train", "vit", "data.path=bars", *SMALL, *more, "--out", "run", "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["scores"]["accuracy"] > 0.85
    assert "labels: " in done.stderr
    return folder


def test_files_are_classified(bars: Path, regard: Command) -> None:
    done = regard("classify", "run", "bars/lying/0002.png", "bars/standing/0001.png", cwd=bars)
    assert [line.split("\t")[1] for line in done.stdout.splitlines()] == ["lying", "standing"]
    merged = regard("classify", "run", "bars/lying/0002.png", "--merge", "0,2", "--json", cwd=bars)
    assert json.loads(merged.stdout)["image"] == "bars/lying/0002.png"


def test_merging_is_evaluated(bars: Path, regard: Command) -> None:
    scores = [
        json.loads(regard("evaluate", "run", "--data", "bars", "--json", *more, cwd=bars).stdout)["scores"]
        for more in ([], ["--merge", "0"], ["--merge", "4"])
    ]
    assert scores[0] == scores[1]
    assert scores[2]["loss"] != scores[0]["loss"]


def test_look_writes_page_picture_and_json(bars: Path, regard: Command) -> None:
    for name in ("seen.html", "seen.png", "seen.json", "merged.svg"):
        more = ["--merge", "0.3"] if name == "merged.svg" else []
        done = regard("look", "run", "bars/standing/0001.png", "-o", name, *more, cwd=bars)
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith("0001.png: standing, ")
        assert (bars / name).stat().st_size > 500
    shades = regard("look", "run", "bars/standing/0001.png", cwd=bars).stdout
    assert "encoder.1.self, mean of the heads: attention of the class token" in shades


MISTAKES = [
    (["classify", "run", "nowhere.png"], "no such file: nowhere.png"),
    (["classify", "run", "broken.png"], "broken.png is a broken image: "),
    (["classify", "run"], "run classifies images; give image files"),
    (["classify", "run", "bars/lying/0002.png", "--merge", "half"], "'half' is no number of tokens to merge"),
    (["classify", "run", "bars/lying/0002.png", "--merge", "1.5"], "'1.5' is no number of tokens to merge"),
    (["look", "run", "bars"], "bars is a folder; an image file is needed"),
    (["look", "run", "bars/lying/0002.png", "--layer", "decoder.0.self"], "there is no layer 'decoder.0.self'"),
    (["train", "vit", "data.path=one"], "one: all images have the label 'only'; at least two labels are needed"),
    (["train", "vit", "data.path=mixed"], "mixed: images differ in size, such as 12 x 12 (a.png) and 8 x 20"),
    (["train", "vit", "data.path=bars", "model.patch=5"], "model.patch: patches of 5 do not divide the height of 12"),
    (["serve", "run"], "run holds a model for image-classification, which `regard serve` does not support"),
    (["embed", "run"], "run holds a model for image-classification, not one that embeds texts"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "message"), MISTAKES, ids=lambda value: " ".join(value) if isinstance(value, list) else ""
)
def test_a_mistake_is_one_line(
    bars: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    message: str,
) -> None:
    (bars / "broken.png").write_bytes((bars / "bars" / "lying" / "0002.png").read_bytes()[:80])
    for folder, size in (("one/only", (12, 12)), ("mixed/a", (12, 12)), ("mixed/b", (20, 8))):
        (bars / folder).mkdir(parents=True, exist_ok=True)
        Image.new("L", size).save(bars / folder / f"{folder[-1]}.png")
    monkeypatch.chdir(bars)
    monkeypatch.setattr("sys.argv", ["regard", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    stderr = capsys.readouterr().err
    assert message in stderr
    assert stderr.count("\n") == 1
