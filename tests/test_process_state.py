"""`import regard`, `regard.train` and `regard.load` leave the process as they found it."""

import json
import os
import subprocess
import sys
from itertools import product
from pathlib import Path
from typing import Any

import pytest

SNAPSHOT = '''
import gc, json, os, random, signal, sys, warnings
from hashlib import sha256

def digest(value):
    return sha256(repr(value).encode()).hexdigest()

def state():
    """What the process has now; of PyTorch and numpy only what is imported already."""
    found = {
        "environment": digest(sorted(os.environ.items())),
        "random": digest(random.getstate()),
        "gc threshold": gc.get_threshold(),
        "gc enabled": gc.isenabled(),
        "gc frozen": gc.get_freeze_count() > 0,
        "SIGINT": repr(signal.getsignal(signal.SIGINT)),
        "SIGTERM": repr(signal.getsignal(signal.SIGTERM)),
        "folder": os.getcwd(),
        "recursion": sys.getrecursionlimit(),
        "showwarning": repr(warnings.showwarning.__module__),
        "warnings": [repr(each) for each in warnings.filters],
    }
    if "torch" in sys.modules:
        import numpy, torch
        tiny = torch.full((1 << 20,), 1e-39)  # large enough for every OpenMP thread
        found |= {
            "numpy": digest(numpy.random.get_state()[1].tolist()),
            "numpy errors": numpy.geterr(),
            "torch": digest(torch.get_rng_state().tolist()),
            "threads": torch.get_num_threads(),
            "denormals flushed": 1 - int((tiny * 1.0).count_nonzero()) / len(tiny),
            "gradients": torch.is_grad_enabled(),
            "inference": torch.is_inference_mode_enabled(),
            "dtype": str(torch.get_default_dtype()),
            "device": str(torch.get_default_device()),
            "deterministic": torch.are_deterministic_algorithms_enabled(),
            "matmul": torch.get_float32_matmul_precision(),
        }
    return found

def compare(**actions):
    """What each action changed, with its value before and after."""
    changed = {}
    for name, action in actions.items():
        before = state()
        action()
        after = state()
        changed[name] = {key: [before[key], after[key]] for key in before if before[key] != after[key]}
    print(json.dumps(changed))
'''

TRANSLATION = {
    "data.source": "n.de", "data.target": "n.en", "tokenizer.kind": "words", "tokenizer.min_count": 1,
    "model.encoder_layers": 1, "model.decoder_layers": 1, "model.d_model": 32, "model.heads": 2,
    "model.d_ff": 64, "model.max_length": 24, "train.steps": 4, "train.batch_tokens": 256,
    "train.validate_every": 2, "train.validate_sentences": 8,
}  # fmt: skip

# Third-party packages change the warnings filters when they are first imported, so they are imported before.
STORY = f"""
import matplotlib.figure, numpy, sacrebleu, torch, torch._dynamo
torch.empty(1, device="meta").normal_()
import regard, regard.tasks
if {{flushed}}:
    torch.set_flush_denormal(True)
if {{frozen}}:
    gc.freeze()
random.seed(5); numpy.random.seed(6); torch.manual_seed(7)
loaded = []
compare(
    kernel=lambda: regard.train("kernel", "kernel", overrides=dict([("train.steps", 5)])),
    train=lambda: regard.train("translation", "run", overrides=dict({list(TRANSLATION.items())!r})),
    load=lambda: loaded.append(regard.load("run")),
    translate=lambda: loaded[0].translate(["eins zwei.", "drei."]),
    evaluate=lambda: loaded[0].evaluate([("eins zwei.", "one two.")], beam=2),
)
"""


def in_a_new_process(program: str, folder: Path, **environment: str) -> str:
    surroundings = {
        **os.environ,
        "REGARD_CACHE": str(folder / "cache"),
        "OMP_NUM_THREADS": "2",
        "MPLBACKEND": "agg",
        **environment,
    }
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=folder,
        env=surroundings,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def changes(program: str, folder: Path) -> dict[str, Any]:
    return json.loads(in_a_new_process(SNAPSHOT + program, folder))


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    numbers = {"eins": "one", "zwei": "two", "drei": "three", "vier": "four"}
    rows = list(product(numbers, repeat=4))
    pairs = [(" ".join(row) + ".", " ".join(numbers[word] for word in row) + ".") for row in rows]
    (tmp_path / "n.de").write_text("".join(f"{source}\n" for source, _ in pairs), "utf-8")
    (tmp_path / "n.en").write_text("".join(f"{target}\n" for _, target in pairs), "utf-8")
    return tmp_path


def test_importing_regard_changes_nothing(tmp_path: Path) -> None:
    intel = "import regard.mkl\nregard.mkl.is_intel = lambda *_: True\n"
    program = "compare(package=lambda: __import__('regard'), jobs=lambda: __import__('regard.tasks'))\n"
    found = changes(program, tmp_path)
    found["jobs"].pop("warnings", None)  # torch and matplotlib add filters for their own warnings
    assert found == {"package": {}, "jobs": {}}
    assert changes(intel + program, tmp_path)["jobs"].keys() <= {"warnings"}


@pytest.mark.parametrize(("flushed", "frozen"), [(False, False), (True, True)], ids=["usual", "changed"])
def test_training_and_loading_leave_the_process_as_it_was(corpus: Path, flushed: bool, frozen: bool) -> None:
    found = changes(STORY.format(flushed=flushed, frozen=frozen), corpus)
    assert found == {"kernel": {}, "train": {}, "load": {}, "translate": {}, "evaluate": {}}


@pytest.mark.parametrize("flushed", [False, True], ids=["off", "on"])
def test_threads_started_while_training_have_the_flag_of_the_caller(corpus: Path, flushed: bool) -> None:
    program = f"""
import regard, torch
torch.set_flush_denormal({flushed})
regard.train("translation", "run", overrides={TRANSLATION!r})
print(torch.get_num_threads(), state()["denormals flushed"])
"""
    assert in_a_new_process(SNAPSHOT + program, corpus).split() == ["2", str(float(flushed))]


def test_the_snapshot_notices_changes(tmp_path: Path) -> None:
    program = """
import torch
def spoil():
    os.environ["X"] = "1"; torch.manual_seed(1); random.random(); torch.set_flush_denormal(True)
    torch.set_num_threads(1); gc.freeze(); warnings.simplefilter("ignore"); signal.signal(signal.SIGTERM, signal.SIG_IGN)
torch.rand(1)
compare(spoil=spoil)
"""
    expected = {
        "environment",
        "torch",
        "random",
        "denormals flushed",
        "threads",
        "gc frozen",
        "warnings",
        "SIGTERM",
    }
    assert set(changes(program, tmp_path)["spoil"]) == expected


ALLOCATOR = """
import regard.engine.allocator as memory, torch
calls = []
class Library:
    def __init__(self, real): self.real = real
    def mallopt(self, number, value): calls.append((number, value)); return self.real.mallopt(number, value)
    def __getattr__(self, name): return getattr(self.real, name)
real = memory.glibc()
memory.glibc = lambda: Library(real)
with memory.tuned_allocator():
    with memory.tuned_allocator():
        inner = len(calls)
    assert len(calls) == inner == 3, calls  # nested: neither tuned nor restored again
print(calls[3:])
"""


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, [(-4, 65_536), (-3, 32 << 20), (-1, 64 << 20), (-2, 128 << 10)]),
        ({"MALLOC_TOP_PAD_": "4096"}, [(-4, 65_536), (-3, 128 << 10), (-1, 128 << 10), (-2, 4096)]),
        (
            {"GLIBC_TUNABLES": "glibc.malloc.arena_max=2:glibc.malloc.mmap_max=7"},
            [(-4, 7), (-3, 128 << 10), (-1, 128 << 10), (-2, 128 << 10)],
        ),
    ],
    ids=["usual", "variable", "tunable"],
)
@pytest.mark.skipif(sys.platform != "linux", reason="glibc's allocator")
def test_the_allocator_is_restored(tmp_path: Path, environment: dict[str, str], expected: list[Any]) -> None:
    assert in_a_new_process(ALLOCATOR, tmp_path, **environment).strip() == str(expected)


FREED = """
import re, torch
from pathlib import Path
from regard.training.process import training_process

def resident():
    return int(re.search(r"VmRSS:\\s*(\\d+)", Path("/proc/self/status").read_text()).group(1)) >> 10

def freed(megabytes=64):
    before = resident()
    torch.ones(megabytes << 18)  # allocated, touched and freed
    return resident() - before

with training_process():
    kept = freed()
print(kept, freed())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's allocator")
def test_memory_is_returned_to_the_system_after_training(tmp_path: Path) -> None:
    kept, after = map(int, in_a_new_process(FREED, tmp_path).split())
    assert kept > 50  # MiB of 64: kept for the next batch
    assert after < 8
