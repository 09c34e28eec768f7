"""Attention maps for tests: with known weights, of any two texts, and of any size."""

import numpy as np

from regard.viz.attention_maps import AttentionMaps, Layer, TokenSequence

SOURCE = TokenSequence("source", "Der Grashüpfer schläft", ("▁Der", "▁Gras", "hüpfer", "▁schläft", "</s>"), ("Der", "Grashüpfer", "schläft", "</s>"), ((0,), (1, 2), (3,), (4,)))  # fmt: skip
TRANSLATION = TokenSequence("translation", "the grasshopper sleeps", ("▁the", "▁grass", "hopper", "▁sleeps", "</s>"), ("the", "grasshopper", "sleeps", "</s>"), ((0,), (1, 2), (3,), (4,)))  # fmt: skip

DIAGONAL = np.array(
    [
        [0.90, 0.10, 0.00, 0.00, 0.00],
        [0.00, 0.80, 0.20, 0.00, 0.00],
        [0.00, 0.30, 0.70, 0.00, 0.00],
        [0.00, 0.00, 0.00, 1.00, 0.00],
        [0.00, 0.00, 0.00, 0.25, 0.75],
    ]
)
REVERSED = DIAGONAL[:, ::-1]


def small() -> AttentionMaps:
    """One encoder layer and one cross-attention of two heads: nearly diagonal, and its mirror image."""
    weights = np.stack([DIAGONAL, REVERSED]).astype(np.float32)
    return AttentionMaps(
        SOURCE,
        TRANSLATION,
        {
            "encoder.0.self": Layer(SOURCE, SOURCE, weights),
            "decoder.0.cross": Layer(TRANSLATION, SOURCE, weights),
        },
    )


def with_unknown() -> AttentionMaps:
    """`small` with an unknown piece in the source: hüpfer is read as <unk>."""
    maps = small()
    tokens = ("▁Der", "▁Gras", "<unk>", "▁schläft", "</s>")
    source = TokenSequence(SOURCE.name, SOURCE.text, tokens, SOURCE.words, SOURCE.groups, ((2, "hüpfer"),))
    layers = {
        name: Layer(
            *(source if side is SOURCE else side for side in (layer.queries, layer.keys)), layer.weights
        )
        for name, layer in maps.layers.items()
    }
    return AttentionMaps(source, maps.output, layers)


def of_words(source: str, translation: str) -> AttentionMaps:
    """Any two texts; every word attends to the word in the same position."""
    keys, queries = (
        TokenSequence.of_words(name, text, text.split())
        for name, text in (("source", source), ("translation", translation))
    )
    weights = np.zeros((1, len(queries.tokens), len(keys.tokens)), np.float32)
    for row in range(weights.shape[1]):
        weights[0, row, min(row, weights.shape[2] - 1)] = 1.0
    return AttentionMaps(keys, queries, {"decoder.cross": Layer(queries, keys, weights)})


def random(tokens: int, layers: int, heads: int) -> AttentionMaps:
    """A Transformer's attention maps with random weights."""
    generator = np.random.default_rng(0)
    source, translation = (
        TokenSequence.of_words(name, "", [f"{name}{position}" for position in range(tokens)]) for name in "rw"
    )
    kinds = {
        "encoder.{}.self": (source, source),
        "decoder.{}.self": (translation, translation),
        "decoder.{}.cross": (translation, source),
    }
    maps = {}
    for name, (queries, keys) in kinds.items():
        for number in range(layers):
            scores = np.exp(generator.standard_normal((heads, tokens, tokens), np.float32) * 4)
            maps[name.format(number)] = Layer(queries, keys, scores / scores.sum(-1, keepdims=True))
    return AttentionMaps(source, translation, maps)
