"""Import and export of ViT as a Hugging Face folder: config.json, model.safetensors, preprocessor_config.json.

Only JSON and safetensors are read, and shapes are checked before memory is allocated.
"""

import re
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from regard.config.models import VitConfig
from regard.config.schema import build
from regard.errors import RecipeError, RegardError
from regard.interop.model_folders import (
    check_score,
    check_softmax,
    labels_of,
    read_json,
    weights_file,
    write_files,
)
from regard.nn.build import build_vit
from regard.nn.vit import VitClassifier
from regard.tensor_files import check_shapes, shapes_in

KEY_MAPPING = (
    (r"vit\.patch_embedding\.", "vit.embeddings.patch_embeddings.projection."),
    (r"vit\.class_embedding", "vit.embeddings.cls_token"),
    (r"vit\.position_embedding\.table", "vit.embeddings.position_embeddings"),
    (r"vit\.norm\.", "vit.layernorm."),
    (r"vit\.blocks\.", "vit.encoder.layer."),
    (r"\.self_attention\.sublayer\.attention\.output\.", ".attention.output.dense."),
    (r"\.self_attention\.sublayer\.attention\.", ".attention.attention."),
    (r"\.self_attention\.norm\.", ".layernorm_before."),
    (r"\.feed_forward\.sublayer\.fc1\.", ".intermediate.dense."),
    (r"\.feed_forward\.sublayer\.fc2\.", ".output.dense."),
    (r"\.feed_forward\.norm\.", ".layernorm_after."),
    (r"^labels\.", "classifier."),
)
"""Patterns of regard's parameter names, and their replacements in Hugging Face's names."""

IGNORED = (
    r"(vit\.)?pooler\.dense\.(weight|bias)",
    r"(vit\.)?embeddings\.mask_token",
    r"(vit\.)?encoder\.layer\.\d+\.attention\.attention\.key\.bias",  # no effect: softmax is invariant to it
)
OPTIONAL = ("labels.",)
"""Prefixes of weights that a checkpoint may lack; they are initialised at random."""


@dataclass(frozen=True)
class VitCheckpoint:
    """An imported checkpoint."""

    config: VitConfig
    labels: tuple[str, ...]
    model: VitClassifier
    new_weights: tuple[str, ...]
    """Weights that the checkpoint lacks, initialised at random."""


def read(folder: Path) -> VitCheckpoint:
    """Import a folder.

    Raises:
        RegardError: A file is missing or damaged, or regard cannot represent the model.
    """
    hf_config = read_json(folder, "config.json")
    config = model_config(hf_config, folder)
    path = weights_file(folder)
    try:
        shapes = shapes_in(path, lambda name: any(re.fullmatch(pattern, name) for pattern in IGNORED))
    except ValueError as problem:
        raise RegardError(f"{path} is not a file of weights: {problem}") from None
    labels = labels_of(hf_config, folder)
    if "classifier.weight" in shapes:
        check_softmax(hf_config, shapes["classifier.weight"], folder)
    with torch.device("meta"):
        model = build_vit(config, len(labels))
    hf_names = {name: hf_name(name, shapes) for name, _ in model.named_parameters()}
    new_weights = tuple(name for name in hf_names if hf_names[name] not in shapes and name.startswith(OPTIONAL))
    expected = {
        hf_names[name]: hf_shape(name, config, parameter, grey=bool(hf_config.get("grey")))
        for name, parameter in model.named_parameters()
        if name not in new_weights
    }
    try:
        check_shapes(shapes, expected)
    except ValueError as problem:
        raise RegardError(f"{path} does not hold the ViT of its config.json: {problem}") from None
    model = build_vit(config, len(labels))
    load_weights(model, path, {name: hf for name, hf in hf_names.items() if name not in new_weights})
    return VitCheckpoint(config, labels, model, new_weights)


def write(folder: Path, model: VitClassifier, config: VitConfig, labels: Sequence[str]) -> None:
    """Write a folder for Hugging Face's ViTForImageClassification, image processor and pipeline.

    Their pipeline converts images to colour. A grey model is exported with three channels, each with a third of
    the weights, and with the key `grey` in config.json.

    Raises:
        RegardError: Hugging Face's ViT cannot represent the model.
    """
    if config.pooling != "class":
        raise RegardError("Hugging Face's ViT has class token pooling, and this one mean pooling")
    grey = config.channels == 1
    id2label = {str(number): label for number, label in enumerate(labels)}
    check_score("ViT", config.score)
    hf_config = {
        "architectures": ["ViTForImageClassification"],
        "model_type": "vit",
        "num_hidden_layers": config.layers,
        "hidden_size": config.d_model,
        "num_attention_heads": config.heads,
        "intermediate_size": config.d_ff,
        "patch_size": config.patch,
        "image_size": config.height if config.height == config.width else [config.height, config.width],
        "num_channels": 3,
        "hidden_dropout_prob": config.dropout,
        "attention_probs_dropout_prob": config.attention_dropout,
        "hidden_act": config.activation,
        "layer_norm_eps": config.epsilon,
        "qkv_bias": True,
        "id2label": id2label,
        "label2id": {label: int(number) for number, label in id2label.items()},
        "torch_dtype": "float32",
        "grey": grey,
    }
    image_processor = {
        "image_processor_type": "ViTImageProcessor",
        "do_resize": True,
        "size": {"height": config.height, "width": config.width},
        "resample": 2,
        "do_rescale": True,
        "rescale_factor": 1 / 255,
        "do_normalize": True,
        "image_mean": [*config.mean] * (3 // len(config.mean)),
        "image_std": [*config.std] * (3 // len(config.std)),
    }
    files = {"config.json": hf_config, "preprocessor_config.json": image_processor}
    write_files(folder, files, hf_state_dict(model, config))


def hf_state_dict(model: VitClassifier, config: VitConfig) -> dict[str, Tensor]:
    """All weights by Hugging Face's names; the bias of its keys, which has no effect, is 0."""
    weights: dict[str, Tensor] = {}
    positions = {"vit.position_embedding.table": cast(Tensor, model.vit.position_embedding.table)}
    for name, parameter in {**dict(model.named_parameters()), **positions}.items():
        key = hf_name(name, {"vit.embeddings.cls_token": ()})
        weights[key] = parameter.detach().view(hf_shape(name, config, parameter))
        if key.endswith(".attention.attention.key.weight"):
            weights[key.replace("weight", "bias")] = torch.zeros(len(parameter))
    if config.channels == 1:
        key = hf_name("vit.patch_embedding.weight", weights)
        weights[key] = weights[key].expand(-1, 3, -1, -1) / 3
    return weights


def hf_shape(name: str, config: VitConfig, parameter: Tensor, *, grey: bool = False) -> tuple[int, ...]:
    """Hugging Face's shape of a weight: patch embeddings are a convolution, and some have axes of size 1."""
    match name:
        case "vit.patch_embedding.weight":
            return config.d_model, 3 if grey else config.channels, config.patch, config.patch
        case "vit.class_embedding":
            return 1, 1, config.d_model
        case "vit.position_embedding.table":
            return 1, config.tokens, config.d_model
        case _:
            return tuple(parameter.shape)


def load_weights(model: nn.Module, path: Path, hf_names: Mapping[str, str]) -> None:
    """Copy weights one by one from a safetensors file into the model."""
    parameters = dict(model.named_parameters())
    try:
        with safe_open(path, "pt") as file, torch.no_grad():
            for name, key in hf_names.items():
                weight = file.get_tensor(key)
                if weight.numel() == 3 * parameters[name].numel():  # of a grey model, see `write`
                    weight = weight.sum(1)
                parameters[name].copy_(weight.view_as(parameters[name]))
    except (SafetensorError, OSError) as problem:
        raise RegardError(f"{path} is damaged: {problem}") from None


def model_config(hf_config: Mapping[str, Any], folder: Path) -> VitConfig:
    """The model section of a config.json; RegardError if regard cannot represent it."""
    path = folder / "config.json"
    if not hf_config.get("qkv_bias", True):
        raise RegardError(f"{path}: this ViT has no biases in its attention, and regard's has")
    size = hf_config.get("image_size", 224)
    height, width = size if isinstance(size, list) and len(size) == 2 else (size, size)
    table = {
        "layers": hf_config.get("num_hidden_layers", 12),
        "d_model": hf_config.get("hidden_size", 768),
        "heads": hf_config.get("num_attention_heads", 12),
        "d_ff": hf_config.get("intermediate_size", 3072),
        "patch": hf_config.get("patch_size", 16),
        "height": height,
        "width": width,
        "channels": 1 if hf_config.get("grey") else hf_config.get("num_channels", 3),
        "dropout": hf_config.get("hidden_dropout_prob", 0.0),
        "attention_dropout": hf_config.get("attention_probs_dropout_prob", 0.0),
        "activation": hf_config.get("hidden_act", "gelu"),
        "epsilon": hf_config.get("layer_norm_eps", 1e-12),
        **pixel_statistics(folder, grey=bool(hf_config.get("grey"))),
    }
    try:
        config = build(VitConfig, table)
    except RecipeError as problem:
        raise RegardError(f"{path} describes no ViT that regard has: {problem}") from None
    if not config.tokens > 1 or not config.channels:
        raise RegardError(f"{path} describes no ViT that regard has: its images have no patches")
    return config


def pixel_statistics(folder: Path, *, grey: bool) -> dict[str, Any]:
    """Pixel mean and standard deviation of the folder's image processor; the defaults without one."""
    if not (folder / "preprocessor_config.json").exists():
        return {}
    processor = read_json(folder, "preprocessor_config.json")
    if not processor.get("do_normalize", True):
        return {"mean": [0.0], "std": [1.0]}
    statistics = {"mean": processor.get("image_mean", [0.5]), "std": processor.get("image_std", [0.5])}
    return {
        name: values[:1] if grey and isinstance(values, list) else values for name, values in statistics.items()
    }


def hf_name(name: str, keys: Container[str]) -> str:
    """The name of a weight in a checkpoint with these keys; those of the body begin with `vit.` or do not."""
    for pattern, replacement in KEY_MAPPING:
        name = re.sub(pattern, replacement, name, count=1)
    return name if "vit.embeddings.cls_token" in keys else name.removeprefix("vit.")
