"""One training run in one process and in several under torchrun: losses of the same batches, and speed.

    python benchmarks/processes.py [--quick] [--rounds N] [--json] [--processes 2]

Each process has one thread. Rows: case, ours (several), peer (one), value (one's), ratio, low and
high (its quartiles), rounds.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from harness.rounds import Row, as_json, comparison_row, format_table, in_alternating_order


def train(folder: Path, processes: int, steps: int, size: str) -> tuple[list[float], float]:
    """The losses, and the median target tokens per second."""
    torchrun = ["torch.distributed.run", "--standalone", f"--nproc-per-node={processes}", "-m"]
    out = folder / f"{size}-{processes}"
    command = [
        *(sys.executable, "-m", *(torchrun if processes > 1 else []), "regard", "train", "picturebook"),
        *(f"model.size={size}", "model.dropout=0", "train.minutes=60", f"train.steps={steps}"),
        *("train.batch_tokens=2048", "train.log_every=5", f"train.validate_every={steps}"),
        *("train.validate_sentences=8", "--out", str(out)),
    ]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "REGARD_CACHE": str(folder.parent / "cache")}
    subprocess.run(command, env=environment, capture_output=True, check=True)
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text("utf-8").splitlines()]
    logged = [line for line in lines if "tokens_per_second" in line]
    speeds = sorted(line["tokens_per_second"] for line in logged[1:])
    return [line["loss"] for line in logged], speeds[len(speeds) // 2]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer steps: about a minute")
    parser.add_argument("--json", action="store_true", help="print rows as JSON")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--rounds", type=int, help="training runs of each kind: 5, with --quick 1")
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for size in ("tiny",) if options.quick else ("tiny", "small"):
            steps = 30 if options.quick else 60
            losses: dict[int, list[float]] = {}

            def speed(processes: int) -> float:
                with tempfile.TemporaryDirectory(dir=folder) as run_folder:
                    losses[processes], tokens_per_second = train(Path(run_folder), processes, steps, size)  # noqa: B023
                return tokens_per_second

            pairs = in_alternating_order(
                lambda: speed(options.processes),
                lambda: speed(1),
                options.rounds or (1 if options.quick else 5),
            )
            worst = max(abs(a - b) for a, b in zip(losses[1], losses[options.processes], strict=True))
            case = f"{size}, {options.processes} processes"
            rows.append(comparison_row(f"{case}: tokens per second", pairs, "one process"))
            rows.append(Row(f"{case}: largest difference of a loss", worst))
    if options.json:
        print(as_json(rows))
        return
    print(format_table(rows, "target tokens per second"))
    for row in rows:
        if not row.peer:
            print(f"{row.case}: {row.ours:.1e}")


if __name__ == "__main__":
    main()
