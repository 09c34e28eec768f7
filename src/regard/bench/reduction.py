"""Break-even of token reduction for a run: score, speed, operations, memory, and from which length it pays."""

import contextlib
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from regard.bench.rounds import speedup, timed_rounds
from regard.engine.allocator import tuned_allocator
from regard.engine.forward import encode
from regard.nn import Merging, Pruning, Reducer, matmul_flops
from regard.tasks import load
from regard.tasks.reduction_subject import Subject

GONE = (0.0, 0.2, 0.35, 0.5, 0.65, 0.8)
"""Shares of the tokens that are gone before the last layer."""
THRESHOLDS = (0.3, 0.5, 0.7, 0.9)
"""In fair shares of attention, where none were learned; else parts of the learned ones."""
LEARNED = (0.5, 0.75, 1.0, 1.2)
LENGTHS = (16, 32, 64, 128, 256, 512)
QUICK = 500
"""Examples that are enough for a quick look."""
TOKENS = 4096
"""Computed together."""
TURN = 0.2
"""Seconds of a turn, at least."""

Tell = Callable[[str], object]


@dataclass(frozen=True)
class Level:
    """One amount of reduction, measured."""

    how: str
    amounts: tuple[float, ...]
    """For each layer: shares merged, or thresholds."""
    tokens: float
    """Share of the tokens that reach the last layer."""
    score: float
    lost: float
    """Against all tokens."""
    speed: float
    """Examples a second."""
    times: float
    """Median over the rounds of this speed / that with all tokens."""
    operations: float
    """Share of the operations with all tokens."""
    memory: float
    """Most memory of a pass, in MB, the model not counted."""

    def __str__(self) -> str:
        return (
            f"{self.how:40} {self.tokens:>5.0%} {self.score:>9.4f} {100 * self.lost:>+7.2f} "
            f"{self.speed:>9,.1f} {self.times:>6.2f} {self.operations:>5.0%} {self.memory:>6.1f}"
        )


@dataclass(frozen=True)
class Reach:
    """All tokens and half of them merged, at a length, in tokens a second."""

    length: int
    plain: float
    merged: float
    times: float
    """Median over the rounds of merged / plain."""


@dataclass(frozen=True)
class Found:
    """What `regard bench reduction` measured."""

    run: str
    measured: str
    score: str
    examples: int
    length: float
    """Tokens of an example, on the mean."""
    levels: list[Level]
    reaches: list[Reach]

    @property
    def pays_from(self) -> int | None:
        """From which length on merging half of the tokens is faster; none where it is not at the longest."""
        pays = None
        for reach in reversed(self.reaches):
            if reach.times <= 1:
                break
            pays = reach.length
        return pays

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "pays_from": self.pays_from}

    def as_text(self) -> str:
        lines = [
            f"{self.run}: {self.measured}; {self.examples:,} examples of {self.length:.0f} tokens on the mean",
            f"{'':40} {'left':>5} {self.score:>9} {'points':>7} "
            f"{'a second':>9} {'times':>6} {'work':>5} {'MB':>6}",
            *map(str, self.levels),
        ]
        told = ", ".join(f"{each.length}: {each.times:.2f}" for each in self.reaches)
        pays = self.pays_from
        lines.append(f"half of the tokens merged, times as fast by length: {told}")
        lines.append(
            "merging half of the tokens does not pay up to the longest of these"
            if pays is None
            else f"merging half of the tokens pays from {pays} tokens on"
        )
        return "\n".join(lines)


def bench(run: Path, data: Path | None = None, *, quick: bool = False, tell: Tell = print) -> Found:
    """Measure a run that labels texts or images, or tags words; a few minutes, or about one if quick."""
    subject = opened(run, data, QUICK if quick else 0)
    rounds, apart = (2, 3) if quick else (7, 1)
    ways = ways_of(subject)
    numbers = range(0, len(ways), apart)  # quick: all tokens, half of them in two ways, and pruned
    ways = ways[::apart]
    tell("scores")
    scores = [subject.score(by) for _, _, by in ways]
    tell("speed, by turns")
    with tuned_allocator():
        times = timed_rounds([partial(subject.run, by) for _, _, by in ways], rounds, TURN)
        reaches = [reach(subject, length, rounds) for length in LENGTHS[:: 2 if quick else 1]]
    token_counts = [subject.token_counts(by) for _, _, by in ways]
    work = [
        matmul_flops(counts, subject.config.d_model, subject.config.d_ff, first_only=subject.first_only)
        for counts in token_counts
    ]
    tell("memory")
    with ThreadPoolExecutor(2) as both:  # two at a time: memory is not shared, as time would be
        memory = list(both.map(partial(memory_of, run, data), numbers))
    levels = [
        Level(
            how,
            amounts,
            float(token_counts[place][-1][0].sum() / token_counts[place][0][0].sum()),
            scores[place],
            scores[place] - scores[0],
            subject.timed / statistics.median(times[place]),
            speedup(times[0], times[place]),
            work[place] / work[0],
            memory[place],
        )
        for place, (how, amounts, _) in enumerate(ways)
    ]
    return Found(
        str(run), str(subject.config), subject.score_name, subject.examples, subject.length, levels, reaches
    )


Way = tuple[str, tuple[float, ...], Reducer]


def opened(run: Path, data: Path | None, most: int) -> Subject:
    """The run, measured on at most `most` examples; 0 means all.

    Raises:
        RegardError: the run has no tokens to reduce, or no examples.
    """
    loaded = load(run)
    return loaded.spec.reduction_subject(loaded, data, most)


def ways_of(subject: Subject) -> list[Way]:
    """All tokens, then merged more and more, layer by layer or at once; pruned where only the first is read."""
    layers = max(1, len(subject.body.blocks) - subject.first_only)
    ways: list[Way] = []
    for gone in GONE:
        share = 1 - (1 - gone) ** (1 / layers)
        amounts = (*([round(share, 4)] * layers), 0.0)
        how = f"merged, {gone:.0%} gone layer by layer" if gone else "all tokens"
        ways.append((how, amounts, merging(subject, amounts)))
    for count, told in ((2, "two layers"), (1, "layer")):
        if count <= layers:
            early = (*([round(1 - 0.5 ** (1 / count), 4)] * count), 0.0)
            ways.append((f"merged, 50% gone in the first {told}", early, merging(subject, early)))
    if not subject.first_only:
        return ways
    own = subject.body.reduction
    learned = own if isinstance(own, Pruning) else None
    for part in LEARNED if learned is not None else THRESHOLDS:
        values = [part] * len(subject.body.blocks) if learned is None else (part * learned.thresholds).tolist()
        told = (
            f"pruned, {part:g} of what was learned"
            if learned is not None
            else f"pruned below {part:g}, not trained"
        )
        ways.append((told, tuple(round(each, 3) for each in values), pruning(values)))
    return ways


def merging(subject: Subject, amounts: tuple[float, ...]) -> Merging:
    return Merging(amounts, subject.neighbours_only, subject.first_only)


def pruning(thresholds: Sequence[float]) -> Pruning:
    found = Pruning(len(thresholds), hard=True)
    with torch.no_grad():
        found.thresholds.copy_(torch.tensor(thresholds))
    return found.eval()


def reach(subject: Subject, length: int, rounds: int) -> Reach:
    """The blocks alone, over real tokens laid into sentences of a length."""
    tokens, count = subject.tokens(), max(1, TOKENS // length)
    x = tokens.repeat(-(-count * length // len(tokens)), 1)[: count * length].view(count, length, -1)
    layers = max(1, len(subject.body.blocks) - subject.first_only)
    half = merging(subject, (*([1 - 0.5 ** (1 / layers)] * layers), 0.0))

    def encoded(reducer: Merging | None) -> object:
        with torch.no_grad():
            return encode(subject.body, x, reducer, first_only=subject.first_only)

    works = [partial(encoded, None), partial(encoded, half)]
    times = timed_rounds(works, rounds, TURN)
    before, after = (count * length / statistics.median(seconds) for seconds in times)
    return Reach(length, before, after, speedup(*times))


def memory_of(run: Path, data: Path | None, number: int) -> float:
    """Peak memory of a forward pass in MB, in a process of its own."""
    command = [sys.executable, "-m", "regard.bench.reduction", str(run), str(data or ""), str(number)]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def main() -> None:
    run, data, number = sys.argv[1:]
    subject = opened(Path(run), Path(data) if data else None, QUICK)
    by = ways_of(subject)[int(number)][2]
    with contextlib.suppress(OSError):  # reset the peak where that is possible: loading took memory, too
        Path("/proc/self/clear_refs").write_text("5")
    before = most_memory()
    subject.run(by)
    print((most_memory() - before) / 1e6)


def most_memory() -> int:
    """Peak resident memory of this process, in bytes."""
    try:
        told = Path("/proc/self/status").read_text()
    except OSError:
        import resource  # missing on Windows

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return next(int(line.split()[1]) * 1024 for line in told.splitlines() if line.startswith("VmHWM"))


if __name__ == "__main__":
    main()
