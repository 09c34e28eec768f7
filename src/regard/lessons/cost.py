"""What a layer costs as the sequence grows: time and memory of one layer, measured on this machine.

Self-attention compares every pair of tokens: its time grows with the square of the length, while a recurrent
layer and a convolution grow with the length (Vaswani et al. 2017, table 1). Time is processor time
of one thread, forward and backward, the best of several runs: wall-clock time would include other processes.
Memory is what the forward pass saves for the backward pass: the bytes of the distinct storages that autograd
saves, without parameters. The plain path saves the n x n weights; the fused one recomputes them, so its memory
is linear in the length.
"""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks

from regard.lessons import Progress, Table
from regard.nn import MultiHead, Recorder, SelfAttention
from regard.training.process import preserved_rng
from regard.viz.figure import canvas, label, line_style

LENGTHS = (128, 256, 512, 1024, 2048, 4096, 8192)
FITTED_LENGTHS = 4
"""Number of longest lengths over which exponents are fitted; fixed costs dominate at shorter ones."""

FIRST_PASS = 0.7
"""Fraction of the time for the first measurements; the rest is for repetitions."""

MAX_ROUNDS = 8
MIN_SECONDS = 0.02
"""Seconds for which a short run is repeated in each round."""

KERNEL = 3
"""Kernel size of the convolution."""


@dataclass(frozen=True)
class ComparedLayer:
    """A layer, (batch, n, d) -> (batch, n, d), with its theoretical costs (Vaswani et al. 2017, table 1)."""

    name: str
    operations: str
    """Complexity per layer."""
    steps: str
    """Number of sequential operations."""
    path: str
    """Maximum path length between two tokens."""
    make: Callable[[int], nn.Module]
    """Builds the layer for a d_model."""


class PlainSelfAttention(nn.Module):
    """Self-attention that computes its weights explicitly, as it does when a recorder collects them."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.attend = single_head_attention(d_model)

    def forward(self, x: Tensor) -> Tensor:
        return cast(Tensor, self.attend(x, record=Recorder().under("plain")))


def single_head_attention(d_model: int) -> SelfAttention:
    """Self-attention with one head; n^2 d operations hold for any number of heads."""
    return SelfAttention(MultiHead(d_model, heads=1))


class Recurrent(nn.Module):
    """An LSTM that returns its outputs only."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(d_model, d_model, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return cast(Tensor, self.lstm(x)[0])


class Convolution(nn.Module):
    """A convolution over the tokens with padding that keeps the length."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.convolve = nn.Conv1d(d_model, d_model, KERNEL, padding=KERNEL // 2)

    def forward(self, x: Tensor) -> Tensor:
        return cast(Tensor, self.convolve(x.transpose(1, 2)).transpose(1, 2))


LAYERS = (
    ComparedLayer("plain attention", "n^2 d", "O(1)", "O(1)", PlainSelfAttention),
    ComparedLayer("fused attention", "n^2 d", "O(1)", "O(1)", single_head_attention),
    ComparedLayer("LSTM", "n d^2", "O(n)", "O(n)", Recurrent),
    ComparedLayer("convolution", "k n d^2", "O(1)", "O(log_k n)", Convolution),
)


@dataclass(frozen=True)
class Series:
    """Measurements of one layer at increasing lengths."""

    layer: ComparedLayer
    lengths: tuple[int, ...]
    seconds: tuple[float, ...]
    """Forward and backward pass, the best of several runs."""
    saved_bytes: tuple[int, ...]
    """Bytes that the forward pass saves for the backward pass."""
    stopped: bool
    """Whether longer lengths were skipped because of the time limit."""

    @property
    def time_exponent(self) -> float:
        return fitted_exponent(self.lengths[-FITTED_LENGTHS:], self.seconds[-FITTED_LENGTHS:])

    @property
    def memory_exponent(self) -> float:
        return fitted_exponent(self.lengths[-FITTED_LENGTHS:], self.saved_bytes[-FITTED_LENGTHS:])


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
                "Memory saved by the forward pass for the backward pass, in MiB",
                ("length", *names),
                tuple(
                    by_length(n, self.series, lambda s, i: f"{s.saved_bytes[i] / 2**20:.2f}") for n in lengths
                ),
            ),
            Table(
                f"Theory, and the exponents of n measured over the {FITTED_LENGTHS} longest lengths",
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
            f"n^{self.series[1].memory_exponent:.1f} for fused attention, which never stores the weights."
            + self.left_out()
        )

    def left_out(self) -> str:
        """A sentence on the series that stopped early, or nothing."""
        short = [f"{s.layer.name} at {s.lengths[-1]}" for s in self.series if s.stopped]
        return f" Within the time limit, these stopped early: {', '.join(short)}." if short else ""

    def as_json(self) -> dict[str, Any]:
        return {
            "d_model": self.d_model,
            "time": "processor seconds of one thread, forward and backward, best of several runs",
            "memory": "bytes of distinct storages saved for the backward pass, without parameters",
            "fitted_over": FITTED_LENGTHS,
            "layers": [
                {
                    "name": series.layer.name,
                    "operations": series.layer.operations,
                    "sequential_steps": series.layer.steps,
                    "longest_path": series.layer.path,
                    "lengths": list(series.lengths),
                    "seconds": list(series.seconds),
                    "bytes": list(series.saved_bytes),
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
    """Measure each layer at each length.

    Args:
        lengths: Sequence lengths, ascending.
        d_model: Size of a token.
        seconds: Approximate time limit for all measurements.
        seed: Seed of the weights and inputs.
        progress: Receives progress messages.
    """
    torch.manual_seed(seed)
    start = time.perf_counter()
    tracks = [Track(layer, layer.make(d_model)) for layer in LAYERS]
    with one_thread():
        # the cheap layers first, so that attention gets the time they leave
        for index, track in enumerate(reversed(tracks)):
            progress(f"{track.layer.name}: lengths {lengths[0]} to {lengths[-1]}")
            remaining = FIRST_PASS * seconds - (time.perf_counter() - start)
            track.grow(lengths, d_model, remaining / (len(tracks) - index))
        repeat_all(tracks, start + seconds, progress)
    return Cost(d_model, tuple(track.series(lengths) for track in tracks))


class Track:
    """Measurements of one layer in progress: first at increasing lengths, then repeated in rounds.

    Repetitions are rounds over all lengths rather than many runs of one, so that other load on the machine does
    not affect all runs of a length.
    """

    def __init__(self, layer: ComparedLayer, module: nn.Module) -> None:
        self.layer, self.module = layer, module
        self.inputs: list[Tensor] = []
        self.seconds: list[float] = []
        self.saved_bytes: list[int] = []

    def grow(self, lengths: Sequence[int], d_model: int, seconds: float) -> None:
        """Measure at increasing lengths: those that the fit needs, then others within `seconds`."""
        deadline = time.perf_counter() + seconds
        step = 0.0  # seconds for the previous length
        for index, length in enumerate(lengths):
            start = time.perf_counter()
            # the work is at most quadratic in the length
            if index >= FITTED_LENGTHS and start + step * (length / lengths[index - 1]) ** 2 > deadline:
                break
            x = torch.randn(1, length, d_model, requires_grad=True)
            self.inputs.append(x)
            self.saved_bytes.append(count_saved_bytes(self.module, x))
            run_once(self.module, x)
            self.seconds.append(best_seconds(self.module, x))
            step = time.perf_counter() - start

    def repeat(self) -> None:
        """Measure the time at every length again and keep the minimum."""
        for index, x in enumerate(self.inputs):
            self.seconds[index] = min(self.seconds[index], best_seconds(self.module, x))

    def series(self, lengths: Sequence[int]) -> Series:
        done = len(self.seconds)
        stopped = done < len(lengths)
        return Series(self.layer, tuple(lengths[:done]), tuple(self.seconds), tuple(self.saved_bytes), stopped)


def repeat_all(tracks: "Sequence[Track]", deadline: float, progress: Progress) -> None:
    """Repeat all measurements while a round fits before the deadline."""
    longest = 0.0
    for count in range(MAX_ROUNDS):
        start = time.perf_counter()
        if start + longest > deadline:
            break
        progress(f"repetition {count + 1} of at most {MAX_ROUNDS}, all layers and lengths")
        for track in tracks:
            track.repeat()
        longest = max(longest, time.perf_counter() - start)


@contextmanager
def one_thread() -> Iterator[None]:
    """Run PyTorch on one thread: threads that wait also consume processor time."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def best_seconds(module: nn.Module, x: Tensor) -> float:
    """The shortest of the runs within MIN_SECONDS seconds; at least one run."""
    start = time.perf_counter()
    best = run_once(module, x)
    while time.perf_counter() - start < MIN_SECONDS:
        best = min(best, run_once(module, x))
    return best


def run_once(module: nn.Module, x: Tensor) -> float:
    """Processor seconds of one forward and backward pass, including the input's gradient."""
    gradient = torch.ones_like(x)
    module.zero_grad()
    x.grad = None
    start = time.process_time()
    module(x).backward(gradient)
    return time.process_time() - start


def count_saved_bytes(module: nn.Module, x: Tensor) -> int:
    """Bytes of the distinct storages that a forward pass saves for the backward pass, without parameters."""
    parameters = {parameter.untyped_storage()._cdata for parameter in module.parameters()}
    saved_bytes: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        # views share a storage; the graph holds all of them until the end, so addresses are unique
        storage = tensor.untyped_storage()
        if storage._cdata not in parameters:
            saved_bytes[storage._cdata] = storage.nbytes()
        return tensor

    with saved_tensors_hooks(keep, lambda tensor: tensor):
        graph = module(x)
    del graph
    return sum(saved_bytes.values())


def fitted_exponent(lengths: Sequence[int], amounts: Sequence[float]) -> float:
    """The a of amount = c length^a, by least squares on the logarithms."""
    x = [math.log(length) for length in lengths]
    y = [math.log(amount) for amount in amounts]
    mean_x, mean_y = sum(x) / len(x), sum(y) / len(y)
    covariance = sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True))
    return covariance / sum((a - mean_x) ** 2 for a in x)


def by_length(length: int, all_series: Sequence[Series], cell: Callable[[Series, int], str]) -> tuple[str, ...]:
    """A table row: one length for every layer, with a dash where a series stopped earlier."""
    values = [
        cell(series, series.lengths.index(length)) if length in series.lengths else "-" for series in all_series
    ]
    return str(length), *values


def exponents(series: Series) -> tuple[str, ...]:
    layer = series.layer
    measured = (f"{series.time_exponent:.2f}", f"{series.memory_exponent:.2f}")
    return layer.name, layer.operations, layer.steps, layer.path, *measured


def draw(result: Cost) -> Figure:
    """Time and memory against length, both axes logarithmic: the exponent is the slope."""
    figure, (seconds, memory) = canvas(2, height=4.2)
    label(seconds, f"Processor time, forward + backward (d_model {result.d_model})", "length n", "ms")
    label(memory, "Memory saved for the backward pass", "length n", "MiB")
    for number, series in enumerate(result.series):
        name = series.layer.name
        milliseconds = [value * 1e3 for value in series.seconds]
        line(seconds, series.lengths, milliseconds, f"{name}: n^{series.time_exponent:.2f}", number)
        mebibytes = [value / 2**20 for value in series.saved_bytes]
        line(memory, series.lengths, mebibytes, f"{name}: n^{series.memory_exponent:.2f}", number)
    lengths = max((series.lengths for series in result.series), key=len)
    for axes in (seconds, memory):
        axes.set_xscale("log", base=2)
        axes.set_xticks(lengths, [str(length) for length in lengths])
        axes.grid(True)
        axes.legend(fontsize=9, frameon=False, handlelength=3)
    return figure


def line(axes: Axes, lengths: Sequence[int], amounts: Sequence[float], name: str, number: int) -> None:
    axes.loglog(lengths, amounts, label=name, **line_style(number))
