"""What every loaded model has: its run folder, its recipe, and a `load` that refuses other tasks."""

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, ClassVar, Self

from regard.errors import RegardError
from regard.tasks import load
from regard.tasks.registry import spec_of
from regard.tasks.run_folder import RunFolder
from regard.tasks.spec import TaskSpec


class LoadedModel(ABC):  # those that read texts have abstract methods
    """A finished run, opened."""

    does: ClassVar[str]
    """What a run of another task does not do, for a sentence: `translates`."""
    folder: RunFolder
    recipe: Any

    @classmethod
    def load(cls, run: str | Path) -> Self:
        """Open a run folder that must hold a model of this class.

        Raises:
            RegardError: the folder holds no finished run, or one of another task.
        """
        return cls.of(load(run))

    @classmethod
    def of(cls, loaded: "LoadedModel", does: str | None = None) -> Self:
        """A loaded model that must be of this class; one of another task is refused as not one that `does`."""
        if not isinstance(loaded, cls):
            raise RegardError(
                f"{loaded.folder.path} holds a model for {loaded.recipe.task}, not one that {does or cls.does}"
            )
        return loaded

    @property
    def spec(self) -> TaskSpec[Any, Any]:
        """The task."""
        return spec_of(self.recipe)


class TextModel(LoadedModel):
    """A loaded model that reads texts."""

    tokenizer: Any
    """Of what the model reads."""

    @abstractmethod
    def input_ids(self, text: str) -> list[int]:
        """The ids of a text as the model reads it, with the special tokens around it; none is left out."""
