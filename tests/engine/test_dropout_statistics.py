"""The kernels' dropout masks are dropout: the right rate at every position, independent of the neighbours.

That the kernels apply these masks is in test_conformance; these tests check the statistics of the masks.
"""

import math

import pytest
import torch
from support.kernel_dropout import kept, row_mask

from regard.engine.plan import dropout_threshold

PROBABILITIES = [0.01, 0.1, 0.25, 0.3, 0.5, 0.9]
SEED = 0x1234_5678_9ABC


def rounded(probability: float) -> float:
    return round(probability * 256) / 256


def sigma(tie_embeddings: float, number: int) -> float:
    return math.sqrt(tie_embeddings * (1 - tie_embeddings) / number)


@pytest.mark.parametrize("probability", PROBABILITIES)
def test_the_share_dropped_is_the_probability_to_the_nearest_256th(probability: float) -> None:
    number = 400_000
    mask = kept(torch.arange(number), dropout_threshold(probability), SEED)
    tie_embeddings = (mask == 0).float().mean().item()
    expected = rounded(probability)
    assert abs(expected - probability) <= 1 / 512
    assert abs(tie_embeddings - expected) <= 3 * sigma(expected, number)


@pytest.mark.parametrize("probability", PROBABILITIES)
def test_kept_elements_are_scaled_to_preserve_the_expectation(probability: float) -> None:
    number, tie_embeddings = 400_000, rounded(probability)
    mask = kept(torch.arange(number), dropout_threshold(probability), SEED)
    remaining = mask[mask != 0]
    torch.testing.assert_close(remaining, torch.full_like(remaining, 1 / (1 - tie_embeddings)))
    assert mask.double().mean().item() == pytest.approx(
        1.0, abs=3 / (1 - tie_embeddings) * sigma(tie_embeddings, number)
    )


@pytest.mark.parametrize("threshold", [1, 26, 127, 128, 129, 230, 255])
def test_every_byte_of_a_block_drops_the_same_share(threshold: int) -> None:
    number = 100_000
    mask = kept(torch.arange(32 * number), threshold, SEED).view(number, 32)  # a row is one block
    shares = (mask == 0).float().mean(0)
    assert (shares - threshold / 256).abs().max().item() <= 4.5 * sigma(threshold / 256, number)


def test_neighbours_are_dropped_independently() -> None:
    number = 200_000
    dropped = (kept(torch.arange(32 * number), 128, SEED).view(number, 32) == 0).double()
    correlation = torch.corrcoef(dropped.T) - torch.eye(32)
    assert correlation.abs().max().item() <= 4.5 / math.sqrt(number)


def test_the_same_seed_gives_the_same_mask_and_another_an_independent_one() -> None:
    numbers = torch.arange(100_000)
    first, second = kept(numbers, 128, SEED), kept(numbers, 128, SEED + 1)
    assert torch.equal(kept(numbers, 128, SEED), first)
    assert abs((first == second).float().mean().item() - 0.5) <= 4 * sigma(0.5, len(numbers))


def test_rows_have_independent_masks() -> None:
    masks = row_mask(50, 100, 128, SEED)
    assert len({tuple(row.tolist()) for row in masks}) == 50
