"""Checkpoints of the training state: safetensors and JSON, checksummed, written atomically."""

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
from regard.training.sharding import full_tensor, shard_like
from regard.training.state import ReportWindow, Training
from regard.training.weight_averaging import copy_weights

TENSORS, NUMBERS = "tensors.safetensors", "state.json"


def save(training: Training, folder: Path, keep: int) -> Path:
    """Write `folder`/<step>/ atomically, and remove all but the newest `keep` checkpoints.

    The first process writes; every process must call this, because a sharded model is gathered.

    Raises:
        DiskError: The checkpoint cannot be written.
    """
    path = folder / str(training.step)
    tensors = training_tensors(training)
    if not training.world.is_first:
        return path
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with storage.atomic_path(path) as temporary:
            temporary.mkdir()
            write_tensors(tensors, temporary / TENSORS)
            numbers = {**training_numbers(training), "sha256": storage.digest(temporary / TENSORS)}
            (temporary / NUMBERS).write_text(json.dumps(with_checksum(numbers), indent=2) + "\n", "utf-8")
    except OSError as error:
        raise DiskError(f"{path} cannot be written: {storage.reason(error)}") from None
    for name in (*map(str, saved_steps(folder)[:-keep]), *unfinished_in(folder)):
        storage.remove(folder / name)
    return path


def unfinished_in(folder: Path) -> list[str]:
    """Temporary files of processes that were killed while writing."""
    return [path.name for path in folder.iterdir() if path.name.endswith((".part", ".old"))]


def resume(training: Training, folder: Path, log: Callable[[str], object]) -> bool:
    """Restore the newest intact checkpoint; damaged ones are logged.

    Returns:
        Whether there was a checkpoint.

    Raises:
        TrainingError: All checkpoints are damaged, or the checkpoint belongs to another model.
    """
    damaged = []
    for step in reversed(saved_steps(folder)):
        path = folder / str(step)
        try:
            numbers = verified(json.loads((path / NUMBERS).read_text("utf-8")))
            if storage.digest(path / TENSORS) != numbers["sha256"]:
                raise ValueError(f"the checksum of {TENSORS} does not match")
            tensors = load_file(path / TENSORS)
        except (OSError, SafetensorError, ValueError, KeyError, TypeError) as error:
            damaged.append(f"checkpoint {path} is damaged: {error}")
            continue
        for message in damaged:
            log(f"{message}; the one of step {step} is used")
        check_same_model(training, tensors, path)
        restore(training, tensors, numbers)
        return True
    if damaged:
        raise TrainingError(
            f"{'; '.join(damaged)}; no intact checkpoint is left; start a new run in another folder"
        )
    return False


def with_checksum(numbers: Mapping[str, Any]) -> dict[str, Any]:
    """The numbers with their checksum, under `seal`."""
    return {**numbers, "seal": checksum(numbers)}


def verified(content: Any) -> dict[str, Any]:
    """The numbers without their checksum.

    Raises:
        ValueError: The checksum does not match.
    """
    if not isinstance(content, dict):
        raise ValueError(f"{NUMBERS} is not a JSON object")
    numbers = {name: value for name, value in content.items() if name != "seal"}
    if content.get("seal") != checksum(numbers):
        raise ValueError(f"the checksum of {NUMBERS} does not match")
    return numbers


def checksum(numbers: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(numbers, sort_keys=True).encode()).hexdigest()


def check_same_model(training: Training, tensors: Mapping[str, Tensor], path: Path) -> None:
    """Refuse a checkpoint of another model before anything is restored."""
    for name, parameter in training.model.named_parameters():
        saved = tensors.get(f"model.{name}")
        if saved is None or saved.shape != parameter.shape:
            saved_shape = "missing" if saved is None else tuple(saved.shape)
            raise TrainingError(
                f"checkpoint {path} is of another model: {name} is {tuple(parameter.shape)} here, "
                f"{saved_shape} there"
            )


def saved_steps(folder: Path) -> list[int]:
    """Steps of the checkpoints in a folder, ascending."""
    if not folder.is_dir():
        return []
    return sorted(int(path.name) for path in folder.iterdir() if path.name.isdecimal() and path.is_dir())


def training_tensors(training: Training) -> dict[str, Tensor]:
    """All tensors by name; a sharded model is gathered on all processes and returned on the first."""
    tensors = {f"model.{name}": parameter.detach() for name, parameter in training.model.named_parameters()}
    tensors |= {f"average.{name}": weight for name, weight in training.average.exponential.items()}
    for number, weights in enumerate(training.average.last):
        tensors |= {f"last.{number}.{name}": weight for name, weight in weights.items()}
    for number, state in training.optimizer.state_dict()["state"].items():
        tensors |= {f"optimizer.{number}.{key}": torch.as_tensor(value) for key, value in state.items()}
    if training.sharded:
        gathered = ((name, full_tensor(tensor)) for name, tensor in tensors.items())
        return {name: tensor.cpu() for name, tensor in gathered if training.world.is_first}
    # Cloned: safetensors refuses tensors that share memory.
    return {name: tensor.clone() for name, tensor in tensors.items()} if training.world.is_first else {}


def training_numbers(training: Training) -> dict[str, Any]:
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
    """Put the tensors and numbers of a checkpoint into the training state."""
    copy_weights(with_prefix("model.", tensors), training.model)
    average = training.average
    average.exponential = placed_like(training.model, with_prefix("average.", tensors))
    average.steps = numbers["averaged"]
    average.last.extend(
        placed_like(training.model, with_prefix(f"last.{number}.", tensors))
        for number in range(numbers["last"])
    )
    state_dict = training.optimizer.state_dict()
    state_dict["state"] = {}
    parameters = [parameter for group in training.optimizer.param_groups for parameter in group["params"]]
    for name, tensor in with_prefix("optimizer.", tensors).items():
        number, key = name.split(".")
        parameter = parameters[int(number)]
        # A tensor of another shape is a step count, which is not sharded.
        value = shard_like(tensor, parameter) if tensor.shape == parameter.shape else tensor
        state_dict["state"].setdefault(int(number), {})[key] = value
    training.optimizer.load_state_dict(state_dict)
    training.step = numbers["step"]
    training.seconds = numbers["seconds"]
    training.stale = numbers["stale"]
    training.skipped = numbers["skipped"]
    training.best = numbers["best"]
    training.cursor = Cursor(**numbers["cursor"])
    training.window = ReportWindow(**numbers["window"])


def placed_like(model: nn.Module, weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """Weights on the model's device, sharded where the model is."""
    parameters = dict(model.named_parameters())
    return {
        name: shard_like(weight.to(parameters[name].device), parameters[name])
        for name, weight in weights.items()
    }


def with_prefix(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The tensors whose name starts with a prefix, without it."""
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
