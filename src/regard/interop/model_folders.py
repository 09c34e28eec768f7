"""Model folders: detect their kind, and read and write the files of Hugging Face folders."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from torch import Tensor

from regard import storage
from regard.config.models import ScoreName
from regard.errors import RegardError
from regard.tensor_files import write_tensors

Kind = Literal["run", "ctranslate2", "onnx", "huggingface", "other"]

KIND_NAMES: dict[Kind, str] = {
    "run": "a run folder of regard",
    "ctranslate2": "a CTranslate2 model",
    "onnx": "an ONNX export",
    "huggingface": "a Hugging Face folder",
    "other": "a folder without a known model",
}
ACTIVATIONS = {
    "gelu_new": "gelu-tanh",
    "gelu_pytorch_tanh": "gelu-tanh",
    "gelu": "gelu",
    "relu": "relu",
    "silu": "silu",
}
"""Activations by their names in Hugging Face's configurations."""
ACTIVATION_NAMES = {name: hf_name for hf_name, name in reversed(ACTIVATIONS.items())}
"""Hugging Face's names of activations."""
WITHOUT_CLASSIFIER = "to import the model without its classifier, save it with AutoModel of transformers"
"""The end of the message that refuses a classifier."""
MAX_FILE_BYTES = 1 << 24
"""Maximum size of a JSON or text file; enough for a vocabulary of a million pieces."""


def detect_kind(folder: Path) -> Kind:
    """The kind of a model folder by its files, which are not validated.

    Raises:
        RegardError: There is no such folder.
    """
    if not folder.is_dir():
        raise RegardError(f"there is no folder {folder}")
    if (folder / "model.bin").exists() and (folder / "config.json").exists():
        return "ctranslate2"
    if any((folder / f"{name}.onnx").exists() for name in ("encoder", "decoder", "classifier")):
        return "onnx"
    config = read_config(folder) if (folder / "config.json").exists() else {}
    if "model_type" in config:
        return "huggingface"
    return "run" if "task" in config or (folder / "recipe.toml").exists() else "other"


def expect_kind(folder: Path, kind: Kind, files: str) -> None:
    """Refuse a folder of another kind.

    Args:
        folder: The folder.
        kind: Its expected kind.
        files: Files of that kind, for the error message.

    Raises:
        RegardError: The folder is of another kind.
    """
    detected = detect_kind(folder)
    if detected != kind:
        raise RegardError(f"{folder} is {KIND_NAMES[detected]}; expected was {KIND_NAMES[kind]}: {files}")


def read_config(folder: Path) -> dict[str, Any]:
    """The content of config.json."""
    config: dict[str, Any] = read_json(folder, "config.json")
    return config


def weights_file(folder: Path) -> Path:
    """The path of model.safetensors; RegardError if there is none."""
    path = storage.inside(folder, "model.safetensors")
    if path.is_file():
        return path
    if (folder / "model.safetensors.index.json").exists():
        raise RegardError(f"{folder} holds its weights in several files; save them as one model.safetensors")
    if (folder / "pytorch_model.bin").exists():
        raise RegardError(
            f"{folder} has pytorch_model.bin only, a pickle, which is not opened; save it as model.safetensors"
        )
    raise RegardError(f"{folder} has no model.safetensors")


def read_json(folder: Path, name: str, kind: type = dict) -> Any:
    """The content of a JSON file: an object, or a list.

    Raises:
        RegardError: The file is missing, not JSON, or of another type than `kind`.
    """
    path = storage.inside(folder, name)
    if not path.is_file():
        raise RegardError(f"{folder} has no {name}")
    try:
        content = json.loads(read_text(path))
    except (ValueError, RecursionError) as problem:
        raise RegardError(f"{path} is not JSON: {problem}") from None
    if not isinstance(content, kind):
        raise RegardError(f"{path} holds no JSON {'object' if kind is dict else 'list'}")
    return content


def read_text(path: Path) -> str:
    """The text of a file of limited size; RegardError if it cannot be read."""
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise RegardError(f"{path} has {path.stat().st_size:,} bytes; allowed are {MAX_FILE_BYTES:,}")
        return path.read_text("utf-8")
    except UnicodeDecodeError:
        raise RegardError(f"{path} is not UTF-8 text") from None
    except OSError as problem:
        raise RegardError(f"{path} cannot be read: {problem.strerror}") from None


def labels_of(config: Mapping[str, Any], folder: Path) -> tuple[str, ...]:
    """The labels of a config.json, in the order of their ids."""
    by_id = config.get("id2label", {"0": "LABEL_0", "1": "LABEL_1"})
    try:
        return tuple(str(by_id[str(number)]) for number in range(len(by_id)))
    except (TypeError, KeyError):
        raise RegardError(f"{folder / 'config.json'}: id2label does not number its labels from 0") from None


def check_softmax(config: Mapping[str, Any], classifier: tuple[int, ...], folder: Path) -> None:
    """Refuse a classifier without a softmax over labels: regression, or multi-label classification.

    Args:
        config: The content of config.json.
        classifier: The shape of its weight: (labels, d_model).
        folder: The folder, for the error message.

    Raises:
        RegardError: The classifier is of such a kind.
    """
    kind, path = config.get("problem_type"), folder / "config.json"
    if kind not in (None, "single_label_classification"):
        raise RegardError(
            f"{path}: problem_type is {kind!r}; allowed is 'single_label_classification', one label "
            f"per input; {WITHOUT_CLASSIFIER}"
        )
    if classifier[:1] == (1,):
        raise RegardError(
            f"{path}: num_labels is 1, a regression head (as of a cross-encoder), which gives a score and "
            f"no label; allowed are 2 labels or more; {WITHOUT_CLASSIFIER}"
        )


def write_files(folder: Path, contents: Mapping[str, object], weights: Mapping[str, Tensor]) -> None:
    """Write the JSON files of a Hugging Face folder, by name, and model.safetensors."""
    for name, content in contents.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        storage.write_text(path, json.dumps(content, ensure_ascii=False, indent=2) + "\n")
    with storage.atomic_path(folder / "model.safetensors") as part:
        write_tensors({name: weight.detach().cpu() for name, weight in weights.items()}, part)


def check_score(model: str, score: ScoreName) -> None:
    """Refuse a model with another attention score than Hugging Face's model has.

    Raises:
        RegardError: The score is not the scaled dot product.
    """
    if score != "scaled-dot":
        raise RegardError(
            f"Hugging Face's {model} has the scaled-dot score, and this model has {score}; "
            "it can be exported to onnx"
        )
