"""Batches of random sentence pairs with chosen lengths, for tests of the encoder-decoder."""

import torch

from regard.data.batches import Batch, Batches
from regard.tokenization import Tokenizer

PADDING, WORDS = Tokenizer.padding, 75


def pair_batch(lengths: list[tuple[int, int]]) -> Batch:
    """One batch of pairs with these source and target lengths."""
    torch.manual_seed(4)
    pairs = [tuple(torch.randint(4, WORDS, (length,)).tolist() for length in pair) for pair in lengths]
    (batch,) = Batches.of_pairs(pairs, 100_000, 400)  # type: ignore[arg-type]
    return batch


SHORT = pair_batch([(3, 5), (9, 2), (1, 1), (7, 7), (12, 20), (2, 6)])
LONG = pair_batch([(90, 120), (130, 100), (300, 310), (5, 4), (150, 160)])
