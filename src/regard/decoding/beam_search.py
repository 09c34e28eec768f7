"""Beam search: the best translations of a batch of sentences. Beam 1 is greedy search.

The text does not depend on the batch a sentence is in: the sentences of a batch have the same length, so there
is no padding, and rows come in fours (`FOURS`), so that every row goes through the same arithmetic.
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

FOURS = 4
"""Matrix products treat the last one to three rows otherwise than whole groups of four; a bit then differs."""


@dataclass(frozen=True)
class BeamSearchConfig(SearchConfig):
    """Settings of one beam search.

    Raises:
        RegardError: A size is out of range (`regard.limits`).
    """

    nbest: int = 1
    """Results for each source sentence; there may be fewer where the beam is narrower."""
    max_length: int = 256

    def __post_init__(self) -> None:
        check_range("beam", self.beam, 1, MAX_BEAM)
        check_range("nbest", self.nbest, 1, MAX_NBEST)
        check_range("max_length", self.max_length, 1, MAX_TOKENS)


@torch.inference_mode()
def search(
    model: Decodable,
    source: Tensor,
    limits: DecodingConstraints,
    options: BeamSearchConfig,
    prefixes: Sequence[Sequence[int]] | None = None,
) -> list[list[Hypothesis]]:
    """The `nbest` translations of each source sentence (batch, length), best first.

    All sentences must have the same length. With prefixes, each translation begins with its own.
    """
    beams = Beams(source, options, limits, prefixes or [()] * len(source))
    read, tokens = limits.opened(source)
    fill = filling(model)
    state = model.start(fill(read))
    while beams.active:
        record = Recorder() if options.coverage else None
        scores, state = model.step(fill(tokens), state, record)
        choice = beams.advance(scores[: len(tokens)], looked_at(record, len(tokens)))
        if choice is None:
            break
        rows, tokens = choice
        if rows is not None:
            state = state.select(fill(rows))
    return [beams.best(sentence) for sentence in range(len(source))]


def filling(model: Decodable) -> Callable[[Tensor], Tensor]:
    """What is done to the rows of a batch: nothing for a model whose rows have the same bits in any company."""
    return (lambda rows: rows) if getattr(model, "exact", False) else in_fours


def in_fours(rows: Tensor) -> Tensor:
    """The rows, the first one repeated at the end until their number is a multiple of four."""
    missing = -len(rows) % FOURS
    return torch.cat([rows, rows[:1].expand(missing, *rows.shape[1:])]) if missing else rows


def looked_at(record: Recorder | None, rows: int) -> Tensor | None:
    """How much of each source token the last layer's heads saw in this step, on average: (rows, source)."""
    if record is None:
        return None
    return record[record.names[-1]][:rows, :, -1].mean(1)


class Beams:
    """The open and the finished translations of every sentence, step by step."""

    def __init__(
        self,
        source: Tensor,
        options: BeamSearchConfig,
        limits: DecodingConstraints,
        prefixes: Sequence[Sequence[int]],
    ) -> None:
        self.options, self.limits = options, limits
        self.prefixes = prefixes
        self.source = source
        self.room = min(limits.room_for(source.size(1)), options.max_length)
        self.active = list(range(len(source)))
        self.width = 1  # open translations a sentence: one until the first token is chosen
        self.log_probability = torch.zeros(len(source), 1, device=source.device)  # (active, width)
        self.written = torch.zeros(len(source), 0, dtype=torch.long, device=source.device)  # (rows, step)
        self.seen = torch.zeros(len(source), source.size(1), device=source.device)  # (rows, source)
        self.finished: list[list[Hypothesis]] = [[] for _ in range(len(source))]

    @property
    def step(self) -> int:
        return self.written.size(1)

    def advance(self, scores: Tensor, maps: Tensor | None) -> tuple[Tensor | None, Tensor] | None:
        """Take scores of the next token (rows, vocabulary); give the rows to go on with and their tokens.

        Rows are None where all go on as they are. None in all: every sentence has ended.
        """
        if maps is not None:
            self.seen = self.seen + maps
        log_probability, parent, token = self._candidates(
            self.limits.apply(scores, self.written, self._forced(), self._read())
        )
        ends = token == self.limits.end
        self._finish(log_probability, parent, token, ends)
        if self.step + 1 >= self.room:
            # No room left: what has not ended is cut off, and counts only where nothing has.
            without = torch.tensor(
                [not self.finished[sentence] for sentence in self.active], device=ends.device
            )
            self._finish(log_probability, parent, token, without.unsqueeze(1).expand_as(ends))
            return None
        return self._go_on(log_probability.masked_fill(ends, -torch.inf), parent, token)

    def _forced(self) -> list[int | None]:
        """For each row the token its sentence's prefix demands now."""
        demanded = [self.prefixes[sentence] for sentence in self.active]
        return [
            prefix[self.step] if self.step < len(prefix) else None
            for prefix in demanded
            for _ in range(self.width)
        ]

    def _read(self) -> Tensor | None:
        """For each row what it goes on with; nothing where it is a translation."""
        if self.limits.begin is not None or self.limits.repetition == 1.0:
            return None
        active = torch.tensor(self.active, device=self.source.device)
        return self.source.index_select(0, active.repeat_interleave(self.width))

    def _candidates(self, scores: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The 2 x beam best continuations of each sentence: log probability, row they come from, token."""
        a_row = min(2 * self.options.beam, scores.size(1))
        # Choosing before normalizing spares a pass over the vocabulary.
        best, tokens, norms = top_of_rows(scores, a_row)
        best = best - norms.unsqueeze(1) + self.log_probability.view(-1, 1)
        sentences = len(self.active)
        in_all = min(2 * self.options.beam, a_row * self.width)
        log_probability, place = best.view(sentences, -1).topk(in_all)
        token = tokens.view(sentences, -1).gather(1, place)
        first_row = torch.arange(sentences, device=scores.device).unsqueeze(1) * self.width
        return log_probability, first_row + place // a_row, token

    def _finish(self, log_probability: Tensor, parent: Tensor, token: Tensor, ends: Tensor) -> None:
        """Keep what ends here, if it is among the best of its sentence."""
        for place, rank in ends[:, : self.options.beam].nonzero().tolist():
            total = float(log_probability[place, rank])
            if total == -torch.inf:
                continue
            row, last = int(parent[place, rank]), int(token[place, rank])
            ids = [*self.written[row].tolist(), last]
            length = len(ids)
            if last == self.limits.end:
                ids.pop()
            score = total / length**self.options.length_penalty + self._coverage(row)
            self.finished[self.active[place]].append(Hypothesis(tuple(ids), score, total))

    def _coverage(self, row: int) -> float:
        if not self.options.coverage:
            return 0.0
        return self.options.coverage * float(self.seen[row].clamp(1e-9, 1.0).log().sum())

    def _go_on(
        self, log_probability: Tensor, parent: Tensor, token: Tensor
    ) -> tuple[Tensor | None, Tensor] | None:
        """The best continuations that have not ended, for the sentences that have not."""
        width = min(self.options.beam, log_probability.size(1))
        best, rank = log_probability.topk(width)  # (active, width)
        going = [
            place for place, open_one in enumerate(best[:, 0].tolist()) if not self._settled(place, open_one)
        ]
        if not going:
            self.active = []
            return None
        keep = torch.tensor(going, device=best.device)
        all_stay = len(going) == len(self.active)
        self.active = [self.active[place] for place in going]
        self.log_probability = best[keep]
        rows = parent.gather(1, rank)[keep].flatten()
        tokens = token.gather(1, rank)[keep].flatten()
        self.written = torch.cat([self.written[rows], tokens.unsqueeze(1)], dim=1)
        self.seen = self.seen[rows]
        unmoved = (
            all_stay and width == self.width and torch.equal(rows, torch.arange(len(rows), device=rows.device))
        )
        self.width = width
        return None if unmoved else rows, tokens

    def _settled(self, place: int, best_open: float) -> bool:
        """Whether no open translation can still win: enough are finished, and the best open one is behind."""
        if best_open == -torch.inf:
            return True
        finished = self.finished[self.active[place]]
        wanted = self.options.beam
        if len(finished) < wanted:
            return False
        worst = sorted((each.score for each in finished), reverse=True)[wanted - 1]
        return bool(best_open / (self.step + 1) ** self.options.length_penalty <= worst)

    def best(self, sentence: int) -> list[Hypothesis]:
        ranked = sorted(self.finished[sentence], key=lambda each: (-each.score, each.ids))
        return ranked[: self.options.nbest]
