"""Fewer OpenMP threads than were asked for: the same loss and the same gradients."""

import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
import torch
from support.engine_calls import child_environment

from regard.engine.library import kernels
from regard.engine.locate import find_library

pytestmark = pytest.mark.skipif(kernels() is None, reason=find_library()[1])

CHILD = """
import sys
import torch
from support.engine_calls import KERNELS, MODELS, training_batch, transformer
from regard.engine.library import kernels
from regard.tokenization import Tokenizer
from regard.training import objectives

asked, path = int(sys.argv[1]), sys.argv[2]
torch.set_num_threads(asked)
results = {}
for way in ("token loss", "hidden states"):
    if way == "hidden states":
        objectives.translation_loss = lambda *_, **__: None
    for r_drop in (0.0, 1.5):
        model = transformer(dropout=0.0).train()
        torch.manual_seed(6)
        loss = objectives.Seq2SeqObjective(model, Tokenizer.padding, 0.1, r_drop)(training_batch())
        loss.backward()
        results[f"{way}, R-Drop {r_drop}"] = [loss.detach(), *(each.grad for each in model.parameters())]
if kernels() is not None:
    results |= {call.__name__: call() for call in KERNELS}
torch.save(results, path)
"""

LIMITS = {
    "limit 1 of 2": (2, {"OMP_THREAD_LIMIT": "1"}),
    "limit 2 of 5": (5, {"OMP_THREAD_LIMIT": "2"}),
    "dynamic": (2, {"OMP_DYNAMIC": "true"}),
    "dynamic 5": (5, {"OMP_DYNAMIC": "true", "OMP_NUM_THREADS": "5"}),
}


@cache
def results(folder: Path, name: str) -> dict[str, list[torch.Tensor]]:
    threads, changes = {
        **LIMITS,
        "one thread": (1, {"OMP_NUM_THREADS": "1"}),
        "two threads": (2, {"OMP_NUM_THREADS": "2"}),
        "plain PyTorch": (1, {"OMP_NUM_THREADS": "1", "REGARD_NATIVE": "0"}),
    }[name]
    path = folder / name
    command = [sys.executable, "-c", CHILD, str(threads), str(path)]
    subprocess.run(command, check=True, env=child_environment(**changes))
    loaded: dict[str, list[torch.Tensor]] = torch.load(path)
    return loaded


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("threads")


@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("reference", ["one thread", "plain PyTorch"])
def test_fewer_threads_than_requested_give_the_same_results(folder: Path, limit: str, reference: str) -> None:
    expected, found = results(folder, reference), results(folder, limit)
    assert "token loss, R-Drop 1.5" in expected
    for name, tensors in expected.items():
        for ours, theirs in zip(found[name], tensors, strict=True):
            atol = 5e-5 * float(theirs.double().abs().max())
            torch.testing.assert_close(
                ours, theirs, rtol=1e-5, atol=atol, msg=lambda m, name=name: f"{name}: {m}"
            )


def test_the_bits_do_not_depend_on_how_many_threads_run(folder: Path) -> None:
    """A batch is divided by the threads that were asked for; the other functions sum up by those that run."""
    limited = results(folder, "limit 1 of 2")
    for name, tensors in limited.items():
        if name.startswith("hidden states"):
            continue  # whose loss is summed up by the threads that run
        same = results(folder, "two threads" if name.startswith("token loss,") else "one thread")
        for ours, theirs in zip(tensors, same[name], strict=True):
            assert torch.equal(ours, theirs), name
