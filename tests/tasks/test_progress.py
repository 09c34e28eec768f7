"""The phases and the live status that a training run reports, for every task with the common loop."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support import small_diffusion, small_images, small_text_tasks

import regard
from regard.config.schema import parse_assignments
from regard.tasks.metrics_log import NullListener, PhaseProgress, TrainingStatus

QUESTIONS = "data.max_length=40 data.overlap=8 data.longest_question=8 data.longest_answer=3"
WRITER = "model.size=nano tokenizer.vocab_size=300 train.batch_tokens=512"
TEXT = " ".join(small_text_tasks.SMALL)
RECIPES = {
    "sentiment": (f"data.train=train.tsv data.valid=dev.tsv {TEXT}", "examples"),
    "ner": (f"data.train=train.conll data.valid=dev.conll {TEXT}", "examples"),
    "qa": (f"data.train=train.json data.valid=dev.json {QUESTIONS} {TEXT}", "examples"),
    "pretraining": (f"data.train=text.txt data.valid=text-dev.txt data.max_length=32 {TEXT}", "texts"),
    "gpt": (f"data.train=text.txt {WRITER}", "tokens"),
    "vit": (" ".join(small_images.SMALL), "images"),
    "paint": (" ".join(small_diffusion.SMALL), "images"),
}
"""Settings, and what a validation counts."""
READING = ["reading", "vocabulary", "encoding"]


class Recording(NullListener):
    def __init__(self) -> None:
        self.phases: list[tuple[str, PhaseProgress]] = []
        self.open: list[str] = []
        self.statuses: list[TrainingStatus | None] = []

    @contextmanager
    def phase(
        self, name: str, detail: str = "", *, total: int = 0, unit: str = "", announce: bool = True
    ) -> Iterator[PhaseProgress]:
        progress = PhaseProgress(total, unit)
        self.phases.append((name, progress))
        self.open.append(name)
        try:
            yield progress
        finally:
            self.open.remove(name)

    def update(self, status: TrainingStatus | None) -> None:
        assert self.open == []  # the first batch is there, and no validation hides the training run
        self.statuses.append(status)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    small_text_tasks.write_labelled(folder)
    small_text_tasks.write_tagged(folder)
    small_text_tasks.write_questions(folder)
    small_text_tasks.write_documents(folder)
    small_images.write_folders(folder / "vit")
    (folder / "paint").mkdir()
    small_diffusion.write_toys(folder / "paint")
    return folder


@pytest.mark.parametrize("recipe", RECIPES)
def test_every_task_reports_its_phases(folder: Path, tmp_path: Path, recipe: str) -> None:
    settings, unit = RECIPES[recipe]
    data = folder / recipe if unit == "images" else folder
    overrides = parse_assignments(
        [f"data.path={data}", *settings.split(), "train.steps=2", "train.log_every=1"]
    )
    listener = Recording()
    regard.train(
        recipe, tmp_path / "run", overrides={**overrides, "train.validate_every": 2}, listener=listener
    )
    names = [name for name, _ in listener.phases]
    sampling = ["sampling"] if recipe == "paint" else []
    assert names == [
        *(READING[:1] if unit == "images" else READING),
        "first batch",
        "valid",
        "saving",
        "test",
        *sampling,
    ]
    for name, progress in listener.phases:
        if name in ("valid", "test"):
            assert progress.unit == unit
            assert progress.total > 0
            assert progress.done == pytest.approx(progress.total, abs=2)  # a token has no prediction
    *statuses, last = listener.statuses
    assert last is None
    assert [status.done for status in statuses if status] == [0.5, 1.0][-len(statuses) :]
    assert statuses[-1] is not None
    assert "2/2 steps" in statuses[-1].parts
