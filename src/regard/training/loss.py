"""What training makes smaller."""

import torch
from torch import Tensor, nn


def smoothed_targets(gold: Tensor, vocabulary: int, smoothing: float, padding: int) -> Tensor:
    """The distribution label smoothing aims at: gold (...) -> (..., vocabulary).

    1 - e on the gold token, e / (V - 2) on the others, nothing on padding; a padded place aims at nothing.
    """
    if vocabulary < 3:
        raise ValueError(f"label smoothing needs tokens to spread over; a vocabulary of {vocabulary} has none")
    target = torch.full((*gold.shape, vocabulary), smoothing / (vocabulary - 2), device=gold.device)
    target.scatter_(-1, gold.unsqueeze(-1), 1.0 - smoothing)
    target[..., padding] = 0.0
    return target.masked_fill((gold == padding).unsqueeze(-1), 0.0)


class SmoothedKL(nn.Module):
    """KL divergence from the smoothed targets to the model, summed over what is not padding.

    The written-out form, as the text has it; it holds a vocabulary-wide target for every token.
    """

    def __init__(self, vocabulary: int, padding: int, smoothing: float = 0.1) -> None:
        super().__init__()
        self.vocabulary, self.padding, self.smoothing = vocabulary, padding, smoothing

    def forward(self, logits: Tensor, gold: Tensor) -> Tensor:
        """logits (..., vocabulary), gold (...) -> one number."""
        target = smoothed_targets(gold, self.vocabulary, self.smoothing, self.padding).to(logits.dtype)
        log_probability = torch.log_softmax(logits, dim=-1)
        # xlogy: a target of 0 adds nothing, so the divergence stays finite without smoothing.
        return (torch.xlogy(target, target) - target * log_probability).sum()
