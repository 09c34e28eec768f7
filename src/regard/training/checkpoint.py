"""A training written down so that it can go on: safetensors and JSON, checksummed, whole or not there."""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from regard import storage
from regard.data.batch_order import Cursor
from regard.errors import DiskError, TrainingError
from regard.tensor_files import write_tensors
from regard.training.ema import fill
from regard.training.sharding import part_of, whole
from regard.training.state import Training, Window

TENSORS, NUMBERS = "tensors.safetensors", "state.json"


def save(training: Training, folder: Path, keep: int) -> Path:
    """Write `folder`/<step>/, aside and then renamed, and remove all but the newest `keep`.

    The first process writes; the others bring their parts, where the model is sharded.
    """
    place = folder / str(training.step)
    tensors = tensors_of(training)
    if not training.world.first:
        return place
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with storage.atomic_path(place) as part:
            part.mkdir()
            write_tensors(tensors, part / TENSORS)
            numbers = {**numbers_of(training), "sha256": storage.digest(part / TENSORS)}
            (part / NUMBERS).write_text(json.dumps(sealed(numbers), indent=2) + "\n", "utf-8")
    except OSError as problem:
        raise DiskError(f"{place} cannot be written: {storage.reason(problem)}") from None
    for name in (*map(str, steps_in(folder)[:-keep]), *unfinished_in(folder)):
        storage.remove(folder / name)
    return place


def unfinished_in(folder: Path) -> list[str]:
    """What processes left that were killed while they wrote."""
    return [path.name for path in folder.iterdir() if path.name.endswith((".part", ".old"))]


def resume(training: Training, folder: Path, tell: Callable[[str], object]) -> bool:
    """Put the newest whole checkpoint back, telling of those that are damaged; False where there is none."""
    damaged = []
    for step in reversed(steps_in(folder)):
        place = folder / str(step)
        try:
            numbers = unsealed(json.loads((place / NUMBERS).read_text("utf-8")))
            if storage.digest(place / TENSORS) != numbers["sha256"]:
                raise ValueError("its tensors are not the ones that were written")
            tensors = load_file(place / TENSORS)
        except (OSError, SafetensorError, ValueError, KeyError, TypeError) as problem:
            damaged.append(f"checkpoint {place} is damaged: {problem}")
            continue
        for sentence in damaged:
            tell(f"{sentence}; the one of step {step} is used")
        check_fit(training, tensors, place)
        restore(training, tensors, numbers)
        return True
    if damaged:
        raise TrainingError(f"{'; '.join(damaged)}; none is left to go on from: begin anew in another folder")
    return False


def sealed(numbers: Mapping[str, Any]) -> dict[str, Any]:
    """The numbers with a digest of themselves."""
    return {**numbers, "seal": seal_of(numbers)}


def unsealed(given: Any) -> dict[str, Any]:
    """The numbers, if they are the ones that were sealed."""
    if not isinstance(given, dict):
        raise ValueError(f"{NUMBERS} holds no object")
    numbers = {name: value for name, value in given.items() if name != "seal"}
    if given.get("seal") != seal_of(numbers):
        raise ValueError(f"{NUMBERS} is not the one that was written")
    return numbers


def seal_of(numbers: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(numbers, sort_keys=True).encode()).hexdigest()


def check_fit(training: Training, tensors: Mapping[str, Tensor], place: Path) -> None:
    """Refuse a checkpoint of another model before anything is put back."""
    for name, parameter in training.model.named_parameters():
        saved = tensors.get(f"model.{name}")
        if saved is None or saved.shape != parameter.shape:
            was = "nothing" if saved is None else tuple(saved.shape)
            raise TrainingError(
                f"checkpoint {place} is of another model: {name} is {tuple(parameter.shape)} here, {was} there"
            )


def steps_in(folder: Path) -> list[int]:
    if not folder.is_dir():
        return []
    return sorted(int(path.name) for path in folder.iterdir() if path.name.isdecimal() and path.is_dir())


def tensors_of(training: Training) -> dict[str, Tensor]:
    """Everything by name, whole; on processes that do not write, nothing is kept of a sharded model."""
    found = {f"model.{name}": each.detach() for name, each in training.model.named_parameters()}
    found |= {f"average.{name}": each for name, each in training.average.exponential.items()}
    for number, weights in enumerate(training.average.last):
        found |= {f"last.{number}.{name}": each for name, each in weights.items()}
    for number, state in training.optimizer.state_dict()["state"].items():
        found |= {f"optimizer.{number}.{key}": torch.as_tensor(value) for key, value in state.items()}
    if training.sharded:
        put_together = ((name, whole(each)) for name, each in found.items())
        return {name: each.cpu() for name, each in put_together if training.world.first}
    # One block of memory each: safetensors refuses tensors that share it.
    return {name: each.clone() for name, each in found.items()} if training.world.first else {}


def numbers_of(training: Training) -> dict[str, Any]:
    return {
        "step": training.step,
        "seconds": training.seconds,
        "best": training.best,
        "stale": training.stale,
        "skipped": training.skipped,
        "cursor": asdict(training.cursor),
        "averaged": training.average.steps,
        "last": len(training.average.last),
        "window": {"loss": float(training.window.loss), "num_targets": training.window.num_targets},
    }


def restore(training: Training, tensors: dict[str, Tensor], numbers: dict[str, Any]) -> None:
    fill(training.model, under("model.", tensors))
    average = training.average
    average.exponential = parts_of(under("average.", tensors), training.model)
    average.steps = numbers["averaged"]
    average.last.extend(
        parts_of(under(f"last.{number}.", tensors), training.model) for number in range(numbers["last"])
    )
    saved = training.optimizer.state_dict()
    saved["state"] = {}
    updated = [each for group in training.optimizer.param_groups for each in group["params"]]
    for name, each in under("optimizer.", tensors).items():
        number, key = name.split(".")
        like = updated[int(number)]
        value = part_of(each, like) if each.shape == like.shape else each  # a count is the same for all
        saved["state"].setdefault(int(number), {})[key] = value
    training.optimizer.load_state_dict(saved)
    training.step = numbers["step"]
    training.seconds = numbers["seconds"]
    training.stale = numbers["stale"]
    training.skipped = numbers["skipped"]
    training.best = numbers["best"]
    training.cursor = Cursor(**numbers["cursor"])
    training.window = Window(**numbers["window"])


def parts_of(tensors: dict[str, Tensor], model: nn.Module) -> dict[str, Tensor]:
    """Weights where the model's are: on its device, and of a sharded model this process's parts."""
    likes = dict(model.named_parameters())
    return {name: part_of(each.to(likes[name].device), likes[name]) for name, each in tensors.items()}


def under(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): each for name, each in tensors.items() if name.startswith(prefix)}
