"""`regard bench reduction`: levels, break-even length, picture, and what is refused."""

import json
from pathlib import Path

import pytest
from support import small_images, small_text_tasks
from support.without_figures import without_figures

import regard
from regard.cli.bench import reduction as bench_reduction
from regard.config.schema import parse_assignments
from regard.errors import RegardError
from regard.tasks import reduction_benchmark
from regard.tasks.reduction_benchmark import LengthSpeed, ReductionLevel, ReductionReport


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("reduction")
    small_images.write_idx(folder, 60, 40)
    small_text_tasks.write_labelled(folder)
    small_text_tasks.write_tagged(folder)
    files = [f"data.path={folder}", "train.steps=2", *small_text_tasks.SMALL, "model.layers=2"]
    images = [f"data.path={folder}", "train.steps=2", *small_images.SMALL]
    with without_figures():
        regard.train("vit", folder / "vit", overrides=parse_assignments(images))
        regard.train(
            "sentiment",
            folder / "labels",
            overrides=parse_assignments([*files, "data.train=train.tsv", "data.valid=dev.tsv"]),
        )
        regard.train(
            "ner",
            folder / "tags",
            overrides=parse_assignments([*files, "data.train=train.conll", "data.valid=dev.conll"]),
        )
    return folder


def test_a_vit_is_measured(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch
) -> None:
    monkeypatch.setattr(reduction_benchmark, "LENGTHS", (16, 32, 64))
    monkeypatch.setattr(reduction_benchmark, "MIN_SECONDS", 0.0)
    monkeypatch.setattr(
        reduction_benchmark, "peak_memory", lambda run, data, number: 1.0
    )  # a process each: tested once, below
    out = tmp_path / "reduction.svg"
    bench_reduction(folder / "vit", output=out, quick=True, as_json=True)
    report = json.loads(capsys.readouterr().out)
    first, *others = report["levels"]
    assert (first["how"], first["tokens"], first["lost"], first["times"]) == ("all tokens", 1.0, 0.0, 1.0)
    assert first["operations"] == 1.0
    merged = [level for level in others if "layer by layer" in level["how"]]
    assert [level["tokens"] for level in merged] == sorted((level["tokens"] for level in merged), reverse=True)
    assert all(level["operations"] < 1 for level in merged)
    assert [speed["length"] for speed in report["reaches"]] == [16, 64]
    assert "</svg>" in out.read_text()


@pytest.mark.parametrize(("run", "score", "pruned"), [("labels", "accuracy", True), ("tags", "f1", False)])
def test_texts_are_measured(folder: Path, monkeypatch, run: str, score: str, pruned: bool) -> None:
    monkeypatch.setattr(reduction_benchmark, "LENGTHS", (16,))
    monkeypatch.setattr(reduction_benchmark, "MIN_SECONDS", 0.0)
    monkeypatch.setattr(reduction_benchmark, "peak_memory", lambda run, data, number: 1.0)
    report = reduction_benchmark.measure_reduction(folder / run, quick=True, log=lambda message: None)
    assert report.score == score
    assert any("pruned" in level.how for level in report.levels) == pruned
    assert min(level.tokens for level in report.levels) < 0.8
    assert "all tokens" in report.as_text()


def test_memory_is_that_of_a_pass(folder: Path) -> None:
    assert 0.01 < reduction_benchmark.peak_memory(folder / "vit", None, 0) < 500


def level(times: float) -> ReductionLevel:
    return ReductionLevel("all tokens", (0.0,), 1.0, 0.9, 0.0, 100.0, times, 1.0, 3.0)


@pytest.mark.parametrize(
    ("speeds", "pays"),
    [((0.8, 0.9, 1.2), 64), ((1.1, 0.9, 1.2), 64), ((1.1, 1.2, 1.3), 16), ((0.8, 1.1, 0.9), None)],
)
def test_the_break_even_length_is_estimated(speeds: tuple[float, ...], pays: int | None) -> None:
    reaches = [
        LengthSpeed(length, 100.0, 100.0 * times, times)
        for length, times in zip((16, 32, 64), speeds, strict=True)
    ]
    report = ReductionReport("run", "ViT", "accuracy", 10, 50.0, [level(1.0)], reaches)
    assert report.pays_from == pays
    assert ("does not pay" in report.as_text()) == (pays is None)


def test_unmeasurable_runs_are_refused(folder: Path, tmp_path: Path) -> None:
    regard.train("kernel", tmp_path / "kernel", overrides={"train.steps": 2})
    with pytest.raises(RegardError, match="holds a model for kernel-regression; tokens are merged or pruned"):
        bench_reduction(tmp_path / "kernel", quick=True)
    with pytest.raises(RegardError, match=r"written as .png or .svg"):
        bench_reduction(folder / "vit", output=tmp_path / "a.pdf", quick=True)
