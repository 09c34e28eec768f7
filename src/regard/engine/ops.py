"""Operations on single tensors by the kernels, or by PyTorch where they do not take them."""

import torch
from torch import Tensor

from regard.engine.library import data_ptr, library
from regard.engine.plan import tensors_supported


def top_of_rows(scores: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """The highest scores of each row (rows, vocabulary), their tokens, and log sum exp of all of them."""
    if not tensors_supported(scores):
        best, tokens = scores.topk(count)
        return best, tokens, scores.logsumexp(-1)
    if not 1 <= count <= scores.size(1):
        raise ValueError(f"{count} of {scores.size(1)} scores were asked for")
    rows = len(scores)
    best, tokens = scores.new_empty(rows, count), torch.empty(rows, count, dtype=torch.long)
    norms = scores.new_empty(rows)
    library().top_of_rows(data_ptr(scores), *scores.shape, count, *map(data_ptr, (best, tokens, norms)))
    return best, tokens, norms


def orthogonalize(x: Tensor, rounds: int, coefficients: tuple[float, float, float]) -> Tensor:
    """Newton-Schulz iterations on matrices (count, rows, columns), no taller than wide (Muon)."""
    if tensors_supported(x):
        x = x.clone()
        library().orthogonalize(data_ptr(x), *x.shape, rounds, *coefficients)
        return x
    a, b, c = coefficients
    for _ in range(rounds):
        square = x @ x.mT
        x = a * x + (b * square + c * square @ square) @ x
    return x
