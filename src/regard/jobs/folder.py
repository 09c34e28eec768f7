"""The run folder: what a finished training leaves, and all that opening it needs. No pickle anywhere."""

import dataclasses
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import nn

from regard.config import Recipe, read_recipe, to_toml
from regard.errors import RegardError


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
            if not (path / name).is_file():
                raise RegardError(f"{path} is not a finished run: it has no {name}")
        return folder

    def holds_run(self) -> bool:
        return (self.path / "config.json").exists()

    @classmethod
    def to_resume(cls, path: Path) -> "RunFolder":
        """A folder in which a training was begun and not finished."""
        if not (path / "recipe.toml").is_file():
            raise RegardError(f"there is nothing to resume in {path}: no training was begun there")
        if cls(path).holds_run():
            raise RegardError(f"there is nothing to resume in {path}: its training is finished")
        return cls(path)

    def write_weights(self, model: nn.Module) -> None:
        # A table used twice, such as a shared embedding, is written once.
        tensors = {name: each.contiguous() for name, each in unique(model.state_dict()).items()}
        save_file(tensors, self._aside("model.safetensors"))
        self._put("model.safetensors")

    def write_recipe(self, recipe: Recipe) -> None:
        """What the run was asked to do, in full."""
        self.write("recipe.toml", to_toml(recipe))

    def write_config(self, recipe: Recipe) -> None:
        """What is needed to build the model. Written last: a folder with a config holds a finished run."""
        self.write("config.json", json.dumps(dataclasses.asdict(recipe), indent=2) + "\n")

    def read_recipe(self) -> Recipe:
        try:
            return read_recipe(without_none(json.loads((self.path / "config.json").read_text("utf-8"))))
        except (ValueError, AttributeError) as problem:
            raise RegardError(f"{self.path / 'config.json'} is damaged: {problem}") from None

    def weights(self) -> dict[str, torch.Tensor]:
        """The saved weights by name."""
        try:
            return load_file(self.path / "model.safetensors")
        except (SafetensorError, OSError) as problem:
            raise RegardError(f"{self.path / 'model.safetensors'} is damaged: {problem}") from None

    def write_weights_into(self, model: nn.Module) -> None:
        """Fill a model with the saved weights."""
        try:
            given = self.weights()
            shared = model.state_dict().keys() - unique(model.state_dict()).keys()
            missing, unknown = model.load_state_dict(given, strict=False)
            if unknown or set(missing) - shared:
                raise RuntimeError(f"missing {sorted(set(missing) - shared)}, unknown {unknown}")
        except RuntimeError as problem:
            reason = " ".join(str(problem).split())
            raise RegardError(f"{self.path}: the weights do not fit the configuration: {reason}") from None

    def write_metrics(self, rows: Iterable[Mapping[str, Any]]) -> None:
        self.write("metrics.jsonl", "".join(json.dumps(row) + "\n" for row in rows))

    def write(self, name: str, text: str) -> None:
        """A text file, complete or not there at all."""
        self._aside(name).write_text(text, "utf-8")
        self._put(name)

    def _aside(self, name: str) -> Path:
        return self.path / f".{name}.part"

    def _put(self, name: str) -> None:
        self._aside(name).replace(self.path / name)


def unique(state: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Each tensor once, under the first of its names."""
    first = {each.data_ptr(): name for name, each in reversed(list(state.items()))}
    return {name: each for name, each in state.items() if first[each.data_ptr()] == name}


def without_none(table: Mapping[str, Any]) -> dict[str, Any]:
    """JSON writes a missing value as null, a recipe leaves it out."""
    return {
        key: without_none(value) if isinstance(value, Mapping) else value
        for key, value in table.items()
        if value is not None
    }
