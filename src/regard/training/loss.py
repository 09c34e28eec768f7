"""What training makes smaller."""

import torch
from torch import Tensor, nn


def smoothed_targets(labels: Tensor, vocabulary: int, smoothing: float, padding: int) -> Tensor:
    """The distribution label smoothing aims at: labels (...) -> (..., vocabulary).

    1 - e on the label, e / (V - 2) on the others, nothing on padding; a padded place aims at nothing.
    """
    if vocabulary < 3:
        raise ValueError(f"label smoothing needs tokens to spread over; a vocabulary of {vocabulary} has none")
    target = torch.full((*labels.shape, vocabulary), smoothing / (vocabulary - 2), device=labels.device)
    target.scatter_(-1, labels.unsqueeze(-1), 1.0 - smoothing)
    target[..., padding] = 0.0
    return target.masked_fill((labels == padding).unsqueeze(-1), 0.0)


class SmoothedKL(nn.Module):
    """KL divergence from the smoothed targets to the model, summed over what is not padding.

    The written-out form, as the text has it; it holds a vocabulary-wide target for every token.
    """

    def __init__(self, vocabulary: int, padding: int, smoothing: float = 0.1) -> None:
        super().__init__()
        self.vocabulary, self.padding, self.smoothing = vocabulary, padding, smoothing

    def forward(self, logits: Tensor, labels: Tensor) -> Tensor:
        """logits (..., vocabulary), labels (...) -> one number."""
        target = smoothed_targets(labels, self.vocabulary, self.smoothing, self.padding).to(logits.dtype)
        log_probability = torch.log_softmax(logits, dim=-1)
        # xlogy: a target of 0 adds nothing, so the divergence stays finite without smoothing.
        return (torch.xlogy(target, target) - target * log_probability).sum()
