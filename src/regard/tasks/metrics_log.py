"""Training progress: metrics.jsonl, written and read back, and messages to a listener such as the terminal."""

import json
import math
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import torch

from regard import storage
from regard.config.training import TrainConfig
from regard.errors import DiskError, RegardError
from regard.training.devices import accelerator_name
from regard.training.state import Progress, Scores

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter

Row = dict[str, Any]
"""A row of metrics.jsonl: `kind` is start, train, valid or skipped, `step` the number of updates."""


@dataclass(frozen=True)
class Sample:
    """A validation sentence with its reference and the model's translation."""

    source: str
    reference: str
    translation: str


class ProgressListener(Protocol):
    """Receives the progress of a training run, such as a terminal."""

    def log(self, message: str) -> None: ...

    def progress(self, line: str, done: float) -> None: ...


class NullListener:
    """Ignores everything."""

    def log(self, message: str) -> None:
        pass

    def progress(self, line: str, done: float) -> None:
        pass


class MetricsLogger:
    """Writes each report to metrics.jsonl, to the listener, and to TensorBoard if the recipe enables it.

    On resuming, rows after the checkpoint's step are removed: those updates are computed again.
    """

    def __init__(self, folder: Path, listener: ProgressListener, train: TrainConfig, step: int = 0) -> None:
        self.path, self.listener, self.train = folder / "metrics.jsonl", listener, train
        self.samples: list[Sample] = []
        """A few validation sentences, first those that are the same at each validation, which sets them."""
        self.board = open_tensorboard(folder / "tensorboard") if train.tensorboard else None
        start = {"kind": "start", "step": 0, "environment": environment()}
        if self.path.exists():
            kept = [row for row in read_complete_rows(self.path) if row["step"] <= step]
            if not any(row.get("kind") == "start" for row in kept):  # killed while writing the first row
                kept.insert(0, start)
            storage.write_text(self.path, "".join(json.dumps(row) + "\n" for row in kept))
        else:
            self._write(start)

    def progress(self, progress: Progress) -> None:
        self._write({"kind": "train", **asdict(progress)})
        line = report_line(progress, self.train) if self.train.log_style == "report" else short_line(progress)
        self.listener.progress(line, progress.done)

    def validated(self, step: int, minutes: float, scores: Scores, best: bool) -> None:
        samples = [asdict(sample) for sample in self.samples]
        self._write(
            {"kind": "valid", "step": step, "minutes": minutes, **scores, "best": best, "samples": samples}
        )
        numbers = "  ".join(f"{name} {score:.3f}" for name, score in scores.items())
        mark = "  best so far" if best else ""
        self.listener.log(f"validation at step {step} ({minutes:.1f} min)  {numbers}{mark}")
        for sample in self.samples[:1]:
            self.listener.log(f"    {sample.source}\n    -> {sample.translation}")

    def skipped(self, step: int, why: str) -> None:
        self._write({"kind": "skipped", "step": step, "why": why})
        self.listener.log(why)

    def _write(self, row: Row) -> None:
        try:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
        except OSError as problem:
            message = f"{self.path} cannot be written: {storage.reason(problem)}"
            if self.train.unwritable == "stop":
                raise DiskError(message) from None
            self.listener.log(message)
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
    remaining = progress.minutes / progress.done - progress.minutes if progress.done else 0.0
    return (
        f"step {progress.step:>6}  epoch {progress.epoch}  loss {progress.loss:.3f}  "
        f"{progress.tokens_per_second:,.0f} tokens/s  lr {progress.lr:.1e}  {remaining:.1f} min left"
    )


def report_line(progress: Progress, train: TrainConfig) -> str:
    """Epoch, batch, update, loss, speed and learning rate (`train.log_style = "report"`)."""
    batch = progress.step * train.grad_accum
    return (
        f"Epoch: {progress.epoch} | Batch: {batch:6d} | Update: {progress.step:5d} | Loss: {progress.loss:6.2f}"
        f" | Tokens/s: {progress.tokens_per_second:7.1f} | Learning rate: {progress.lr:6.1e}"
    )


def environment() -> dict[str, str]:
    """Versions, machine and threads."""
    return {
        "Python": platform.python_version(),
        "PyTorch": torch.__version__,
        "system": platform.platform(terse=True),
        "machine": processor_name(),
        "threads": str(torch.get_num_threads()),
        "GPU": accelerator_name() or "none",
    }


def processor_name() -> str:
    """The processor's model name, or its architecture."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        lines = []
    name = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "")
    return name or platform.processor() or platform.machine()


def open_tensorboard(folder: Path) -> "SummaryWriter":
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise RegardError("train.tensorboard needs the extra: pip install 'regard[tensorboard]'") from None
    return SummaryWriter(str(folder))


def read_metrics(path: Path) -> list[Row]:
    """The rows of a metrics.jsonl; one that is not JSON raises a ValueError."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines() if line.strip()]


def read_complete_rows(path: Path) -> list[Row]:
    """The rows up to the first incomplete one: a killed process may leave half a line."""
    rows = []
    for line in path.read_bytes().splitlines():
        try:
            row = json.loads(line)
            int(row["step"])
        except (ValueError, KeyError, TypeError):
            break
        rows.append(row)
    return rows


@dataclass(frozen=True)
class TrainingHistory:
    """Duration, speed and validation BLEU of a finished training run."""

    minutes: float
    steps: int
    tokens_per_second: float | None
    validations: list[dict[str, float]]
    """`minutes` and `bleu` of each validation."""


def read_history(path: Path) -> TrainingHistory | None:
    """The history in a metrics.jsonl; None if the file is missing or damaged."""
    try:
        return history_of(read_metrics(path))
    except (OSError, ValueError, LookupError, TypeError, ArithmeticError):
        return None


def history_of(rows: Sequence[Row]) -> TrainingHistory:
    """The history in the rows of metrics.jsonl."""
    timed = [row for row in rows if row["kind"] in ("train", "valid")]
    return TrainingHistory(
        minutes=max(finite(row["minutes"]) for row in timed),
        steps=max(int(row["step"]) for row in rows),
        tokens_per_second=mean_speed([row for row in rows if row["kind"] == "train"]),
        validations=[
            {"minutes": finite(row["minutes"]), "bleu": finite(row["bleu"])}
            for row in rows
            if row["kind"] == "valid" and "bleu" in row
        ],
    )


def mean_speed(rows: Sequence[Row]) -> float | None:
    """Tokens per second over the whole training run, validations excluded.

    Each row holds the speed over the steps since the previous row. Steps have about the same number of tokens,
    so those steps took a time proportional to steps / speed; the mean is all steps over the sum of these times,
    a harmonic mean weighted by steps, in which a slow stretch counts for as long as it lasted.
    """
    steps = times = 0.0
    last = 0
    for row in rows:
        passed, last = row["step"] - last, row["step"]
        steps += passed
        times += passed / finite(row["tokens_per_second"])
    return steps / times if times > 0 else None


def finite(value: Any) -> float:
    """A float that can be plotted and written as JSON; NaN and infinity raise a ValueError."""
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"{number} is not a finite number")
    return number
