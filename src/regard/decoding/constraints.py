"""What a text may not contain: special symbols, repeated runs, anything but its prefix at first."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class DecodingConstraints:
    """The ids that mean something to the search, and the rules on what may come next."""

    begin: int | None
    """What a translation begins with; None where what was read is gone on with."""
    end: int
    never: tuple[int, ...]
    """Ids that are no part of any text: `<s>`, padding, unknown."""
    no_repeat: int = 0
    """No run of so many tokens occurs twice; 0 means anything may."""

    room: int = 0
    """How long a text may get; 0 means as long as a translation may."""
    repetition: float = 1.0
    """What saying something again costs: its score is divided by this, or multiplied where it is below 0."""

    def room_for(self, source_length: int) -> int:
        """How long a translation may get: ample for any pair of languages, and an end for a model in a loop."""
        return self.room or 3 * source_length + 20

    def opened(self, source: Tensor) -> tuple[Tensor, Tensor]:
        """What a model reads first, and the token each row then begins with."""
        if self.begin is None:
            return source[:, :-1], source[:, -1]
        return source, torch.full((len(source),), self.begin, device=source.device)

    def apply(
        self, scores: Tensor, written: Tensor, forced: Sequence[int | None], read: Tensor | None = None
    ) -> Tensor:
        """Scores (rows, vocabulary) with the forbidden at minus infinity; written (rows, step) came before.

        `read` (rows, length) is what was gone on with: it counts as said.
        """
        if self.repetition != 1.0:
            said = written if read is None else torch.cat([read, written], dim=1)
            scores = self._with_repetition(scores, said)
        never = torch.tensor(self.never, dtype=torch.long, device=scores.device)
        scores = scores.index_fill(1, never, -torch.inf)
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

    def _with_repetition(self, scores: Tensor, said: Tensor) -> Tensor:
        """Keskar et al. 2019, section 4.1; scores below 0 are multiplied, so that they fall too."""
        given = scores.gather(1, said)
        return scores.scatter(1, said, torch.where(given > 0, given / self.repetition, given * self.repetition))

    def _forbid_repeats(self, scores: Tensor, written: Tensor) -> None:
        run = self.no_repeat
        for row, tokens in enumerate(written.tolist()):
            head = tokens[len(tokens) - run + 1 :] if run > 1 else []
            if len(tokens) < run:
                continue
            for start in range(len(tokens) - run + 1):
                if tokens[start : start + run - 1] == head:
                    scores[row, tokens[start + run - 1]] = -torch.inf
