"""The recipe of translation."""

from dataclasses import dataclass, field
from typing import Annotated, Literal

from regard.config.data import PairDataConfig
from regard.config.decoding import DecodeConfig
from regard.config.models import Seq2SeqModelConfig, TransformerConfig
from regard.config.recipes import Recipe
from regard.config.schema import Count, NotNegative, Range, Share, defaults
from regard.config.training import SmoothedTrainConfig


@dataclass(frozen=True)
class TokenizerConfig:
    """How sentences are split into tokens."""

    kind: Literal["bpe", "wordpiece", "unigram", "words", "spacy", "space"] = "bpe"
    vocab_size: Annotated[int, Range(at_least=8)] = 8000
    """Maximum number of subwords; for words, `min_count` decides instead."""
    min_count: Count = 2
    joint: bool = True
    """One vocabulary for both languages."""
    lowercase: bool = False
    normalization: Literal["none", "nfc", "nfkc"] = "nfc"
    tokenized: bool = False
    """The text is tokenized already: it is split at spaces only, and output is joined with spaces."""
    dropout: Share = 0.0
    """BPE-dropout: share of merges skipped at random in training."""
    include_held_out: bool = False
    """Count words of validation and test data too, as the report does; only with separate vocabularies."""

    def __post_init__(self) -> None:
        if self.include_held_out and self.joint:
            raise ValueError("include_held_out: this is for separate vocabularies; joint is true")
        if self.dropout and self.kind != "bpe":
            raise ValueError(f'dropout: this is for kind = "bpe"; kind is {self.kind}')


@dataclass(frozen=True)
@defaults(smoothing=0.1)
class TranslationTrainConfig(SmoothedTrainConfig):
    """Training settings of a translation model."""

    r_drop: NotNegative = 0.0
    """Weight of the divergence between two passes with different dropout; 0 means one pass."""
    validate_sentences: Count = 200
    """Sentences translated at a validation; the loss is computed over all."""
    best_by: Literal["bleu", "loss"] = "bleu"


@dataclass(frozen=True)
class TranslationRecipe(Recipe):
    """A translation model from sentence pairs."""

    task: Literal["translation"]
    data: PairDataConfig
    train: TranslationTrainConfig
    tokenizer: TokenizerConfig = field(default_factory=TokenizerConfig)
    model: Seq2SeqModelConfig = field(default_factory=TransformerConfig)
    decode: DecodeConfig = field(default_factory=DecodeConfig)

    def __post_init__(self) -> None:
        if self.model.tie_embeddings == "all" and not self.tokenizer.joint:
            raise ValueError(
                'model.tie_embeddings: "all" needs one vocabulary for both languages; tokenizer.joint is false'
            )
        if self.decode.coverage and not self.model.has_attention:
            raise ValueError(
                'decode.coverage: this needs attention weights, and model.attention is "none"; remove it'
            )
