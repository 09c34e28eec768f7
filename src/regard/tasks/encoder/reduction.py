"""Token reduction in whole runs: user input, the score that weighs tokens kept, and the benchmark of a BERT."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from regard.config.models import BertConfig, TokenReductionConfig
from regard.config.training import TrainConfig
from regard.data.examples import Example, TextBatch, all_batches
from regard.engine import run
from regard.engine.forward import padded_inputs
from regard.errors import RegardError
from regard.nn import TokenCounts
from regard.nn.bert import Bert
from regard.tasks.reduction_benchmark import BATCH_TOKENS, Reduction, set_reduction
from regard.training.state import Scores

if TYPE_CHECKING:
    from regard.tasks.encoder.model import TrainedEncoder
    from regard.tasks.encoder.training import TextTask

WORTH = "worth"
"""The score by which the best weights are chosen while thresholds are learned."""
KEPT_SHARE_EXAMPLES = 256
"""Examples on which the share of tokens kept is measured."""
Settings = TypeVar("Settings", bound=TrainConfig)


def parse_merge_amounts(text: str) -> tuple[float, ...]:
    """Parse `0.3` or `16` for every layer, `0.5,0,8` for the first three: shares or numbers of tokens."""
    try:
        return TokenReductionConfig(merge=tuple(float(part) for part in text.split(","))).merge
    except ValueError:
        pass
    raise RegardError(
        f"{text!r} is no number of tokens to merge; give a share below 1 or a whole number, for every layer "
        "or, separated by commas, for the first, the second and so on"
    )


def learns_thresholds(reduce: TokenReductionConfig | None) -> bool:
    """Whether pruning thresholds are to be learned."""
    return reduce is not None and reduce.prune == "soft"


def select_by_worth(train: Settings, reduce: TokenReductionConfig | None) -> Settings:
    """The training settings; while thresholds are learned, the best weights are chosen by `worth`."""
    best: Any = WORTH
    return replace(train, best_by=best) if learns_thresholds(reduce) else train


def add_worth(scores: Scores, by: str, kept: float, reduce: TokenReductionConfig) -> Scores:
    """Add the share of tokens kept, and `worth`: the score `by` minus a penalty for tokens above `reduce.keep`.

    By the plain score the best weights would be the first ones, which prune nothing.
    """
    score = -scores[by] if by == "loss" else scores[by]
    return {**scores, "kept": kept, WORTH: score - reduce.weight * max(0.0, kept - reduce.keep)}


def token_counts(bert: Bert, batches: Iterable[TextBatch], *, first_only: bool) -> TokenCounts:
    """The number of tokens of each text after each block."""
    device = bert.pooler.weight.device
    with torch.no_grad():
        counts = [
            bert.reduced(*padded_inputs(bert, batch.ids, batch.segments), first_only=first_only).counts
            for batch in (batch.to(device) for batch in batches)
        ]
    return tuple(
        (
            torch.cat([batch_counts[layer][0] for batch_counts in counts]),
            torch.cat([batch_counts[layer][1] for batch_counts in counts]),
        )
        for layer in range(len(bert.blocks))
    )


class TextReductionCase:
    """A BERT that labels texts or words, on examples of its test split.

    Args:
        loaded: The model.
        task: Its task, with the examples as test split.
        examples: The examples of the test split as token ids.
        score_name: The score to report.
        first_only: Whether only the first token is read after the last layer.
    """

    neighbours_only = True

    def __init__(
        self,
        loaded: "TrainedEncoder[Any]",
        task: "TextTask",
        examples: Sequence[Example],
        score_name: str,
        *,
        first_only: bool,
    ) -> None:
        body, config = loaded.body, loaded.recipe.model
        if not isinstance(body, Bert) or not isinstance(config, BertConfig):
            raise RegardError(f"{loaded.folder.path} holds {config}; tokens are reduced in a BERT or a ViT")
        self.loaded, self.task, self.body, self.config = loaded, task, body, config
        self.score_name, self.first_only = score_name, first_only
        lengths = [len(example.ids) for example in examples]
        self.examples, self.length = len(examples), float(np.mean(lengths))
        timed = examples[:: max(1, sum(lengths) // BATCH_TOKENS)]
        self.batches = list(all_batches(timed, BATCH_TOKENS // 2))
        self.timed = len(timed)

    def score(self, reduction: Reduction) -> float:
        set_reduction(self.body, reduction)
        return self.task.measure(self.loaded.model, self.loaded.tokenizer, "test").scores[self.score_name]

    @torch.no_grad()
    def run(self, reduction: Reduction) -> object:
        set_reduction(self.body, reduction)
        return [run(self.loaded.model, batch.ids, batch.segments) for batch in self.batches]

    def token_counts(self, reduction: Reduction) -> TokenCounts:
        self.body.reduction = reduction
        return token_counts(self.body, self.batches, first_only=self.first_only)

    @torch.no_grad()
    def tokens(self) -> Tensor:
        batch = self.batches[-1]
        return self.body.embed(batch.ids.values, batch.segments, batch.ids.positions)
