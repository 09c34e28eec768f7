"""Keys and values already computed, so that a decoder's step costs one token, not the whole prefix."""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class KeyValue:
    """What attention looks at: prepared keys and their values, (batch, heads, key, size) each."""

    keys: Tensor
    values: Tensor
    positions: Tensor  # (key,): where each key stands

    @property
    def length(self) -> int:
        return self.keys.size(-2)

    def select(self, rows: Tensor) -> "KeyValue":
        """The sentences `rows` of the batch, in that order; repeats allowed."""
        return KeyValue(self.keys.index_select(0, rows), self.values.index_select(0, rows), self.positions)


class KvCache:
    """A growing memory for one attention layer: append with `extend`, reorder with `select`.

    Room is taken in advance and doubled when full; new keys are written in place. It is for decoding: a
    cache that had to remember gradients would be the full pass, so it refuses them.
    """

    def __init__(self, room: int = 64) -> None:
        self.length = 0
        self._room = max(1, room)
        self._keys: Tensor | None = None
        self._values: Tensor | None = None

    def extend(self, new: KeyValue) -> KeyValue:
        """Append and return everything remembered so far (views, not copies)."""
        if new.keys.requires_grad or new.values.requires_grad:
            raise ValueError("a cache keeps no gradients: decode under torch.no_grad(), or train without one")
        start, end = self.length, self.length + new.length
        self._check_place(new.positions)
        self._check_sentences(new.keys.size(0))
        if self._keys is None or self._values is None or end > self._keys.size(-2):
            self._grow(new, end)
        assert self._keys is not None
        assert self._values is not None
        self._keys[..., start:end, :] = new.keys
        self._values[..., start:end, :] = new.values
        self.length = end
        return KeyValue(
            self._keys[..., :end, :],
            self._values[..., :end, :],
            torch.arange(end, device=new.keys.device),
        )

    def select(self, rows: Tensor) -> "KvCache":
        """A cache with the sentences `rows` of this one, in that order; repeats allowed."""
        chosen = KvCache(self._room)
        chosen.length = self.length
        if self._keys is not None and self._values is not None:
            chosen._keys = self._keys.index_select(0, rows)
            chosen._values = self._values.index_select(0, rows)
        return chosen

    def _check_place(self, positions: Tensor) -> None:
        # Not on a GPU: reading a number from there would make every step wait.
        if positions.device.type == "cpu" and len(positions) and int(positions[0]) != self.length:
            raise ValueError(
                f"the cache holds {self.length} places, so the next key stands at {self.length}, not at "
                f"{int(positions[0])}; pass the cache to `project_kv` and it counts on"
            )

    def _check_sentences(self, sentences: int) -> None:
        if self._keys is not None and self._keys.size(0) != sentences:
            raise ValueError(
                f"the cache holds {self._keys.size(0)} sentences, the new keys are of {sentences}; "
                "choose the rows that go on with `select`"
            )

    def _grow(self, new: KeyValue, needed: int) -> None:
        while self._room < needed:
            self._room *= 2
        old_keys, old_values = self._keys, self._values
        self._keys = new.keys.new_empty(*new.keys.shape[:-2], self._room, new.keys.size(-1))
        self._values = new.values.new_empty(*new.values.shape[:-2], self._room, new.values.size(-1))
        if old_keys is not None and old_values is not None:
            self._keys[..., : self.length, :] = old_keys[..., : self.length, :]
            self._values[..., : self.length, :] = old_values[..., : self.length, :]
