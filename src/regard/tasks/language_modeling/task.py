"""A model that writes on, from any text: what comes next is all it is asked."""

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
from regard.tasks.encoder.training import TaskRun, TaskScores
from regard.tasks.language_modeling import ngram
from regard.tasks.language_modeling.config import LanguageModelingRecipe
from regard.tasks.metrics_log import ProgressListener
from regard.tasks.translation.vocabulary import digest_of
from regard.tokenization import LetterTokenizer, Tokenizer
from regard.training.objectives import LanguageObjective

TOKENS = 8192
"""Tokens a batch while measuring."""

WINDOWS = 20_000
"""Windows in hand at a time while measuring."""


def train(
    recipe: LanguageModelingRecipe, out: Path, listener: ProgressListener | None = None, *, resume: bool = False
) -> TaskRun | None:
    """Train into the folder `out`, and measure on the test file or on the validation text."""
    if isinstance(recipe.model, NgramConfig):
        return ngram.count(recipe, Language(recipe), out, listener, resume=resume)
    return texts.train(recipe, Language, out, listener, resume=resume)


class Language:
    """The work of a language recipe."""

    head: Head = "language"
    objective = LanguageObjective

    def __init__(self, recipe: LanguageModelingRecipe) -> None:
        self.data = recipe.data
        self.max_length = 1 if isinstance(recipe.model, NgramConfig) else recipe.model.max_length
        self.labels: list[str] = []
        self.splits: dict[str, TextRange] = {}

    def open(self, split: str, path: Path) -> None:
        """A file as a split; where validation has no file of its own, the end of the text is held out."""
        whole = TextRange.of_file(path)
        if split == "train" and self.data.valid is None:
            self.splits["train"], self.splits["valid"] = whole.split(self.data.held_out)
        else:
            self.splits[split] = whole

    def key(self, item: str) -> str:
        return item

    def tell(self) -> Iterator[str]:
        told = ", ".join(f"{len(part):,} characters for {split}" for split, part in self.splits.items())
        yield f"text: {told}"

    def texts(self) -> Iterable[str]:
        return iter(self.splits["train"])

    def encode(self, tokenizer: Tokenizer, tell: Callable[[str], object]) -> TokenWindows:
        found = self.windows(tokenizer, "train")
        if not len(found):
            raise RegardError(
                f"data.train has {found.tokens:,} tokens, fewer than a window of {self.max_length} and the one "
                "after it; give more text, or a smaller window (model.max_length)"
            )
        tell(f"tokens: {found.tokens:,}, {len(found):,} windows of {self.max_length}")
        for split in self.splits:
            if unknown := self.unknown(tokenizer, split):
                tell(f"data.{split}: {unknown:,} characters do not occur in the training text")
        return found

    def windows(self, tokenizer: Tokenizer, split: str) -> TokenWindows:
        return TokenWindows(self.store(tokenizer, split), self.max_length)

    def store(self, tokenizer: Tokenizer, split: str) -> TokenStore:
        """A split as ids, in a token store that is built where it is not there yet."""
        text = self.splits[split]
        key = store_key("text", text.fingerprint, digest_of(tokenizer))
        return open_or_build(
            cache_folder() / "stores" / key,
            text.pairs,
            tokenizer.encode_batch,
            lambda nothing: [[] for _ in nothing],
            (tokenizer.size, 0),
        )

    def unknown(self, tokenizer: Tokenizer, split: str) -> int:
        """How many characters a character model has no id for."""
        if not isinstance(tokenizer, LetterTokenizer):
            return 0
        rows = self.windows(tokenizer, split).rows
        return sum(int((row == tokenizer.unknown).sum()) for row in rows)

    def measure(self, model: nn.Module, tokenizer: Tokenizer, split: str) -> TaskScores:
        windows = self.windows(tokenizer, split)
        if isinstance(model, Ngram):
            nats, tokens = ngram.measured_counts(model, windows)
            return TaskScores(self.scores(nats, tokens, windows.tokens, split), tokens, [])
        objective = LanguageObjective(model)
        in_order, total, asked, count = windows.non_overlapping(), 0.0, 0, 0
        with torch.no_grad():
            while some := list(islice(in_order, WINDOWS)):
                count += len(some)
                for batch in all_batches(some, TOKENS):
                    total += float(objective.loss(batch.to(objective.device)))
                    asked += batch.num_targets
        return TaskScores(self.scores(total, asked, windows.tokens, split), count, [])

    def scores(self, nats: float, asked: int, tokens: int, split: str) -> dict[str, float]:
        """Loss in nats a token, and in bits a byte, which does not depend on what a token is."""
        if not asked:
            raise RegardError(f"data.{split}: a text of one token leaves nothing to guess")
        loss = nats / asked
        bits = loss * tokens / self.splits[split].bytes / math.log(2)
        return {"loss": loss, "bits_per_byte": bits, "perplexity": math.exp(min(loss, 700))}
