"""A Vision Transformer out of a Hugging Face folder: config.json, model.safetensors, preprocessor_config.json.

Nothing but JSON and safetensors is read, and shapes are compared before memory is taken.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import nn

from regard.config import VitModel
from regard.config.schema import build
from regard.errors import RecipeError, RegardError
from regard.exchange.bert import labels_of
from regard.exchange.folders import read_json, weights_file
from regard.models.build import build_vit
from regard.models.tensors import check_shapes, shapes_in
from regard.models.vit import VitClassifier

NAMES = (
    (r"vit\.patch_embedding\.", "vit.embeddings.patch_embeddings.projection."),
    (r"vit\.class_embedding", "vit.embeddings.cls_token"),
    (r"vit\.position_embedding\.table", "vit.embeddings.position_embeddings"),
    (r"vit\.norm\.", "vit.layernorm."),
    (r"vit\.blocks\.", "vit.encoder.layer."),
    (r"\.self_attention\.sublayer\.attention\.output\.", ".attention.output.dense."),
    (r"\.self_attention\.sublayer\.attention\.", ".attention.attention."),
    (r"\.self_attention\.norm\.", ".layernorm_before."),
    (r"\.feed_forward\.sublayer\.widen\.", ".intermediate.dense."),
    (r"\.feed_forward\.sublayer\.narrow\.", ".output.dense."),
    (r"\.feed_forward\.norm\.", ".layernorm_after."),
    (r"^labels\.", "classifier."),
)
"""Our names of weights, part by part, and theirs."""

PASSED_OVER = (
    r"(vit\.)?pooler\.dense\.(weight|bias)",
    r"(vit\.)?embeddings\.mask_token",
    r"(vit\.)?encoder\.layer\.\d+\.attention\.attention\.key\.bias",  # adds the same to all scores of a query
)
MAY_BE_MISSING = ("labels.",)
"""Parts that not every checkpoint has; they start fresh."""


@dataclass(frozen=True)
class ImportedVit:
    """A checkpoint as regard has it."""

    config: VitModel
    labels: tuple[str, ...]
    model: VitClassifier
    fresh: tuple[str, ...]
    """Weights that the checkpoint does not have."""


def read(folder: Path) -> ImportedVit:
    """Open a folder; what is missing or foreign is a RegardError of one sentence."""
    told = read_json(folder, "config.json")
    config = config_of(told, folder)
    path = weights_file(folder)
    try:
        found = shapes_in(path, lambda name: any(re.fullmatch(pattern, name) for pattern in PASSED_OVER))
    except ValueError as problem:
        raise RegardError(f"{path} is not a file of weights: {problem}") from None
    labels = labels_of(told, folder)
    with torch.device("meta"):
        model = build_vit(config, len(labels))
    places = {ours: theirs_for(ours, found) for ours, _ in model.named_parameters()}
    fresh = tuple(ours for ours in places if places[ours] not in found and ours.startswith(MAY_BE_MISSING))
    wanted = {
        places[name]: theirs(name, config, each) for name, each in model.named_parameters() if name not in fresh
    }
    try:
        check_shapes(found, wanted)
    except ValueError as problem:
        raise RegardError(f"{path} does not hold the ViT of its config.json: {problem}") from None
    model = build_vit(config, len(labels))
    fill(model, path, {ours: place for ours, place in places.items() if ours not in fresh})
    return ImportedVit(config, labels, model, fresh)


def theirs(name: str, config: VitModel, ours: torch.Tensor) -> tuple[int, ...]:
    """The shape of a weight there: patches are a convolution, and some have axes of length 1."""
    match name:
        case "vit.patch_embedding.weight":
            return config.d_model, config.channels, config.patch, config.patch
        case "vit.class_embedding":
            return 1, 1, config.d_model
        case "vit.position_embedding.table":
            return 1, config.tokens, config.d_model
        case _:
            return tuple(ours.shape)


def fill(model: nn.Module, path: Path, places: Mapping[str, str]) -> None:
    parameters = dict(model.named_parameters())
    try:
        with safe_open(path, "pt") as file, torch.no_grad():
            for ours, place in places.items():
                parameters[ours].copy_(file.get_tensor(place).view_as(parameters[ours]))
    except (SafetensorError, OSError) as problem:
        raise RegardError(f"{path} is damaged: {problem}") from None


def config_of(told: Mapping[str, Any], folder: Path) -> VitModel:
    """The model section; what regard's ViT cannot be is refused."""
    where = folder / "config.json"
    if not told.get("qkv_bias", True):
        raise RegardError(f"{where}: this ViT has no biases in its attention, as regard's has")
    size = told.get("image_size", 224)
    height, width = size if isinstance(size, list) and len(size) == 2 else (size, size)
    table = {
        "layers": told.get("num_hidden_layers", 12),
        "d_model": told.get("hidden_size", 768),
        "heads": told.get("num_attention_heads", 12),
        "d_ff": told.get("intermediate_size", 3072),
        "patch": told.get("patch_size", 16),
        "height": height,
        "width": width,
        "channels": told.get("num_channels", 3),
        "dropout": told.get("hidden_dropout_prob", 0.0),
        "attention_dropout": told.get("attention_probs_dropout_prob", 0.0),
        "activation": told.get("hidden_act", "gelu"),
        "epsilon": told.get("layer_norm_eps", 1e-12),
        **brightness(folder),
    }
    try:
        config = build(VitModel, table)
    except RecipeError as problem:
        raise RegardError(f"{where} describes no ViT that regard has: {problem}") from None
    if not config.tokens > 1 or not config.channels:
        raise RegardError(f"{where} describes no ViT that regard has: its images have no patches")
    return config


def brightness(folder: Path) -> dict[str, Any]:
    """Mean and spread as the folder's preprocessor has them; 0.5 each where it says nothing."""
    if not (folder / "preprocessor_config.json").exists():
        return {}
    told = read_json(folder, "preprocessor_config.json")
    if not told.get("do_normalize", True):
        return {"mean": [0.0], "spread": [1.0]}
    return {"mean": told.get("image_mean", [0.5]), "spread": told.get("image_std", [0.5])}


def theirs_for(ours: str, found: Mapping[str, Any]) -> str:
    """The name of a weight in the checkpoint: with `vit.` before the body or without."""
    name = ours
    for pattern, replacement in NAMES:
        name = re.sub(pattern, replacement, name, count=1)
    return name if "vit.embeddings.cls_token" in found else name.removeprefix("vit.")
