"""What a translation may not contain: special symbols, repeated runs, anything but its prefix at first."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Limits:
    """The ids that mean something to the search, and the rules on what may come next."""

    begin: int
    end: int
    never: tuple[int, ...]
    """Ids that are no part of any text: `<s>`, padding, unknown."""
    no_repeat: int = 0
    """No run of so many tokens occurs twice; 0 means anything may."""

    def room_for(self, source_length: int) -> int:
        """How long a translation may get: ample for any pair of languages, and an end for a model in a loop."""
        return 3 * source_length + 20

    def apply(self, scores: Tensor, written: Tensor, forced: Sequence[int | None]) -> Tensor:
        """Scores (rows, vocabulary) with the forbidden at minus infinity; written (rows, step) came before."""
        scores = scores.index_fill(1, torch.tensor(self.never, device=scores.device), -torch.inf)
        if written.size(1) == 0:
            scores[:, self.end] = -torch.inf  # an empty translation is never the best one can say
        if self.no_repeat:
            self._forbid_repeats(scores, written)
        for row, token in enumerate(forced):
            if token is not None:
                only = scores[row, token].clamp_min(torch.finfo(scores.dtype).min)
                scores[row] = -torch.inf
                scores[row, token] = only
        return scores

    def _forbid_repeats(self, scores: Tensor, written: Tensor) -> None:
        run = self.no_repeat
        for row, tokens in enumerate(written.tolist()):
            head = tokens[len(tokens) - run + 1 :] if run > 1 else []
            if len(tokens) < run:
                continue
            for start in range(len(tokens) - run + 1):
                if tokens[start : start + run - 1] == head:
                    scores[row, tokens[start + run - 1]] = -torch.inf
