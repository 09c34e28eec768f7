"""KV cache: keys and values of earlier tokens, so that a decoding step computes only the new token."""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class KeyValue:
    """Prepared keys and their values, (batch, heads, key, size) each."""

    keys: Tensor
    values: Tensor
    positions: Tensor  # (key,): position of each key

    @property
    def length(self) -> int:
        return self.keys.size(-2)

    def select(self, rows: Tensor) -> "KeyValue":
        """The sequences `rows` of the batch, in that order; repeats allowed."""
        return KeyValue(self.keys.index_select(0, rows), self.values.index_select(0, rows), self.positions)


@dataclass
class _Buffer:
    """Memory for keys and values (batch, heads, capacity, size), shared by a cache and its extensions."""

    keys: Tensor
    values: Tensor
    written: int


@dataclass(frozen=True)
class KvCache:
    """Keys and values of the tokens so far, for one attention layer.

    `extend` returns a new cache; this one stays valid and may be extended again, by other tokens. A step copies
    no prefix: a cache writes after its end in a shared buffer, unless another branch has done so already. A
    cache is for decoding: tensors that need gradients are refused.
    """

    length: int = 0
    capacity: int = 64
    """Number of tokens that a new buffer holds; doubled when full."""
    _buffer: _Buffer | None = None

    @property
    def memory(self) -> KeyValue:
        """All keys and values, as views: for `Attention.forward`."""
        if self._buffer is None:
            raise ValueError("the cache is empty; extend it first")
        keys, values = (x[..., : self.length, :] for x in (self._buffer.keys, self._buffer.values))
        return KeyValue(keys, values, torch.arange(self.length, device=keys.device))

    def extend(self, new: KeyValue) -> "KvCache":
        """A cache with these keys and values appended.

        Raises:
            ValueError: The keys have a gradient, another batch size, or do not start at position `length`.
        """
        if new.keys.requires_grad or new.values.requires_grad:
            raise ValueError(
                "a KV cache stores no gradients; decode under torch.no_grad(), or train without a cache"
            )
        self._check_position(new.positions)
        self._check_batch(new.keys.size(0))
        end = self.length + new.length
        buffer, capacity = self._buffer, max(1, self.capacity)
        while capacity < end:
            capacity *= 2
        if buffer is None or buffer.written != self.length or end > buffer.keys.size(-2):
            buffer = self._copy_buffer(new, capacity)
        buffer.keys[..., self.length : end, :] = new.keys
        buffer.values[..., self.length : end, :] = new.values
        buffer.written = end
        return KvCache(end, capacity, buffer)

    def select(self, rows: Tensor) -> "KvCache":
        """A cache with the sequences `rows` of this one, in that order; repeats allowed."""
        if self._buffer is None:
            return self
        keys, values = (x.new_empty(len(rows), *x.shape[1:]) for x in (self._buffer.keys, self._buffer.values))
        keys[..., : self.length, :] = self._buffer.keys[..., : self.length, :].index_select(0, rows)
        values[..., : self.length, :] = self._buffer.values[..., : self.length, :].index_select(0, rows)
        return KvCache(self.length, self.capacity, _Buffer(keys, values, self.length))

    def _copy_buffer(self, new: KeyValue, capacity: int) -> _Buffer:
        """A new buffer with the contents of this cache."""
        keys, values = (x.new_empty(*x.shape[:-2], capacity, x.size(-1)) for x in (new.keys, new.values))
        if self._buffer is not None:
            keys[..., : self.length, :] = self._buffer.keys[..., : self.length, :]
            values[..., : self.length, :] = self._buffer.values[..., : self.length, :]
        return _Buffer(keys, values, self.length)

    def _check_position(self, positions: Tensor) -> None:
        # On the CPU only: reading a number from an accelerator would synchronize at every step.
        if positions.device.type == "cpu" and len(positions) and int(positions[0]) != self.length:
            raise ValueError(
                f"the cache holds {self.length} positions, so the next key has position {self.length}, not "
                f"{int(positions[0])}; pass start=cache.length to `project_kv`"
            )

    def _check_batch(self, sequences: int) -> None:
        if self._buffer is not None and self._buffer.keys.size(0) != sequences:
            raise ValueError(
                f"the cache holds {self._buffer.keys.size(0)} sequences, the new keys are of {sequences}; "
                "choose the sequences that continue with `select`"
            )


class KvCacheStep:
    """The cache of one layer during one decoding step; `extend` replaces `cache` by the extended one."""

    def __init__(self, cache: KvCache) -> None:
        self.cache = cache

    @property
    def length(self) -> int:
        return self.cache.length

    def extend(self, new: KeyValue) -> KeyValue:
        """Append keys and values; returns all of them."""
        self.cache = self.cache.extend(new)
        return self.cache.memory
