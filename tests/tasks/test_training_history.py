"""The history of a training run read from metrics.jsonl; none from a damaged file."""

import json
from pathlib import Path

import pytest

from regard.config.training import TrainConfig
from regard.tasks.metrics_log import (
    MetricsLogger,
    NullListener,
    environment,
    mean_speed,
    read_history,
    read_metrics,
)

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


def test_rows_of_other_kinds_do_not_count(tmp_path: Path) -> None:
    start = {"kind": "start", "step": 0, "environment": {}}
    skipped = {"kind": "skipped", "step": 9, "why": "the loss is nan"}
    assert read_history(write(tmp_path, start, TRAIN, skipped, VALID)) == read_history(
        write(tmp_path, TRAIN, VALID)
    )


def test_a_first_row_that_was_cut_off_is_written_again(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_text('{"kind": "start", "st')
    for _ in range(2):
        MetricsLogger(tmp_path, NullListener(), TrainConfig(steps=1))
        [row] = read_metrics(tmp_path / "metrics.jsonl")
        assert (row["kind"], row["environment"]) == ("start", environment())


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
