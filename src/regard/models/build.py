"""From a recipe's model section to a model."""

from typing import Literal

from torch import nn

from regard.config import BertModel, GptModel, RnnModel, TransformerModel
from regard.models.bert import Bert, BertAnswerer, BertClassifier, BertPretrainer, BertReader, BertTagger
from regard.models.gpt import SYMBOLS, Gpt, GptClassifier, GptWriter
from regard.models.pairs import PairModel
from regard.models.rnn import Rnn
from regard.models.transformer import Transformer


def build(
    config: TransformerModel | RnnModel, source_vocabulary: int, target_vocabulary: int, padding: int
) -> PairModel:
    """A model with fresh weights."""
    match config:
        case TransformerModel():
            return Transformer(config, source_vocabulary, target_vocabulary, padding)
        case RnnModel():
            return Rnn(config, source_vocabulary, target_vocabulary, padding)


Head = Literal["none", "pretraining", "classes", "tags", "span", "language"]
"""What a BERT or a GPT is asked for."""


def build_reader(
    config: BertModel | GptModel, head: Head, vocabulary: int, padding: int, labels: int = 0
) -> nn.Module:
    """A BERT or a GPT with fresh weights and a head; `labels` is how many classes or tags there are."""
    match config:
        case BertModel():
            return build_bert(config, head, vocabulary, padding, labels)
        case GptModel():
            return build_gpt(config, head, vocabulary, labels)


def build_gpt(config: GptModel, head: Head, vocabulary: int, labels: int = 0) -> nn.Module:
    """A GPT that writes on, or one that labels texts: the last three ids of its vocabulary are symbols."""
    if head == "classes":
        return GptClassifier(Gpt(config, vocabulary - SYMBOLS, SYMBOLS), config, labels)
    assert head == "language"
    return GptWriter(Gpt(config, vocabulary))


def build_bert(config: BertModel, head: Head, vocabulary: int, padding: int, labels: int = 0) -> nn.Module:
    """A BERT with fresh weights and a head; `labels` is how many classes or tags there are."""
    bert = Bert(config, vocabulary, padding)
    match head:
        case "none":
            return BertReader(bert)
        case "pretraining":
            return BertPretrainer(bert, config)
        case "classes":
            return BertClassifier(bert, config, labels)
        case "tags":
            return BertTagger(bert, config, labels)
        case "span":
            return BertAnswerer(bert, config)
        case "language":
            raise ValueError("a BERT sees what comes next, so it cannot be asked for it")
