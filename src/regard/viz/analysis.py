"""Analysis of attention maps: entropy and distance of heads, rollout, selection of layer and head."""

import re
from collections import defaultdict

import numpy as np

from regard.errors import RegardError, did_you_mean
from regard.viz.attention_maps import AttentionMaps, Layer


def entropy(weights: np.ndarray) -> np.ndarray:
    """Attention entropy in bits, mean over the queries: (heads, queries, keys) -> (heads,)."""
    logarithms = np.log2(weights, out=np.zeros_like(weights), where=weights > 0)
    bits: np.ndarray = -(weights * logarithms).sum(-1).mean(-1)
    return bits


def distance(weights: np.ndarray) -> np.ndarray:
    """Mean attention distance from the diagonal, in tokens: (heads, queries, keys) -> (heads,).

    With as many queries as keys this is |i - j|; otherwise query positions are scaled to the number of keys.
    """
    _, queries, keys = weights.shape
    diagonal = np.arange(queries) * (keys - 1) / max(1, queries - 1)
    mean: np.ndarray = (weights * np.abs(diagonal[:, None] - np.arange(keys))).sum(-1).mean(-1)
    return mean


def rollout(maps: AttentionMaps) -> dict[str, Layer]:
    """Attention rollout of each stack: the input tokens' share in each output token (Abnar & Zuidema 2020).

    Multiplies, from the lowest layer up, half of the mean head plus half of the identity (the residual
    connection). Stacks that also have cross-attention are left out: rollout does not account for it.
    """
    return {f"{stack}.rollout": _rollout_of(layers) for stack, layers in _self_attention_stacks(maps).items()}


def _self_attention_stacks(maps: AttentionMaps) -> dict[str, list[Layer]]:
    """Self-attention layers without cross-attention, by the stack they belong to, from the lowest up."""
    stacks: dict[str, list[Layer]] = defaultdict(list)
    for name, layer in maps.layers.items():
        match = re.fullmatch(r"(.+)\.\d+\.self", name)
        if match and layer.queries == layer.keys and name.removesuffix("self") + "cross" not in maps.layers:
            stacks[match[1]].append(layer)
    return stacks


def _rollout_of(layers: list[Layer]) -> Layer:
    product = np.eye(len(layers[0].keys.tokens))
    for layer in layers:
        with_residual = layer.weights.mean(0) + np.eye(len(product))
        product = with_residual / with_residual.sum(-1, keepdims=True) @ product
    return Layer(layers[0].queries, layers[0].keys, product[None].astype(np.float32))


def all_layers(maps: AttentionMaps) -> dict[str, Layer]:
    """The recorded layers and their rollout, by name.

    Raises:
        RegardError: if the model recorded no attention weights.
    """
    if not maps.layers:
        raise RegardError("this model has no attention weights to show")
    return {**maps.layers, **rollout(maps)}


def select_layer(maps: AttentionMaps, name: str | None = None) -> str:
    """The layer of that name; by default the alignment layer, or the last one without cross-attention.

    Raises:
        RegardError: if there is no such layer.
    """
    layers = all_layers(maps)
    if name is None:
        has_cross = any(layer.endswith("cross") for layer in layers)
        return maps.alignment_layer if has_cross else list(maps.layers)[-1]
    if name not in layers:
        raise RegardError(
            f"there is no layer {name!r}{did_you_mean(name, layers)}; there are {', '.join(layers)}"
        )
    return name


def layer_title(name: str) -> str:
    """The title of a layer for people: `decoder.0.cross` is "Decoder layer 1 · cross-attention"."""
    match = re.fullmatch(r"([a-z]+)(?:\.(\d+))?\.(self|cross|rollout)", name)
    if match is None:
        return name
    stack = match[1].capitalize() + (f" layer {int(match[2]) + 1}" if match[2] else "")
    return f"{stack} · {'rollout over all layers' if match[3] == 'rollout' else f'{match[3]}-attention'}"


def check_head(name: str, layer: Layer, head: int | None) -> None:
    """Raises RegardError if the layer has no head of that number; None stands for the mean of all heads."""
    if head is not None and head >= len(layer.weights):
        known = "one head, 0" if len(layer.weights) == 1 else f"heads 0 to {len(layer.weights) - 1}"
        raise RegardError(f"there is no head {head} in {name}: it has {known}")
