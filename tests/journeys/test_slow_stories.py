"""Tests that take minutes, run by `make test-slow`, which prints their measurements."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

Command = Callable[..., subprocess.CompletedProcess[str]]

DATA = Path(os.environ.get("REGARD_DATA", Path(__file__).parents[2] / ".." / "shared" / "data")).resolve()
needs_multi30k = pytest.mark.skipif(not (DATA / "multi30k").is_dir(), reason=f"there is no multi30k in {DATA}")


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_memory_is_flat_while_a_long_file_is_translated(story: Path) -> None:
    """Memory while translating a million lines, compared early and after many more windows."""
    lines = (story / "n.de").read_text("utf-8").splitlines()
    million = story / "million.de"
    with million.open("w", encoding="utf-8") as file:
        for number in range(1_000_000):
            file.write(lines[number % len(lines)] + "\n")
    program = "from regard.cli.main import main; main()"
    output = story / "million.en"
    process = subprocess.Popen(
        [sys.executable, "-c", program, "translate", "run", str(million), "--beam", "1", "-o", str(output)],
        cwd=story,
    )
    samples: list[tuple[int, int]] = []
    start = time.time()
    try:
        while process.poll() is None and time.time() - start < 180:
            time.sleep(5)
            done = output.read_bytes().count(b"\n") if output.exists() else 0
            samples.append((done, resident(process.pid)))
    finally:
        process.kill()
    working = [(done, memory) for done, memory in samples if done > 10_000]
    print(f"\n{working[-1][0]:,} lines in {time.time() - start:.0f} s; resident memory in MB by lines done:")
    print(
        "  ".join(f"{done:,}: {memory / 2**20:.0f}" for done, memory in working[:: max(1, len(working) // 8)])
    )
    assert working[-1][0] > 3 * working[0][0]
    assert working[-1][1] < working[0][1] + 50 * 2**20


def resident(process: int) -> int:
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    return 0


@pytest.mark.slow
@pytest.mark.timeout(3600)
@needs_multi30k
def test_multi30k_text_does_not_depend_on_the_batch(tmp_path: Path, regard: Command) -> None:
    """A model trained for three minutes, 1,000 test sentences, batch sizes 1, 7 and 64, beam 1 and 5."""
    trained = regard(
        "train", "multi30k", f"data.path={DATA / 'multi30k'}", "train.minutes=3", "--out", "run",
        cwd=tmp_path, timeout=900,
    )  # fmt: skip
    assert trained.returncode == 0, trained.stderr
    shown = regard("data", "show", "multi30k", "--split", "test", "-n", "1000", "--source", "en", "--target", "de",
                   "--form", "tok", "--path", str(DATA / "multi30k"), cwd=tmp_path)  # fmt: skip
    (tmp_path / "test.en").write_text(
        "".join(line.split("\t")[0] + "\n" for line in shown.stdout.splitlines()), "utf-8"
    )
    for beam in (1, 5):
        outputs = set()
        for size in (1, 7, 64):
            start = time.time()
            done = regard(
                "translate",
                "run",
                "test.en",
                "--beam",
                str(beam),
                "--batch-size",
                str(size),
                cwd=tmp_path,
                timeout=900,
            )
            assert done.stdout.count("\n") == 1000
            print(f"\nbeam {beam}, batch size {size}: {time.time() - start:.1f} s", end="")
            outputs.add(done.stdout)
        assert len(outputs) == 1
