"""A BERT on which token reduction is measured."""

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from regard.data.examples import Example, all_batches
from regard.engine import run
from regard.errors import RegardError
from regard.nn import Merging, Pruning, Reducer, TokenCounts
from regard.nn.bert import Bert
from regard.tasks.encoder.model import TrainedEncoder
from regard.tasks.encoder.reduction import token_counts
from regard.tasks.encoder.training import TaskScores
from regard.tasks.reduction_subject import TIMED, set_reduction, spread


class TextSubject(ABC):
    """A BERT on its test or validation texts, or those of a file."""

    score_name: str
    first_only: bool
    neighbours_only = True

    def __init__(self, loaded: TrainedEncoder, data: Path | None, most: int) -> None:
        body = loaded.body
        self.config = loaded.recipe.model
        if not isinstance(body, Bert):
            raise RegardError(
                f"{loaded.folder.path} holds {self.config}; tokens become fewer in a BERT or a ViT"
            )
        self.loaded, self.body = loaded, body
        self.work: Any = loaded.work_on(data)
        self.work.splits["test"] = self.work.splits["test"][spread(len(self.work.splits["test"]), most)]
        examples = self.test_examples()
        lengths = [len(each.ids) for each in examples]
        self.examples, self.length = len(examples), float(np.mean(lengths))
        timed = examples[:: max(1, sum(lengths) // TIMED)]
        self.batches = list(all_batches(timed, TIMED // 2))
        self.timed = len(timed)

    @abstractmethod
    def test_examples(self) -> list[Example]:
        """The examples that are measured."""

    def score(self, by: Reducer) -> float:
        set_reduction(self.body, by)
        measured: TaskScores = self.work.measure(self.loaded.model, self.loaded.tokenizer, "test")
        return measured.scores[self.score_name]

    @torch.no_grad()
    def run(self, by: Reducer) -> object:
        set_reduction(self.body, by)
        return [run(self.loaded.model, batch.ids, batch.segments) for batch in self.batches]

    def token_counts(self, by: Reducer) -> TokenCounts:
        self.body.reduction = cast(Merging | Pruning, by)
        return token_counts(self.body, self.batches, first_only=self.first_only)

    @torch.no_grad()
    def tokens(self) -> Tensor:
        batch = self.batches[-1]
        return self.body.embed(batch.ids.values, batch.segments, batch.ids.positions)


class LabelSubject(TextSubject):
    """A BERT that labels texts."""

    score_name, first_only = "accuracy", True

    def test_examples(self) -> list[Example]:
        examples: list[Example] = self.work.examples(self.loaded.tokenizer, "test")[0]
        return examples


class TagSubject(TextSubject):
    """A BERT that tags words."""

    score_name, first_only = "f1", False

    def test_examples(self) -> list[Example]:
        return [stretch.example for stretch in self.work.stretches(self.loaded.tokenizer, "test")]
