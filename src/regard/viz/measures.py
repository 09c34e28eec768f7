"""What can be said of a head in a number, and of all layers in one matrix."""

import re
from collections import defaultdict

import numpy as np

from regard.viz.payload import AttentionMaps, Layer


def entropy(weights: np.ndarray) -> np.ndarray:
    """How widely each head looks, in bits, mean over those that look: (heads, left, right) -> (heads,)."""
    logarithms = np.log2(weights, out=np.zeros_like(weights), where=weights > 0)
    bits: np.ndarray = -(weights * logarithms).sum(-1).mean(-1)
    return bits


def distance(weights: np.ndarray) -> np.ndarray:
    """How far each head looks, in tokens from the place straight across: (heads, left, right) -> (heads,).

    Where both sides are equally long that is |i - j|; else the left places are spread over the right ones.
    """
    _, left, right = weights.shape
    across = np.arange(left) * (right - 1) / max(1, left - 1)
    far: np.ndarray = (weights * np.abs(across[:, None] - np.arange(right))).sum(-1).mean(-1)
    return far


def rollout(maps: AttentionMaps) -> dict[str, Layer]:
    """What each token has of each token read, through all layers of a stack (Abnar & Zuidema 2020).

    A layer's mean head and what goes past it in the residual, half each, multiplied from layer to layer. A
    stack with cross-attention between its layers is left out: what it has comes from elsewhere, too.
    """
    return {f"{stack}.rollout": rolled(layers) for stack, layers in stacks(maps).items()}


def stacks(maps: AttentionMaps) -> dict[str, list[Layer]]:
    """The layers in which tokens look at each other, by the stack they belong to, from the lowest up."""
    found: dict[str, list[Layer]] = defaultdict(list)
    for name, layer in maps.layers.items():
        match = re.fullmatch(r"(.+)\.\d+\.self", name)
        if match and layer.left == layer.right and name.removesuffix("self") + "cross" not in maps.layers:
            found[match[1]].append(layer)
    return found


def rolled(layers: list[Layer]) -> Layer:
    passed = np.eye(len(layers[0].right.tokens))
    for layer in layers:
        mixed = layer.weights.mean(0) + np.eye(len(passed))
        passed = mixed / mixed.sum(-1, keepdims=True) @ passed
    return Layer(layers[0].left, layers[0].right, passed[None].astype(np.float32))
