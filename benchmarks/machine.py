"""Speed of regard on this machine: training, decoding, start-up, memory; no peers.

    python benchmarks/machine.py [--quick] [--rounds N] [--json] [--save FILE] [--compare FILE]

Takes about two minutes. --save writes the result as JSON; --compare adds the figures of such a file, from this
machine or another one. Training is in target tokens per second, decoding in sentences per second.
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
from harness.rounds import Row, argument_parser, round_count

from regard.engine import find_library
from regard.tasks.metrics_log import processor_name


@dataclass(frozen=True)
class Bench:
    """The measurements of a machine."""

    machine: str
    threads: int
    torch: str
    kernels: str
    training: list[Row]
    shares: dict[str, float]
    """Fraction of PyTorch's matrix-product peak that training reaches, by model size."""
    decoding: list[Row]
    start_up: float
    """Seconds of `regard --help`."""
    memory: float
    """Peak memory of the largest process, in GB."""

    def figures(self) -> dict[str, float]:
        """All figures for comparing machines, by name."""
        rows = {row.case: row.ours for row in (*self.training, *self.decoding)}
        shares = {f"share of the peak, {size}": share for size, share in self.shares.items()}
        return {**rows, **shares, "start-up, s": self.start_up, "memory of training, GB": self.memory}


def measure(sizes: list[str], rounds: int, *, quick: bool) -> Bench:
    rows, shares = [], {}
    for size in sizes:
        print(f"training, {training.SIZES[size]}", file=sys.stderr)
        size_rows, shares[size] = training.speeds(size, rounds)
        rows += size_rows
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
    """Median seconds of `regard --help`."""
    seconds = []
    for _ in range(times):
        start_time = time.perf_counter()
        subprocess.run([sys.executable, "-m", "regard", "--help"], stdout=subprocess.DEVNULL, check=True)
        seconds.append(time.perf_counter() - start_time)
    return statistics.median(seconds)


def memory() -> float:
    """Peak memory of any child process so far, in GB."""
    largest = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    return largest * (1 if platform.system() == "Darwin" else 1024) / 1e9


def main() -> None:
    parser = argument_parser(__doc__, 5)
    parser.add_argument("--save", type=Path, metavar="FILE", help="write the result as JSON")
    parser.add_argument("--compare", type=Path, metavar="FILE", help="a result written by --save")
    options = parser.parse_args()
    earlier = json.loads(options.compare.read_text("utf-8"))["figures"] if options.compare else {}
    sizes = ["tiny", "small"] if options.quick else list(training.SIZES)
    bench = measure(sizes, round_count(options), quick=options.quick)
    result = {**asdict(bench), "figures": bench.figures()}
    if options.save:
        options.save.write_text(json.dumps(result, indent=2) + "\n", "utf-8")
    if options.json:
        print(json.dumps(result))
        return
    print(f"{bench.machine}, {bench.threads} threads, torch {bench.torch}; kernels {bench.kernels}")
    for name, value in bench.figures().items():
        comparison = f"  {earlier[name]:10,.2f} earlier" if name in earlier else ""
        print(f"{name:40} {value:10,.2f}{comparison}")


if __name__ == "__main__":
    main()
