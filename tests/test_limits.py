"""Sizes out of range are refused by recipes and in Python; a lack of memory is recognised."""

import errno

import pytest
import torch

from regard.config.schema import parse_assignments
from regard.decoding import BeamSearchConfig
from regard.decoding.generator import GenerationConfig, with_following_seeds
from regard.errors import OutOfMemory, RegardError, is_out_of_memory, memory_hint
from regard.limits import MAX_BATCH_SIZE, MAX_BEAM, MAX_NBEST, MAX_SAMPLES, MAX_TOKENS, number_text
from regard.tasks.registry import load_recipe

HUGE = 99_999_999_999


@pytest.mark.parametrize(
    ("name", "most"), [("beam", MAX_BEAM), ("nbest", MAX_NBEST), ("max_length", MAX_TOKENS)], ids=str
)
@pytest.mark.parametrize("wrong", [-1, 0, HUGE, 2.5, True, "5"], ids=str)
def test_search_options_out_of_range_are_refused(name: str, most: int, wrong: object) -> None:
    with pytest.raises(
        RegardError, match=f"^{name}: {wrong} is out of range; allowed is .* from 1 to {most:,}$"
    ):
        BeamSearchConfig(**{name: wrong})  # type: ignore[arg-type]
    assert getattr(BeamSearchConfig(**{name: most}), name) == most


@pytest.mark.parametrize(
    ("name", "least", "most"),
    [("tokens", 1, MAX_TOKENS), ("beam", 0, MAX_BEAM), ("batch_size", 1, MAX_BATCH_SIZE)],
)
@pytest.mark.parametrize("beyond", [-1, 1])
def test_generation_settings_out_of_range_are_refused(name: str, least: int, most: int, beyond: int) -> None:
    wrong = least - 1 if beyond < 0 else most + 1
    with pytest.raises(
        RegardError,
        match=f"^{name}: {wrong} is out of range; allowed is .* from {least} to {number_text(most)}$",
    ):
        GenerationConfig(**{name: wrong})
    assert getattr(GenerationConfig(**{name: most}), name) == most
    with pytest.raises(RegardError, match=f"samples: {HUGE} is out of range"):
        with_following_seeds(GenerationConfig(), HUGE)
    assert len(with_following_seeds(GenerationConfig(), MAX_SAMPLES)) == MAX_SAMPLES


@pytest.mark.parametrize(("key", "most"), [("beam", MAX_BEAM), ("batch_size", MAX_BATCH_SIZE)])
def test_recipes_have_the_same_limits(key: str, most: int) -> None:
    for wrong in (0, most + 1):
        sentence = f"^decode.{key}: {wrong} is out of range; allowed is a whole number from 1 to {most}$"
        with pytest.raises(RegardError, match=sentence):
            load_recipe("picturebook", parse_assignments([f"decode.{key}={wrong}"]))
    recipe = load_recipe("picturebook", parse_assignments([f"decode.{key}={most}"]))
    assert getattr(recipe.decode, key) == most  # type: ignore[union-attr]


LACKS = [
    MemoryError(),
    torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"),
    RuntimeError("[enforce fail at alloc_cpu.cpp:118] DefaultCPUAllocator: can't allocate memory"),
    RuntimeError("std::bad_alloc"),
    RuntimeError("can't start new thread"),
    OSError(errno.ENOMEM, "Cannot allocate memory"),
    ImportError("libtorch_cpu.so: failed to map segment from shared object"),
]


@pytest.mark.parametrize("problem", LACKS, ids=lambda problem: f"{type(problem).__name__} {problem}"[:40])
def test_out_of_memory_errors_are_recognised(problem: Exception) -> None:
    assert is_out_of_memory(problem)
    with (
        pytest.raises(OutOfMemory, match=r"^out of memory; lower this$") as raised,
        memory_hint("lower this"),
    ):
        raise problem
    assert raised.value.code == 1


@pytest.mark.parametrize(
    "problem",
    [
        RuntimeError("shapes do not fit"),
        OSError(errno.ENOSPC, "full"),
        ValueError("out of memory"),
        ImportError("x"),
    ],
    ids=repr,
)
def test_other_errors_are_not_out_of_memory(problem: Exception) -> None:
    assert not is_out_of_memory(problem)
    with pytest.raises(type(problem)) as raised, memory_hint("lower this"):
        raise problem
    assert raised.value is problem
