"""`train` and `load` for kernel regression: what is learned, written and read back."""

import json
import shutil
from pathlib import Path

import pytest
import torch

import regard
from regard.config.data import CurveDataConfig
from regard.config.schema import parse_assignments
from regard.data.regression_points import curve, load_points
from regard.errors import RegardError
from regard.tasks.kernel_regression import task as kernel
from regard.tasks.spec import EvaluateOptions, ExportOptions


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory):
    return regard.train("kernel", out=tmp_path_factory.mktemp("kernel") / "run")


def test_the_points_follow_the_formula() -> None:
    x, y = load_points(CurveDataConfig(samples=20000), seed=0)
    assert float(x.min()) >= 0
    assert float(x.max()) < 5
    noise = y - (2 * torch.sin(x) + x**0.8)
    assert float(noise.mean()) == pytest.approx(0, abs=0.02)
    assert float(noise.std()) == pytest.approx(0.5, abs=0.02)
    assert torch.equal(y, load_points(CurveDataConfig(samples=20000), seed=0)[1])


def test_the_learned_kernel_beats_the_fixed_one_and_averaging(run) -> None:
    average, fixed, learned = run.fits
    assert (average.kernel, fixed.kernel, learned.kernel) == ("average", "fixed", "learned")
    assert learned.left_out_error < 0.6 * fixed.left_out_error < 0.6 * average.left_out_error
    assert learned.curve_error < fixed.curve_error < average.curve_error
    assert learned.sharpness > 1.5


def test_learning_sharpens_the_weights(run) -> None:
    model = regard.load(run.folder)
    x = model.model.x.tolist()
    after = model.attention(x)
    model.model.attention.score.sharpness.data.fill_(1.0)
    before = model.attention(x)
    entropy = lambda w: float(-(w * w.clamp_min(1e-30).log()).sum(-1).mean())  # noqa: E731
    assert entropy(after) < entropy(before) - 0.5


def test_the_run_folder_is_complete_and_moves(run, tmp_path: Path) -> None:
    names = {path.name for path in run.folder.iterdir()}
    assert names == {
        "config.json", "model.safetensors", "metrics.jsonl", "recipe.toml", "README.md",
        "curves.png", "curves.svg", "weights.png", "weights.svg",
    }  # fmt: skip
    assert (run.folder / "curves.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (run.folder / "weights.svg").read_text()
    steps = [json.loads(line) for line in (run.folder / "metrics.jsonl").read_text().splitlines()]
    assert [row["step"] for row in steps] == list(range(1, 201))
    assert steps[-1]["loss"] < steps[0]["loss"]
    inputs = [0.5, 2.0, 4.5]
    before = regard.load(run.folder).predict(inputs)
    moved = run.folder.rename(tmp_path / "moved")
    assert regard.load(moved).predict(inputs) == before
    assert before == pytest.approx(curve(torch.tensor(inputs)).tolist(), abs=0.8)
    moved.rename(run.folder)


def test_same_seed_same_bytes(tmp_path: Path) -> None:
    folders = [
        regard.train("kernel", out=tmp_path / name, overrides={"train.steps": 20}).folder for name in "ab"
    ]
    assert (folders[0] / "model.safetensors").read_bytes() == (folders[1] / "model.safetensors").read_bytes()
    assert (folders[0] / "curves.svg").read_bytes() == (folders[1] / "curves.svg").read_bytes()


def test_points_from_a_file(tmp_path: Path) -> None:
    table = tmp_path / "points.csv"
    table.write_text("x,y\n" + "".join(f"{i / 10},{(i / 10) ** 2}\n" for i in range(40)))
    run = regard.train("kernel", out=tmp_path / "run", overrides=parse_assignments([f"data.path={table}"]))
    assert run.fits[-1].curve_error is None
    assert regard.load(run.folder).predict([2.0]) == pytest.approx([4.0], abs=0.2)


def damaged(folder: Path, name: str, content: bytes | None) -> str:
    if content is None:
        (folder / name).unlink()
    else:
        (folder / name).write_bytes(content)
    with pytest.raises(regard.RegardError) as caught:
        regard.load(folder)
    return str(caught.value)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("model.safetensors", None, "is not a finished run; it has no model.safetensors"),
        ("config.json", None, "is not a finished run; it has no config.json"),
        ("model.safetensors", b"not a tensor", "model.safetensors is damaged"),
        ("config.json", b"{", "config.json is damaged"),
        ("config.json", b"\xff\xfe", "config.json is damaged"),
        ("config.json", b"[1]", "config.json is damaged"),
        ("config.json", b'{"task": "kernel-regression", "model": {"kernel": "round"}}', "model.kernel"),
        ("config.json", b'{"task": "kernel-regression", "model": {"kernel": "fixed", "size": 3}}', "model.size"),
    ],
)  # fmt: skip
def test_a_damaged_run_is_refused(run, tmp_path: Path, name: str, content: bytes | None, message: str) -> None:
    folder = shutil.copytree(run.folder, tmp_path / "run")
    assert message in damaged(folder, name, content)


def test_weights_of_another_shape_are_refused(run, tmp_path: Path) -> None:
    from safetensors.torch import save_file

    folder = shutil.copytree(run.folder, tmp_path / "run")
    save_file({"x": torch.zeros(3), "y": torch.zeros(3)}, folder / "model.safetensors")
    with pytest.raises(regard.RegardError, match="does not hold the weights of this configuration"):
        regard.load(folder)


def test_a_run_is_never_overwritten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(kernel, "save", lambda figure, stem: [])  # pictures are most of such a training's time
    first = regard.train("kernel", overrides={"train.steps": 1}).folder
    second = regard.train("kernel", overrides={"train.steps": 1}).folder
    assert [str(first), str(second)] == ["runs/kernel", "runs/kernel-2"]
    with pytest.raises(regard.RegardError, match="already holds a run"):
        regard.train("kernel", out=first)


MODELS = {
    "Translator": "translates",
    "Encoder": "embeds texts",
    "MaskedLanguageModel": "predicts masked words",
    "Classifier": "labels texts",
    "Tagger": "tags words",
    "QuestionAnswerer": "answers questions",
    "LanguageModel": "generates text",
    "ImageClassifier": "classifies images",
    "ImageGenerator": "generates images",
}


@pytest.mark.parametrize("name", MODELS)
def test_models_of_other_tasks_refuse_it(run, name: str) -> None:
    with pytest.raises(
        RegardError, match=f"{run.folder} holds a model for kernel-regression, not one that {MODELS[name]}$"
    ):
        getattr(regard, name).load(run.folder)


def test_unsupported_operations_are_refused(run) -> None:
    model = regard.KernelRegressor.load(run.folder)
    refused = {
        "not one that translates": lambda: model.spec.evaluate(model, EvaluateOptions()),
        "--merge is for labels": lambda: model.spec.evaluate(model, EvaluateOptions(merge=(0.5,))),
        "--data is for labels": lambda: model.spec.evaluate(model, EvaluateOptions(data=Path("x"))),
        "which reads no text": lambda: model.spec.attention(model, "a text", None),
        "which cannot be exported": lambda: model.spec.export(model, ExportOptions("onnx", Path("x"))),
        "tokens are merged or pruned in": lambda: model.spec.reduction_case(model, None, 0),
        "only translation has ensembles": lambda: regard.Translator.load(run.folder, run.folder),
    }
    for message, call in refused.items():
        with pytest.raises(RegardError, match=message):
            call()
