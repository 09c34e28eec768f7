"""From a recipe's model section to a model."""

from typing import Literal

from torch import nn

from regard.config import BertModel, RnnModel, TransformerModel
from regard.models.bert import Bert, BertAnswerer, BertClassifier, BertPretrainer, BertReader, BertTagger
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


Head = Literal["none", "pretraining", "classes", "tags", "span"]
"""What a BERT is asked for."""


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
