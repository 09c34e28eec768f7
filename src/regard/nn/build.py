"""Builds models with fresh weights from the model section of a recipe."""

from typing import Literal

from torch import nn

from regard.config.models import (
    BertConfig,
    ConvS2SConfig,
    GptConfig,
    Pooling,
    RnnConfig,
    Seq2SeqModelConfig,
    TokenReductionConfig,
    TransformerConfig,
    VitConfig,
)
from regard.nn.bert import Bert, BertAnswerer, BertClassifier, BertPretrainer, BertTagger, TextEmbedder
from regard.nn.convs2s import ConvS2S
from regard.nn.gpt import SYMBOLS, Gpt, GptClassifier, GptLanguageModel
from regard.nn.rnn import Rnn
from regard.nn.seq2seq import Seq2SeqModel
from regard.nn.token_reduction import Merging, Pruning
from regard.nn.transformer import Transformer
from regard.nn.vit import Vit, VitClassifier


def build(
    config: Seq2SeqModelConfig,
    source_vocabulary: int,
    target_vocabulary: int,
    padding: int,
) -> Seq2SeqModel:
    """A sequence-to-sequence model with fresh weights.

    Args:
        config: Selects the kind of model, its sizes and settings.
        source_vocabulary, target_vocabulary: Number of ids.
        padding: Id of the padding.
    """
    match config:
        case TransformerConfig():
            return Transformer(config, source_vocabulary, target_vocabulary, padding)
        case RnnConfig():
            return Rnn(config, source_vocabulary, target_vocabulary, padding)
        case ConvS2SConfig():
            return ConvS2S(config, source_vocabulary, target_vocabulary, padding)


Head = Literal["none", "pretraining", "classes", "tags", "span", "language"]
"""Text vectors, pretraining, classification, tagging, question answering, generation."""


def build_text_model(
    config: BertConfig | GptConfig,
    head: Head,
    vocabulary: int,
    padding: int,
    labels: int = 0,
    reduce: TokenReductionConfig | None = None,
    pooling: Pooling = "mean",
) -> nn.Module:
    """A BERT or a GPT with fresh weights and a head.

    Args:
        config: Selects BERT or GPT, its sizes and settings.
        head: What is put on top.
        vocabulary: Number of ids.
        padding: Id of the padding.
        labels: Number of classes or tags.
        reduce: Token reduction, for BERT only.
        pooling: How the head "none" pools hidden states into a text vector.
    """
    match config:
        case BertConfig():
            return build_bert(config, head, vocabulary, padding, labels, reduce, pooling)
        case GptConfig():
            return build_gpt(config, head, vocabulary, labels)


def build_gpt(config: GptConfig, head: Head, vocabulary: int, labels: int = 0) -> nn.Module:
    """A GPT with a language-model head, or a classifier, in which the last three ids are symbols."""
    if head == "classes":
        return GptClassifier(Gpt(config, vocabulary - SYMBOLS, SYMBOLS), config, labels)
    assert head == "language"
    return GptLanguageModel(Gpt(config, vocabulary))


def build_bert(
    config: BertConfig,
    head: Head,
    vocabulary: int,
    padding: int,
    labels: int = 0,
    reduce: TokenReductionConfig | None = None,
    pooling: Pooling = "mean",
) -> nn.Module:
    """A BERT with fresh weights and a head.

    Args:
        config: Sizes and settings.
        head: What is put on top.
        vocabulary: Number of ids.
        padding: Id of the padding.
        labels: Number of classes or tags.
        reduce: Token reduction.
        pooling: How the head "none" pools hidden states into a text vector.

    Raises:
        ValueError: The head is "language".
    """
    bert = Bert(config, vocabulary, padding)
    bert.reduction = build_reduction(reduce, config.layers)
    match head:
        case "none":
            return TextEmbedder(bert, pooling)
        case "pretraining":
            return BertPretrainer(bert, config)
        case "classes":
            return BertClassifier(bert, config, labels)
        case "tags":
            return BertTagger(bert, config, labels)
        case "span":
            return BertAnswerer(bert, config)
        case "language":
            raise ValueError("a BERT attends to the following tokens, so it cannot predict them")


def build_vit(config: VitConfig, labels: int, reduce: TokenReductionConfig | None = None) -> VitClassifier:
    """A Vision Transformer classifier with fresh weights and `labels` classes."""
    vit = Vit(config)
    vit.reduction = build_reduction(reduce, config.layers, first_stays=config.pooling == "class")
    return VitClassifier(vit, config, labels)


def build_reduction(
    config: TokenReductionConfig | None, layers: int, *, first_stays: bool = True
) -> Merging | Pruning | None:
    """Token merging or pruning, if the recipe has any.

    `first_stays`: the first token represents the sequence and is never removed.
    """
    if config is None or not config:
        return None
    if config.prune == "none":
        return Merging(config.merge, config.neighbors_only, first_stays)
    return Pruning(
        layers,
        hard=config.prune == "hard",
        temperature=config.temperature,
        keep=config.keep,
        weight=config.weight,
    )
