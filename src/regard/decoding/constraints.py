"""Decoding constraints: suppressed tokens, no-repeat n-grams, repetition penalty, maximum length."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class DecodingConstraints:
    """Special token ids and the rules on what may come next."""

    begin: int | None
    """First decoder token (`<s>`); None for a decoder-only model, which continues its prompt."""
    end: int
    suppressed: tuple[int, ...]
    """Ids that are never generated: `<s>`, padding, unknown."""
    no_repeat: int = 0
    """No n-gram of this size occurs twice; 0 means no limit."""

    max_length: int = 0
    """Maximum number of generated tokens; 0 means a multiple of the source length."""
    repetition: float = 1.0
    """Repetition penalty: positive scores of earlier tokens are divided by it, negative ones multiplied."""

    def max_length_for(self, source_length: int) -> int:
        """Maximum output length for a source length: enough for any language pair, and it ends a loop."""
        return self.max_length or 3 * source_length + 20

    def decoder_start(self, source: Tensor) -> tuple[Tensor, Tensor]:
        """The ids (batch, length) to encode or prefill, and the first decoder token of each row (batch,)."""
        if self.begin is None:
            return source[:, :-1], source[:, -1]
        return source, torch.full((len(source),), self.begin, device=source.device)

    def apply(
        self,
        scores: Tensor,
        generated: Tensor,
        forced: Sequence[int | None],
        prompt: Tensor | None = None,
    ) -> Tensor:
        """Scores with forbidden tokens at minus infinity.

        Args:
            scores: Scores of the next token: (rows, vocabulary).
            generated: Tokens generated so far: (rows, step).
            forced: For each row the only token allowed next, or None.
            prompt: Ids (rows, length) that the rows continue; the repetition penalty covers them too.
        """
        if self.repetition != 1.0:
            previous = generated if prompt is None else torch.cat([prompt, generated], dim=1)
            scores = self._penalize_repetition(scores, previous)
        suppressed = torch.tensor(self.suppressed, dtype=torch.long, device=scores.device)
        scores = scores.index_fill(1, suppressed, -torch.inf)
        if generated.size(1) == 0:
            scores[:, self.end] = -torch.inf  # an empty output is not allowed
        if self.no_repeat:
            self._forbid_repeated_ngrams(scores, generated)
        for row, token in enumerate(forced):
            if token is not None:
                score = scores[row, token].clamp_min(torch.finfo(scores.dtype).min)
                scores[row] = -torch.inf
                scores[row, token] = score
        return scores

    def _penalize_repetition(self, scores: Tensor, previous: Tensor) -> Tensor:
        """Keskar et al. 2019, section 4.1; negative scores are multiplied, so that they decrease too."""
        values = scores.gather(1, previous)
        penalized = torch.where(values > 0, values / self.repetition, values * self.repetition)
        return scores.scatter(1, previous, penalized)

    def _forbid_repeated_ngrams(self, scores: Tensor, generated: Tensor) -> None:
        size = self.no_repeat
        for row, tokens in enumerate(generated.tolist()):
            if len(tokens) < size:
                continue
            context = tokens[len(tokens) - size + 1 :] if size > 1 else []
            for start in range(len(tokens) - size + 1):
                if tokens[start : start + size - 1] == context:
                    scores[row, tokens[start + size - 1]] = -torch.inf
