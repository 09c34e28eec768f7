"""Token embeddings."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional


class ScaledEmbedding(nn.Module):
    """Token embeddings times sqrt(d_model) (Vaswani et al. 2017, section 3.4).

    The table starts with standard deviation d_model^-0.5: scaled up, the vectors have unit components, and
    used as the output projection the same table gives logits of moderate size.
    """

    def __init__(self, vocabulary: int, d_model: int, padding: int | None = None) -> None:
        super().__init__()
        self.padding = padding
        self.scale = math.sqrt(d_model)
        self.weight = nn.Parameter(nn.init.normal_(torch.empty(vocabulary, d_model), std=d_model**-0.5))
        if padding is not None:
            nn.init.zeros_(self.weight.data[padding])

    def forward(self, ids: Tensor) -> Tensor:
        """ids (...) -> (..., d_model)."""
        return functional.embedding(ids, self.weight, padding_idx=self.padding) * self.scale
