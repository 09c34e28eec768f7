"""Sampling: texts drawn from the model token by token, with temperature, top-k and top-p."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.decoding.beam_search import row_padding
from regard.decoding.constraints import DecodingConstraints
from regard.errors import RegardError
from regard.nn.seq2seq import Decodable, Hypothesis


@dataclass(frozen=True)
class SamplingConfig:
    """Settings of sampling: the same seed gives the same text for the same line."""

    seed: int
    temperature: float = 1.0
    top_k: int = 0
    """Sample only from this many most likely tokens; 0 means all."""
    top_p: float = 1.0
    """Nucleus sampling: sample only from the smallest set of tokens with this total probability."""

    def __post_init__(self) -> None:
        if self.temperature <= 0:
            raise RegardError(f"temperature: {self.temperature:g} is out of range; allowed is above 0")
        if not 0 < self.top_p <= 1:
            raise RegardError(f"top_p: {self.top_p:g} is out of range; allowed is above 0 and at most 1")


class Sampler:
    """Samples one token per step for a batch of texts, each text with its own random generator.

    Args:
        model: Computes the scores of the next token.
        source: Source ids or prompts of the same length: (batch, length).
        constraints: Special tokens and rules on what may come next.
        sampling: Temperature, top-k and top-p; `seeds` are used instead of its seed.
        seeds: One seed per text.
    """

    def __init__(
        self,
        model: Decodable,
        source: Tensor,
        constraints: DecodingConstraints,
        sampling: SamplingConfig,
        seeds: Sequence[int],
    ) -> None:
        self.model, self.constraints, self.sampling = model, constraints, sampling
        self.generators = [torch.Generator().manual_seed(seed) for seed in seeds]
        self.prompt = source if constraints.begin is None else None
        encoder_ids, self.tokens = constraints.decoder_start(source)
        self.pad = row_padding(model)
        self.state = model.start(self.pad(encoder_ids))
        self.token_ids = torch.zeros(len(source), 0, dtype=torch.long, device=source.device)  # (batch, step)

    def step(self) -> tuple[Tensor, Tensor]:
        """The next token of each text and its log probability: both (batch,)."""
        scores, self.state = self.model.step(self.pad(self.tokens), self.state)
        rows = len(self.tokens)
        scores = self.constraints.apply(scores[:rows], self.token_ids, [None] * rows, self.prompt)
        self.tokens, log_probability = sample_tokens(
            scores / self.sampling.temperature, self.generators, self.sampling
        )
        self.token_ids = torch.cat([self.token_ids, self.tokens.unsqueeze(1)], dim=1)
        return self.tokens, log_probability

    def select(self, rows: Sequence[int]) -> None:
        """Continue with these rows only."""
        index = torch.tensor(rows, device=self.tokens.device)
        self.generators = [self.generators[row] for row in rows]
        self.prompt = None if self.prompt is None else self.prompt[index]
        self.tokens, self.token_ids = self.tokens[index], self.token_ids[index]
        self.state = self.state.select(self.pad(index))


@torch.inference_mode()
def sample(
    model: Decodable,
    source: Tensor,
    constraints: DecodingConstraints,
    sampling: SamplingConfig,
    numbers: Sequence[int],
    max_length: int = 256,
) -> list[Hypothesis]:
    """One sampled translation per source sentence (batch, length).

    Args:
        numbers: Added to the seed, one per sentence, so that a sentence gets the same text in any batch.
    """
    sampler = Sampler(model, source, constraints, sampling, [sampling.seed + number for number in numbers])
    total = torch.zeros(len(source), device=source.device)
    is_open = torch.ones(len(source), dtype=torch.bool, device=source.device)
    for _ in range(min(constraints.max_length_for(source.size(1)), max_length)):
        tokens, log_probability = sampler.step()
        total += log_probability * is_open
        is_open &= tokens != constraints.end
        if not is_open.any():
            break
    token_ids = sampler.token_ids.tolist()
    return [
        sampled_hypothesis(ids, float(score), constraints.end)
        for ids, score in zip(token_ids, total, strict=True)
    ]


def sample_tokens(
    scores: Tensor, generators: list[torch.Generator], sampling: SamplingConfig
) -> tuple[Tensor, Tensor]:
    """One token per row of scores (rows, vocabulary), with the row's own generator, and its log probability."""
    if sampling.top_k:
        smallest = scores.topk(min(sampling.top_k, scores.size(1))).values[:, -1:]
        scores = scores.masked_fill(scores < smallest, -torch.inf)
    if sampling.top_p < 1:
        scores = top_p_filter(scores, sampling.top_p)
    log_probability = torch.log_softmax(scores, dim=-1)
    # One generator per row: what is sampled for a sentence does not depend on the rest of the batch.
    uniform = torch.cat([torch.rand(1, generator=generator, dtype=torch.float64) for generator in generators])
    cumulative = log_probability.double().exp().cumsum(-1)
    threshold = uniform.to(scores.device).unsqueeze(1) * cumulative[:, -1:]
    tokens = torch.searchsorted(cumulative, threshold, right=True).squeeze(1)
    return tokens, log_probability.gather(1, tokens.unsqueeze(1)).squeeze(1)


def top_p_filter(scores: Tensor, top_p: float) -> Tensor:
    """Keep only the smallest set of most likely tokens per row that reaches the probability, at least one."""
    ordered, index = scores.sort(dim=-1, descending=True)
    before = ordered.softmax(-1).cumsum(-1).roll(1, dims=-1)
    before[:, 0] = 0.0
    return torch.full_like(scores, -torch.inf).scatter(
        1, index, ordered.masked_fill(before >= top_p, -torch.inf)
    )


def sampled_hypothesis(ids: list[int], log_probability: float, end: int) -> Hypothesis:
    """The ids up to the end token, with the mean log probability per token."""
    length = ids.index(end) if end in ids else len(ids)
    return Hypothesis(tuple(ids[:length]), log_probability / (length + 1), log_probability)
