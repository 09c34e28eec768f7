"""Ensembles: several models whose scores of the next token are averaged."""

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
        return type(self)(tuple(each.select(rows) for each in self.states))


class Ensemble(nn.Module):
    """Models of the same vocabulary whose scores of the next token are averaged.

    Normalized, that is the geometric mean of their probabilities: a token must be likely in all of them.

    Raises:
        ValueError: There is no model.
    """

    def __init__(self, members: Iterable[nn.Module]) -> None:
        super().__init__()
        self.members = nn.ModuleList(members)
        if not len(self.members):
            raise ValueError("an ensemble needs at least one model")

    def start(self, source: Tensor) -> EnsembleState:
        return EnsembleState(tuple(cast(Decodable, each).start(source) for each in self.members))

    def step(
        self, tokens: Tensor, state: EnsembleState, record: Recorder | None = None
    ) -> tuple[Tensor, EnsembleState]:
        """As `step` of each; the recorded names of member 1 begin with `1.`, and so on."""
        stepped = [
            cast(Decodable, member).step(tokens, member_state, record and record.under(number))
            for number, (member, member_state) in enumerate(
                zip(self.members, state.states, strict=True), start=1
            )
        ]
        scores = torch.stack([scores for scores, _ in stepped]).mean(0)
        return scores, EnsembleState(tuple(after for _, after in stepped))
