"""The run folder: what a finished training leaves, and all that opening it needs. No pickle anywhere."""

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

LARGEST_CONFIG = 1 << 20
"""Bytes of a config.json: one of a thousandth of that is long."""


class RunFolder:
    """One folder a run: config.json, model.safetensors, metrics.jsonl, recipe.toml, README.md, pictures."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def create(cls, path: Path) -> "RunFolder":
        """An empty run folder; a folder that already holds a run is never written over."""
        folder = cls(path)
        if folder.holds_run():
            raise RegardError(f"{path} already holds a run; give another folder with --out, or remove it first")
        if (path / "recipe.toml").exists():
            raise RegardError(
                f"a training was begun in {path}; go on with --resume, or give another folder with --out"
            )
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as problem:
            raise RegardError(f"the run folder {path} cannot be made: {problem.strerror or problem}") from None
        return folder

    @classmethod
    def open(cls, path: Path) -> "RunFolder":
        """A folder with a finished run in it."""
        if not path.is_dir():
            raise RegardError(f"there is no run folder {path}")
        folder = cls(path)
        for name in ("config.json", "model.safetensors"):
            if not folder.file(name).is_file():
                raise RegardError(f"{path} is not a finished run: it has no {name}")
        return folder

    def file(self, name: str) -> Path:
        """A file of the run; one that leads out of the folder is not opened."""
        return storage.inside(self.path, name)

    def holds_run(self) -> bool:
        return (self.path / "config.json").exists()

    def alone(self) -> AbstractContextManager[None]:
        """The folder for this process alone, as long as the block lasts."""
        return storage.exclusive_lock(
            self.path, lambda other: f"another training is writing into {self.path} (process {other})"
        )

    @classmethod
    def to_resume(cls, path: Path, recipe: Recipe) -> "RunFolder":
        """A folder in which this recipe's training was begun and not finished."""
        folder = cls(path)
        if not path.is_dir():
            raise RegardError(f"there is nothing to resume in {path}: no training was begun there")
        if folder.holds_run():
            raise RegardError(f"there is nothing to resume in {path}: its training is finished")
        if (path / "recipe.toml").is_file():
            folder.check_begun_as(recipe)
        return folder

    def check_begun_as(self, recipe: Recipe) -> None:
        """Refuse to go on with other data, other text or another model; how long to train may change."""
        begun = load_recipe(str(self.file("recipe.toml")))
        for section in ("task", "data", "tokenizer", "model", "reduce"):
            was, now = getattr(begun, section, None), getattr(recipe, section, None)
            if was != now:
                key, old, new = first_difference(section, was, now)
                raise RegardError(
                    f"{self.path} was begun with {key} = {old}, not {new}; for another one, take another folder"
                )

    def write_weights(self, model: nn.Module) -> None:
        with storage.atomic_path(self.path / "model.safetensors") as part:
            write_tensors(unique(model), part)

    def write_recipe(self, recipe: Recipe) -> None:
        """What the run was asked to do, in full."""
        self.write("recipe.toml", recipe.to_toml())

    def write_config(self, recipe: Recipe) -> None:
        """What is needed to build the model. Written last: a folder with a config holds a finished run."""
        self.write("config.json", json.dumps(dataclasses.asdict(recipe), indent=2) + "\n")

    def read_recipe(self) -> Recipe:
        path = self.file("config.json")
        try:
            if path.stat().st_size > LARGEST_CONFIG:
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
        """Compare the file's header with a model, which may be one without memory (the meta device)."""
        path = self.file("model.safetensors")
        try:
            check_shapes(shapes_in(path), {name: tuple(each.shape) for name, each in unique(model).items()})
        except ValueError as problem:
            raise RegardError(f"{path} does not hold the weights of this configuration: {problem}") from None

    def load_weights(self, model: nn.Module) -> None:
        """Fill a model with the saved weights."""
        self.check_weights(model)
        model.load_state_dict(self.weights(), strict=False)

    def write_metrics(self, rows: Iterable[Mapping[str, Any]]) -> None:
        self.write("metrics.jsonl", "".join(json.dumps(row) + "\n" for row in rows))

    def write(self, name: str, text: str) -> None:
        """A text file, complete or not there at all."""
        storage.write_text(self.path / name, text)


def unique(model: nn.Module) -> dict[str, torch.Tensor]:
    """What a model saves, each tensor once: a table used twice goes under the first of its names."""
    once = {name for name, _ in (*model.named_parameters(), *model.named_buffers())}
    return {name: each for name, each in model.state_dict().items() if name in once}


def without_none(table: Mapping[str, Any]) -> dict[str, Any]:
    """JSON writes a missing value as null, a recipe leaves it out."""
    return {
        key: without_none(value) if isinstance(value, Mapping) else value
        for key, value in table.items()
        if value is not None
    }


def first_difference(path: str, was: Any, now: Any) -> tuple[str, Any, Any]:
    """The first key in which two sections differ, and both values."""
    if dataclasses.is_dataclass(was) and type(was) is type(now):
        for field in dataclasses.fields(was):
            one, other = getattr(was, field.name), getattr(now, field.name)
            if one != other:
                return first_difference(f"{path}.{field.name}", one, other)
    if dataclasses.is_dataclass(was) and dataclasses.is_dataclass(now):
        kinds = [getattr(each, "kind", type(each).__name__) for each in (was, now)]
        return f"{path}.kind", kinds[0], kinds[1]
    return path, was, now
