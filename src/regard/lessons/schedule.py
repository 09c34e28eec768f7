"""Why the learning rate rises before it falls: the paper's schedule, and the others, as curves.

rate = factor d_model^-0.5 min(step^-0.5, step warmup^-1.5): linear growth while Adam's averages are
over few batches, then inverse square-root decay (Vaswani et al. 2017, section 5.3).
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from regard.lessons import Table
from regard.training.schedules import Schedule, constant, cosine, inverse_sqrt, linear, noam
from regard.viz.figure import canvas, label, legend, line_style

POINTS = 400
"""Points per curve."""


@dataclass(frozen=True)
class Curve:
    """One schedule: learning rates at sampled steps, and the peak over all steps."""

    name: str
    steps: tuple[int, ...]
    rates: tuple[float, ...]
    second: float
    """Learning rate at step 2."""
    peak: float
    peak_step: int
    last: float
    """Learning rate at the last step."""


@dataclass(frozen=True)
class Schedules:
    """The paper's schedule at several sizes and warm-ups, and the other kinds at the same peak."""

    d_model: int
    warmup: int
    steps: int
    paper: tuple[Curve, ...]
    """The paper's schedule; the first has the given d_model and warm-up."""
    kinds: tuple[Curve, ...]

    def tables(self) -> list[Table]:
        columns = ("schedule", "at step 2", "peak", "at step", f"at step {self.steps}")
        return [
            Table("The paper's schedule", columns, tuple(map(cells, self.paper))),
            Table(f"Every kind, warm-up {self.warmup}", columns, tuple(map(cells, self.kinds))),
        ]

    def finding(self) -> str:
        curve = self.paper[0]
        return (
            f"With d_model {self.d_model} and warm-up {self.warmup} the learning rate is {curve.second:.1e} at "
            f"step 2 and peaks at {curve.peak:.1e} at step {curve.peak_step}: a wider model has a lower one, a "
            "longer warm-up a later and lower peak."
        )

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def compute(d_model: int = 512, warmup: int = 3000, steps: int = 20000) -> Schedules:
    """The paper's schedule around d_model and warm-up, and all kinds at its peak, over `steps` steps."""
    if warmup >= steps:
        raise ValueError(f"the warm-up must end before the last step; warm-up {warmup}, steps {steps}")
    paper = tuple(
        trace(f"d_model {size}, warm-up {rise}", noam(size, rise), steps)
        for size, rise in neighbours(d_model, warmup)
    )
    peak = paper[0].peak
    kinds: dict[str, Schedule] = {
        "noam (the paper's)": noam(d_model, warmup),
        "inverse_sqrt": inverse_sqrt(peak, warmup),
        "constant": constant(peak, warmup),
        "cosine": cosine(peak, warmup, steps),
        "linear": linear(peak, warmup, steps),
    }
    return Schedules(
        d_model, warmup, steps, paper, tuple(trace(name, rate, steps) for name, rate in kinds.items())
    )


def neighbours(d_model: int, warmup: int) -> list[tuple[int, int]]:
    """The given pair, then half and twice of each: (d_model, warm-up)."""
    half_size, half_warmup = max(1, d_model // 2), max(1, warmup // 2)
    others = [(half_size, warmup), (2 * d_model, warmup), (d_model, half_warmup), (d_model, 2 * warmup)]
    return list(dict.fromkeys([(d_model, warmup), *others]))


def trace(name: str, rate: Schedule, steps: int) -> Curve:
    """Evaluate a schedule from step 1 to the last."""
    rates = [rate(step) for step in range(1, steps + 1)]
    peak_step = max(range(steps), key=rates.__getitem__) + 1
    marked = sorted({1, 2, peak_step, steps, *range(1, steps + 1, max(1, steps // POINTS))})
    return Curve(
        name=name,
        steps=tuple(marked),
        rates=tuple(rates[step - 1] for step in marked),
        second=rates[1],
        peak=rates[peak_step - 1],
        peak_step=peak_step,
        last=rates[-1],
    )


def cells(curve: Curve) -> tuple[str, ...]:
    return (
        curve.name,
        rate_text(curve.second),
        rate_text(curve.peak),
        str(curve.peak_step),
        rate_text(curve.last),
    )


def rate_text(rate: float) -> str:
    return f"{rate:.1e}" if rate else "0"


def draw(result: Schedules) -> Figure:
    """The paper's schedule at several sizes and warm-ups, and all kinds of schedules."""
    figure, (paper, kinds) = canvas(2, height=4.4)
    label(paper, "The paper's schedule", "step", "learning rate")
    lines(paper, result.paper)
    label(kinds, f"Every kind at the peak {result.paper[0].peak:.1e}", "step", "learning rate")
    lines(kinds, result.kinds)
    return figure


def lines(axes: Axes, curves: Sequence[Curve]) -> None:
    for index, curve in enumerate(curves):
        # curves that coincide (noam and inverse_sqrt) stay visible: the first is wide, the others dashed
        style = line_style(index, marker=False) | ({"linewidth": 3.0} if index == 0 else {})
        axes.plot(curve.steps, curve.rates, label=curve.name, **style)
    axes.set_ylim(bottom=0)
    axes.ticklabel_format(axis="y", style="sci", scilimits=(0, 0))
    axes.grid(True)
    legend(axes, below=True)
