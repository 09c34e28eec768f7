"""Matrix products in the shapes of the models: regard's kernel compared with PyTorch and libxsmm, in GFLOP/s.

    python benchmarks/gemm.py [--quick] [--rounds N] [--threads 1 2] [--json]

forward: tokens (rows, in) times weights (out, in), with weights packed once, as in training and decoding.
gradient: of the weights, (rows, out) transposed times (rows, in). The PyTorch
peers are F.linear and g.T @ x; both sides are called from Python. libxsmm (Debian: apt-get install libxsmm-dev)
and regard's kernel compared with it are called from C, by harness/gemm.c, compiled when the benchmark starts.
harness/rounds.py describes rounds and ratios.
Rows: case, ours, peer, value (the peer's), ratio, low and high (its quartiles), settings, rounds, note.
"""

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import cache
from pathlib import Path

import torch
from harness.rounds import (
    OURS,
    PLAIN,
    Peer,
    Ready,
    Row,
    Worker,
    argument_parser,
    as_json,
    compare,
    format_table,
    round_count,
    start,
    worker,
)
from torch import Tensor
from torch.nn import functional

from regard.engine.locate import find_library
from regard.training.process import training_process

ROWS = (192, 1024)
MODELS = {
    "128/256": ((128, 128), (128, 256), (256, 128), (128, 8000)),
    "256/1024": ((256, 256), (256, 1024), (1024, 256), (256, 8000)),
    "512/2048": ((512, 512), (512, 2048), (2048, 512), (512, 8000)),
}
"""(in, out) of the projections, the feed-forward network and the output."""
MIN_SECONDS = 0.1
"""Of a turn."""
Product = Callable[[], object]


def our_forward(x: Tensor, weight: Tensor) -> Product:
    """x (rows, in), weight (out, in) -> (rows, out)."""
    from regard.engine.ops import linear_packed, prepack

    packed, out = prepack(weight), len(weight)
    return lambda: linear_packed(x, packed, out)


def our_gradient(g: Tensor, x: Tensor) -> Product:
    """g (rows, out), x (rows, in) -> (out, in)."""
    from regard.engine.ops import weight_gradient

    return lambda: weight_gradient(g, x)


def torch_forward(x: Tensor, weight: Tensor) -> Product:
    return lambda: functional.linear(x, weight)


def torch_gradient(g: Tensor, x: Tensor) -> Product:
    return lambda: g.T @ x


def ready(forward: Callable[[Tensor, Tensor], Product], gradient: Callable[[Tensor, Tensor], Product]) -> Ready:
    """A worker whose turn measures a product by name and sizes."""

    @cache
    def prepare_product(kind: str, rows: int, inside: int, out: int) -> Product:
        generator = torch.Generator().manual_seed(rows + inside + out)
        x, weight, g = (
            torch.randn(size, generator=generator) for size in ((rows, inside), (out, inside), (rows, out))
        )
        product = forward(x, weight) if kind == "forward" else gradient(g, x)
        expected = x @ weight.T if kind == "forward" else g.T @ x
        torch.testing.assert_close(product(), expected, rtol=1e-3, atol=1e-3)
        return product

    @torch.no_grad()
    def turn(kind: str, *sizes: str) -> float:
        rows, inside, out = map(int, sizes)
        product = prepare_product(kind, rows, inside, out)
        calls, start_time = 0, time.perf_counter()
        while (seconds := time.perf_counter() - start_time) < MIN_SECONDS or not calls:
            product()
            calls += 1
        return 2e-9 * rows * inside * out * calls / seconds

    return Ready(turn)


def worker_in_c(folder: Path, *flags: str, arguments: Sequence[str] = ()) -> list[str]:
    """The command of a worker compiled from harness/gemm.c, or one that reports why it is missing."""
    source, program = Path(__file__).parent / "harness" / "gemm.c", folder / f"gemm{len(flags)}"
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if compiler is None:
        return absent_worker("no C compiler")
    options = ["-O3", "-march=native", "-fopenmp", str(source), "-o", str(program), *flags]
    libraries = ["-lpthread", "-lrt", "-ldl", "-lm"]
    compilation = subprocess.run([compiler, *options, *libraries], capture_output=True, text=True)
    if compilation.returncode:
        reason = next(
            (line for line in compilation.stderr.splitlines() if "rror" in line or "cannot find" in line), ""
        )
        return absent_worker(f"was not compiled: {reason.strip()}")
    return [str(program), *arguments]


LIBXSMM = "-DLIBXSMM", "-lxsmm", "-lxsmmnoblas"


def absent_worker(reason: str) -> list[str]:
    return ["printf", '{"absent": "%s"}\\n', reason.replace('"', "'").replace("\\", "/")]


def measure_threads(threads: int, folder: Path, cases: list[tuple[str, ...]], rounds: int) -> list[Row]:
    environment = {"OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)}
    path, description = find_library()
    if path is None:
        raise SystemExit(description)
    with ExitStack() as stack:
        pairs = [
            (worker(__file__, OURS, **environment), "PyTorch", worker(__file__, "torch", **environment)),
            (
                Worker(worker_in_c(folder, arguments=[str(path)]), environment),
                "libxsmm",
                Worker(worker_in_c(folder, *LIBXSMM), environment),
            ),
        ]
        rows = []
        for ours, title, peer_worker in pairs:
            stack.enter_context(ours)
            peer = Peer(title, PLAIN, stack.enter_context(peer_worker))
            for case in cases:  # prepares and warms up
                for process in (ours, *([] if peer.absent else [peer_worker])):
                    process.turn(*case)
            threaded = f"{threads} thread{'s' * (threads > 1)}"
            for case in cases:
                name = f"{case[0]} {case[1]} rows, {case[2]} x {case[3]}, {threaded}"
                rows += compare(name, ours, [peer], rounds, *case)
    return rows


def main() -> None:
    parser = argument_parser(__doc__, 9)
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2], help="1 2")
    options = parser.parse_args()
    shapes = [shape for model in MODELS for shape in MODELS[model] if model == "128/256" or not options.quick]
    cases = [
        (kind, str(rows), str(inside), str(out))
        for kind in ("forward", "gradient")
        for rows in ROWS
        for inside, out in shapes
    ]
    with tempfile.TemporaryDirectory() as folder:
        rows = [
            row
            for threads in options.threads
            for row in measure_threads(threads, Path(folder), cases, round_count(options))
        ]
    print(as_json(rows) if options.json else format_table(rows, "GFLOP/s"))


WORKERS = {
    OURS: lambda: ready(our_forward, our_gradient),
    "torch": lambda: ready(torch_forward, torch_gradient),
}

if __name__ == "__main__":
    start(main, WORKERS, training_process)
