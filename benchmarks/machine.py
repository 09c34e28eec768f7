"""What this machine can do: start-up, memory, and all the speeds of `regard bench` together."""

import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from regard.bench import decoding, training
from regard.bench.turns import Player, Row, show

from regard import disk
from regard.engine import find_library
from regard.jobs.environment import machine

Tell = Callable[[str], object]


@dataclass(frozen=True)
class Bench:
    """What `regard bench` found."""

    machine: str
    threads: int
    torch: str
    kernels: str
    peak: float
    """Thousand million operations a second of a large float32 product."""
    training: list[Row]
    shares: dict[str, float]
    """Of that peak, what training uses, by size."""
    decoding: list[Row]
    start_up: float
    """Seconds of `regard --help`."""
    memory: float
    """Most memory a training process of the base size held, in GB."""

    def as_text(self) -> str:
        shares = ", ".join(f"{size} {share:.0%}" for size, share in self.shares.items())
        return "\n".join(
            [
                f"machine: {self.machine}, {self.threads} threads, torch {self.torch}; kernels {self.kernels}",
                f"matrix products: {self.peak:,.0f} GFLOP/s in float32; training uses of it: {shares}",
                show(self.training, "target tokens a second"),
                show(self.decoding, "sentences a second"),
                f"start-up: {self.start_up:.2f} s; memory of training: {self.memory:.2f} GB",
            ]
        )

    def save(self, path: Path) -> None:
        disk.write_text(path, json.dumps(asdict(self), indent=2) + "\n")


def bench(
    run: str = "", source: str = "", *, peers: bool = True, quick: bool = False, tell: Tell = print
) -> Bench:
    """Measure everything, one thing at a time; about two minutes without peers."""
    rounds = 3 if quick else 5
    tell("matrix products")
    with Player("regard.bench.training", "peak") as player:
        peak = statistics.median(player.turn() for _ in range(rounds))
    rows, shares = [], {}
    for size in ("tiny", "small") if quick else training.SIZES:
        tell(f"training, {training.SIZES[size]}")
        found, shares[size] = training.speeds(size, rounds, peers)
        rows += found
    tell("decoding")
    decoded = decoding.speeds(run, source, rounds, peers)
    tell("start-up and memory")
    return Bench(
        machine(),
        torch.get_num_threads(),
        torch.__version__,
        find_library()[1],
        peak,
        rows,
        shares,
        decoded,
        start_up(),
        memory(),
    )


def start_up(times: int = 5) -> float:
    """Seconds from the command to its help, as a user waits for it."""
    found = []
    for _ in range(times):
        start = time.perf_counter()
        subprocess.run([sys.executable, "-m", "regard", "--help"], stdout=subprocess.DEVNULL, check=True)
        found.append(time.perf_counter() - start)
    return statistics.median(found)


def memory() -> float:
    """Most memory that any of the processes measured so far has held, in GB."""
    largest = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    return largest * (1 if platform.system() == "Darwin" else 1024) / 1e9


def place() -> Path:
    """Where the result is kept for later comparison."""
    return disk.cache_folder() / f"bench-{os.uname().nodename}.json"
