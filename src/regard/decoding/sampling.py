"""Chance instead of search: a text drawn from the model, token by token."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.decoding.beam_search import filling
from regard.decoding.constraints import DecodingConstraints
from regard.errors import RegardError
from regard.nn.seq2seq import Decodable, Hypothesis


@dataclass(frozen=True)
class SamplingConfig:
    """How a translation is drawn: the same seed draws the same text for the same line."""

    seed: int
    temperature: float = 1.0
    top_k: int = 0
    """Only the so many likeliest tokens are drawn; 0 means all."""
    top_p: float = 1.0
    """Only the likeliest tokens are drawn that have so much of the probability together."""

    def __post_init__(self) -> None:
        if self.temperature <= 0:
            raise RegardError(f"a temperature is above 0; given: {self.temperature:g}")
        if not 0 < self.top_p <= 1:
            raise RegardError(f"top-p is a share above 0 and at most 1; given: {self.top_p:g}")


class Drawing:
    """Texts that grow by a token at each step, each with a chance of its own."""

    def __init__(
        self,
        model: Decodable,
        source: Tensor,
        limits: DecodingConstraints,
        sampling: SamplingConfig,
        seeds: Sequence[int],
    ) -> None:
        self.model, self.limits, self.sampling = model, limits, sampling
        self.chances = [torch.Generator().manual_seed(seed) for seed in seeds]
        self.read = source if limits.begin is None else None
        first, self.tokens = limits.opened(source)
        self.fill = filling(model)
        self.state = model.start(self.fill(first))
        self.written = torch.zeros(len(source), 0, dtype=torch.long, device=source.device)

    def step(self) -> tuple[Tensor, Tensor]:
        """The next token of each text, and its log probability."""
        scores, self.state = self.model.step(self.fill(self.tokens), self.state)
        rows = len(self.tokens)
        scores = self.limits.apply(scores[:rows], self.written, [None] * rows, self.read)
        self.tokens, log_probability = draw(scores / self.sampling.temperature, self.chances, self.sampling)
        self.written = torch.cat([self.written, self.tokens.unsqueeze(1)], dim=1)
        return self.tokens, log_probability

    def keep(self, places: Sequence[int]) -> None:
        """Go on with these texts only."""
        rows = torch.tensor(places, device=self.tokens.device)
        self.chances = [self.chances[place] for place in places]
        self.read = None if self.read is None else self.read[rows]
        self.tokens, self.written = self.tokens[rows], self.written[rows]
        self.state = self.state.select(self.fill(rows))


@torch.inference_mode()
def sample(
    model: Decodable,
    source: Tensor,
    limits: DecodingConstraints,
    sampling: SamplingConfig,
    numbers: Sequence[int],
    max_length: int = 256,
) -> list[Hypothesis]:
    """One translation drawn for each source sentence (batch, length); `numbers` tell the sentences apart."""
    drawing = Drawing(model, source, limits, sampling, [sampling.seed + number for number in numbers])
    total = torch.zeros(len(source), device=source.device)
    open_rows = torch.ones(len(source), dtype=torch.bool, device=source.device)
    for _ in range(min(limits.room_for(source.size(1)), max_length)):
        tokens, log_probability = drawing.step()
        total += log_probability * open_rows
        open_rows &= tokens != limits.end
        if not open_rows.any():
            break
    written = drawing.written.tolist()
    return [finished(row, float(score), limits.end) for row, score in zip(written, total, strict=True)]


def draw(scores: Tensor, chances: list[torch.Generator], sampling: SamplingConfig) -> tuple[Tensor, Tensor]:
    """A token for each row, each with its own chance, and its log probability."""
    if sampling.top_k:
        least = scores.topk(min(sampling.top_k, scores.size(1))).values[:, -1:]
        scores = scores.masked_fill(scores < least, -torch.inf)
    if sampling.top_p < 1:
        scores = within_share(scores, sampling.top_p)
    log_probability = torch.log_softmax(scores, dim=-1)
    # A point for each row by itself: what is drawn for a sentence does not depend on the sentences beside it.
    points = torch.cat([torch.rand(1, generator=each, dtype=torch.float64) for each in chances])
    reached = log_probability.double().exp().cumsum(-1)
    wanted = points.to(scores.device).unsqueeze(1) * reached[:, -1:]
    tokens = torch.searchsorted(reached, wanted, right=True).squeeze(1)
    return tokens, log_probability.gather(1, tokens.unsqueeze(1)).squeeze(1)


def within_share(scores: Tensor, share: float) -> Tensor:
    """Only the likeliest tokens of each row that reach the share together, at least one."""
    ordered, places = scores.sort(dim=-1, descending=True)
    before = ordered.softmax(-1).cumsum(-1).roll(1, dims=-1)
    before[:, 0] = 0.0
    return torch.full_like(scores, -torch.inf).scatter(
        1, places, ordered.masked_fill(before >= share, -torch.inf)
    )


def finished(ids: list[int], score: float, end: int) -> Hypothesis:
    length = ids.index(end) if end in ids else len(ids)
    return Hypothesis(tuple(ids[:length]), score / (length + 1), score)
