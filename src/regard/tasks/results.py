"""Results of training and evaluation: as JSON, and as a summary for a terminal."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from torch import nn

    from regard.tasks.run_folder import RunFolder
    from regard.training.state import Scores, Training


SCORE_NAMES = {"bleu": "BLEU", "chrf": "chrF", "ter": "TER", "f1": "F1"}
"""Names of scores that are not written as in metrics.jsonl."""


def score_text(name: str, score: float) -> str:
    """A score with its name; percentages and perplexity have two decimals, losses three, shares four."""
    decimals = 2 if name in ("bleu", "chrf", "ter", "perplexity") else 3 if name.endswith("loss") else 4
    return f"{SCORE_NAMES.get(name, name.replace('_', ' '))} {score:.{decimals}f}"


def saved_line(folder: Path, score: str = "") -> str:
    """The last line of a training run's summary."""
    return f"done   {f'{score} · ' if score else ''}run saved in {folder}"


@dataclass(frozen=True)
class ResultTable:
    """Rows of text below a row of headings."""

    columns: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    title: str | None = None
    numbers_right: bool = False
    """Whether all columns but the first are right-aligned."""


@dataclass(frozen=True)
class Summary:
    """A result for a terminal: lines, an optional table, and lines after it."""

    lines: tuple[str, ...] = ()
    table: ResultTable | None = None
    last_lines: tuple[str, ...] = ()


class Result(Protocol):
    """The result of an evaluation."""

    def as_json(self) -> dict[str, object]: ...

    def summary(self) -> Summary: ...


class TrainedRun(Result, Protocol):
    """The result of a training run."""

    @property
    def folder(self) -> Path:
        """The run folder."""


@dataclass(frozen=True)
class TaskScores:
    """Scores of a model on a set of examples."""

    scores: "Scores"
    examples: int
    rows: list[dict[str, Any]]
    """Scores per label, for tasks with labels."""

    def as_json(self) -> dict[str, object]:
        return asdict(self)

    def summary(self, note: str = "examples") -> Summary:
        """The scores in one line, and a table with one row per label where there are labels."""
        scores = "   ".join(f"{name.replace('_', ' ')} {value:.4f}" for name, value in self.scores.items())
        line = f"{scores}   ({self.examples:,} {note})"
        if not self.rows:
            return Summary((line,))
        rows = [
            tuple(f"{cell:.3f}" if isinstance(cell, float) else str(cell) for cell in row.values())
            for row in self.rows
        ]
        return Summary((line,), ResultTable(tuple(self.rows[0]), rows))


@dataclass(frozen=True)
class TaskRun:
    """The result of `regard train` for all tasks but translation and kernel regression."""

    folder: Path
    task: str
    on: str
    """The split it was measured on: test or validation."""
    measured: TaskScores
    minutes: float
    steps: int
    parameters: int

    @staticmethod
    def of(
        folder: "RunFolder", task: str, on: str, measured: TaskScores, training: "Training", model: "nn.Module"
    ) -> "TaskRun":
        """The result of a finished training."""
        parameters = sum(parameter.numel() for parameter in model.parameters())
        return TaskRun(folder.path, task, on, measured, training.seconds / 60, training.step, parameters)

    def as_json(self) -> dict[str, object]:
        return {
            "run": str(self.folder),
            **asdict(self.measured),
            "task": self.task,
            "on": self.on,
            "minutes": self.minutes,
            "steps": self.steps,
            "parameters": self.parameters,
        }

    def summary(self) -> Summary:
        measured = self.measured.summary(
            f"{self.on} examples, {self.steps:,} steps, {self.minutes:.1f} minutes"
        )
        score = score_text(*next(iter(self.measured.scores.items())))
        return replace(measured, last_lines=(saved_line(self.folder, score),))
