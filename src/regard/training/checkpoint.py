"""A training written down so that it can go on: safetensors and JSON, complete or not there at all."""

import json
import os
import shutil
from dataclasses import asdict
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from regard.data.batches import Cursor
from regard.errors import RegardError
from regard.training.average import fill
from regard.training.loop import Training


def save(training: Training, folder: Path, keep: int) -> Path:
    """Write `folder`/<step>/, aside and then renamed, and remove all but the newest `keep`."""
    place = folder / str(training.step)
    aside = folder / f".{training.step}.part"
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir(parents=True)
    save_file(tensors_of(training), aside / "tensors.safetensors")
    (aside / "state.json").write_text(json.dumps(numbers_of(training), indent=2) + "\n", "utf-8")
    for path in (*aside.iterdir(), aside):
        flush(path)
    shutil.rmtree(place, ignore_errors=True)
    aside.rename(place)
    for old in steps_in(folder)[:-keep]:
        shutil.rmtree(folder / str(old), ignore_errors=True)
    return place


def resume(training: Training, folder: Path) -> bool:
    """Put the newest checkpoint back; False where there is none."""
    steps = steps_in(folder)
    if not steps:
        return False
    place = folder / str(steps[-1])
    try:
        restore(
            training,
            load_file(place / "tensors.safetensors"),
            json.loads((place / "state.json").read_text("utf-8")),
        )
    except (OSError, SafetensorError, ValueError, KeyError, RuntimeError) as problem:
        raise RegardError(
            f"checkpoint {place} is damaged: {problem}; remove it to use the one before"
        ) from None
    return True


def steps_in(folder: Path) -> list[int]:
    if not folder.is_dir():
        return []
    return sorted(int(path.name) for path in folder.iterdir() if path.name.isdigit())


def flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def tensors_of(training: Training) -> dict[str, Tensor]:
    found = {f"model.{name}": each.detach() for name, each in training.model.named_parameters()}
    found |= {f"average.{name}": each for name, each in training.average.exponential.items()}
    for number, weights in enumerate(training.average.last):
        found |= {f"last.{number}.{name}": each for name, each in weights.items()}
    for number, state in training.optimiser.state_dict()["state"].items():
        found |= {f"optimiser.{number}.{key}": torch.as_tensor(value) for key, value in state.items()}
    found["chance"] = torch.get_rng_state()
    # One block of memory each: safetensors refuses tensors that share it.
    return {name: each.clone().contiguous() for name, each in found.items()}


def numbers_of(training: Training) -> dict[str, object]:
    return {
        "step": training.step,
        "seconds": training.seconds,
        "best": training.best,
        "stale": training.stale,
        "cursor": asdict(training.cursor),
        "averaged": training.average.steps,
        "last": len(training.average.last),
    }


def restore(training: Training, tensors: dict[str, Tensor], numbers: dict[str, object]) -> None:
    fill(training.model, under("model.", tensors))
    training.average.exponential = under("average.", tensors)
    training.average.steps = int(str(numbers["averaged"]))
    training.average.last.extend(
        under(f"last.{number}.", tensors) for number in range(int(str(numbers["last"])))
    )
    saved = training.optimiser.state_dict()
    saved["state"] = {}
    for name, each in under("optimiser.", tensors).items():
        number, key = name.split(".")
        saved["state"].setdefault(int(number), {})[key] = each
    training.optimiser.load_state_dict(saved)
    torch.set_rng_state(tensors["chance"])
    training.step = int(str(numbers["step"]))
    training.seconds = float(str(numbers["seconds"]))
    training.stale = int(str(numbers["stale"]))
    training.best = None if numbers["best"] is None else float(str(numbers["best"]))
    cursor = numbers["cursor"]
    assert isinstance(cursor, dict)
    training.cursor = Cursor(**cursor)


def under(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): each for name, each in tensors.items() if name.startswith(prefix)}
