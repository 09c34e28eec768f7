"""The run folder: all that a training run writes, and all that loading its model needs. No pickle anywhere."""

import dataclasses
import json
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import nn

from regard import storage
from regard.config.recipes import Recipe
from regard.errors import RecipeError, RegardError
from regard.tasks.registry import load_recipe, read_recipe
from regard.tensor_files import check_shapes, shapes_in, write_tensors

MAX_CONFIG_BYTES = 1 << 20
"""Size limit of a config.json, a thousand times that of a usual one."""


class RunFolder:
    """A folder with config.json, model.safetensors, metrics.jsonl, recipe.toml, README.md and pictures."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def create(cls, path: Path) -> "RunFolder":
        """Make a run folder; a folder that holds a finished or unfinished run is refused."""
        folder = cls(path)
        if folder.holds_run():
            raise RegardError(f"{path} already holds a run; choose another --out, or remove it first")
        if (path / "recipe.toml").exists():
            raise RegardError(f"{path} holds an unfinished run; use --resume, or choose another --out")
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as problem:
            raise RegardError(f"the run folder {path} cannot be made: {problem.strerror or problem}") from None
        return folder

    @classmethod
    def open(cls, path: Path) -> "RunFolder":
        """Open a finished run."""
        if not path.is_dir():
            raise RegardError(f"there is no run folder {path}")
        folder = cls(path)
        for name in ("config.json", "model.safetensors"):
            if not folder.file(name).is_file():
                raise RegardError(f"{path} is not a finished run; it has no {name}")
        return folder

    def file(self, name: str) -> Path:
        """The path of a file of the run; a link that leads out of the folder is refused."""
        return storage.inside(self.path, name)

    def holds_run(self) -> bool:
        return (self.path / "config.json").exists()

    def locked(self) -> AbstractContextManager[None]:
        """An exclusive lock on the folder."""
        return storage.exclusive_lock(
            self.path, lambda process: f"another training run writes into {self.path} (process {process})"
        )

    @classmethod
    def to_resume(cls, path: Path, recipe: Recipe) -> "RunFolder":
        """Open a folder with an unfinished run of this recipe."""
        folder = cls(path)
        if not path.is_dir():
            raise RegardError(f"there is nothing to resume in {path}: the folder does not exist")
        if folder.holds_run():
            raise RegardError(f"there is nothing to resume in {path}: its run is finished")
        if (path / "recipe.toml").is_file():
            folder.check_same_model(recipe)
        return folder

    def check_same_model(self, recipe: Recipe) -> None:
        """Refuse to resume with other data, tokenizer or model; training settings may change."""
        begun = load_recipe(str(self.file("recipe.toml")))
        for section in ("task", "data", "tokenizer", "model", "reduce"):
            before, now = getattr(begun, section, None), getattr(recipe, section, None)
            if before != now:
                key, old, new = first_difference(section, before, now)
                raise RegardError(
                    f"{self.path} was begun with {key} = {old}, not {new}; "
                    "use another folder for other settings"
                )

    def write_weights(self, model: nn.Module) -> None:
        with storage.atomic_path(self.path / "model.safetensors") as part:
            write_tensors(unique_weights(model), part)

    def write_recipe(self, recipe: Recipe) -> None:
        """Write the resolved recipe."""
        self.write("recipe.toml", recipe.to_toml())

    def write_config(self, recipe: Recipe) -> None:
        """Write config.json, from which the model is built. Written last: its presence marks a finished run."""
        self.write("config.json", json.dumps(dataclasses.asdict(recipe), indent=2) + "\n")

    def read_recipe(self) -> Recipe:
        """The recipe in config.json."""
        path = self.file("config.json")
        try:
            if path.stat().st_size > MAX_CONFIG_BYTES:
                raise ValueError(f"it has {path.stat().st_size:,} bytes")
            return read_recipe(without_none(json.loads(path.read_text("utf-8"))))
        except RecipeError as problem:
            raise RecipeError(f"{path}: {problem}") from None
        except (ValueError, AttributeError, TypeError, RecursionError) as problem:
            raise RegardError(f"{path} is damaged: {problem}") from None

    def weights(self) -> dict[str, torch.Tensor]:
        """The saved weights by name."""
        path = self.file("model.safetensors")
        try:
            return load_file(path)
        except (SafetensorError, OSError) as problem:
            raise RegardError(f"{path} is damaged: {problem}") from None

    def check_weights(self, model: nn.Module) -> None:
        """Compare names and shapes in the file's header with a model, which may be on the meta device."""
        path = self.file("model.safetensors")
        try:
            check_shapes(
                shapes_in(path), {name: tuple(weight.shape) for name, weight in unique_weights(model).items()}
            )
        except ValueError as problem:
            raise RegardError(f"{path} does not hold the weights of this configuration: {problem}") from None

    def load_weights(self, model: nn.Module) -> None:
        """Copy the saved weights into a model."""
        self.check_weights(model)
        model.load_state_dict(self.weights(), strict=False)

    def write_metrics(self, rows: Iterable[Mapping[str, Any]]) -> None:
        self.write("metrics.jsonl", "".join(json.dumps(row) + "\n" for row in rows))

    def write(self, name: str, text: str) -> None:
        """Write a text file atomically."""
        storage.write_text(self.path / name, text)


def unique_weights(model: nn.Module) -> dict[str, torch.Tensor]:
    """The state of a model with each tensor once: a tied weight is saved under its first name."""
    names = {name for name, _ in (*model.named_parameters(), *model.named_buffers())}
    return {name: weight for name, weight in model.state_dict().items() if name in names}


def without_none(table: Mapping[str, Any]) -> dict[str, Any]:
    """The table without null values: config.json writes a missing value as null, a recipe omits it."""
    return {
        key: without_none(value) if isinstance(value, Mapping) else value
        for key, value in table.items()
        if value is not None
    }


def first_difference(key: str, before: Any, now: Any) -> tuple[str, Any, Any]:
    """The first key in which two sections differ, and both values."""
    if dataclasses.is_dataclass(before) and type(before) is type(now):
        for field in dataclasses.fields(before):
            old, new = getattr(before, field.name), getattr(now, field.name)
            if old != new:
                return first_difference(f"{key}.{field.name}", old, new)
    if dataclasses.is_dataclass(before) and dataclasses.is_dataclass(now):
        old_kind, new_kind = (getattr(value, "kind", type(value).__name__) for value in (before, now))
        return f"{key}.kind", old_kind, new_kind
    return key, before, now
