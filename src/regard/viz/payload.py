"""Who looked where, whatever the model: named layers, each with those that look and those looked at."""

import html
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from regard.errors import RegardError

FORMAT = "regard.looked"
DIGITS = 4
"""Of a weight, in JSON."""


@dataclass(frozen=True)
class Side:
    """A row of tokens that look or are looked at, and which of them together make a word."""

    name: str
    """What it is, for headings: source, translation, ..."""
    text: str
    tokens: tuple[str, ...]
    words: tuple[str, ...]
    groups: tuple[tuple[int, ...], ...]
    """Places of the tokens of each word; every token is in one word, in order."""

    @classmethod
    def of_words(cls, name: str, text: str, words: Sequence[str]) -> "Side":
        """Tokens that are whole words: each is a word by itself."""
        return cls(name, text, tuple(words), tuple(words), tuple((place,) for place in range(len(words))))

    def in_words(self) -> "Side":
        return Side.of_words(self.name, self.text, self.words)

    @property
    def labels(self) -> list[str]:
        """Tokens as a reader likes them: bare at the start of a word, with a dot before what goes on."""
        found = list(self.tokens)
        for group in self.groups:
            for place in group:
                bare = self.tokens[place].removeprefix("▁").removeprefix("##") or self.tokens[place]
                found[place] = bare if place == group[0] else f"·{bare}"
        return found

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "text": self.text,
            "tokens": list(self.tokens),
            "words": list(self.words),
            "groups": [list(group) for group in self.groups],
        }


@dataclass(frozen=True, eq=False)
class Layer:
    """One attention: weights (heads, left, right) with which the left tokens look at the right ones."""

    left: Side
    right: Side
    weights: np.ndarray

    @property
    def shape(self) -> tuple[int, ...]:
        return self.weights.shape

    def in_words(self) -> "Layer":
        """Subwords joined: what a word gets is summed over its tokens, how it looks is their mean."""
        left, right = ([group[0] for group in side.groups] for side in (self.left, self.right))
        sizes = np.array([len(group) for group in self.left.groups], self.weights.dtype)
        weights = np.add.reduceat(np.add.reduceat(self.weights, right, axis=2), left, axis=1) / sizes[:, None]
        return Layer(self.left.in_words(), self.right.in_words(), weights)


@dataclass(frozen=True, eq=False)
class AttentionMaps:
    """Who looked where while a model read and wrote; it shows itself in a notebook."""

    read: Side
    written: Side
    layers: dict[str, Layer]
    """By name, in the order in which they looked: `encoder.0.self`, `decoder.0.cross`, ..."""

    @property
    def source(self) -> list[str]:
        """The tokens read."""
        return list(self.read.tokens)

    @property
    def target(self) -> list[str]:
        """The tokens written."""
        return list(self.written.tokens)

    @property
    def aligning(self) -> str:
        """The layer that says best which source words a word came from.

        The last cross-attention looks ahead to the next word; the one before it aligns best (Garg et al. 2019).
        """
        cross = [name for name in self.layers if name.endswith("cross")]
        if not self.layers:
            raise RegardError("this model has no attention: there is nothing to look at")
        if not cross:
            raise RegardError("this model writes nothing it could align: it has no cross-attention")
        return cross[max(0, len(cross) - 2)]

    def alignment(self) -> np.ndarray:
        """Which source tokens each target token came from, (target, source): the mean head of that layer."""
        mean: np.ndarray = self.layers[self.aligning].weights.mean(0)
        return mean

    def in_words(self) -> "AttentionMaps":
        """The same with subwords joined into words."""
        layers = {name: layer.in_words() for name, layer in self.layers.items()}
        return AttentionMaps(self.read.in_words(), self.written.in_words(), layers)

    def sides(self) -> list[Side]:
        """Every row of tokens, each once, what was read and written first."""
        every = [self.read, self.written]
        for layer in self.layers.values():
            every += [side for side in (layer.left, layer.right) if side not in every]
        return list(dict.fromkeys(every))

    def as_json(self) -> dict[str, Any]:
        """Plain JSON, weights rounded; layers name their sides by number."""
        sides = self.sides()
        return {
            "format": FORMAT,
            "version": 1,
            "read": sides.index(self.read),
            "written": sides.index(self.written),
            "sides": [side.as_json() for side in sides],
            "layers": {
                name: {
                    "left": sides.index(layer.left),
                    "right": sides.index(layer.right),
                    "weights": np.round(layer.weights.astype(float), DIGITS).tolist(),
                }
                for name, layer in self.layers.items()
            },
        }

    @classmethod
    def from_json(cls, content: Any) -> "AttentionMaps":
        """What `as_json` wrote, each part checked: a file from a stranger is refused with a sentence."""
        try:
            if not isinstance(content, dict) or content.get("format") != FORMAT:
                raise ValueError(f'it has no "format": "{FORMAT}"')
            if content.get("version") != 1:
                raise ValueError(f"its version is {content.get('version')!r}, this regard reads version 1")
            sides = [read_side(side, f"sides[{place}]") for place, side in enumerate(listed(content, "sides"))]
            layers = content.get("layers")
            if not isinstance(layers, dict):
                raise ValueError("its layers are not named")
            return cls(
                chosen(sides, content, "read", "it"),
                chosen(sides, content, "written", "it"),
                {name: read_layer(layer, sides, name) for name, layer in layers.items()},
            )
        except ValueError as problem:
            raise RegardError(f"this is not what `regard look -o looked.json` writes: {problem}") from None

    def _repr_html_(self) -> str:
        from regard.viz.page import page

        # A frame of its own: its style stays in it, and the notebook's out of it.
        return (
            f'<iframe srcdoc="{html.escape(page(self))}" sandbox="allow-scripts" title="Who looked where" '
            'width="100%" height="760" style="border: 0"></iframe>'
        )


def listed(content: dict[str, Any], key: str) -> list[Any]:
    found = content.get(key)
    if not isinstance(found, list):
        raise ValueError(f"its {key} are not a list")
    return found


def chosen(sides: list[Side], content: dict[str, Any], key: str, whose: str) -> Side:
    place = content.get(key)
    if type(place) is not int or not 0 <= place < len(sides):
        raise ValueError(f"{whose}: {key} is {place!r}, which is none of its {len(sides)} sides")
    return sides[place]


def read_side(content: Any, where: str) -> Side:
    if not isinstance(content, dict):
        raise ValueError(f"{where} is no object")
    name, text = content.get("name"), content.get("text")
    if not isinstance(name, str) or not isinstance(text, str):
        raise ValueError(f"{where}: name and text are not both strings")
    tokens, words, groups = (listed(content, key) for key in ("tokens", "words", "groups"))
    if not all(isinstance(one, str) for one in (*tokens, *words)):
        raise ValueError(f"{where}: a token or a word is no string")
    if not all(isinstance(group, list) and all(type(place) is int for place in group) for group in groups):
        raise ValueError(f"{where}: groups are not lists of places")
    if len(groups) != len(words) or not all(groups) or list(flat(groups)) != list(range(len(tokens))):
        raise ValueError(
            f"{where}: groups do not put each of {len(tokens)} tokens into one of {len(words)} words"
        )
    return Side(name, text, tuple(tokens), tuple(words), tuple(tuple(group) for group in groups))


def flat(groups: list[list[int]]) -> Iterator[int]:
    return (place for group in groups for place in group)


def read_layer(content: Any, sides: list[Side], name: str) -> Layer:
    if not isinstance(content, dict):
        raise ValueError(f"the layer {name!r} is no object")
    left, right = (chosen(sides, content, key, f"the layer {name!r}") for key in ("left", "right"))
    try:
        weights = np.array(content.get("weights"), dtype=np.float32)
    except (ValueError, TypeError, OverflowError):
        raise ValueError(f"the layer {name!r} has weights that are no array of numbers") from None
    wanted = len(left.tokens), len(right.tokens)
    if weights.ndim != 3 or not len(weights) or weights.shape[1:] != wanted:
        raise ValueError(
            f"the layer {name!r} has weights of shape {weights.shape}, not (heads, {wanted[0]}, {wanted[1]})"
        )
    if not (np.isfinite(weights) & (weights >= 0) & (weights <= 1 + 10**-DIGITS)).all():
        raise ValueError(f"the layer {name!r} has weights that are not between 0 and 1")
    return Layer(left, right, weights)
