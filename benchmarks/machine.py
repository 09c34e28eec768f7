"""Speed of regard on this machine: training, decoding, start-up, memory; no peers.

    python benchmarks/machine.py [--quick] [--rounds N] [--json] [--save FILE] [--compare FILE]

Takes about two minutes. --save writes the result as JSON; --compare prints the figures of such a file, of this
machine earlier or of another one, beside it. Training is in target tokens a second, decoding in sentences.
"""

import json
import platform
import resource
import statistics
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import decoding
import torch
import training
from harness.rounds import Row, parser, rounds_of

from regard.engine import find_library
from regard.tasks.report import processor_name


@dataclass(frozen=True)
class Bench:
    """What was measured."""

    machine: str
    threads: int
    torch: str
    kernels: str
    training: list[Row]
    shares: dict[str, float]
    """Share of PyTorch's matrix-product peak that training reaches, by size."""
    decoding: list[Row]
    start_up: float
    """Seconds of `regard --help`."""
    memory: float
    """Peak memory, in GB, of the largest process that was measured."""

    def figures(self) -> dict[str, float]:
        """By name, all figures in which two machines may be compared."""
        rows = {row.case: row.ours for row in (*self.training, *self.decoding)}
        shares = {f"share of the peak, {size}": share for size, share in self.shares.items()}
        return {**rows, **shares, "start-up, s": self.start_up, "memory of training, GB": self.memory}


def measure(sizes: list[str], rounds: int, *, quick: bool) -> Bench:
    rows, shares = [], {}
    for size in sizes:
        print(f"training, {training.SIZES[size]}", file=sys.stderr)
        some, shares[size] = training.speeds(size, rounds)
        rows += some
    print("decoding", file=sys.stderr)
    decoded = decoding.speeds("", "", rounds, quick=quick)
    return Bench(
        processor_name(),
        torch.get_num_threads(),
        torch.__version__,
        find_library()[1],
        rows,
        shares,
        decoded,
        start_up(),
        memory(),
    )


def start_up(times: int = 5) -> float:
    """Median seconds from the command to its help."""
    seconds = []
    for _ in range(times):
        begun = time.perf_counter()
        subprocess.run([sys.executable, "-m", "regard", "--help"], stdout=subprocess.DEVNULL, check=True)
        seconds.append(time.perf_counter() - begun)
    return statistics.median(seconds)


def memory() -> float:
    """Peak memory of any process measured so far, in GB."""
    largest = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    return largest * (1 if platform.system() == "Darwin" else 1024) / 1e9


def main() -> None:
    made = parser(__doc__, 5)
    made.add_argument("--save", type=Path, metavar="FILE", help="write the result as JSON")
    made.add_argument("--compare", type=Path, metavar="FILE", help="a result written by --save")
    options = made.parse_args()
    earlier = json.loads(options.compare.read_text("utf-8"))["figures"] if options.compare else {}
    sizes = ["tiny", "small"] if options.quick else list(training.SIZES)
    bench = measure(sizes, rounds_of(options), quick=options.quick)
    result = {**asdict(bench), "figures": bench.figures()}
    if options.save:
        options.save.write_text(json.dumps(result, indent=2) + "\n", "utf-8")
    if options.json:
        print(json.dumps(result))
        return
    print(f"{bench.machine}, {bench.threads} threads, torch {bench.torch}; kernels {bench.kernels}")
    for name, value in bench.figures().items():
        beside = f"  {earlier[name]:10,.2f} earlier" if name in earlier else ""
        print(f"{name:40} {value:10,.2f}{beside}")


if __name__ == "__main__":
    main()
