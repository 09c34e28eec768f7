"""What goes into ONNX of a model that reads: texts or images in, scores out, in one graph."""

import copy
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.config.models import VitConfig
from regard.interop.onnx_graphs import BATCH, LENGTH, Graph
from regard.nn import padding_mask
from regard.nn.bert import (
    Bert,
    BertAnswerer,
    BertClassifier,
    BertPretrainer,
    BertTagger,
    TextEmbedder,
)
from regard.nn.gpt import GptClassifier
from regard.nn.vit import VitClassifier

BertLike = TextEmbedder | BertPretrainer | BertClassifier | BertTagger | BertAnswerer


def graph(model: nn.Module) -> Graph:
    """The whole of a model that reads."""
    model = copy.deepcopy(model).cpu().eval()
    match model:
        case VitClassifier():
            return ImageGraph(model)
        case GptClassifier():
            return GptGraph(model)
        case TextEmbedder() | BertPretrainer() | BertClassifier() | BertTagger() | BertAnswerer():
            return BertGraph(model)
    raise TypeError(f"{type(model).__name__} cannot be traced")


class BertGraph(Graph):
    """Ids and segments (batch, length), padded at the end -> what the head says of each text or token."""

    def __init__(self, model: BertLike) -> None:
        super().__init__()
        self.model = model
        self.inputs, self.axes = ["ids", "segments"], [{0: BATCH, 1: LENGTH}, {0: BATCH, 1: LENGTH}]
        self.outputs = ["vectors" if isinstance(model, TextEmbedder) else "scores"]

    def example(self) -> list[Tensor]:
        ids = torch.tensor([[1, 2, 3, 4], [2, 3, 4, 1]])
        return [ids, torch.tensor([[0, 0, 1, 1], [0, 0, 0, 1]])]

    def forward(self, ids: Tensor, segments: Tensor) -> Tensor:
        return said(self.model, ids, segments)


def said(model: BertLike, ids: Tensor, segments: Tensor) -> Tensor:
    """What a BERT says, texts side by side: labels (batch, labels), a score for each token, or a vector."""
    bert = cast(Bert, model.bert)
    padding = bert.padding
    hidden = bert.blocks(bert.embed(ids, segments), mask=padding_mask(ids, padding))
    match model:
        case BertClassifier():
            return model.classify(hidden[:, 0])
        case BertTagger():
            return model.tag(hidden)
        case BertAnswerer():
            return model.spans(hidden, ids != padding)
        case BertPretrainer():
            return functional.linear(model.masked(hidden), *model.output)
        case TextEmbedder():
            return model.pool(hidden, ids != padding)


class GptGraph(Graph):
    """Ids (batch, length), padded with -1 at the end -> scores of the labels (batch, labels)."""

    def __init__(self, model: GptClassifier) -> None:
        super().__init__()
        self.model = model
        self.inputs, self.axes, self.outputs = ["ids"], [{0: BATCH, 1: LENGTH}], ["scores"]

    def example(self) -> list[Tensor]:
        return [torch.tensor([[1, 2, 3, 4], [2, 3, 4, -1]])]

    def forward(self, ids: Tensor) -> Tensor:
        gpt = self.model.gpt
        last = (ids != gpt.padding).sum(1) - 1
        hidden = gpt(ids)
        chosen = hidden.gather(1, last.view(-1, 1, 1).expand(-1, 1, hidden.size(-1))).squeeze(1)
        return self.model.classify(chosen)


class ImageGraph(Graph):
    """Pixels (batch, channels, height, width) from 0 to 1 -> scores of the labels (batch, labels)."""

    def __init__(self, model: VitClassifier) -> None:
        super().__init__()
        self.model = model
        self.inputs, self.axes, self.outputs = ["pixels"], [{0: BATCH}], ["scores"]

    def example(self) -> list[Tensor]:
        config: VitConfig = self.model.vit.config
        return [torch.zeros(2, config.channels, config.height, config.width)]

    def forward(self, pixels: Tensor) -> Tensor:
        vit = self.model.vit
        x = vit.norm(vit.blocks(vit.embed(pixels)))
        return self.model.classify(x[:, 0] if vit.by_class else x.mean(1))
