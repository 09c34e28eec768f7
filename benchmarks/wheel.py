"""The native library of a wheel compared with libraries compiled on this machine, in interleaved turns.

    python benchmarks/wheel.py [--python CLEAN/bin/python] [--rounds 5] [--restarts 3]

`--python` is the interpreter of an environment into which the wheel was installed; without it, this one. Three
processes take turns at a training step and a beam search: with the shipped library, with one compiled here from
the same sources, and with one compiled with -march=native. The ratio is the median over the rounds of
(shipped / other) CPU seconds on one thread: 1.00 means equal, above 1 that the other library is faster.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile

WORKER = r"""
import sys, time, torch
from regard.config.models import TransformerConfig
from regard.data.batches import Batches
from regard.decoding import BeamSearchConfig, TranslationPipeline
from regard.engine import find_library
from regard.nn.build import build
from regard.tokenization import Tokenizer
from regard.training.objectives import Seq2SeqObjective

torch.set_flush_denormal(True)
torch.manual_seed(0)
model = build(TransformerConfig(dropout=0.1, encoder_layers=4, decoder_layers=4, d_model=128, d_ff=256, heads=4), 8000, 8000, 2)
pairs = [[torch.randint(4, 8000, (int(torch.randint(6, 22, ())),)).tolist() for _ in range(2)] for _ in range(400)]
batch = next(iter(Batches.of_pairs(pairs, 1024, 64)))
objective = Seq2SeqObjective(model.train(), 2, 0.1)
translator = TranslationPipeline(build(TransformerConfig(encoder_layers=3, decoder_layers=3, d_model=256, d_ff=1024, heads=8), 8000, 8000, 2).eval(), Tokenizer, Tokenizer)
translator.freeze()
sentences, options = [source for source, _ in pairs[:24]], BeamSearchConfig(beam=5, max_length=24)
works = {"training": lambda: objective(batch).backward(), "search": lambda: translator.search_ids(sentences, options)}
for work in works.values():
    work()
print(find_library()[1], flush=True)
for line in sys.stdin:
    work, start, count = works[line.strip()], time.thread_time(), 0
    while time.thread_time() - start < 0.5:
        work()
        count += 1
    print((time.thread_time() - start) / count, flush=True)
"""  # noqa: E501


class Worker:
    """A process that measures one library, once per line of its standard input."""

    def __init__(self, python: str, **changes: str) -> None:
        environment = {key: value for key, value in os.environ.items() if not key.startswith("REGARD_")}
        environment |= {"OMP_NUM_THREADS": "1", **changes}
        self.process = subprocess.Popen(
            [python, "-c", WORKER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        self.library = self.read_line()

    def read_line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def seconds(self, work: str) -> float:
        assert self.process.stdin is not None
        print(work, file=self.process.stdin, flush=True)
        return float(self.read_line())

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()


def rows_of(python: str, folder: str, rounds: int, *, first: bool) -> dict[str, list[dict[str, float]]]:
    """CPU seconds by work and library; each library has its own process."""
    workers = {
        "shipped": Worker(python),
        "same flags": Worker(python, REGARD_NATIVE=folder),
        "-march=native": Worker(python, REGARD_NATIVE=folder, REGARD_CFLAGS="-march=native"),
    }
    if first:
        print(*(f"{name}: {worker.library}" for name, worker in workers.items()), sep="\n", flush=True)
    rows: dict[str, list[dict[str, float]]] = {}
    for work in ("training", "search"):
        for number in range(rounds):
            order = list(workers.items())
            order = order[number % 3 :] + order[: number % 3]
            rows.setdefault(work, []).append({name: worker.seconds(work) for name, worker in order})
    for worker in workers.values():
        worker.stop()
    return rows


def compare(python: str, rounds: int, restarts: int) -> dict[str, float]:
    """Prints a line for each work and compiled library; returns the ratios by name."""
    rows: dict[str, list[dict[str, float]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(restarts):  # memory placement differs from process to process
            for work, measured in rows_of(python, folder, rounds, first=not number).items():
                rows.setdefault(work, []).extend(measured)
    ratios = {}
    for work, measured in rows.items():
        shipped = 1000 * statistics.median(row["shipped"] for row in measured)
        for name in ("same flags", "-march=native"):
            low, middle, high = statistics.quantiles([row["shipped"] / row[name] for row in measured], n=4)
            ratios[f"{work}, {name}"] = middle
            print(f"{work}: shipped {shipped:.1f} ms; / {name}: {middle:.3f} ({low:.3f} to {high:.3f})")
    return ratios


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--python", default=sys.executable, help="interpreter of the environment with the wheel"
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--restarts", type=int, default=3, help="sets of processes")
    options = parser.parse_args()
    compare(options.python, options.rounds, options.restarts)


if __name__ == "__main__":
    main()
