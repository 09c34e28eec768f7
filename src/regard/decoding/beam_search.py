"""Beam search over a batch of sentences. Beam 1 is greedy search.

The result does not depend on the batch that a sentence is in: all sentences of a batch have the same length, so
that there is no padding, and the number of rows is padded to a multiple of `ROW_MULTIPLE`, so that the matrix
products treat every row alike.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.config.decoding import SearchConfig
from regard.decoding.constraints import DecodingConstraints
from regard.engine.ops import top_of_rows
from regard.limits import MAX_BEAM, MAX_NBEST, MAX_TOKENS, check_range
from regard.nn import Recorder
from regard.nn.seq2seq import Decodable, Hypothesis

ROW_MULTIPLE = 4
"""A GEMM may compute the last one to three rows with a kernel of other rounding than groups of four."""


@dataclass(frozen=True)
class BeamSearchConfig(SearchConfig):
    """Settings of one beam search.

    Raises:
        RegardError: A size is out of range (`regard.limits`).
    """

    nbest: int = 1
    """Results per source sentence; there may be fewer where the beam is narrower."""
    max_length: int = 256

    def __post_init__(self) -> None:
        check_range("beam", self.beam, 1, MAX_BEAM)
        check_range("nbest", self.nbest, 1, MAX_NBEST)
        check_range("max_length", self.max_length, 1, MAX_TOKENS)


@torch.inference_mode()
def search(
    model: Decodable,
    source: Tensor,
    constraints: DecodingConstraints,
    options: BeamSearchConfig,
    prefixes: Sequence[Sequence[int]] | None = None,
) -> list[list[Hypothesis]]:
    """Beam search for a batch of source sentences of the same length.

    Args:
        model: Computes the scores of the next token.
        source: Source ids: (batch, length).
        constraints: Special tokens and rules on what may come next.
        options: Beam size, n-best, penalties.
        prefixes: For each sentence the target ids that its translations start with.

    Returns:
        For each sentence its `nbest` hypotheses, best first.
    """
    beams = BeamState(source, options, constraints, prefixes or [()] * len(source))
    encoder_ids, tokens = constraints.decoder_start(source)
    pad = row_padding(model)
    state = model.start(pad(encoder_ids))
    while beams.active:
        record = Recorder() if options.coverage else None
        scores, state = model.step(pad(tokens), state, record)
        selection = beams.advance(scores[: len(tokens)], mean_attention(record, len(tokens)))
        if selection is None:
            break
        rows, tokens = selection
        if rows is not None:
            state = state.select(pad(rows))
    return [beams.best(sentence) for sentence in range(len(source))]


def row_padding(model: Decodable) -> Callable[[Tensor], Tensor]:
    """The padding of a batch's rows; none for a model whose rows never depend on the batch size (`exact`)."""
    return (lambda rows: rows) if getattr(model, "exact", False) else pad_rows


def pad_rows(rows: Tensor) -> Tensor:
    """Repeat the first row at the end until the number of rows is a multiple of `ROW_MULTIPLE`."""
    missing = -len(rows) % ROW_MULTIPLE
    return torch.cat([rows, rows[:1].expand(missing, *rows.shape[1:])]) if missing else rows


def mean_attention(record: Recorder | None, rows: int) -> Tensor | None:
    """This step's attention to each source token, averaged over the last layer's heads: (rows, source)."""
    if record is None:
        return None
    return record[record.names[-1]][:rows, :, -1].mean(1)


class BeamState:
    """The open and the finished hypotheses of every sentence."""

    def __init__(
        self,
        source: Tensor,
        options: BeamSearchConfig,
        constraints: DecodingConstraints,
        prefixes: Sequence[Sequence[int]],
    ) -> None:
        self.options, self.constraints = options, constraints
        self.prefixes = prefixes
        self.source = source
        self.max_length = min(constraints.max_length_for(source.size(1)), options.max_length)
        self.active = list(range(len(source)))
        self.width = 1  # open hypotheses per sentence: one until the first token is chosen
        self.log_probability = torch.zeros(len(source), 1, device=source.device)  # (active, width)
        self.token_ids = torch.zeros(len(source), 0, dtype=torch.long, device=source.device)  # (rows, step)
        self.coverage = torch.zeros(len(source), source.size(1), device=source.device)  # (rows, source)
        self.finished: list[list[Hypothesis]] = [[] for _ in range(len(source))]

    @property
    def step(self) -> int:
        return self.token_ids.size(1)

    def advance(self, scores: Tensor, attention: Tensor | None) -> tuple[Tensor | None, Tensor] | None:
        """Extend the hypotheses by one token.

        Args:
            scores: Scores of the next token: (rows, vocabulary).
            attention: Attention to the source tokens in this step: (rows, source).

        Returns:
            The rows to continue with (None where they stay as they are) and their tokens; None when every
            sentence has ended.
        """
        if attention is not None:
            self.coverage = self.coverage + attention
        log_probability, parent, token = self._candidates(
            self.constraints.apply(scores, self.token_ids, self._forced_tokens(), self._prompts())
        )
        ends = token == self.constraints.end
        self._finish(log_probability, parent, token, ends)
        if self.step + 1 >= self.max_length:
            # At the maximum length, truncated hypotheses count only for sentences where none has ended.
            unfinished = torch.tensor(
                [not self.finished[sentence] for sentence in self.active], device=ends.device
            )
            self._finish(log_probability, parent, token, unfinished.unsqueeze(1).expand_as(ends))
            return None
        return self._select(log_probability.masked_fill(ends, -torch.inf), parent, token)

    def _forced_tokens(self) -> list[int | None]:
        """For each row the token that its sentence's prefix requires at this step, or None."""
        active_prefixes = [self.prefixes[sentence] for sentence in self.active]
        return [
            prefix[self.step] if self.step < len(prefix) else None
            for prefix in active_prefixes
            for _ in range(self.width)
        ]

    def _prompts(self) -> Tensor | None:
        """The prompt of each row, for the repetition penalty of a decoder-only model."""
        if self.constraints.begin is not None or self.constraints.repetition == 1.0:
            return None
        active = torch.tensor(self.active, device=self.source.device)
        return self.source.index_select(0, active.repeat_interleave(self.width))

    def _candidates(self, scores: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The 2 x beam best continuations of each sentence: log probability, parent row, token."""
        per_row = min(2 * self.options.beam, scores.size(1))
        # Selecting before normalizing saves a pass over the vocabulary.
        best, tokens, norms = top_of_rows(scores, per_row)
        best = best - norms.unsqueeze(1) + self.log_probability.view(-1, 1)
        sentences = len(self.active)
        count = min(2 * self.options.beam, per_row * self.width)
        log_probability, index = best.view(sentences, -1).topk(count)
        token = tokens.view(sentences, -1).gather(1, index)
        first_row = torch.arange(sentences, device=scores.device).unsqueeze(1) * self.width
        return log_probability, first_row + index // per_row, token

    def _finish(self, log_probability: Tensor, parent: Tensor, token: Tensor, ends: Tensor) -> None:
        """Store the hypotheses that end here and are among the `beam` best of their sentence."""
        for index, rank in ends[:, : self.options.beam].nonzero().tolist():
            total = float(log_probability[index, rank])
            if total == -torch.inf:
                continue
            row, last = int(parent[index, rank]), int(token[index, rank])
            ids = [*self.token_ids[row].tolist(), last]
            length = len(ids)
            if last == self.constraints.end:
                ids.pop()
            score = total / length**self.options.length_penalty + self._coverage_penalty(row)
            self.finished[self.active[index]].append(Hypothesis(tuple(ids), score, total))

    def _coverage_penalty(self, row: int) -> float:
        if not self.options.coverage:
            return 0.0
        return self.options.coverage * float(self.coverage[row].clamp(1e-9, 1.0).log().sum())

    def _select(
        self, log_probability: Tensor, parent: Tensor, token: Tensor
    ) -> tuple[Tensor | None, Tensor] | None:
        """Keep the best open continuations of the sentences that are not done."""
        width = min(self.options.beam, log_probability.size(1))
        best, rank = log_probability.topk(width)  # (active, width)
        open_sentences = [
            index for index, best_open in enumerate(best[:, 0].tolist()) if not self._is_done(index, best_open)
        ]
        if not open_sentences:
            self.active = []
            return None
        keep = torch.tensor(open_sentences, device=best.device)
        all_stay = len(open_sentences) == len(self.active)
        self.active = [self.active[index] for index in open_sentences]
        self.log_probability = best[keep]
        rows = parent.gather(1, rank)[keep].flatten()
        tokens = token.gather(1, rank)[keep].flatten()
        self.token_ids = torch.cat([self.token_ids[rows], tokens.unsqueeze(1)], dim=1)
        self.coverage = self.coverage[rows]
        unchanged = (
            all_stay and width == self.width and torch.equal(rows, torch.arange(len(rows), device=rows.device))
        )
        self.width = width
        return None if unchanged else rows, tokens

    def _is_done(self, index: int, best_open: float) -> bool:
        """Whether no open hypothesis can still win: `beam` are finished, and the best open one scores lower."""
        if best_open == -torch.inf:
            return True
        finished = self.finished[self.active[index]]
        beam = self.options.beam
        if len(finished) < beam:
            return False
        worst = sorted((hypothesis.score for hypothesis in finished), reverse=True)[beam - 1]
        return bool(best_open / (self.step + 1) ** self.options.length_penalty <= worst)

    def best(self, sentence: int) -> list[Hypothesis]:
        """The `nbest` finished hypotheses of a sentence, best first."""
        ranked = sorted(self.finished[sentence], key=lambda hypothesis: (-hypothesis.score, hypothesis.ids))
        return ranked[: self.options.nbest]
