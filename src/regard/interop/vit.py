"""ViT from a Hugging Face folder and to one: config.json, model.safetensors, preprocessor_config.json.

Nothing but JSON and safetensors is read, and shapes are compared before memory is taken.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from regard.config.models import VitConfig
from regard.config.schema import build
from regard.errors import RecipeError, RegardError
from regard.interop.folders import check_score, check_softmax, labels_of, read_json, weights_file, write_files
from regard.nn.build import build_vit
from regard.nn.vit import VitClassifier
from regard.tensor_files import check_shapes, shapes_in

NAMES = (
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

    config: VitConfig
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
    if "classifier.weight" in found:
        check_softmax(told, found["classifier.weight"], folder)
    with torch.device("meta"):
        model = build_vit(config, len(labels))
    places = {ours: theirs_for(ours, found) for ours, _ in model.named_parameters()}
    fresh = tuple(ours for ours in places if places[ours] not in found and ours.startswith(MAY_BE_MISSING))
    wanted = {
        places[name]: theirs(name, config, each, grey=bool(told.get("grey")))
        for name, each in model.named_parameters()
        if name not in fresh
    }
    try:
        check_shapes(found, wanted)
    except ValueError as problem:
        raise RegardError(f"{path} does not hold the ViT of its config.json: {problem}") from None
    model = build_vit(config, len(labels))
    fill(model, path, {ours: place for ours, place in places.items() if ours not in fresh})
    return ImportedVit(config, labels, model, fresh)


def write(folder: Path, model: VitClassifier, config: VitConfig, labels: Sequence[str]) -> None:
    """Make a folder that Hugging Face's ViTForImageClassification, image processor and pipeline read.

    Their pipeline makes every image coloured. A grey model goes out with three channels, a third of the weights
    for each, and `grey` in config.json says so.
    """
    if config.pooling != "class":
        raise RegardError("Hugging Face's ViT reads the class token, and this one the mean of the patches")
    grey = config.channels == 1
    named = {str(number): label for number, label in enumerate(labels)}
    check_score("ViT", config.score)
    told = {
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
        "id2label": named,
        "label2id": {label: int(number) for number, label in named.items()},
        "torch_dtype": "float32",
        "grey": grey,
    }
    images = {
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
    write_files(folder, {"config.json": told, "preprocessor_config.json": images}, theirs_of(model, config))


def theirs_of(model: VitClassifier, config: VitConfig) -> dict[str, Tensor]:
    """Every weight as they have it; their keys have a bias, which softmax does not see: zeros."""
    found: dict[str, Tensor] = {}
    own = {"vit.position_embedding.table": cast(Tensor, model.vit.position_embedding.table)}  # learned or not
    for ours, each in {**dict(model.named_parameters()), **own}.items():
        name = theirs_for(ours, {"vit.embeddings.cls_token": ()})
        found[name] = each.detach().view(theirs(ours, config, each))
        if name.endswith(".attention.attention.key.weight"):
            found[name.replace("weight", "bias")] = torch.zeros(len(each))
    if config.channels == 1:
        name = theirs_for("vit.patch_embedding.weight", found)
        found[name] = found[name].expand(-1, 3, -1, -1) / 3
    return found


def theirs(name: str, config: VitConfig, ours: Tensor, *, grey: bool = False) -> tuple[int, ...]:
    """The shape of a weight there: patches are a convolution, and some have axes of length 1."""
    match name:
        case "vit.patch_embedding.weight":
            return config.d_model, 3 if grey else config.channels, config.patch, config.patch
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
                weight = file.get_tensor(place)
                if weight.numel() == 3 * parameters[ours].numel():  # of a grey model, see `write`
                    weight = weight.sum(1)
                parameters[ours].copy_(weight.view_as(parameters[ours]))
    except (SafetensorError, OSError) as problem:
        raise RegardError(f"{path} is damaged: {problem}") from None


def config_of(told: Mapping[str, Any], folder: Path) -> VitConfig:
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
        "channels": 1 if told.get("grey") else told.get("num_channels", 3),
        "dropout": told.get("hidden_dropout_prob", 0.0),
        "attention_dropout": told.get("attention_probs_dropout_prob", 0.0),
        "activation": told.get("hidden_act", "gelu"),
        "epsilon": told.get("layer_norm_eps", 1e-12),
        **brightness(folder, grey=bool(told.get("grey"))),
    }
    try:
        config = build(VitConfig, table)
    except RecipeError as problem:
        raise RegardError(f"{where} describes no ViT that regard has: {problem}") from None
    if not config.tokens > 1 or not config.channels:
        raise RegardError(f"{where} describes no ViT that regard has: its images have no patches")
    return config


def brightness(folder: Path, *, grey: bool) -> dict[str, Any]:
    """Mean and spread as the folder's preprocessor has them; 0.5 each where it says nothing."""
    if not (folder / "preprocessor_config.json").exists():
        return {}
    told = read_json(folder, "preprocessor_config.json")
    if not told.get("do_normalize", True):
        return {"mean": [0.0], "std": [1.0]}
    found = {"mean": told.get("image_mean", [0.5]), "std": told.get("image_std", [0.5])}
    return {name: each[:1] if grey and isinstance(each, list) else each for name, each in found.items()}


def theirs_for(ours: str, found: Mapping[str, Any]) -> str:
    """The name of a weight in the checkpoint: with `vit.` before the body or without."""
    name = ours
    for pattern, replacement in NAMES:
        name = re.sub(pattern, replacement, name, count=1)
    return name if "vit.embeddings.cls_token" in found else name.removeprefix("vit.")
