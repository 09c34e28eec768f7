"""Training progress: metrics.jsonl, written and read back, and messages to a listener such as the terminal."""

import json
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Protocol

from regard import storage
from regard.config.training import TrainConfig
from regard.errors import DiskError, RegardError
from regard.tasks.results import score_text
from regard.training.state import Progress, Scores, Training

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter

Row = dict[str, Any]
"""A row of metrics.jsonl: `kind` is train, valid or skipped, `step` the number of updates."""


STATUS_SECONDS = 0.5
"""Seconds between two updates of a live display."""


class PhaseProgress:
    """How many examples of a phase are done; `add` may be called by several threads."""

    def __init__(self, total: int = 0, unit: str = "") -> None:
        self.done = 0
        self.total, self.unit = total, unit
        self.lock = Lock()

    def expect(self, total: int, unit: str) -> None:
        """Set the number of examples, where it was not known when the phase began."""
        self.total, self.unit = total, unit

    def add(self, count: int) -> None:
        with self.lock:
            self.done += count


@dataclass(frozen=True)
class TrainingStatus:
    """The state of a training run for a live display."""

    done: float
    """Fraction of the budget used."""
    seconds: float
    parts: tuple[str, ...]
    """Position in the budget, loss, best validation, speed and learning rate, as texts."""


class ProgressListener(Protocol):
    """Receives the progress of a training run, such as a terminal.

    A subclass of `NullListener` needs only the methods that it uses.
    """

    def log(self, message: str) -> None: ...

    def progress(self, line: str, done: float) -> None:
        """A report, every `train.log_every` updates."""

    def update(self, status: TrainingStatus | None) -> None:
        """The state of the training run, about twice a second; None when its updates are over."""

    def phase(
        self, name: str, detail: str = "", *, total: int = 0, unit: str = "", announce: bool = True
    ) -> AbstractContextManager[PhaseProgress]:
        """A phase, such as reading the data, for as long as the context is entered.

        Args:
            name: Its name.
            detail: What is done in it.
            total: Number of examples, which the yielded object counts; 0: not known yet.
            unit: What the examples are, such as sentences.
            announce: Whether a listener without a display logs the phase.
        """


class NullListener:
    """Ignores everything."""

    def log(self, message: str) -> None:
        pass

    def progress(self, line: str, done: float) -> None:
        pass

    def update(self, status: TrainingStatus | None) -> None:
        pass

    def phase(
        self, name: str, detail: str = "", *, total: int = 0, unit: str = "", announce: bool = True
    ) -> AbstractContextManager[PhaseProgress]:
        return nullcontext(PhaseProgress(total, unit))


class MetricsLogger:
    """Writes each report to metrics.jsonl, to the listener, and to TensorBoard if the recipe enables it.

    On resuming, rows after the checkpoint's step are removed: those updates are computed again.
    """

    def __init__(self, folder: Path, listener: ProgressListener, train: TrainConfig, step: int = 0) -> None:
        self.path, self.listener, self.train = folder / "metrics.jsonl", listener, train
        self.samples: list[tuple[str, str]] = []
        """Source and translation of a few validation sentences, set by the validation."""
        self.board = open_tensorboard(folder / "tensorboard") if train.tensorboard else None
        self.best = ""
        """Step and score of the best validation so far."""
        self.shown = -math.inf
        """When the listener was last updated."""
        self.first_step = ExitStack()
        """The phase of the first batch; closed after the first update."""
        if self.path.exists():
            kept = [row for row in read_complete_rows(self.path) if row["step"] <= step]
            storage.write_text(self.path, "".join(json.dumps(row) + "\n" for row in kept))
            for row in kept:
                if row.get("best") is True:
                    self.best = self.best_text(row["step"], row)

    @contextmanager
    def training_phase(self) -> Iterator[None]:
        """Shows that the first batch is prepared, then the updates that `stepped` reports."""
        try:
            with self.first_step:
                self.first_step.enter_context(self.listener.phase("first batch"))
                yield
        finally:
            self.listener.update(None)
            if self.board is not None:
                self.board.close()

    def stepped(self, training: Training, lr: float) -> None:
        self.first_step.close()
        now = time.perf_counter()
        if now - self.shown >= STATUS_SECONDS or training.done() >= 1.0:
            self.shown = now
            self.listener.update(self.status(training.window.current(training, lr)))

    def status(self, progress: Progress) -> TrainingStatus:
        if self.train.log_style == "report":
            parts = tuple(report_line(progress, self.train).split(" | "))
        else:
            parts = (
                *budget_position(progress, self.train),
                f"loss {progress.loss:.3f}",
                *([self.best] if self.best else []),
                f"{progress.tokens_per_second:,.0f} tokens/s",
                f"lr {progress.lr:.1e}",
            )
        return TrainingStatus(progress.done, 60 * progress.minutes, parts)

    def best_text(self, step: int, scores: Mapping[str, Any]) -> str:
        """Step and score of the best validation: BLEU where there is one, else the metric that selects it."""
        name = "bleu" if "bleu" in scores else self.train.best_by
        score = scores.get(name)  # a row may be from a damaged file
        return f"best {score_text(name, score)} at step {step:,}" if isinstance(score, float) else ""

    def progress(self, progress: Progress) -> None:
        self._write({"kind": "train", **asdict(progress)})
        line = report_line(progress, self.train) if self.train.log_style == "report" else short_line(progress)
        self.listener.progress(line, progress.done)

    def validated(self, step: int, minutes: float, scores: Scores, best: bool) -> None:
        samples = [{"source": source, "translation": translation} for source, translation in self.samples]
        self._write(
            {"kind": "valid", "step": step, "minutes": minutes, **scores, "best": best, "samples": samples}
        )
        if best:
            self.best = self.best_text(step, scores)
        numbers = "  ".join(score_text(name, score) for name, score in scores.items())
        mark = "  ★ best so far" if best else ""
        self.listener.log(f"valid  step {step:>6}  {numbers}{mark}")
        for source, translation in self.samples[:1]:
            self.listener.log(f"    {source}\n    -> {translation}")

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
        self.listener, self.first_step, self.board, self.samples = NullListener(), ExitStack(), None, []

    def stepped(self, training: Training, lr: float) -> None:
        pass

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


def budget_position(progress: Progress, train: TrainConfig) -> tuple[str, ...]:
    """Step and epoch, of how many; the time, where it is the budget that is used up first."""
    by_steps = train.steps is not None and progress.step / train.steps >= progress.done
    by_time = not by_steps and train.minutes is not None and progress.minutes / train.minutes >= progress.done
    return (
        *([f"{progress.minutes:.1f}/{train.minutes:g} minutes"] if by_time else []),
        f"{progress.step:,}/{train.steps:,} steps" if train.steps is not None else f"step {progress.step:,}",
        f"epoch {progress.epoch}"
        if train.epochs is None
        else f"epoch {min(progress.epoch, train.epochs)}/{train.epochs}",
    )


def report_line(progress: Progress, train: TrainConfig) -> str:
    """Epoch, batch, update, loss, speed and learning rate (`train.log_style = "report"`)."""
    batch = progress.step * train.grad_accum
    return (
        f"Epoch: {progress.epoch} | Batch: {batch:6d} | Update: {progress.step:5d} | Loss: {progress.loss:6.2f}"
        f" | Tokens/s: {progress.tokens_per_second:7.1f} | Learning rate: {progress.lr:6.1e}"
    )


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
    return TrainingHistory(
        minutes=max(finite(row["minutes"]) for row in rows),
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
