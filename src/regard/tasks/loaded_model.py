"""Base classes of loaded models: run folder, recipe, and a `load` that refuses other tasks."""

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, ClassVar, Self

from regard.config.recipes import Recipe
from regard.tasks import load
from regard.tasks.registry import spec_of
from regard.tasks.run_folder import RunFolder
from regard.tasks.spec import TaskSpec


class LoadedModel(ABC):
    """The model of a finished run."""

    does: ClassVar[str]
    """What the model does, for the error about a run of another task: `translates`."""
    folder: RunFolder
    recipe: Recipe

    @classmethod
    def load(cls, run: str | Path) -> Self:
        """Open a run folder that must hold a model of this class.

        Raises:
            RegardError: The folder holds no finished run, or one of another task.
        """
        return cls.of(load(run))

    @classmethod
    def of(cls, loaded: "LoadedModel", does: str | None = None) -> Self:
        """Check that a loaded model is of this class.

        Args:
            loaded: The model.
            does: What the error says the model does not do, by default `cls.does`.

        Raises:
            RegardError: The model is of another task.
        """
        if not isinstance(loaded, cls):
            raise loaded.spec.mismatch(loaded.folder.path, f"not one that {does or cls.does}")
        return loaded

    @property
    def spec(self) -> TaskSpec[Any, Any]:
        """The task of the run."""
        return spec_of(self.recipe)


class TextModel(LoadedModel):
    """A loaded model whose input is text."""

    tokenizer: Any
    """Of the input text; its type depends on the model."""

    @abstractmethod
    def input_ids(self, text: str) -> list[int]:
        """The token ids of a text with the special tokens around it; nothing is truncated."""
