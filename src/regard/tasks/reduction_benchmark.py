"""Break-even of token reduction for a run: score, speed, operations, memory, and the break-even length."""

import contextlib
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor

from regard.config.models import BertConfig, VitConfig
from regard.engine.allocator import tuned_allocator
from regard.engine.forward import encode
from regard.nn import Merging, Pruning, TokenCounts, matmul_flops
from regard.nn.bert import Bert
from regard.nn.vit import Vit
from regard.tasks import load
from regard.tasks.timing import speedup, timed_rounds

REMOVED_SHARES = (0.0, 0.2, 0.35, 0.5, 0.65, 0.8)
"""Shares of the tokens that are removed before the last layer."""
THRESHOLDS = (0.3, 0.5, 0.7, 0.9)
"""Pruning thresholds for a run without learned ones, as multiples of the uniform share of attention."""
THRESHOLD_FACTORS = (0.5, 0.75, 1.0, 1.2)
"""Factors of the learned pruning thresholds, for a run that has them."""
LENGTHS = (16, 32, 64, 128, 256, 512)
"""Lengths at which merging half of the tokens is timed."""
QUICK_EXAMPLES = 500
"""Examples that are measured with --quick."""
BATCH_TOKENS = 4096
"""Tokens that are computed together in a timed forward pass."""
MIN_SECONDS = 0.2
"""Least duration of a workload in a round."""

Log = Callable[[str], object]
Reduction = Merging | Pruning


class ReductionCase(Protocol):
    """A loaded model and the examples on which token reduction is measured."""

    score_name: str
    examples: int
    length: float
    """Mean number of tokens of an example."""
    timed: int
    """Examples in a timed forward pass."""
    first_only: bool
    """Whether only the first token is read after the last layer."""
    neighbours_only: bool
    """Whether a token is merged only with its neighbours."""

    @property
    def body(self) -> Bert | Vit:
        """The network whose tokens are reduced."""

    @property
    def config(self) -> BertConfig | VitConfig: ...

    def score(self, reduction: Reduction) -> float:
        """The model's score with reduced tokens."""

    def run(self, reduction: Reduction) -> object:
        """The timed forward pass."""

    def token_counts(self, reduction: Reduction) -> TokenCounts:
        """Tokens of each example after each block."""

    def tokens(self) -> Tensor:
        """Embedded tokens of real examples, (tokens, d_model)."""


def evenly_spaced(count: int, limit: int) -> slice:
    """About `limit` of `count` examples, evenly spaced; 0 means all."""
    return slice(None, None, max(1, -(-count // limit)) if limit else 1)


def set_reduction(body: Bert | Vit, reduction: Reduction) -> None:
    """Set the reduction of a model; merging nothing is the plain forward pass, the reference of the others."""
    nothing = isinstance(reduction, Merging) and not any(reduction.amounts)
    body.reduction = None if nothing else reduction


@dataclass(frozen=True)
class ReductionLevel:
    """Measurements at one amount of reduction."""

    how: str
    """The method and its amount."""
    amounts: tuple[float, ...]
    """For each layer: the share merged, or the threshold."""
    tokens: float
    """Share of the tokens that reach the last layer."""
    score: float
    lost: float
    """Difference of the score to that with all tokens."""
    speed: float
    """Examples per second."""
    times: float
    """Median over the rounds of this speed / the speed with all tokens."""
    operations: float
    """Share of the operations with all tokens."""
    memory: float
    """Peak memory of a forward pass in MB, without the model."""

    def __str__(self) -> str:
        return (
            f"{self.how:40} {self.tokens:>5.0%} {self.score:>9.4f} {100 * self.lost:>+7.2f} "
            f"{self.speed:>9,.1f} {self.times:>6.2f} {self.operations:>5.0%} {self.memory:>6.1f}"
        )


@dataclass(frozen=True)
class LengthSpeed:
    """Tokens per second at a length, with all tokens and with half of them merged."""

    length: int
    plain: float
    merged: float
    times: float
    """Median over the rounds of merged / plain."""


@dataclass(frozen=True)
class ReductionReport:
    """The result of `regard bench reduction`."""

    run: str
    measured: str
    """The model."""
    score: str
    """The name of the score."""
    examples: int
    length: float
    """Mean number of tokens of an example."""
    levels: list[ReductionLevel]
    reaches: list[LengthSpeed]

    @property
    def pays_from(self) -> int | None:
        """Break-even length: from it on merging half of the tokens is faster; None if never."""
        pays = None
        for speed in reversed(self.reaches):
            if speed.times <= 1:
                break
            pays = speed.length
        return pays

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "pays_from": self.pays_from}

    def as_text(self) -> str:
        lines = [
            f"{self.run}: {self.measured}; {self.examples:,} examples of {self.length:.0f} tokens on average",
            f"{'':40} {'left':>5} {self.score:>9} {'points':>7} "
            f"{'per s':>9} {'times':>6} {'work':>5} {'MB':>6}",
            *map(str, self.levels),
        ]
        by_length = ", ".join(f"{speed.length}: {speed.times:.2f}" for speed in self.reaches)
        pays = self.pays_from
        lines.append(f"speed-up by merging half of the tokens, by length: {by_length}")
        lines.append(
            f"merging half of the tokens does not pay up to {self.reaches[-1].length} tokens"
            if pays is None
            else f"merging half of the tokens pays from {pays} tokens on"
        )
        return "\n".join(lines)


def measure_reduction(
    run: Path, data: Path | None = None, *, quick: bool = False, log: Log = print
) -> ReductionReport:
    """Measure token reduction in a run; takes a few minutes, or about one if quick.

    Args:
        run: A run that labels texts or images, or tags words.
        data: The file or folder to measure on, by default the run's own test or validation data.
        quick: Fewer examples, levels, lengths and rounds.
        log: Receives what is measured next.

    Raises:
        RegardError: The run has no tokens to reduce, or no examples.
    """
    case = open_case(run, data, QUICK_EXAMPLES if quick else 0)
    rounds, stride = (2, 3) if quick else (7, 1)
    settings = reduction_settings(case)
    numbers = range(0, len(settings), stride)  # quick: all tokens, half of them in two ways, and pruned
    settings = settings[::stride]
    log("scores")
    scores = [case.score(reduction) for _, _, reduction in settings]
    log("speed, in interleaved rounds")
    with tuned_allocator():
        times = timed_rounds(
            [partial(case.run, reduction) for _, _, reduction in settings], rounds, MIN_SECONDS
        )
        reaches = [speed_at_length(case, length, rounds) for length in LENGTHS[:: 2 if quick else 1]]
    token_counts = [case.token_counts(reduction) for _, _, reduction in settings]
    work = [
        matmul_flops(counts, case.config.d_model, case.config.d_ff, first_only=case.first_only)
        for counts in token_counts
    ]
    log("memory")
    with ThreadPoolExecutor(2) as pool:  # two processes at a time do not disturb each other's memory, only time
        memory = list(pool.map(partial(peak_memory, run, data), numbers))
    levels = [
        ReductionLevel(
            how,
            amounts,
            float(token_counts[index][-1][0].sum() / token_counts[index][0][0].sum()),
            scores[index],
            scores[index] - scores[0],
            case.timed / statistics.median(times[index]),
            speedup(times[0], times[index]),
            work[index] / work[0],
            memory[index],
        )
        for index, (how, amounts, _) in enumerate(settings)
    ]
    return ReductionReport(
        str(run), str(case.config), case.score_name, case.examples, case.length, levels, reaches
    )


Setting = tuple[str, tuple[float, ...], Reduction]
"""Description, amount for each layer, and the module that reduces."""


def open_case(run: Path, data: Path | None, limit: int) -> ReductionCase:
    """Load a run with at most `limit` examples; 0 means all.

    Raises:
        RegardError: The run has no tokens to reduce, or no examples.
    """
    loaded = load(run)
    return loaded.spec.reduction_case(loaded, data, limit)


def reduction_settings(case: ReductionCase) -> list[Setting]:
    """All tokens; merged, over all layers or in the first ones; pruned where only the first token is read."""
    layers = max(1, len(case.body.blocks) - case.first_only)
    settings: list[Setting] = []
    for removed in REMOVED_SHARES:
        share = 1 - (1 - removed) ** (1 / layers)
        amounts = (*([round(share, 4)] * layers), 0.0)
        how = f"merged, {removed:.0%} gone layer by layer" if removed else "all tokens"
        settings.append((how, amounts, merging(case, amounts)))
    for count, where in ((2, "two layers"), (1, "layer")):
        if count <= layers:
            early = (*([round(1 - 0.5 ** (1 / count), 4)] * count), 0.0)
            settings.append((f"merged, 50% gone in the first {where}", early, merging(case, early)))
    if not case.first_only:
        return settings
    own = case.body.reduction
    learned = own if isinstance(own, Pruning) else None
    for factor in THRESHOLD_FACTORS if learned is not None else THRESHOLDS:
        if learned is not None:
            thresholds = (factor * learned.thresholds).tolist()
            how = f"pruned, {factor:g} times the learned thresholds"
        else:
            thresholds = [factor] * len(case.body.blocks)
            how = f"pruned below {factor:g}, not trained"
        settings.append((how, tuple(round(value, 3) for value in thresholds), pruning(thresholds)))
    return settings


def merging(case: ReductionCase, amounts: tuple[float, ...]) -> Merging:
    return Merging(amounts, case.neighbours_only, case.first_only)


def pruning(thresholds: Sequence[float]) -> Pruning:
    reduction = Pruning(len(thresholds), hard=True)
    with torch.no_grad():
        reduction.thresholds.copy_(torch.tensor(thresholds))
    return reduction.eval()


def speed_at_length(case: ReductionCase, length: int, rounds: int) -> LengthSpeed:
    """Speed of the blocks alone on real tokens, cut into sequences of a length."""
    tokens, count = case.tokens(), max(1, BATCH_TOKENS // length)
    x = tokens.repeat(-(-count * length // len(tokens)), 1)[: count * length].view(count, length, -1)
    layers = max(1, len(case.body.blocks) - case.first_only)
    half = merging(case, (*([1 - 0.5 ** (1 / layers)] * layers), 0.0))

    def forward(reduction: Merging | None) -> object:
        with torch.no_grad():
            return encode(case.body, x, reduction, first_only=case.first_only)

    times = timed_rounds([partial(forward, None), partial(forward, half)], rounds, MIN_SECONDS)
    plain, merged = (count * length / statistics.median(seconds) for seconds in times)
    return LengthSpeed(length, plain, merged, speedup(*times))


def peak_memory(run: Path, data: Path | None, number: int) -> float:
    """Peak memory in MB of a forward pass with setting `number`, in a process of its own."""
    command = [sys.executable, "-m", "regard.tasks.reduction_benchmark", str(run), str(data or ""), str(number)]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def main() -> None:
    """Print the peak memory of one forward pass; the process that `peak_memory` starts."""
    run, data, number = sys.argv[1:]
    case = open_case(Path(run), Path(data) if data else None, QUICK_EXAMPLES)
    reduction = reduction_settings(case)[int(number)][2]
    with contextlib.suppress(OSError):  # reset the peak where possible: loading took memory, too
        Path("/proc/self/clear_refs").write_text("5")
    before = peak_resident_memory()
    case.run(reduction)
    print((peak_resident_memory() - before) / 1e6)


def peak_resident_memory() -> int:
    """Peak resident memory of this process, in bytes."""
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        import resource  # missing on Windows

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM"))


if __name__ == "__main__":
    main()
