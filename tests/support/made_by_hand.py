"""Payloads whose weights are known, and one of the largest size that must stay usable."""

import numpy as np

from regard.viz.payload import AttentionMaps, Layer, Side

READ = Side("source", "Der Grashüpfer schläft", ("▁Der", "▁Gras", "hüpfer", "▁schläft", "</s>"), ("Der", "Grashüpfer", "schläft", "</s>"), ((0,), (1, 2), (3,), (4,)))  # fmt: skip
WRITTEN = Side("translation", "the grasshopper sleeps", ("▁the", "▁grass", "hopper", "▁sleeps", "</s>"), ("the", "grasshopper", "sleeps", "</s>"), ((0,), (1, 2), (3,), (4,)))  # fmt: skip

SHARP = np.array(
    [
        [0.90, 0.10, 0.00, 0.00, 0.00],
        [0.00, 0.80, 0.20, 0.00, 0.00],
        [0.00, 0.30, 0.70, 0.00, 0.00],
        [0.00, 0.00, 0.00, 1.00, 0.00],
        [0.00, 0.00, 0.00, 0.25, 0.75],
    ]
)
TURNED = SHARP[:, ::-1]


def small() -> AttentionMaps:
    """One encoder layer and one cross-attention of two heads: the diagonal, and the diagonal turned."""
    weights = np.stack([SHARP, TURNED]).astype(np.float32)
    return AttentionMaps(
        READ,
        WRITTEN,
        {"encoder.0.self": Layer(READ, READ, weights), "decoder.0.cross": Layer(WRITTEN, READ, weights)},
    )


def of_words(read: str, written: str) -> AttentionMaps:
    """Any two texts; every word looks at the word across."""
    sides = [
        Side.of_words(name, text, text.split()) for name, text in (("source", read), ("translation", written))
    ]
    weights = np.zeros((1, len(sides[1].tokens), len(sides[0].tokens)), np.float32)
    for row in range(weights.shape[1]):
        weights[0, row, min(row, weights.shape[2] - 1)] = 1.0
    return AttentionMaps(*sides, {"decoder.cross": Layer(sides[1], sides[0], weights)})


def random(tokens: int, layers: int, heads: int) -> AttentionMaps:
    """A Transformer's payload with weights by chance."""
    chance = np.random.default_rng(0)
    read, written = (Side.of_words(name, "", [f"{name}{place}" for place in range(tokens)]) for name in "rw")
    sides = {
        "encoder.{}.self": (read, read),
        "decoder.{}.self": (written, written),
        "decoder.{}.cross": (written, read),
    }
    found = {}
    for name, (left, right) in sides.items():
        for number in range(layers):
            scores = np.exp(chance.standard_normal((heads, tokens, tokens), np.float32) * 4)
            found[name.format(number)] = Layer(left, right, scores / scores.sum(-1, keepdims=True))
    return AttentionMaps(read, written, found)
