"""Training of a language model (GPT or n-gram) to predict the next token of plain text."""

import math
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path

import torch
from torch import nn

from regard.config.models import NgramConfig
from regard.data.examples import all_batches
from regard.data.language_modeling import TextRange, TokenWindows
from regard.data.token_store import TokenStore, open_or_build, store_key
from regard.errors import RegardError
from regard.nn.build import Head
from regard.nn.ngram import Ngram
from regard.storage import cache_folder
from regard.tasks.encoder import training as texts
from regard.tasks.language_modeling import ngram
from regard.tasks.language_modeling.config import LanguageModelingRecipe
from regard.tasks.metrics_log import PhaseProgress, ProgressListener
from regard.tasks.results import TaskRun, TaskScores
from regard.tasks.translation.vocabulary import tokenizer_digest
from regard.tokenization import CharacterTokenizer, Tokenizer
from regard.training.objectives import LanguageObjective

BATCH_TOKENS = 8192
"""Tokens per batch in evaluation."""

MAX_WINDOWS = 20_000
"""Windows held in memory at a time in evaluation."""


def train(
    recipe: LanguageModelingRecipe, out: Path, listener: ProgressListener | None = None, *, resume: bool = False
) -> TaskRun | None:
    """Train into the folder `out`, and evaluate on the test file or the validation text."""
    if isinstance(recipe.model, NgramConfig):
        return ngram.count(recipe, LanguageModelingTask(recipe), out, listener, resume=resume)
    return texts.train(recipe, LanguageModelingTask, out, listener, resume=resume)


class LanguageModelingTask:
    """Text, tokens, objective and scores of a language modeling recipe."""

    head: Head = "language"
    objective = LanguageObjective

    def __init__(self, recipe: LanguageModelingRecipe) -> None:
        self.data = recipe.data
        self.max_length = 1 if isinstance(recipe.model, NgramConfig) else recipe.model.max_length
        self.labels: list[str] = []
        self.splits: dict[str, TextRange] = {}

    def read_split(self, split: str, path: Path) -> None:
        """Read a file as a split; without a validation file the end of the training text is held out."""
        whole = TextRange.of_file(path)
        if split == "train" and self.data.valid is None:
            self.splits["train"], self.splits["valid"] = whole.split(self.data.held_out)
        else:
            self.splits[split] = whole

    def split_key(self, item: str) -> str:
        return item

    def data_summary(self) -> Iterator[str]:
        sizes = ", ".join(f"{len(part):,} characters for {split}" for split, part in self.splits.items())
        yield f"text: {sizes}"

    def vocabulary_texts(self) -> Iterable[str]:
        return iter(self.splits["train"])

    def encode(self, tokenizer: Tokenizer, log: Callable[[str], object]) -> TokenWindows:
        windows = self.windows(tokenizer, "train")
        if not len(windows):
            raise RegardError(
                f"data.train has {windows.tokens:,} tokens; a window of model.max_length = {self.max_length} "
                "needs one more than its size; use more text or a smaller window"
            )
        log(f"tokens: {windows.tokens:,}, {len(windows):,} windows of {self.max_length}")
        for split in self.splits:
            if unknown := self.unknown(tokenizer, split):
                log(f"data.{split}: {unknown:,} characters do not occur in the training text")
        return windows

    def windows(self, tokenizer: Tokenizer, split: str) -> TokenWindows:
        return TokenWindows(self.store(tokenizer, split), self.max_length)

    def store(self, tokenizer: Tokenizer, split: str) -> TokenStore:
        """The token store of a split, built if it does not exist yet."""
        text = self.splits[split]
        key = store_key("text", text.fingerprint, tokenizer_digest(tokenizer))
        return open_or_build(
            cache_folder() / "stores" / key,
            text.pairs,
            tokenizer.encode_batch,
            lambda targets: [[] for _ in targets],
            (tokenizer.size, 0),
        )

    def unknown(self, tokenizer: Tokenizer, split: str) -> int:
        """Number of characters outside the vocabulary of a character model."""
        if not isinstance(tokenizer, CharacterTokenizer):
            return 0
        rows = self.windows(tokenizer, split).rows
        return sum(int((row == tokenizer.unknown).sum()) for row in rows)

    def measure(
        self, model: nn.Module, tokenizer: Tokenizer, split: str, progress: PhaseProgress | None = None
    ) -> TaskScores:
        windows = self.windows(tokenizer, split)
        if isinstance(model, Ngram):
            nats, tokens = ngram.ngram_loss(model, windows)
            return TaskScores(self.scores(nats, tokens, windows.tokens, split), tokens, [])
        objective = LanguageObjective(model)
        progress = progress or PhaseProgress()
        progress.expect(windows.tokens, "tokens")
        in_order, total, num_targets, count = windows.non_overlapping(), 0.0, 0, 0
        with torch.no_grad():
            while batch_windows := list(islice(in_order, MAX_WINDOWS)):
                count += len(batch_windows)
                for batch in all_batches(batch_windows, BATCH_TOKENS):
                    total += float(objective.loss(batch.to(objective.device)))
                    num_targets += batch.num_targets
                    progress.add(batch.num_targets)
        return TaskScores(self.scores(total, num_targets, windows.tokens, split), count, [])

    def scores(self, nats: float, num_targets: int, tokens: int, split: str) -> dict[str, float]:
        """Loss in nats per token, bits per byte (comparable across tokenizers), and perplexity."""
        if not num_targets:
            raise RegardError(f"data.{split}: the text has one token; at least two are needed")
        loss = nats / num_targets
        bits = loss * tokens / self.splits[split].bytes / math.log(2)
        return {"loss": loss, "bits_per_byte": bits, "perplexity": math.exp(min(loss, 700))}
