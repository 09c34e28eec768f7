"""Attention weights of any model: named layers, each with query tokens, key tokens and weights per head."""

import html
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from regard.errors import RegardError

FORMAT = "regard.looked"
"""Value of the "format" key of the JSON."""
DIGITS = 4
"""Decimal digits of a weight in JSON."""


@dataclass(frozen=True)
class TokenSequence:
    """Tokens as queries or keys, and which of them form a word."""

    name: str
    """Heading: source, translation, ..."""
    text: str
    tokens: tuple[str, ...]
    words: tuple[str, ...]
    groups: tuple[tuple[int, ...], ...]
    """Token positions of each word; every token belongs to one word, in order."""
    unknown: tuple[tuple[int, str], ...] = ()
    """Positions of the unknown tokens, and their spelling in the text."""

    @classmethod
    def of_words(
        cls, name: str, text: str, words: Sequence[str], unknown: tuple[tuple[int, str], ...] = ()
    ) -> "TokenSequence":
        """Tokens that are whole words."""
        groups = tuple((position,) for position in range(len(words)))
        return cls(name, text, tuple(words), tuple(words), groups, unknown)

    def in_words(self) -> "TokenSequence":
        spellings = dict(self.unknown)
        unknown = tuple(
            (index, self.words[index])
            for index, group in enumerate(self.groups)
            if any(position in spellings for position in group)
        )
        return TokenSequence.of_words(self.name, self.text, self.words, unknown)

    @property
    def labels(self) -> list[str]:
        """Tokens for display: without subword markers, with a dot before tokens that continue a word.

        An unknown token is displayed as it is spelled in the text.
        """
        labels, spellings = list(self.tokens), dict(self.unknown)
        for group in self.groups:
            for position in group:
                token = spellings.get(position, self.tokens[position])
                bare = token.removeprefix("▁").removeprefix("##") or token
                labels[position] = bare if position == group[0] else f"·{bare}"
        return labels

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "text": self.text,
            "tokens": list(self.tokens),
            "words": list(self.words),
            "groups": [list(group) for group in self.groups],
            "unknown": [list(spelling) for spelling in self.unknown],
        }


@dataclass(frozen=True, eq=False)
class Layer:
    """Attention weights (heads, queries, keys) of one layer."""

    queries: TokenSequence
    keys: TokenSequence
    weights: np.ndarray

    @property
    def shape(self) -> tuple[int, ...]:
        return self.weights.shape

    def in_words(self) -> "Layer":
        """Subwords joined into words: the sum over the key tokens of a word, the mean over its query tokens."""
        queries, keys = ([group[0] for group in tokens.groups] for tokens in (self.queries, self.keys))
        sizes = np.array([len(group) for group in self.queries.groups], self.weights.dtype)
        weights = np.add.reduceat(np.add.reduceat(self.weights, keys, axis=2), queries, axis=1) / sizes[:, None]
        return Layer(self.queries.in_words(), self.keys.in_words(), weights)


@dataclass(frozen=True, eq=False)
class AttentionMaps:
    """Attention weights of all layers for one input; displays as an interactive page in notebooks."""

    input: TokenSequence
    output: TokenSequence
    """The generated or forced tokens; the input again for a model that writes none."""
    layers: dict[str, Layer]
    """By name, in order of computation: `encoder.0.self`, `decoder.0.cross`, ..."""

    @property
    def source(self) -> list[str]:
        """The input tokens."""
        return list(self.input.tokens)

    @property
    def target(self) -> list[str]:
        """The output tokens."""
        return list(self.output.tokens)

    @property
    def alignment_layer(self) -> str:
        """The cross-attention layer that aligns source and target words best: the last but one.

        The last one already attends to the source of the next word (Garg et al. 2019).
        """
        cross = [name for name in self.layers if name.endswith("cross")]
        if not self.layers:
            raise RegardError("this model has no attention weights to show")
        if not cross:
            raise RegardError("this model has no cross-attention, so there is no alignment")
        return cross[max(0, len(cross) - 2)]

    def alignment(self) -> np.ndarray:
        """Soft word alignment (target, source): the mean over the heads of the alignment layer."""
        mean: np.ndarray = self.layers[self.alignment_layer].weights.mean(0)
        return mean

    def in_words(self) -> "AttentionMaps":
        """The same maps with subwords joined into words."""
        layers = {name: layer.in_words() for name, layer in self.layers.items()}
        return AttentionMaps(self.input.in_words(), self.output.in_words(), layers)

    def token_sequences(self) -> list[TokenSequence]:
        """All distinct token sequences, input and output first."""
        sequences = [self.input, self.output]
        for layer in self.layers.values():
            sequences += [layer.queries, layer.keys]
        return list(dict.fromkeys(sequences))

    def as_json(self) -> dict[str, Any]:
        """JSON with rounded weights; layers refer to token sequences by index."""
        sequences = self.token_sequences()
        return {
            "format": FORMAT,
            "version": 1,
            "read": sequences.index(self.input),
            "written": sequences.index(self.output),
            "sides": [tokens.as_json() for tokens in sequences],
            "layers": {
                name: {
                    "left": sequences.index(layer.queries),
                    "right": sequences.index(layer.keys),
                    "weights": np.round(layer.weights.astype(float), DIGITS).tolist(),
                }
                for name, layer in self.layers.items()
            },
        }

    @classmethod
    def from_json(cls, content: Any) -> "AttentionMaps":
        """Reads what `as_json` returned; every part is checked, so that untrusted files are safe.

        Raises:
            RegardError: if the content is not in this format; the message names the first mistake.
        """
        try:
            if not isinstance(content, dict) or content.get("format") != FORMAT:
                raise ValueError(f'"format" is not "{FORMAT}"')
            if content.get("version") != 1:
                raise ValueError(f"version is {content.get('version')!r}; this release reads version 1")
            sequences = [
                _read_tokens(item, f"sides[{index}]") for index, item in enumerate(_list_at(content, "sides"))
            ]
            layers = content.get("layers")
            if not isinstance(layers, dict):
                raise ValueError("layers is not an object")
            return cls(
                _sequence_at(sequences, content, "read"),
                _sequence_at(sequences, content, "written"),
                {name: _read_layer(layer, sequences, f"layers[{name!r}]") for name, layer in layers.items()},
            )
        except ValueError as error:
            raise RegardError(f"not an attention file written by `regard look -o FILE.json`: {error}") from None

    def _repr_html_(self) -> str:
        from regard.viz.html_page import attention_page

        # In an iframe, the styles of page and notebook do not affect each other.
        return (
            f'<iframe srcdoc="{html.escape(attention_page(self))}" sandbox="allow-scripts" title="Attention" '
            'width="100%" height="760" style="border: 0"></iframe>'
        )


def _list_at(content: dict[str, Any], key: str, where: str = "") -> list[Any]:
    value = content.get(key)
    if not isinstance(value, list):
        raise ValueError(f"{where}{': ' if where else ''}{key} is not a list")
    return value


def _sequence_at(
    sequences: list[TokenSequence], content: dict[str, Any], key: str, where: str = ""
) -> TokenSequence:
    index = content.get(key)
    if type(index) is not int or not 0 <= index < len(sequences):
        raise ValueError(
            f"{where}{': ' if where else ''}{key} is {index!r}, not an index into {len(sequences)} sides"
        )
    return sequences[index]


def _read_tokens(content: Any, where: str) -> TokenSequence:
    if not isinstance(content, dict):
        raise ValueError(f"{where} is not an object")
    name, text = content.get("name"), content.get("text")
    if not isinstance(name, str) or not isinstance(text, str):
        raise ValueError(f"{where}: name and text are not both strings")
    tokens, words, groups = (_list_at(content, key, where) for key in ("tokens", "words", "groups"))
    if not all(isinstance(item, str) for item in (*tokens, *words)):
        raise ValueError(f"{where}: a token or a word is not a string")
    if not all(isinstance(group, list) and all(type(index) is int for index in group) for group in groups):
        raise ValueError(f"{where}: groups are not lists of positions")
    if len(groups) != len(words) or not all(groups) or list(_flatten(groups)) != list(range(len(tokens))):
        raise ValueError(
            f"{where}: groups do not put each of {len(tokens)} tokens into one of {len(words)} words"
        )
    unknown = _list_at(content, "unknown", where) if "unknown" in content else []  # absent in older files
    if not all(
        isinstance(item, list)
        and len(item) == 2
        and type(item[0]) is int
        and 0 <= item[0] < len(tokens)
        and isinstance(item[1], str)
        for item in unknown
    ):
        raise ValueError(f"{where}: unknown tokens are not pairs of a position and a spelling")
    return TokenSequence(
        name,
        text,
        tuple(tokens),
        tuple(words),
        tuple(map(tuple, groups)),
        tuple((position, spelling) for position, spelling in unknown),
    )


def _flatten(groups: list[list[int]]) -> Iterator[int]:
    return (position for group in groups for position in group)


def _read_layer(content: Any, sequences: list[TokenSequence], where: str) -> Layer:
    if not isinstance(content, dict):
        raise ValueError(f"{where} is not an object")
    queries, keys = (_sequence_at(sequences, content, key, where) for key in ("left", "right"))
    try:
        weights = np.array(content.get("weights"), dtype=np.float32)
    except (ValueError, TypeError, OverflowError):
        raise ValueError(f"{where}: weights are not an array of numbers") from None
    expected = len(queries.tokens), len(keys.tokens)
    if weights.ndim != 3 or not len(weights) or weights.shape[1:] != expected:
        raise ValueError(
            f"{where}: weights have the shape {weights.shape}, expected (heads, {expected[0]}, {expected[1]})"
        )
    if not (np.isfinite(weights) & (weights >= 0) & (weights <= 1 + 10**-DIGITS)).all():
        raise ValueError(f"{where}: weights are not between 0 and 1")
    return Layer(queries, keys, weights)
