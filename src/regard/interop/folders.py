"""What a folder holds, by its files: a run, or what one was exported to; and how foreign files are read."""

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

TOLD: dict[Kind, str] = {
    "run": "a run folder of regard's",
    "ctranslate2": "a CTranslate2 model",
    "onnx": "an ONNX export",
    "huggingface": "a Hugging Face folder",
    "other": "a folder without a model that regard knows",
}
ACTIVATIONS = {
    "gelu_new": "gelu-tanh",
    "gelu_pytorch_tanh": "gelu-tanh",
    "gelu": "gelu",
    "relu": "relu",
    "silu": "silu",
}
"""Hugging Face's names of activations, and ours."""
ACTIVATION_NAMES = {ours: theirs for theirs, ours in reversed(ACTIVATIONS.items())}
"""Our names of activations, and Hugging Face's."""
WITHOUT_CLASSIFIER = "To import the model without its classifier, save it with AutoModel of transformers."
"""How to import a model whose classifier is refused."""
LARGEST_JSON = 1 << 24
"""Bytes of a JSON or text file; a vocabulary of a million pieces has as many."""


def kind_of(folder: Path) -> Kind:
    """What the folder seems to be; whether it is whole is found on opening it."""
    if not folder.is_dir():
        raise RegardError(f"there is no folder {folder}")
    if (folder / "model.bin").exists() and (folder / "config.json").exists():
        return "ctranslate2"
    if any((folder / f"{name}.onnx").exists() for name in ("encoder", "decoder", "classifier")):
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


def read_config(folder: Path) -> dict[str, Any]:
    """The object in config.json."""
    found: dict[str, Any] = read_json(folder, "config.json")
    return found


def weights_file(folder: Path) -> Path:
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
    """What a JSON file of a folder holds: an object, or a list."""
    path = storage.inside(folder, name)
    if not path.is_file():
        raise RegardError(f"{folder} has no {name}")
    try:
        found = json.loads(read_text(path))
    except (ValueError, RecursionError) as problem:
        raise RegardError(f"{path} is not JSON: {problem}") from None
    if not isinstance(found, kind):
        raise RegardError(f"{path} holds no JSON {'object' if kind is dict else 'list'}")
    return found


def read_text(path: Path) -> str:
    try:
        if path.stat().st_size > LARGEST_JSON:
            raise RegardError(f"{path} has {path.stat().st_size:,} bytes; that is no such file")
        return path.read_text("utf-8")
    except UnicodeDecodeError:
        raise RegardError(f"{path} is not UTF-8 text") from None
    except OSError as problem:
        raise RegardError(f"{path} cannot be read: {problem.strerror}") from None


def labels_of(told: Mapping[str, Any], folder: Path) -> tuple[str, ...]:
    named = told.get("id2label", {"0": "LABEL_0", "1": "LABEL_1"})
    try:
        return tuple(str(named[str(number)]) for number in range(len(named)))
    except (TypeError, KeyError):
        raise RegardError(f"{folder / 'config.json'}: id2label does not number its labels from 0") from None


def check_softmax(told: Mapping[str, Any], classifier: tuple[int, ...], folder: Path) -> None:
    """Refuse a classifier whose logits are not for a softmax over labels: regression, several labels at once.

    `classifier` is the shape of its weight: (labels, d_model).
    """
    kind, where = told.get("problem_type"), folder / "config.json"
    if kind not in (None, "single_label_classification"):
        raise RegardError(
            f"{where}: problem_type is {kind!r}; allowed is 'single_label_classification', one label of "
            f"several for each input. {WITHOUT_CLASSIFIER}"
        )
    if classifier[:1] == (1,):
        raise RegardError(
            f"{where}: num_labels is 1, a regression head as cross-encoders have it, which gives a score and "
            f"no label; allowed are 2 labels or more. {WITHOUT_CLASSIFIER}"
        )


def write_files(folder: Path, told: Mapping[str, object], weights: Mapping[str, Tensor]) -> None:
    """A Hugging Face folder: JSON files by their names, and the weights."""
    for name, each in told.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        storage.write_text(path, json.dumps(each, ensure_ascii=False, indent=2) + "\n")
    with storage.atomic_path(folder / "model.safetensors") as part:
        write_tensors({name: each.detach().cpu() for name, each in weights.items()}, part)


def check_score(model: str, score: ScoreName) -> None:
    """Refuse a model whose attention is not that of their model."""
    if score != "scaled-dot":
        raise RegardError(
            f"Hugging Face's {model} has the scaled-dot score, and this model has {score}; "
            "it can be exported to onnx"
        )
