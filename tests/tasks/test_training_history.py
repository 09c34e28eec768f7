"""The history of a training run read from metrics.jsonl; none from a damaged file. TensorBoard gets the same numbers."""

import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

from regard.config.training import TrainConfig
from regard.errors import RegardError
from regard.tasks.metrics_log import MetricsLogger, NullListener, mean_speed, read_history
from regard.training.state import Progress

TRAIN = {"kind": "train", "step": 50, "tokens_per_second": 100.0, "minutes": 1.0}
VALID = {"kind": "valid", "step": 50, "minutes": 1.5, "bleu": 12.0}


def write(folder: Path, *rows: object) -> Path:
    path = folder / "metrics.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return path


def test_minutes_steps_and_validations_are_read(tmp_path: Path) -> None:
    history = read_history(write(tmp_path, TRAIN, VALID))
    assert history is not None
    assert (history.minutes, history.steps, history.tokens_per_second) == (1.5, 50, pytest.approx(100.0))
    assert history.validations == [{"minutes": 1.5, "bleu": 12.0}]


def test_speed_is_all_tokens_over_all_seconds() -> None:
    tokens_per_step = 40
    seconds = {50: 10.0, 100: 40.0, 110: 4.0}  # by the last step of each row
    rows, last = [], 0
    for step, took in seconds.items():
        rows.append({"step": step, "tokens_per_second": (step - last) * tokens_per_step / took})
        last = step
    assert mean_speed(rows) == pytest.approx(110 * tokens_per_step / 54.0)
    assert mean_speed([]) is None


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b'{"kind": "train", "st',
        b"\xff\xfe",
        b"[1, 2]\n",
        b"7\n",
        b'{"kind": "train"}\n',
        b'{"kind": "train", "step": 1, "minutes": NaN, "tokens_per_second": 1}\n',
        b'{"kind": "train", "step": 1, "minutes": 1, "tokens_per_second": 0}\n',
        b'{"kind": "train", "step": "x", "minutes": 1, "tokens_per_second": 1}\n',
    ],
)
def test_a_damaged_file_has_no_history(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "metrics.jsonl").write_bytes(content)
    assert read_history(tmp_path / "metrics.jsonl") is None


def test_a_missing_file_has_no_history(tmp_path: Path) -> None:
    assert read_history(tmp_path / "metrics.jsonl") is None


class Board:
    """In place of TensorBoard's writer."""

    def __init__(self, folder: str) -> None:
        self.folder, self.scalars, self.closed = folder, list[tuple[str, float, int]](), False
        boards.append(self)

    def add_scalar(self, name: str, value: float, step: int) -> None:
        self.scalars.append((name, value, step))

    def close(self) -> None:
        self.closed = True


boards: list[Board] = []


def test_tensorboard_gets_the_numbers_of_metrics_jsonl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("torch.utils.tensorboard")
    module.SummaryWriter = Board  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    settings = TrainConfig(steps=10, tensorboard=True)
    logger = MetricsLogger(tmp_path, NullListener(), settings)
    [board] = boards
    assert board.folder == str(tmp_path / "tensorboard")
    with logger.training_phase():
        logger.progress(Progress(5, 1, 0.5, 1e-3, 100.0, 0.1, 0.5))
        logger.validated(10, 0.2, {"loss": 0.25, "bleu": 90.0}, True)
        assert not board.closed
    assert board.closed
    assert ("train/loss", 0.5, 5) in board.scalars
    assert ("train/lr", 1e-3, 5) in board.scalars
    assert [scalar for scalar in board.scalars if scalar[0].startswith("valid")] == [
        ("valid/minutes", 0.2, 10), ("valid/loss", 0.25, 10), ("valid/bleu", 90.0, 10),
    ]  # fmt: skip


def test_tensorboard_that_is_missing_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(
        RegardError, match=r"train\.tensorboard needs the extra: pip install 'regard\[tensorboard\]'"
    ):
        MetricsLogger(tmp_path, NullListener(), TrainConfig(steps=10, tensorboard=True))
