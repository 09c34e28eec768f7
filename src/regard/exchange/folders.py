"""What a folder holds, by its files: a run, or what one was exported to."""

import json
from pathlib import Path
from typing import Literal

from regard import disk
from regard.errors import RegardError

Kind = Literal["run", "ctranslate2", "onnx", "huggingface", "other"]

TOLD: dict[Kind, str] = {
    "run": "a run folder of regard's",
    "ctranslate2": "a CTranslate2 model",
    "onnx": "an ONNX export",
    "huggingface": "a Hugging Face folder",
    "other": "a folder without a model that regard knows",
}
LARGEST_JSON = 1 << 24
"""Bytes of a config.json; one of a thousandth of that is long."""


def kind_of(folder: Path) -> Kind:
    """What the folder seems to be; whether it is whole is found on opening it."""
    if not folder.is_dir():
        raise RegardError(f"there is no folder {folder}")
    if (folder / "model.bin").exists() and (folder / "config.json").exists():
        return "ctranslate2"
    if (folder / "encoder.onnx").exists() or (folder / "decoder.onnx").exists():
        return "onnx"
    told = read_config(folder) if (folder / "config.json").exists() else {}
    if "model_type" in told:
        return "huggingface"
    return "run" if "task" in told or (folder / "recipe.toml").exists() else "other"


def expect(folder: Path, kind: Kind, files: str) -> None:
    """Refuse a folder that seems to be something else; `files` are what one of this kind has."""
    found = kind_of(folder)
    if found != kind:
        raise RegardError(f"{folder} is {TOLD[found]}; expected was {TOLD[kind]}: {files}")


def read_config(folder: Path) -> dict[str, object]:
    """The object in config.json."""
    path = disk.inside(folder, "config.json")
    try:
        if path.stat().st_size > LARGEST_JSON:
            raise ValueError(f"it has {path.stat().st_size:,} bytes")
        found = json.loads(path.read_text("utf-8"))
    except OSError as problem:
        raise RegardError(f"{path} cannot be read: {disk.reason(problem)}") from None
    except (ValueError, RecursionError) as problem:
        raise RegardError(f"{path} is damaged: {problem}") from None
    if not isinstance(found, dict):
        raise RegardError(f"{path} is damaged: it holds no JSON object")
    return found
