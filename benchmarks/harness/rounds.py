"""Interleaved rounds: engines are worker processes; each turn of a peer is adjacent to one of regard's.

A ratio is the median over the rounds of (regard's speed / the peer's speed). The two turns of a ratio are
adjacent, and their order alternates from round to round, so that slow seconds of the machine affect both.
Each peer is measured twice: as its documentation recommends, and in a process with regard's allocator settings.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol, Self, TypeVar

PLAIN, TUNED = "as it comes", "with regard's allocator settings"
SETTINGS = (PLAIN, TUNED)
OURS = "ours"
"""The worker of regard in the table of a script."""


@dataclass(frozen=True)
class Row:
    """One comparison: median speeds of regard and of a peer, and the median of the rounds' ratios.

    Without a peer, there is only `ours`. An absent peer has no value and no ratio; `note` says why.
    """

    case: str
    ours: float
    peer: str = ""
    value: float | None = None
    ratio: float | None = None
    low: float | None = None
    """First quartile of the ratios."""
    high: float | None = None
    """Third quartile of the ratios."""
    settings: str = ""
    """Allocator settings of the peer's process."""
    rounds: int = 1
    note: str = ""


def comparison_row(
    case: str, pairs: Sequence[tuple[float, float]], peer: str, settings: str = "", note: str = ""
) -> Row:
    """The row of (regard's speed, the peer's speed) in each round."""
    ratios = [ours / value for ours, value in pairs]
    low, _, high = statistics.quantiles(ratios, n=4, method="inclusive") if len(ratios) > 1 else ratios * 3
    ours, value = (statistics.median(speeds) for speeds in zip(*pairs, strict=True))
    return Row(case, ours, peer, value, statistics.median(ratios), low, high, settings, len(pairs), note)


def in_alternating_order(
    ours: Callable[[], float], peer: Callable[[], float], rounds: int
) -> list[tuple[float, float]]:
    """(regard's value, the peer's value) of each round; the peer comes first in every other round."""
    pairs = []
    for number in range(rounds):
        if number % 2:
            value = peer()
            pairs.append((ours(), value))
        else:
            own = ours()
            pairs.append((own, peer()))
    return pairs


class WorkerEndedError(RuntimeError):
    """A worker process ended too early."""


class Worker:
    """A process that measures one thing, once for each line of its standard input.

    Args:
        command: the process; its standard output holds one JSON object per line.
        environment: variables set for the process.
    """

    def __init__(self, command: Sequence[str | Path], environment: Mapping[str, str] | None = None) -> None:
        self.process = subprocess.Popen(
            list(map(str, command)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=None if os.environ.get("BENCHMARKS_VERBOSE") else subprocess.DEVNULL,
            text=True,
            env={**os.environ, **(environment or {})},
        )
        first = self.read()
        self.absent = ""
        """The reason if the worker cannot be measured, else empty."""
        if first.get("ready") is not True:
            self.absent = str(first.get("absent", "its process ended before its first turn"))
        self.note = str(first.get("note", ""))

    def read(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("{"):
                answer: dict[str, Any] = json.loads(line)
                return answer
        return {}

    def turn(self, *arguments: str) -> float:
        """Takes a turn and returns the measured value.

        Raises:
            WorkerEndedError: the process ended or failed in this turn.
        """
        assert self.process.stdin is not None
        try:
            print(*arguments, sep="\t", file=self.process.stdin, flush=True)
        except BrokenPipeError:
            raise WorkerEndedError("its process ended") from None
        answer = self.read()
        if "value" not in answer:
            raise WorkerEndedError(str(answer.get("absent", "its process ended during a turn")))
        return float(answer["value"])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        assert self.process.stdin is not None
        self.process.kill()
        self.process.wait()
        with suppress(BrokenPipeError):  # unread lines are lost with the process
            self.process.stdin.close()


def worker(script: str, name: str, *arguments: str, settings: str = PLAIN, **environment: str) -> Worker:
    """A worker of a script that ends with `start`."""
    return Worker([sys.executable, script, "--worker", settings, name, *arguments], environment)


@dataclass(frozen=True)
class Ready:
    """A worker that is prepared and warmed up; `note` goes into its row."""

    turn: Callable[..., float]
    note: str = ""


Prepare = Callable[..., Ready]


def start(
    main: Callable[[], None],
    workers: Mapping[str, Prepare],
    process_settings: Callable[[], AbstractContextManager[object]] = nullcontext,
) -> None:
    """Runs `main`, or in a worker process started by it, the worker named on the command line.

    Args:
        process_settings: context manager for regard's own worker, such as `training_process`.
    """
    if sys.argv[1:2] != ["--worker"]:
        main()
        return
    _, _, settings, name, *arguments = sys.argv
    if name == OURS:
        from regard.mkl import enable_reproducible_mkl

        enable_reproducible_mkl()  # as the command line does
    with allocator(settings), process_settings() if name == OURS else nullcontext():
        serve(lambda: workers[name](*arguments))


def allocator(settings: str) -> AbstractContextManager[object]:
    if settings != TUNED:
        return nullcontext()
    from regard.engine.allocator import tuned_allocator

    return tuned_allocator()


def serve(prepare: Callable[[], Ready]) -> None:
    """Takes a turn for each line of standard input; a failure is sent as the reason of absence."""
    try:
        ready = prepare()
        print(json.dumps({"ready": True, "note": ready.note}), flush=True)
        for line in sys.stdin:
            arguments = [word for word in line.rstrip("\n").split("\t") if word]
            print(json.dumps({"value": ready.turn(*arguments)}), flush=True)
    except Exception as error:
        reason = (str(error).strip().splitlines() or [""])[0]
        if not isinstance(error, ImportError):
            reason = f"{type(error).__name__}: {reason}"
        print(json.dumps({"absent": reason}), flush=True)


@dataclass
class Peer:
    """A worker that is compared with regard's, and the speeds of its rounds."""

    name: str
    settings: str
    worker: Worker

    def __post_init__(self) -> None:
        self.pairs: list[tuple[float, float]] = []
        self.absent = self.worker.absent

    def run_round(self, ours: Worker, number: int, *arguments: str) -> None:
        """One turn of each; the peer comes first in every other round."""
        if self.absent:
            return
        try:
            if number % 2:
                value = self.worker.turn(*arguments)
                self.pairs.append((ours.turn(*arguments), value))
            else:
                speed = ours.turn(*arguments)
                self.pairs.append((speed, self.worker.turn(*arguments)))
        except WorkerEndedError as error:
            if ours.process.poll() is not None:
                raise RuntimeError(f"regard's worker: {error}") from None
            self.absent = str(error)

    def row(self, case: str, ours: float) -> Row:
        if self.absent:
            return Row(case, ours, self.name, settings=self.settings, rounds=0, note=f"absent: {self.absent}")
        return comparison_row(case, self.pairs, self.name, self.settings, self.worker.note)


def compare(case: str, ours: Worker, peers: Sequence[Peer], rounds: int, *arguments: str) -> list[Row]:
    """A row for each peer; without peers, one with regard's speed only.

    Raises:
        RuntimeError: regard's own worker cannot be measured.
    """
    if ours.absent:
        raise RuntimeError(f"regard's worker: {ours.absent}")
    for number in range(rounds):
        for peer in peers:
            peer.run_round(ours, number, *arguments)
    speeds = [speed for peer in peers for speed, _ in peer.pairs]
    if not speeds:
        speeds = [ours.turn(*arguments) for _ in range(rounds)]
    median = statistics.median(speeds)
    rows = [peer.row(case, median) for peer in peers]
    for peer in peers:
        peer.pairs = []
    return rows or [Row(case, median, rounds=rounds)]


@dataclass(frozen=True)
class Contender:
    """A peer of a case: title in the table, worker in the script, allocator settings."""

    title: str
    name: str
    settings: Sequence[str] = SETTINGS


def compare_with_peers(
    case: str,
    script: str,
    arguments: Sequence[str],
    contenders: Iterable[Contender],
    rounds: int,
    **environment: str,
) -> list[Row]:
    """Compares regard's worker of a script with its peers, each in its own process, with the same arguments."""
    with ExitStack() as stack:
        ours = stack.enter_context(worker(script, OURS, *arguments, **environment))
        peers = [
            Peer(
                contender.title,
                settings,
                stack.enter_context(
                    worker(script, contender.name, *arguments, settings=settings, **environment)
                ),
            )
            for contender in contenders
            for settings in contender.settings
        ]
        return compare(case, ours, peers, rounds)


class Sized(Protocol):
    """A batch with its number of tokens, padding not counted."""

    @property
    def tokens(self) -> int: ...


Batch = TypeVar("Batch", bound=Sized)

COMPILING = 8
"""Warm-up batches of a compiled model: new shapes may trigger recompilation."""


def training_turns(
    step: Callable[[Batch], object],
    batches: Sequence[Batch],
    count: int,
    *,
    compiling: bool = False,
    size: Callable[[Batch], int] = lambda batch: batch.tokens,
) -> Ready:
    """A worker whose turn runs the next `count` batches and returns tokens per second.

    Args:
        step: one training step.
        batches: repeated in order.
        count: batches per turn.
        compiling: whether to note the time of the first batches, which is not part of the speeds.
        size: the number to count per batch instead of its tokens.
    """
    position = 0

    def turn() -> float:
        nonlocal position
        chosen = [batches[(position + number) % len(batches)] for number in range(count)]
        position += count
        start_time = time.perf_counter()
        for batch in chosen:
            step(batch)
        return sum(map(size, chosen)) / (time.perf_counter() - start_time)

    start_time = time.perf_counter()
    for batch in batches[: COMPILING if compiling else count]:
        step(batch)
    seconds = time.perf_counter() - start_time
    return Ready(turn, f"compiled in {seconds:.0f} s, not counted" if compiling else "")


def format_table(rows: Sequence[Row], unit: str) -> str:
    """The rows as a table."""
    width = max([len(row.case) for row in rows] + [4])
    title = max([len(row.peer) for row in rows] + [4])
    lines = [
        f"{'case':{width}} {'regard':>10}  {'peer':{title}} {'its':>10} {'ratio':>6} {'quartiles':>13}  {unit}"
    ]
    for row in rows:
        line = f"{row.case:{width}} {figure(row.ours):>10}  {row.peer:{title}}"
        if row.value is not None and row.ratio is not None:
            line += f" {figure(row.value):>10} {row.ratio:>6.2f}"
            line += f" {row.low:>5.2f} - {row.high:>5.2f}" if row.low is not None else " " * 14
        elif row.peer:
            line += f" {'-':>10} {'-':>6} {'':13}"
        lines.append("  ".join(filter(None, (line, row.settings, row.note))).rstrip())
    return "\n".join(lines)


def figure(value: float) -> str:
    """One decimal, or three significant digits for small values."""
    return f"{value:,.1f}" if abs(value) >= 10 or not value else f"{value:.3g}"


def as_json(rows: Iterable[Row]) -> str:
    return json.dumps([asdict(row) for row in rows])


def argument_parser(
    description: str | None, rounds: int, quick: int = 3, peers: Mapping[str, str] | None = None
) -> argparse.ArgumentParser:
    """Options of every benchmark: --quick, --json, --rounds, and --peers if there are several."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help=f"fewer cases, {quick} rounds, nothing compiled")
    parser.add_argument("--json", action="store_true", help="print rows as JSON")
    parser.add_argument("--rounds", type=int, help=f"turns of each worker; default {rounds}")
    if peers is not None:
        parser.add_argument(
            "--peers", nargs="*", choices=list(peers), help="peers to measure; none: regard only"
        )
    parser.set_defaults(default_rounds=rounds, quick_rounds=quick)
    return parser


def selected_peers(peers: Mapping[str, str], options: argparse.Namespace) -> list[Contender]:
    """The peers named with --peers; by default all, with --quick without those that compile for minutes."""
    names = options.peers
    if names is None:
        names = [name for name in peers if not (options.quick and name == "compiled")]
    return [Contender(peers[name], name) for name in names]


def round_count(options: argparse.Namespace) -> int:
    return int(options.rounds or (options.quick_rounds if options.quick else options.default_rounds))
