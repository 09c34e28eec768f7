"""An allocation that fails raises MemoryError wherever it stands, and the next call works."""

import ctypes
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from support.engine_calls import (
    KERNELS,
    MODELS,
    Call,
    beam_search,
    child_environment,
    native,
    orthogonalize,
    token_loss_of_rows,
    token_loss_of_two_passes,
)

from regard.engine.header import header
from regard.engine.library import kernels, raise_failure
from regard.engine.locate import find_library

pytestmark = pytest.mark.skipif(kernels() is None, reason=find_library()[1])


@pytest.fixture(autouse=True)
def allocations_succeed_again() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    native().fail_allocation_after(-1)
    native().use_threads(before)


def calls_until_success(call: Call, most: int = 2000) -> tuple[int, list[torch.Tensor]]:
    """How many allocations a call makes: each of them is made to fail once."""
    for count in range(most):
        native().fail_allocation_after(count)
        try:
            result = call()
        except MemoryError:
            continue
        native().fail_allocation_after(-1)
        return count, result
    raise AssertionError(f"{most} allocations are not enough")


ALLOCATE_FOR_THREADS = (token_loss_of_rows, token_loss_of_two_passes)
"""Calls that allocate only what further threads sum up."""


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("call", [*KERNELS, *MODELS], ids=lambda call: call.__name__)
def test_every_allocation_may_fail(call: Call, threads: int) -> None:
    native().use_threads(threads)
    expected = call()
    count, result = calls_until_success(call)
    assert count > 0 or (threads == 1 and call in ALLOCATE_FOR_THREADS)
    for ours, undisturbed in zip(result, expected, strict=True):
        assert torch.equal(ours, undisturbed)


def test_the_function_is_named() -> None:
    native().fail_allocation_after(0)
    with pytest.raises(MemoryError, match=r"^native engine: out of memory in orthogonalize$"):
        orthogonalize()
    native().fail_allocation_after(0)
    with pytest.raises(MemoryError, match=r"^out of memory on 4 sentences with beam 4; lower the batch size"):
        beam_search()


@pytest.mark.parametrize(
    ("code", "kind"), [(1, MemoryError), (2, ValueError), (3, RuntimeError), (4, RuntimeError)]
)
def test_what_a_return_code_raises(code: int, kind: type[Exception]) -> None:
    with pytest.raises(kind, match=r"^native engine: .*token_loss"):
        raise_failure(code, native().token_loss, ())


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("gemm_weight_grad", (None, 1, 1, None, 2**60, 0, 0, None)),
        ("orthogonalize", (None, 0, 2**40, 2**40, 5, 1.0, 1.0, 1.0)),
        ("orthogonalize", (None, 0, -1, -1, 5, 1.0, 1.0, 1.0)),
        ("prefill", (None, None, 2**20, 2**20, 2**20, 2**20, None)),
        ("prefill", (None, None, -1, 4, 4, 4, None)),
    ],
)
def test_sizes_that_overflow_are_refused(name: str, arguments: tuple[object, ...]) -> None:
    with pytest.raises(ValueError, match=rf"^native engine: sizes overflow or are out of range in {name}$"):
        getattr(native(), name)(*arguments)


@pytest.mark.parametrize("saves", [0, 1])
def test_a_sequence_that_does_not_fit_into_memory(saves: int) -> None:
    """2^31 - 9 tokens of one sequence, whose activations have no place in memory."""
    structs = header().structs
    offsets = torch.tensor([0, 2**31 - 9], dtype=torch.int32)
    sublayer = structs["Sublayer"](kind=0, pre_norm=1, heads=1, activation=0, d_ff=2**40)
    stack = structs["Stack"](2**31, 1, ctypes.addressof(sublayer))
    run = structs["StackRun"](
        stack=ctypes.addressof(stack), offsets=offsets.data_ptr(), sequences=1, shares=1, saves=saves
    )
    with pytest.raises((ValueError, MemoryError), match="native engine: "):
        native().stack_forward(ctypes.byref(run), None, None, None)


@pytest.mark.parametrize(
    ("beam", "sentence"), [(2**31 - 1, "out of range in beam_search"), (0, "at least 1"), (-1, "at least 1")]
)
def test_a_beam_that_does_not_fit_is_refused(beam: int, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        beam_search(beam=beam)


UNDER_A_LIMIT = """
import resource
from support.engine_calls import beam_search, native
native()
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 2**28, resource.getrlimit(resource.RLIMIT_AS)[1]))
try:
    beam_search(beam=1_000_000)
except MemoryError as problem:
    print(problem)
resource.setrlimit(resource.RLIMIT_AS, resource.getrlimit(resource.RLIMIT_AS)[1:] * 2)
beam_search()
print("goes on")
"""


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="Linux only: /proc/self/statm")
@pytest.mark.skipif("asan" in os.environ.get("LD_PRELOAD", ""), reason="ASan reserves terabytes of addresses")
def test_a_beam_larger_than_memory_is_an_error_and_not_a_crash() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", UNDER_A_LIMIT],
        capture_output=True, text=True, check=False, env=child_environment(),
    )  # fmt: skip
    assert ran.stdout.splitlines() == [
        "out of memory on 4 sentences with beam 1000000; lower the batch size or the beam size",
        "goes on",
    ], ran.stderr
