"""Ensembles: several models whose scores of the next token are averaged at each decoding step."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self, cast

import torch
from torch import Tensor, nn

from regard.nn.recorder import Recorder
from regard.nn.seq2seq import Decodable, State


@dataclass(frozen=True)
class EnsembleState:
    """The state of each model."""

    states: tuple[State, ...]

    def select(self, rows: Tensor) -> Self:
        return type(self)(tuple(state.select(rows) for state in self.states))


class Ensemble(nn.Module):
    """Models of the same vocabulary whose scores of the next token are averaged.

    After normalization, that is the geometric mean of their probabilities: a token must be likely in all of
    them.

    Args:
        members: At least one model with `start` and `step`.

    Raises:
        ValueError: There is no model.
    """

    def __init__(self, members: Iterable[nn.Module]) -> None:
        super().__init__()
        self.members = nn.ModuleList(members)
        if not len(self.members):
            raise ValueError("an ensemble needs at least one model")

    def start(self, source: Tensor) -> EnsembleState:
        return EnsembleState(tuple(cast(Decodable, member).start(source) for member in self.members))

    def step(
        self, tokens: Tensor, state: EnsembleState, record: Recorder | None = None
    ) -> tuple[Tensor, EnsembleState]:
        """One step of every member; names in `record` are prefixed with the number of the member, from 1."""
        results = [
            cast(Decodable, member).step(tokens, member_state, record and record.under(number))
            for number, (member, member_state) in enumerate(
                zip(self.members, state.states, strict=True), start=1
            )
        ]
        scores = torch.stack([scores for scores, _ in results]).mean(0)
        return scores, EnsembleState(tuple(next_state for _, next_state in results))
