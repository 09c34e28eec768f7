"""Recorder of attention weights, by layer: passed to a forward pass, never stored on a module."""

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor


class Recorder:
    """Collects attention weights under names such as `decoder.2.cross`.

    `under` returns a view that extends the name; a layer calls it with the weights that it used. Consecutive
    decoding steps under one name are concatenated along the query axis.
    """

    def __init__(self) -> None:
        self._steps: dict[str, list[Tensor]] = {}
        self._name = ""

    def under(self, part: str | int) -> "Recorder":
        """A view of this recorder, one level deeper: `record.under("decoder").under(2)`."""
        view = Recorder()
        view._steps = self._steps
        view._name = f"{self._name}.{part}" if self._name else str(part)
        return view

    def __call__(self, weights: Tensor) -> None:
        """Record weights (batch, heads, query, key) under this view's name."""
        if not self._name:
            raise ValueError("a recorder stores weights under a name; use recorder.under(name)")
        self._steps.setdefault(self._name, []).append(weights.detach())

    @property
    def names(self) -> list[str]:
        """The recorded layers, in the order of computation."""
        return list(self._steps)

    def __getitem__(self, name: str) -> Tensor:
        """The weights of one layer: (batch, heads, query, key)."""
        if name not in self._steps:
            recorded = ", ".join(self.names) or "none"
            raise KeyError(f"no attention was recorded as {name!r}; recorded: {recorded}")
        steps = self._steps[name]
        keys = max(step.size(-1) for step in steps)
        # An earlier step had fewer keys: later keys have weight 0 in it.
        padded = [torch.nn.functional.pad(step, (0, keys - step.size(-1))) for step in steps]
        return torch.cat(padded, dim=-2)

    def __contains__(self, name: object) -> bool:
        return name in self._steps

    def numpy(self) -> dict[str, np.ndarray]:
        """Arrays (batch, query, key) of every head, by its full name such as `decoder.2.cross.head3`."""
        return {
            f"{name}.head{head}": weights[:, head].float().cpu().numpy()
            for name, weights in self.items()
            for head in range(weights.size(1))
        }

    def items(self) -> Iterator[tuple[str, Tensor]]:
        """Name and weights of each layer."""
        return ((name, self[name]) for name in self.names)

    def __repr__(self) -> str:
        shapes = (f"{name} {tuple(weights.shape)}" for name, weights in self.items())
        return f"Recorder({'; '.join(shapes)})"
