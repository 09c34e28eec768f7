"""Attention as kernel regression (Nadaraya 1964, Watson 1964): attention with one parameter."""

from typing import Literal, cast

import torch
from torch import Tensor, nn

from regard.nn.attention import Attention
from regard.nn.recorder import Recorder
from regard.nn.scores import Gaussian

Kernel = Literal["average", "fixed", "learned"]


class KernelRegression(nn.Module):
    """Predicts y at x as the mean of the y of known points, weighted by a Gaussian kernel of their distance.

    Args:
        points: Number of known points, which are saved with the model.
        kernel: "average" weights all points equally, "fixed" uses `sharpness`, "learned" trains it.
        sharpness: Sharpness of the Gaussian; its initial value if it is learned.
    """

    def __init__(self, points: int, kernel: Kernel = "learned", sharpness: float = 1.0) -> None:
        super().__init__()
        # With sharpness 0 every score is 0 and the softmax is the plain mean.
        score = Gaussian(0.0 if kernel == "average" else sharpness, learned=kernel == "learned")
        self.attention = Attention(score)
        self.x: Tensor
        self.y: Tensor
        self.register_buffer("x", torch.zeros(points))
        self.register_buffer("y", torch.zeros(points))

    @classmethod
    def from_points(
        cls, x: Tensor, y: Tensor, kernel: Kernel = "learned", sharpness: float = 1.0
    ) -> "KernelRegression":
        """A model of the known points x (points,), y (points,)."""
        model = cls(len(x), kernel, sharpness)
        model.x.copy_(x)
        model.y.copy_(y)
        return model

    @property
    def sharpness(self) -> float:
        return float(cast(Gaussian, self.attention.score).sharpness)

    def forward(self, x: Tensor, *, mask: Tensor | None = None, record: Recorder | None = None) -> Tensor:
        """Predict y at x: (queries,) -> (queries,)."""
        memory = self.attention.project_kv(self.x.view(1, -1, 1), self.y.view(1, -1, 1))
        named = record and record.under("kernel")
        return cast(Tensor, self.attention(x.view(1, -1, 1), memory, mask=mask, record=named)).view(-1)

    def leave_one_out(self) -> Tensor:
        """Each known point predicted from all others, without itself: (points,)."""
        mask = ~torch.eye(len(self.x), dtype=torch.bool, device=self.x.device).unsqueeze(0)
        return cast(Tensor, self(self.x, mask=mask))
