"""Chance instead of search: a translation drawn from the model, token by token."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.decoding.limits import Limits
from regard.decoding.search import Hypothesis, in_fours
from regard.errors import RegardError
from regard.models.interface import Decodable


@dataclass(frozen=True)
class Chance:
    """How a translation is drawn: the same seed draws the same text for the same line."""

    seed: int
    temperature: float = 1.0
    top_k: int = 0
    """Only the so many likeliest tokens are drawn; 0 means all."""

    def __post_init__(self) -> None:
        if self.temperature <= 0:
            raise RegardError(f"a temperature is above 0; given: {self.temperature:g}")


@torch.inference_mode()
def sample(
    model: Decodable, source: Tensor, limits: Limits, chance: Chance, numbers: Sequence[int], longest: int = 256
) -> list[Hypothesis]:
    """One translation drawn for each source sentence (batch, length); `numbers` tell the sentences apart."""
    chances = [torch.Generator().manual_seed(chance.seed + number) for number in numbers]
    state = model.start(in_fours(source))
    tokens = torch.full((len(source),), limits.begin, device=source.device)
    written = torch.zeros(len(source), 0, dtype=torch.long, device=source.device)
    total = torch.zeros(len(source), device=source.device)
    open_rows = torch.ones(len(source), dtype=torch.bool, device=source.device)
    for _ in range(min(limits.room_for(source.size(1)), longest)):
        scores, state = model.step(in_fours(tokens), state)
        scores = limits.apply(scores[: len(source)], written, [None] * len(source)) / chance.temperature
        tokens, log_probability = draw(scores, chances, chance.top_k)
        total += log_probability * open_rows
        written = torch.cat([written, torch.where(open_rows, tokens, limits.end).unsqueeze(1)], dim=1)
        open_rows &= tokens != limits.end
        if not open_rows.any():
            break
    return [finished(row, float(score), limits.end) for row, score in zip(written.tolist(), total, strict=True)]


def draw(scores: Tensor, chances: list[torch.Generator], top_k: int) -> tuple[Tensor, Tensor]:
    """A token for each row, each with its own chance, and its log probability."""
    if top_k:
        least = scores.topk(min(top_k, scores.size(1))).values[:, -1:]
        scores = scores.masked_fill(scores < least, -torch.inf)
    log_probability = torch.log_softmax(scores, dim=-1)
    # A row at a time: what is drawn for a sentence does not depend on the sentences beside it.
    drawn = [
        torch.multinomial(row.exp().cpu(), 1, generator=chance)
        for row, chance in zip(log_probability, chances, strict=True)
    ]
    tokens = torch.cat(drawn).to(scores.device)
    return tokens, log_probability.gather(1, tokens.unsqueeze(1)).squeeze(1)


def finished(ids: list[int], score: float, end: int) -> Hypothesis:
    length = ids.index(end) if end in ids else len(ids)
    return Hypothesis(tuple(ids[:length]), score / (length + 1), score)
