"""Operations on single tensors by the kernels: matrix products, highest scores, orthogonalization."""

import torch
from torch import Tensor

from regard.engine.library import data_ptr, library, optional_ptr
from regard.engine.plan import tensors_supported


def prepack(weight: Tensor, *, transposed: bool = False) -> Tensor:
    """Pack a matrix (out, in), or (in, out) if transposed, for `linear_packed`: one array."""
    weight = weight.detach().contiguous()
    size, out = weight.shape if transposed else reversed(weight.shape)
    packed = torch.empty(library().gemm_packed_floats(out, size))
    library().gemm_pack(data_ptr(weight), data_ptr(packed), out, size, transposed)
    return packed


def linear_packed(x: Tensor, packed: Tensor, out: int, bias: Tensor | None = None) -> Tensor:
    """Linear layer with a packed matrix: x (rows, in) -> (rows, out).

    The result of a row is bit-identical in any batch.
    """
    y = x.new_empty(len(x), out)
    library().gemm(
        data_ptr(x), len(x), data_ptr(packed), optional_ptr(bias), x.size(1), out, out, 0, data_ptr(y)
    )
    return y


def weight_gradient(gradient: Tensor, x: Tensor) -> Tensor:
    """Gradient of a linear layer's weight: gradient (rows, out) and input x (rows, in) -> (out, in)."""
    out = x.new_empty(gradient.size(1), x.size(1))
    library().gemm_weight_grad(
        data_ptr(gradient), gradient.size(1), gradient.size(1), data_ptr(x), x.size(1), len(x), 0, data_ptr(out)
    )
    return out


def top_of_rows(scores: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """The highest scores of each row, by the kernels if they support the tensor, else by PyTorch.

    Args:
        scores: (rows, vocabulary).
        count: How many.

    Returns:
        Scores and token ids (rows, count), highest first, and log-sum-exp of all scores (rows,).

    Raises:
        ValueError: The count is not between 1 and the vocabulary size.
    """
    if not tensors_supported(scores):
        best, tokens = scores.topk(count)
        return best, tokens, scores.logsumexp(-1)
    if not 1 <= count <= scores.size(1):
        raise ValueError(f"count is between 1 and {scores.size(1)}, not {count}")
    rows = len(scores)
    best, tokens = scores.new_empty(rows, count), torch.empty(rows, count, dtype=torch.long)
    norms = scores.new_empty(rows)
    library().top_of_rows(data_ptr(scores), *scores.shape, count, *map(data_ptr, (best, tokens, norms)))
    return best, tokens, norms


def orthogonalize(x: Tensor, rounds: int, coefficients: tuple[float, float, float]) -> Tensor:
    """Newton-Schulz iterations on matrices (count, rows, columns) with rows <= columns (Muon)."""
    if tensors_supported(x):
        x = x.clone()
        library().orthogonalize(data_ptr(x), *x.shape, rounds, *coefficients)
        return x
    a, b, c = coefficients
    for _ in range(rounds):
        square = x @ x.mT
        x = a * x + (b * square + c * square @ square) @ x
    return x
