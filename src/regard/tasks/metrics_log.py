"""Training progress: rows in metrics.jsonl, and messages to a listener such as the terminal."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol

from regard import storage
from regard.config.training import TrainConfig
from regard.errors import DiskError, RegardError
from regard.training.state import Progress, Scores


class ProgressListener(Protocol):
    """Receives the progress of a training, such as a terminal."""

    def log(self, message: str) -> None: ...

    def progress(self, line: str, done: float) -> None: ...


class NullListener:
    """Ignores everything."""

    def log(self, message: str) -> None:
        pass

    def progress(self, line: str, done: float) -> None:
        pass


class MetricsLogger:
    """Writes each report to metrics.jsonl, to the listener, and to TensorBoard where the recipe wants it."""

    def __init__(self, folder: Path, listener: ProgressListener, train: TrainConfig, step: int = 0) -> None:
        self.path, self.listener, self.train = folder / "metrics.jsonl", listener, train
        self.samples: list[tuple[str, str]] = []
        """Source and translation of a few validation sentences, left here by the validation."""
        self.board = open_board(folder / "tensorboard") if train.tensorboard else None
        if self.path.exists():  # what came after the checkpoint we go on from did not happen
            kept = [row for row in whole_rows(self.path) if row["step"] <= step]
            storage.write_text(self.path, "".join(json.dumps(row) + "\n" for row in kept))

    def progress(self, progress: Progress) -> None:
        self._write({"kind": "train", **asdict(progress)})
        line = report_line(progress, self.train) if self.train.log_style == "report" else short_line(progress)
        self.listener.progress(line, progress.done)

    def validated(self, step: int, minutes: float, scores: Scores, best: bool) -> None:
        samples = [{"source": source, "translation": translation} for source, translation in self.samples]
        self._write(
            {"kind": "valid", "step": step, "minutes": minutes, **scores, "best": best, "samples": samples}
        )
        numbers = "  ".join(f"{name} {score:.3f}" for name, score in scores.items())
        better = "  best so far" if best else ""
        self.listener.log(f"validation at step {step} ({minutes:.1f} min)  {numbers}{better}")
        for source, translation in self.samples[:1]:
            self.listener.log(f"    {source}\n    -> {translation}")

    def skipped(self, step: int, why: str) -> None:
        self._write({"kind": "skipped", "step": step, "why": why})
        self.listener.log(why)

    def _write(self, row: dict[str, Any]) -> None:
        try:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
        except OSError as problem:
            sentence = f"{self.path} cannot be written: {storage.reason(problem)}"
            if self.train.unwritable == "stop":
                raise DiskError(sentence) from None
            self.listener.log(sentence)
        if self.board is not None:
            for name, value in row.items():
                if isinstance(value, float):
                    self.board.add_scalar(f"{row['kind']}/{name}", value, row["step"])


class NullLogger(MetricsLogger):
    """Logs nothing: of several processes only the first logs."""

    def __init__(self) -> None:
        self.samples = []

    def progress(self, progress: Progress) -> None:
        pass

    def validated(self, step: int, minutes: float, scores: Scores, best: bool) -> None:
        pass

    def skipped(self, step: int, why: str) -> None:
        pass


def short_line(progress: Progress) -> str:
    left = progress.minutes / progress.done - progress.minutes if progress.done else 0.0
    return (
        f"step {progress.step:>6}  epoch {progress.epoch}  loss {progress.loss:.3f}  "
        f"{progress.tokens_per_second:,.0f} tokens/s  lr {progress.lr:.1e}  {left:.1f} min left"
    )


def report_line(progress: Progress, train: TrainConfig) -> str:
    """Batch, updates, loss, speed and rate, in the order in which the report prints them."""
    batch = progress.step * train.grad_accum
    return (
        f"Epoch: {progress.epoch} | Batch: {batch:6d} | Update: {progress.step:5d} | Loss: {progress.loss:6.2f}"
        f" | Tokens/s: {progress.tokens_per_second:7.1f} | Learning rate: {progress.lr:6.1e}"
    )


def open_board(folder: Path) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise RegardError("train.tensorboard needs the extra: pip install 'regard[tensorboard]'") from None
    return SummaryWriter(str(folder))


def read_metrics(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines() if line.strip()]


def whole_rows(path: Path) -> list[dict[str, Any]]:
    """The rows up to the first that is not whole: a process that is killed may leave half a line."""
    rows = []
    for line in path.read_bytes().splitlines():
        try:
            row = json.loads(line)
            int(row["step"])
        except (ValueError, KeyError, TypeError):
            break
        rows.append(row)
    return rows
