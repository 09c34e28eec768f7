"""What a task declares about itself, so that nothing else asks which kind of model a run holds."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, TypeVar

from regard.errors import RegardError

if TYPE_CHECKING:  # a spec is cheap to import: what it needs is imported when it is called
    from regard.tasks.export_check import Check
    from regard.tasks.formats import Format, Quantization
    from regard.tasks.loaded_model import LoadedModel
    from regard.tasks.metrics_log import ProgressListener
    from regard.tasks.reduction_subject import Subject
    from regard.tasks.results import Result, TrainedRun
    from regard.tasks.run_folder import RunFolder
    from regard.viz.attention_maps import AttentionMaps

RecipeType = TypeVar("RecipeType")
ModelType = TypeVar("ModelType", bound="LoadedModel")


@dataclass(frozen=True)
class EvaluateOptions:
    """What `regard evaluate` measures on, and how; None means the run's own."""

    source: Path | None = None
    target: Path | None = None
    beam: int | None = None
    batch_size: int | None = None
    data: Path | None = None
    merge: tuple[float, ...] | None = None
    """Tokens to merge in each layer."""


@dataclass(frozen=True)
class ExportOptions:
    """What `regard export` writes: the format, an empty folder for it, and what it is checked with."""

    format: "Format"
    folder: Path
    quantization: "Quantization | None" = None
    source: str | Path | None = None


class TaskSpec(ABC, Generic[RecipeType, ModelType]):
    """One task: its recipe, its training, its loaded model, and what commands and server do with a run of it.

    A method that a task does not override refuses in one sentence.
    """

    name: ClassVar[str]
    """`task` in recipes and run folders."""
    recipe: ClassVar[type[Any]]
    commands: ClassVar[frozenset[str]] = frozenset()
    """Commands made for its runs, besides those that every run has."""
    routes: ClassVar[tuple[str, ...]] = ()
    """POST routes of the server made for its runs, besides those that every served model answers."""
    reads: ClassVar[Literal["text", "image"] | None] = "text"
    """What `regard look` shows the model."""

    @abstractmethod
    def train(
        self, recipe: RecipeType, out: Path, listener: "ProgressListener | None", *, resume: bool
    ) -> "TrainedRun | None":
        """Train into the folder `out`; None in all processes but the first."""

    @abstractmethod
    def load(self, folder: "RunFolder", recipe: RecipeType) -> ModelType:
        """Open a finished run."""

    def load_ensemble(self, folder: "RunFolder", recipe: RecipeType, beside: Sequence[str | Path]) -> ModelType:
        """Open a finished run together with others of the task."""
        raise RegardError(f"{folder.path} holds a model for {self.name}; only translation has ensembles")

    def evaluate(self, loaded: ModelType, options: EvaluateOptions) -> "Result":
        """Measure the model for `regard evaluate`."""
        refuse_merge(options)
        refuse_data(options)
        raise RegardError(f"{loaded.folder.path} holds a model for {self.name}, not one that translates")

    def attention(self, loaded: ModelType, text: str, target: str | None) -> "AttentionMaps":
        """Attention weights for `regard look` at a text."""
        raise RegardError(f"{loaded.folder.path} holds a model for {self.name}, which reads no text")

    def export(self, loaded: ModelType, options: ExportOptions) -> "Check":
        """Write the model for another tool, and check it there."""
        raise RegardError(f"{loaded.folder.path} holds a model for {self.name}, which cannot be exported")

    def reduction_subject(self, loaded: ModelType, data: Path | None, most: int) -> "Subject":
        """The model as `regard bench reduction` measures it, on at most `most` examples; 0 means all."""
        raise RegardError(
            f"{loaded.folder.path} holds a model for {self.name}; tokens are merged or pruned in "
            "models that label images or texts or tag words"
        )


def refuse_merge(options: EvaluateOptions) -> None:
    """For models that merge no tokens."""
    if options.merge is not None:
        raise RegardError("--merge is for labels, tags, answers and images")


def refuse_data(options: EvaluateOptions) -> None:
    """For models that are not measured on one file or folder."""
    if options.data is not None:
        raise RegardError(
            "--data is for labels, tags, answers, texts and images; translations have --source and --target"
        )


def evaluate_on_data(loaded: Any, options: EvaluateOptions) -> "Result":
    """`regard evaluate` for a model whose `evaluate` takes a file or a folder."""
    from regard.engine.allocator import tuned_allocator

    if options.source or options.target or options.beam or options.batch_size:
        raise RegardError(f"{loaded.folder.path} does not translate: its data are given with --data")
    if options.merge is not None:
        loaded.merge(options.merge)
    with tuned_allocator():
        return loaded.evaluate(options.data)  # type: ignore[no-any-return]
