"""What a layer costs as the sequence grows: time and memory of one layer, measured on this machine.

Self-attention compares every pair of tokens: its time grows with the square of the length, while a recurrent
layer and a convolution grow with the length (Vaswani et al. 2017, table 1). Time is processor time
of one thread, forward and backward, the best of several runs: by the clock on the wall, whoever else uses
the machine would be measured too. Memory is what the forward pass keeps for the backward pass: the bytes of
the distinct storages that autograd saves, parameters apart. The plain path keeps the n x n weights; the fused
one computes them again, so its memory grows with the length alone.
"""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks

from regard.lessons.layers_compared import COMPARED, Compared
from regard.lessons.lesson import Progress, Table
from regard.training.process import preserved_rng
from regard.viz.figure import canvas, label

LENGTHS = (128, 256, 512, 1024, 2048, 4096, 8192)
UPPER = 4
"""The exponents are fitted over this many of the longest lengths: shorter ones show fixed costs."""

GROWING = 0.7
"""The share of the time for growing; the rest is for measuring again."""

MOST_ROUNDS = 8
MOMENT = 0.02
"""Seconds: a short run is repeated for so long in each round."""


@dataclass(frozen=True)
class Series:
    """One kind of layer at growing lengths."""

    layer: Compared
    lengths: tuple[int, ...]
    seconds: tuple[float, ...]
    """Forward and backward, the best of several runs."""
    kept: tuple[int, ...]
    """Bytes the forward pass keeps for the backward pass."""
    stopped: bool
    """Whether longer lengths were left out because they would have taken too long."""

    @property
    def time_exponent(self) -> float:
        return fitted_exponent(self.lengths[-UPPER:], self.seconds[-UPPER:])

    @property
    def memory_exponent(self) -> float:
        return fitted_exponent(self.lengths[-UPPER:], self.kept[-UPPER:])


@dataclass(frozen=True)
class Cost:
    """Time and memory of each layer against length."""

    d_model: int
    series: tuple[Series, ...]

    def tables(self) -> list[Table]:
        lengths = max((series.lengths for series in self.series), key=len)
        names = tuple(series.layer.name for series in self.series)
        return [
            Table(
                f"Processor time, forward + backward, in ms (d_model {self.d_model}, batch 1, one thread)",
                ("length", *names),
                tuple(by_length(n, self.series, lambda s, i: f"{s.seconds[i] * 1e3:.2f}") for n in lengths),
            ),
            Table(
                "Memory, kept by the forward pass for the backward pass, in MiB",
                ("length", *names),
                tuple(by_length(n, self.series, lambda s, i: f"{s.kept[i] / 2**20:.2f}") for n in lengths),
            ),
            Table(
                f"By the book, and the exponents of n measured over the {UPPER} longest lengths",
                ("layer", "operations", "steps", "path", "n^time", "n^memory"),
                tuple(map(exponents, self.series)),
            ),
        ]

    def finding(self) -> str:
        attention, *_, recurrent, convolution = self.series
        return (
            f"Time grows as n^{attention.time_exponent:.1f} for plain self-attention, "
            f"n^{recurrent.time_exponent:.1f} for the LSTM and n^{convolution.time_exponent:.1f} for the "
            f"convolution; memory as n^{attention.memory_exponent:.1f} for plain attention and "
            f"n^{self.series[1].memory_exponent:.1f} for fused attention, which never writes the weights down."
            + self.left_out()
        )

    def left_out(self) -> str:
        """Which series ended early, if any."""
        short = [f"{s.layer.name} at {s.lengths[-1]}" for s in self.series if s.stopped]
        return f" To keep to the time, these stopped early: {', '.join(short)}." if short else ""

    def as_json(self) -> dict[str, Any]:
        return {
            "d_model": self.d_model,
            "time": "processor seconds of one thread, forward and backward, best of several runs",
            "memory": "bytes of distinct storages kept for the backward pass, parameters apart",
            "fitted_over": UPPER,
            "layers": [
                {
                    "name": series.layer.name,
                    "operations": series.layer.operations,
                    "sequential_steps": series.layer.steps,
                    "longest_path": series.layer.path,
                    "lengths": list(series.lengths),
                    "seconds": list(series.seconds),
                    "bytes": list(series.kept),
                    "time_exponent": series.time_exponent,
                    "memory_exponent": series.memory_exponent,
                    "stopped_early": series.stopped,
                }
                for series in self.series
            ],
        }


@preserved_rng()
def measure(
    lengths: Sequence[int] = LENGTHS,
    *,
    d_model: int = 64,
    seconds: float = 40.0,
    seed: int = 0,
    progress: Progress = lambda line: None,
) -> Cost:
    """Run each layer at each length; `seconds` is about what all of it may take together."""
    torch.manual_seed(seed)
    start = time.perf_counter()
    tracks = [Track(layer, layer.make(d_model)) for layer in COMPARED]
    with one_thread():
        for index, track in enumerate(
            reversed(tracks)
        ):  # the cheap ones first: what they spare, attention gets
            progress(f"{track.layer.name}: lengths {lengths[0]} to {lengths[-1]}")
            left = GROWING * seconds - (time.perf_counter() - start)
            track.grow(lengths, d_model, left / (len(tracks) - index))
        repeat_all(tracks, start + seconds, progress)
    return Cost(d_model, tuple(track.series(lengths) for track in tracks))


class Track:
    """The measurements of one layer while they are made: first longer and longer, then again and again.

    Rounds over all lengths, not many runs of one: when somebody else uses the machine for a while, every
    length still has rounds before and after.
    """

    def __init__(self, layer: Compared, module: nn.Module) -> None:
        self.layer, self.module = layer, module
        self.inputs: list[Tensor] = []
        self.seconds: list[float] = []
        self.kept: list[int] = []

    def grow(self, lengths: Sequence[int], d_model: int, seconds: float) -> None:
        """Measure at growing lengths: those a fit needs, then as long as the next will fit into `seconds`."""
        deadline = time.perf_counter() + seconds
        step = 0.0  # what the length before took, all in all
        for index, length in enumerate(lengths):
            start = time.perf_counter()
            # The work grows as the square at worst.
            if index >= UPPER and start + step * (length / lengths[index - 1]) ** 2 > deadline:
                break
            x = torch.randn(1, length, d_model, requires_grad=True)
            self.inputs.append(x)
            self.kept.append(bytes_kept(self.module, x))
            run_once(self.module, x)
            self.seconds.append(best_seconds(self.module, x))
            step = time.perf_counter() - start

    def repeat(self) -> None:
        """Measure the time of every length again and keep the better one."""
        for index, x in enumerate(self.inputs):
            self.seconds[index] = min(self.seconds[index], best_seconds(self.module, x))

    def series(self, lengths: Sequence[int]) -> Series:
        done = len(self.seconds)
        stopped = done < len(lengths)
        return Series(self.layer, tuple(lengths[:done]), tuple(self.seconds), tuple(self.kept), stopped)


def repeat_all(tracks: "Sequence[Track]", deadline: float, progress: Progress) -> None:
    """Measure every layer and length once more, and again, as long as a round fits in before the deadline."""
    longest = 0.0
    for count in range(MOST_ROUNDS):
        start = time.perf_counter()
        if start + longest > deadline:
            break
        progress(f"every layer and length once more ({count + 1} of {MOST_ROUNDS}); the best time counts")
        for track in tracks:
            track.repeat()
        longest = max(longest, time.perf_counter() - start)


@contextmanager
def one_thread() -> Iterator[None]:
    """Let PyTorch compute on one thread for a while: threads that wait for each other burn time as well."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def best_seconds(module: nn.Module, x: Tensor) -> float:
    """The shortest of the runs that fit into a moment, or of the one that does not."""
    start = time.perf_counter()
    best = run_once(module, x)
    while time.perf_counter() - start < MOMENT:
        best = min(best, run_once(module, x))
    return best


def run_once(module: nn.Module, x: Tensor) -> float:
    """Processor seconds of one pass forward and backward, down to the input."""
    gradient = torch.ones_like(x)
    module.zero_grad()
    x.grad = None
    start = time.process_time()
    module(x).backward(gradient)
    return time.process_time() - start


def bytes_kept(module: nn.Module, x: Tensor) -> int:
    """Bytes of the distinct storages that a forward pass saves for the backward pass, parameters apart."""
    parameters = {parameter.untyped_storage()._cdata for parameter in module.parameters()}
    kept: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        # Views share a storage; the graph holds every one until the end, so no address comes twice.
        storage = tensor.untyped_storage()
        if storage._cdata not in parameters:
            kept[storage._cdata] = storage.nbytes()
        return tensor

    with saved_tensors_hooks(keep, lambda tensor: tensor):
        graph = module(x)
    del graph
    return sum(kept.values())


def fitted_exponent(lengths: Sequence[int], amounts: Sequence[float]) -> float:
    """The a of amount = c length^a, by least squares on the logarithms."""
    x = [math.log(length) for length in lengths]
    y = [math.log(amount) for amount in amounts]
    middle_x, middle_y = sum(x) / len(x), sum(y) / len(y)
    together = sum((one - middle_x) * (other - middle_y) for one, other in zip(x, y, strict=True))
    return together / sum((one - middle_x) ** 2 for one in x)


def by_length(length: int, every: Sequence[Series], cell: Callable[[Series, int], str]) -> tuple[str, ...]:
    """A table's row: one length, every layer; a dash where a series had stopped."""
    found = [
        cell(series, series.lengths.index(length)) if length in series.lengths else "-" for series in every
    ]
    return str(length), *found


def exponents(series: Series) -> tuple[str, ...]:
    layer = series.layer
    measured = (f"{series.time_exponent:.2f}", f"{series.memory_exponent:.2f}")
    return layer.name, layer.operations, layer.steps, layer.path, *measured


def draw(result: Cost) -> Figure:
    """Time and memory against length, both axes logarithmic: the exponent is the slope."""
    figure, (seconds, memory) = canvas(2, height=4.2)
    label(seconds, f"Processor time, forward + backward (d_model {result.d_model})", "length n", "ms")
    label(memory, "Memory kept for the backward pass", "length n", "MiB")
    for series in result.series:
        name = series.layer.name
        milliseconds = [value * 1e3 for value in series.seconds]
        line(seconds, series.lengths, milliseconds, f"{name}: n^{series.time_exponent:.2f}")
        mebibytes = [value / 2**20 for value in series.kept]
        line(memory, series.lengths, mebibytes, f"{name}: n^{series.memory_exponent:.2f}")
    lengths = max((series.lengths for series in result.series), key=len)
    for axes in (seconds, memory):
        axes.set_xscale("log", base=2)
        axes.set_xticks(lengths, [str(length) for length in lengths])
        axes.grid(True)
        axes.legend(fontsize=9, frameon=False)
    return figure


def line(axes: Axes, lengths: Sequence[int], amounts: Sequence[float], name: str) -> None:
    axes.loglog(lengths, amounts, marker="o", markersize=4, label=name)
