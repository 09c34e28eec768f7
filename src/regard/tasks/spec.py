"""`TaskSpec`: what a task declares, so that no other code depends on the kind of model in a run."""

import shlex
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, TypeVar

from regard.config.recipes import Recipe
from regard.errors import RegardError

if TYPE_CHECKING:  # a spec is cheap to import: its methods import what they need
    from regard.interop.ctranslate2 import Quantization
    from regard.tasks.export import ExportCheck, Format
    from regard.tasks.loaded_model import LoadedModel
    from regard.tasks.metrics_log import ProgressListener
    from regard.tasks.reduction_benchmark import ReductionCase
    from regard.tasks.results import Result, TrainedRun
    from regard.tasks.run_folder import RunFolder
    from regard.viz.attention_maps import AttentionMaps

RecipeType = TypeVar("RecipeType", bound=Recipe)
ModelType = TypeVar("ModelType", bound="LoadedModel")

COMMAND_INPUT = {
    "translate": "FILE",
    "generate": '"PROMPT"',
    "classify": "FILE",
    "tag": "FILE",
    "answer": "--question TEXT --paragraph FILE",
    "embed": "FILE",
    "paint": '"PROMPT" -o grid.png',
}
"""What follows the run folder in the commands that run a model."""


@dataclass(frozen=True)
class EvaluateOptions:
    """The options of `regard evaluate`; None means the run's own data or setting."""

    source: Path | None = None
    target: Path | None = None
    beam: int | None = None
    batch_size: int | None = None
    data: Path | None = None
    merge: tuple[float, ...] | None = None
    """Tokens to merge in each layer: shares or numbers."""


@dataclass(frozen=True)
class ExportOptions:
    """The options of `regard export`."""

    format: "Format"
    folder: Path
    """An empty folder."""
    quantization: "Quantization | None" = None
    source: str | Path | None = None
    """Inputs for the check; None means the run's own."""


class TaskSpec(ABC, Generic[RecipeType, ModelType]):
    """One task: its recipe, its training, its loaded model, and what commands and server can do with its runs.

    A method that a task does not override raises a RegardError.
    """

    name: ClassVar[str]
    """`task` in recipes and run folders."""
    recipe: ClassVar[type[Recipe]]
    commands: ClassVar[tuple[str, ...]] = ()
    """Commands for its runs, besides those for every run."""
    routes: ClassVar[tuple[str, ...]] = ()
    """POST routes of the server for its runs, besides those for every served model."""
    reads: ClassVar[Literal["text", "image"] | None] = "text"
    """The input of the model in `regard look`."""

    def mismatch(self, path: Path, expected: str) -> RegardError:
        """The error that a run of this task is not what is expected, with the commands that fit it."""
        *others, last = [f"`regard {command}`" for command in self.commands] or [""]
        hint = f"; use {', '.join(others)} or {last}" if others else f"; use {last}" if last else ""
        return RegardError(f"{path} holds a model for {self.name}, {expected}{hint}")

    def next_commands(self, run: Path, recipe: RecipeType) -> list[str]:
        """Commands to continue with after training or import."""
        folder = shlex.quote(str(run))
        commands = [f"regard {name} {folder} {COMMAND_INPUT[name]}" for name in self.commands[:1]]
        if self.has_attention(recipe):
            look_input = "IMAGE" if self.reads == "image" else '"TEXT"'
            commands.append(f"regard look {folder} {look_input} -o attention.html")
        if self.routes:
            commands.append(f"regard serve {folder}")
        return commands

    def has_attention(self, recipe: RecipeType) -> bool:
        """Whether `regard look` can show the model of a recipe."""
        return self.reads is not None

    @abstractmethod
    def train(
        self, recipe: RecipeType, out: Path, listener: "ProgressListener | None", *, resume: bool
    ) -> "TrainedRun | None":
        """Train into the folder `out`; returns None in all processes but the first."""

    @abstractmethod
    def load(self, folder: "RunFolder", recipe: RecipeType) -> ModelType:
        """Open a finished run."""

    def load_ensemble(self, folder: "RunFolder", recipe: RecipeType, others: Sequence[str | Path]) -> ModelType:
        """Open a finished run as an ensemble with other runs of the task."""
        raise RegardError(f"{folder.path} holds a model for {self.name}; only translation has ensembles")

    def evaluate(self, loaded: ModelType, options: EvaluateOptions) -> "Result":
        """Measure the model for `regard evaluate`."""
        refuse_merge(options)
        refuse_data(options)
        raise self.mismatch(loaded.folder.path, "not one that translates")

    def attention(self, loaded: ModelType, text: str, target: str | None) -> "AttentionMaps":
        """Attention weights on a text, for `regard look`."""
        raise self.mismatch(loaded.folder.path, "which reads no text")

    def export(self, loaded: ModelType, options: ExportOptions) -> "ExportCheck":
        """Write the model in another tool's format, and compare it there with the run."""
        raise RegardError(f"{loaded.folder.path} holds a model for {self.name}, which cannot be exported")

    def reduction_case(self, loaded: ModelType, data: Path | None, limit: int) -> "ReductionCase":
        """The model for `regard bench reduction`, with at most `limit` examples; 0 means all."""
        raise RegardError(
            f"{loaded.folder.path} holds a model for {self.name}; tokens are merged or pruned in "
            "models that label images or texts or tag words"
        )


def refuse_merge(options: EvaluateOptions) -> None:
    """Refuse --merge for models that merge no tokens."""
    if options.merge is not None:
        raise RegardError("--merge is for labels, tags, answers and images")


def refuse_data(options: EvaluateOptions) -> None:
    """Refuse --data for models that are not measured on one file or folder."""
    if options.data is not None:
        raise RegardError(
            "--data is for labels, tags, answers, texts and images; translations have --source and --target"
        )


def evaluate_on_data(loaded: Any, options: EvaluateOptions) -> "Result":
    """`regard evaluate` for a model with `evaluate(path)`, and `merge(amounts)` where it can merge tokens."""
    from regard.engine.allocator import tuned_allocator

    if options.source or options.target or options.beam or options.batch_size:
        raise RegardError(f"{loaded.folder.path} does not translate; give its data with --data")
    if options.merge is not None:
        loaded.merge(options.merge)
    with tuned_allocator():
        result: Result = loaded.evaluate(options.data)
    return result
