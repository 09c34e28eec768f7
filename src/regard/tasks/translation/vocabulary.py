"""Source and target vocabulary of a translation model, which may be a joint one."""

import hashlib
import json
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from regard import storage, tokenization
from regard.data.batches import Resample
from regard.data.corpus import Pair
from regard.data.parallel import ParallelCorpus
from regard.errors import RegardError
from regard.tasks.run_folder import RunFolder
from regard.tasks.translation.config import TokenizerConfig, TranslationRecipe
from regard.tokenization import Tokenizer

JOINT, SOURCE, TARGET = "tokenizer.json", "source.json", "target.json"


@dataclass(frozen=True)
class Vocabulary:
    """Source and target tokenizers; the same object where the vocabulary is joint."""

    source: Tokenizer
    target: Tokenizer

    @property
    def joint(self) -> bool:
        return self.source is self.target

    def save(self, folder: Path) -> None:
        if self.joint:
            self.source.save(folder / JOINT)
        else:
            self.source.save(folder / SOURCE)
            self.target.save(folder / TARGET)

    @classmethod
    def load(cls, folder: Path) -> "Vocabulary":
        if (folder / JOINT).exists():
            tokenizer = tokenization.load(storage.inside(folder, JOINT))
            return cls(tokenizer, tokenizer)
        if not (folder / SOURCE).exists():
            raise RegardError(f"{folder} has no vocabulary; expected {JOINT} or {SOURCE}")
        return cls(
            tokenization.load(storage.inside(folder, SOURCE)), tokenization.load(storage.inside(folder, TARGET))
        )

    def digest(self) -> str:
        """A digest of the tokenizers' files."""
        with tempfile.TemporaryDirectory() as folder:
            self.save(Path(folder))
            content = [(path.name, path.read_text("utf-8")) for path in sorted(Path(folder).iterdir())]
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()

    def encode_pairs(self, pairs: Sequence[Pair]) -> list[tuple[list[int], list[int]]]:
        sources = self.source.encode_batch([source for source, _ in pairs])
        targets = self.target.encode_batch([target for _, target in pairs])
        return list(zip(sources, targets, strict=True))

    def resample(self, dropout: float) -> tuple[Resample, Resample]:
        """BPE-dropout for both sides, as functions of (texts, seed)."""
        return partial(_resampled, self.source, dropout), partial(_resampled, self.target, dropout)

    def __str__(self) -> str:
        if self.joint:
            return f"{self.source.size:,} {self.source.kind} ids for both languages"
        return f"{self.source.size:,} source and {self.target.size:,} target ids ({self.source.kind})"


def tokenizer_digest(tokenizer: Tokenizer) -> str:
    """A digest of a tokenizer's file."""
    return Vocabulary(tokenizer, tokenizer).digest()


def _resampled(tokenizer: Tokenizer, dropout: float, texts: list[str], seed: int) -> list[list[int]]:
    return tokenizer.encode_batch(texts, dropout=dropout, seed=seed)


def make_vocabulary(recipe: TranslationRecipe, corpus: ParallelCorpus, folder: RunFolder) -> Vocabulary:
    """The folder's own when resuming, that of the run to start from, or a new one from the training pairs."""
    if (folder.path / JOINT).exists() or (folder.path / TARGET).exists():  # the target side is written last
        return Vocabulary.load(folder.path)
    if recipe.model.start:
        return Vocabulary.load(RunFolder.open(Path(recipe.model.start)).path)
    if recipe.tokenizer.joint:
        sentences = (sentence for pair in corpus.train() for sentence in pair)
        tokenizer = train_tokenizer(recipe.tokenizer, sentences, None)
        return Vocabulary(tokenizer, tokenizer)
    return Vocabulary(
        train_tokenizer(recipe.tokenizer, one_side(corpus, 0, recipe), recipe.data.source_language),
        train_tokenizer(recipe.tokenizer, one_side(corpus, 1, recipe), recipe.data.target_language),
    )


def one_side(corpus: ParallelCorpus, side: int, recipe: TranslationRecipe) -> Iterator[str]:
    yield from (pair[side] for pair in corpus.train())
    if recipe.tokenizer.include_held_out:
        yield from (pair[side] for pair in (*corpus.valid, *corpus.test))


def train_tokenizer(settings: TokenizerConfig, texts: Iterator[str], language: str | None) -> Tokenizer:
    is_word_level = settings.kind in ("words", "spacy", "space")
    return tokenization.train(
        settings.kind,
        texts,
        size=None if is_word_level else settings.vocab_size,
        min_count=settings.min_count,
        lowercase=settings.lowercase,
        normalization=settings.normalization,
        language=language,
        pretokenized=settings.tokenized,
    )
