"""Measuring by turns: each player is a process, and whatever else the machine does, it does to all of them."""

import json
import math
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Protocol, Self, TypeVar

from regard.arithmetic import enable_reproducible_mkl


@dataclass(frozen=True)
class Row:
    """A case measured: ours and a peer's value (more is better), and how many times the peer's ours is."""

    case: str
    ours: float
    peer: str
    value: float
    ratio: float


def peak_memory(*, children: bool = False) -> float:
    """Most memory, in bytes, that this process, or any of its children, has held; NaN if unknown."""
    try:
        import resource
    except ImportError:  # Windows
        return math.nan
    usage = resource.getrusage(resource.RUSAGE_CHILDREN if children else resource.RUSAGE_SELF)
    return float(usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024))


class Player:
    """A process that takes a turn when told and says how fast it was."""

    def __init__(self, module: str, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.absent = ""
        """Why it cannot play, if it cannot."""
        first = self.read()
        if first.get("ready") is not True:
            self.absent = str(first.get("absent", "it ended before its first turn"))

    def read(self) -> dict[str, object]:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("{"):
                found: dict[str, object] = json.loads(line)
                return found
        return {}

    def turn(self) -> float:
        assert self.process.stdin is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()
        return float(str(self.read().get("value", "nan")))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.terminate()
        self.process.wait()


def take_turns(prepare: Callable[[], Callable[[], float]]) -> None:
    """The player's side: prepare, then a turn for each line; a package that is missing is told, not raised."""
    enable_reproducible_mkl()  # as the command line does
    try:
        turn = prepare()
    except ImportError as problem:
        print(json.dumps({"absent": str(problem)}), flush=True)
        return
    turn()  # the first is for warming up
    print(json.dumps({"ready": True}), flush=True)
    for _ in sys.stdin:
        print(json.dumps({"value": turn()}), flush=True)


def measured(players: dict[str, Player], rounds: int) -> dict[str, float]:
    """The median of each player that is there; they take turns."""
    playing = {name: player for name, player in players.items() if not player.absent}
    values: dict[str, list[float]] = {name: [] for name in playing}
    for _ in range(rounds):
        for name, player in playing.items():
            values[name].append(player.turn())
    return {name: statistics.median(each) for name, each in values.items()}


def rows_of(case: str, found: dict[str, float], ours: str = "ours") -> list[Row]:
    """One row for each peer; by itself, ours has a row without one."""
    peers = [
        Row(case, found[ours], name, value, found[ours] / value)
        for name, value in found.items()
        if name != ours
    ]
    return peers or [Row(case, found[ours], "", 0.0, 0.0)]


def show(rows: list[Row], unit: str) -> str:
    """The rows as a table."""
    lines = [f"{'case':34} {'ours':>10}  {'peer':22} {'its':>10} {'ratio':>7}   {unit}"]
    for row in rows:
        its = f"{row.value:>10,.1f} {row.ratio:>7.2f}" if row.peer else ""
        lines.append(f"{row.case:34} {row.ours:>10,.1f}  {row.peer:22} {its}".rstrip())
    return "\n".join(lines)


def as_json(rows: list[Row]) -> str:
    return json.dumps([asdict(row) for row in rows])


class Counted(Protocol):
    """A batch that knows its size."""

    @property
    def tokens(self) -> int: ...


Batch = TypeVar("Batch", bound=Counted)


def steps_by_turns(step: Callable[[Batch], object], batches: Sequence[Batch], many: int) -> Callable[[], float]:
    """A turn: the next so many batches, in tokens a second, padding not counted."""
    place = 0

    def turn() -> float:
        nonlocal place
        some = [batches[(place + number) % len(batches)] for number in range(many)]
        place += many
        start = time.perf_counter()
        for batch in some:
            step(batch)
        return sum(batch.tokens for batch in some) / (time.perf_counter() - start)

    return turn
