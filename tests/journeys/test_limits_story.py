"""Sizes out of range, and too little memory, end a command with one line of error."""

import json
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from regard.cli.main import OUT_OF_MEMORY

Command = Callable[..., subprocess.CompletedProcess[str]]

GENERAL = f"regard: {OUT_OF_MEMORY}\n"


@pytest.mark.parametrize(
    ("command", "option", "value", "allowed"),
    [
        ("translate", "--beam", "1000000", "1 to 256"),
        ("translate", "--beam", "-1", "1 to 256"),
        ("translate", "--beam", "0", "1 to 256"),
        ("translate", "--nbest", "1000000", "1 to 256"),
        ("translate", "--nbest", "99999999999", "1 to 256"),
        ("translate", "--batch-size", "0", "1 to 65536"),
        ("translate", "--batch-size", "65537", "1 to 65536"),
        ("evaluate", "--beam", "257", "1 to 256"),
        ("evaluate", "--batch-size", "0", "1 to 65536"),
        ("compare", "--beam", "257", "1 to 256"),
        ("generate", "--beam", "0", "1 to 256"),
        ("generate", "--tokens", "1000001", "1 to 1,000,000"),
        ("generate", "--samples", "99999999999", "1 to 65536"),
        ("generate", "--batch-size", "65537", "1 to 65536"),
        ("serve", "--batch", "65537", "1 to 65536"),
    ],
)
def test_a_size_out_of_range_is_refused(
    here: Command, tmp_path: Path, command: str, option: str, value: str, allowed: str
) -> None:
    process = here(command, "run", option, value, cwd=tmp_path)
    message = f"regard: {option}: {value} is out of range; allowed is a whole number from {allowed}; see regard {command} --help\n"
    assert (process.returncode, process.stdout, process.stderr) == (2, "", message)


def test_a_run_with_a_huge_beam_is_refused(here: Command, story: Path, tmp_path: Path) -> None:
    shutil.copytree(story / "run", tmp_path / "run")
    path = tmp_path / "run" / "config.json"
    config = json.loads(path.read_text("utf-8"))
    config["decode"]["beam"] = 1_000_000
    path.write_text(json.dumps(config), "utf-8")
    process = here("translate", "run", cwd=tmp_path, input="fünf\n")
    message = "regard: run/config.json: decode.beam: 1000000 is out of range; allowed is a whole number from 1 to 256\n"
    assert (process.returncode, process.stdout, process.stderr) == (2, "", message)


def test_nbest_increases_the_beam_size(regard: Command, story: Path) -> None:
    process = regard("translate", "run", "--beam", "2", "--nbest", "4", cwd=story, input="fünf\n")
    assert [line.split("\t")[0] for line in process.stdout.splitlines()] == ["1", "2", "3", "4", ""]


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("DefaultCPUAllocator: can't allocate memory")])
def test_out_of_memory_names_options_to_lower(
    here: Command, story: Path, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    from regard.decoding import TranslationPipeline

    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(TranslationPipeline, "search_ids", fail)
    process = here("translate", "run", "n.de", "--beam", "7", cwd=story)
    message = "regard: out of memory; lower --batch-size (now 64) or --beam (now {})\n"
    assert (process.returncode, process.stdout, process.stderr) == (1, "", message.format(7))
    process = here("evaluate", "run", "--source", "n.de", "--target", "n.en", cwd=story)
    assert (process.returncode, process.stdout, process.stderr) == (1, "", message.format(5))


def test_out_of_memory_elsewhere_is_one_line(
    here: Command, story: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr("regard.tasks.translation.model.build", fail)
    process = here("translate", "run", "n.de", cwd=story)
    assert (process.returncode, process.stdout, process.stderr) == (1, "", GENERAL)


@pytest.mark.skipif(sys.platform != "linux", reason="limits of the address space")
@pytest.mark.parametrize("megabytes", [150, 410, 500, 1200])
def test_a_limit_of_the_address_space_is_reported_in_one_line(story: Path, megabytes: int) -> None:
    """Too little for importing PyTorch, which fails in several ways, and for the beams of so many sentences."""
    (story / "many.de").write_text((story / "n.de").read_text("utf-8") * 4, "utf-8")
    command = "import regard.cli.main as cli; cli.main()"
    arguments = ["translate", "run", "many.de", "--beam", "200", "--batch-size", "6000"]
    process = subprocess.run(
        [sys.executable, "-c", command, *arguments],
        cwd=story,
        env={**os.environ, "REGARD_NATIVE": "0", "OMP_NUM_THREADS": "1"},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (megabytes << 20, megabytes << 20)),
        capture_output=True,
        text=True,
        check=False,
    )
    lower = "regard: out of memory; lower --batch-size (now 6000) or --beam (now 200)\n"
    assert (process.returncode, process.stdout) == (1, "")
    assert process.stderr == (lower if megabytes > 1000 else GENERAL)
