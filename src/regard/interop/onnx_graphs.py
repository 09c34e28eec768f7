"""Modules to trace as ONNX graphs, with tensors as inputs and outputs.

A translation model is two graphs: an encoder and a decoder step. The step takes the encoder's outputs as inputs
of the same names, and its own outputs `next.NAME` as inputs NAME of the next step. Other models are one graph.
"""

import copy
from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.config.models import VitConfig
from regard.decoding import BeamSearchConfig
from regard.errors import RegardError
from regard.nn import KeyValue, KvCacheStep, LayerState, Sinusoidal, padding_mask
from regard.nn.bert import (
    Bert,
    BertAnswerer,
    BertClassifier,
    BertPretrainer,
    BertTagger,
    TextEmbedder,
)
from regard.nn.gpt import GptClassifier
from regard.nn.recurrent import from_torch_state
from regard.nn.rnn import Rnn, RnnState, reverse_sequences
from regard.nn.seq2seq import Seq2SeqModel
from regard.nn.transformer import Transformer
from regard.nn.vit import VitClassifier

BATCH, LENGTH, PAST = "batch", "length", "past"
"""Names of the dynamic axes."""


class Graph(nn.Module):
    """A module to trace, with the names of its inputs and outputs and the dynamic axes of its inputs."""

    inputs: list[str]
    outputs: list[str]
    axes: list[dict[int, str]]

    def example(self) -> list[Tensor]:
        """Example inputs; no dynamic axis has size 1, which tracing would treat as fixed."""
        raise NotImplementedError

    def dynamic_shapes(self) -> tuple[Any, ...]:
        """The axes for `torch.onnx.export`, which counts all arguments of `*args` as one."""
        named = self.forward.__code__.co_argcount - 1
        return (*self.axes[:named], *([tuple(self.axes[named:])] if len(self.axes) > named else []))


def seq2seq_graphs(model: Seq2SeqModel, max_length: int) -> tuple[Graph, Graph]:
    """Encoder and decoder step of a translation model.

    Raises:
        RegardError: The model is neither a Transformer nor recurrent.
    """
    model = copy.deepcopy(model).cpu().eval()
    match model:
        case Transformer():
            return TransformerEncoderGraph(model, max_length), TransformerStepGraph(model, max_length)
        case Rnn():
            return RnnEncoderGraph(model), RnnStepGraph(model)
    raise RegardError(f"ONNX export supports Transformers and recurrent models, not {type(model).__name__}")


SOURCE = torch.tensor([[4, 5, 6, 1], [5, 6, 1, 2], [4, 1, 2, 2]])
"""Example source ids: three sentences, two of them padded."""


class TransformerEncoderGraph(Graph):
    """Source ids (batch, length) -> attention mask, and each decoder block's keys and values of the source."""

    def __init__(self, model: Transformer, max_length: int) -> None:
        super().__init__()
        self.model = extend_sinusoids(model, max_length)
        self.inputs, self.axes = ["source"], [{0: BATCH, 1: LENGTH}]
        self.outputs = ["mask", *kv_names("memory", len(model.decoder.blocks))]

    def example(self) -> list[Tensor]:
        return [SOURCE]

    def forward(self, source: Tensor) -> tuple[Tensor, ...]:
        return encode_source(self.model, source)


def encode_source(model: Transformer, source: Tensor) -> tuple[Tensor, ...]:
    """Attention mask of the source, and its keys and values per decoder block."""
    mask = padding_mask(source, model.padding)
    memory = model.decoder.project_kv(model.encode(source, mask))
    return mask, *(part for layer in memory for part in (layer.keys, layer.values))


class TransformerStepGraph(Graph):
    """Tokens (batch,), keys and values of source and cache -> scores (batch, vocabulary), updated cache."""

    def __init__(self, model: Transformer, max_length: int) -> None:
        super().__init__()
        self.model = extend_sinusoids(model, max_length)
        self.layers = len(model.decoder.blocks)
        self.inputs = ["tokens", "mask", *kv_names("memory", self.layers), *kv_names("cache", self.layers)]
        self.outputs = ["scores", *(f"next.{name}" for name in kv_names("cache", self.layers))]
        self.axes = [
            {0: BATCH},
            {0: BATCH, 2: LENGTH},
            *({0: BATCH, 2: LENGTH} for _ in range(2 * self.layers)),
            *({0: BATCH, 2: PAST} for _ in range(2 * self.layers)),
        ]

    def example(self) -> list[Tensor]:
        mask, *memory = encode_source(self.model, SOURCE)
        cache = [torch.zeros(len(SOURCE), part.size(1), 3, part.size(3)) for part in memory]
        return [torch.tensor([4, 5, 6]), mask, *memory, *cache]

    def forward(self, tokens: Tensor, mask: Tensor, *memory_and_cache: Tensor) -> tuple[Tensor, ...]:
        pairs = list(zip(memory_and_cache[::2], memory_and_cache[1::2], strict=True))
        memory = [KeyValue(*pair, torch.arange(pair[0].size(-2))) for pair in pairs[: self.layers]]
        caches = [ConcatCache(*pair) for pair in pairs[self.layers :]]
        hidden = self.model.decoder(
            self.model.target_embedding(tokens.unsqueeze(1)),
            memory,
            source_mask=mask,
            caches=cast(list[KvCacheStep], caches),
        )
        updated = (part for cache in caches for part in (cache.keys, cache.values))
        return self.model.scores(hidden.squeeze(1)), *updated


class ConcatCache:
    """A `KvCacheStep` that concatenates, since tracing does not support writes in place."""

    def __init__(self, keys: Tensor, values: Tensor) -> None:
        self.keys, self.values = keys, values
        self.length = keys.size(-2)

    def extend(self, new: KeyValue) -> KeyValue:
        self.keys = torch.cat([self.keys, new.keys], dim=-2)
        self.values = torch.cat([self.values, new.values], dim=-2)
        return KeyValue(self.keys, self.values, torch.arange(self.keys.size(-2)))


class RnnEncoderGraph(Graph):
    """Source ids (batch, length) -> initial state of the decoder."""

    def __init__(self, model: Rnn) -> None:
        super().__init__()
        self.model = model
        self.layers = nn.ModuleList(RecurrentLayer(cast(nn.RNNBase, layer)) for layer in model.encoder.layers)
        self.inputs, self.axes = ["source"], [{0: BATCH, 1: LENGTH}]
        self.outputs = state_names(model)

    def example(self) -> list[Tensor]:
        return [SOURCE]

    def forward(self, source: Tensor) -> tuple[Tensor, ...]:
        lengths = (source != self.model.padding).sum(1)
        x = self.model.source_embedding(reverse_sequences(source, lengths) if self.model.reverse else source)
        last: list[LayerState] = []
        for layer in self.layers:
            x, final = layer(x, lengths)
            last.append(final)
        encoded = reverse_sequences(x, lengths) if self.model.reverse else x
        mask = padding_mask(source, self.model.padding)
        return tuple(state_tensors(self.model.decoder.begin(self.model.bridge(last), encoded, mask)))


class RnnStepGraph(Graph):
    """Tokens (batch,) and the state -> scores (batch, vocabulary) and the updated state."""

    def __init__(self, model: Rnn) -> None:
        super().__init__()
        self.model = model
        states = state_names(model)
        self.inputs = ["tokens", *states]
        self.updated = [name for name in states if name.startswith(("state", "fed"))]
        self.outputs = ["scores", *(f"next.{name}" for name in self.updated)]
        self.axes = [{0: BATCH, 2: LENGTH} if name in MEMORY else {0: BATCH} for name in self.inputs]

    def example(self) -> list[Tensor]:
        state = self.model.start(SOURCE)
        return [torch.tensor([4, 5, 6]), *state_tensors(state)]

    def forward(self, tokens: Tensor, *state: Tensor) -> tuple[Tensor, ...]:
        scores, new_state = self.model.step(tokens, state_from(self.model, state))
        tensors = dict(zip(state_names(self.model), state_tensors(new_state), strict=True))
        return scores, *(tensors[name] for name in self.updated)


MEMORY = ("memory.keys", "memory.values", "mask")
"""Parts of a state that depend on the source only."""


def state_names(model: Rnn) -> list[str]:
    """Names of the parts of a decoder state, in the order of `state_tensors`."""
    parts = ["state", "cell"] if isinstance(model.encoder.layers[0], nn.LSTM) else ["state"]
    layers = [f"state.{layer}.{part}" for layer in range(len(model.decoder.rnn.layers)) for part in parts]
    has_attention = hasattr(model.decoder, "attention")
    feeds_input = has_attention and hasattr(model.decoder, "combine") and model.decoder.fed
    return [*layers, *(MEMORY if has_attention else ()), *(["fed"] if feeds_input else [])]


def state_tensors(state: RnnState) -> list[Tensor]:
    """The tensors of a decoder state."""
    memory = [] if state.memory is None else [state.memory.keys, state.memory.values]
    mask = [] if state.memory is None or state.mask is None else [state.mask]
    layers = [part for layer in state.layers for part in layer]
    return layers + memory + mask + ([] if state.fed is None else [state.fed])


def state_from(model: Rnn, tensors: Sequence[Tensor]) -> RnnState:
    """The decoder state with these tensors."""
    parts = dict(zip(state_names(model), tensors, strict=True))
    layers = [
        tuple(parts[name] for name in parts if name.startswith(f"state.{layer}."))
        for layer in range(len(model.decoder.rnn.layers))
    ]
    memory = None
    if "memory.keys" in parts:
        keys = parts["memory.keys"]
        memory = KeyValue(keys, parts["memory.values"], torch.arange(keys.size(-2)))
    return RnnState(layers, memory, parts.get("mask"), parts.get("fed"))


GATES = {"GRU": (1, 0, 2), "LSTM": (0, 3, 1, 2)}
"""Indices of PyTorch's gates (GRU: r, z, n; LSTM: i, f, g, o) in ONNX's order (z, r, n; i, o, f, g)."""


class RecurrentLayer(nn.Module):
    """A recurrent layer as ONNX's GRU or LSTM operator, which takes the sentence lengths."""

    def __init__(self, rnn: nn.RNNBase) -> None:
        super().__init__()
        self.kind = "LSTM" if isinstance(rnn, nn.LSTM) else "GRU"
        self.size, self.suffixes = rnn.hidden_size, ["", "_reverse"] if rnn.bidirectional else [""]
        self.weight_ih, self.weight_hh = (
            nn.Buffer(self.stacked(rnn, name)) for name in ("weight_ih", "weight_hh")
        )
        self.bias = nn.Buffer(torch.cat([self.stacked(rnn, name) for name in ("bias_ih", "bias_hh")], dim=1))
        self.attributes: dict[str, Any] = {
            "hidden_size": rnn.hidden_size,
            "direction": "bidirectional" if rnn.bidirectional else "forward",
            **({"linear_before_reset": 1} if self.kind == "GRU" else {}),
        }

    def stacked(self, rnn: nn.RNNBase, name: str) -> Tensor:
        """A weight of all directions, with gates in ONNX's order: (directions, gates * size, ...)."""
        directions = [cast(Tensor, getattr(rnn, f"{name}_l0{suffix}")).detach() for suffix in self.suffixes]
        gates = GATES[self.kind]
        return torch.stack(
            [torch.cat([weight.chunk(len(gates))[gate] for gate in gates]) for weight in directions]
        )

    def forward(self, x: Tensor, lengths: Tensor) -> tuple[Tensor, LayerState]:
        """Padded sentences (batch, time, size) -> (batch, time, directions * size), and the final state."""
        batch, time, directions = x.size(0), x.size(1), len(self.suffixes)
        last = [(directions, batch, self.size)] * (2 if self.kind == "LSTM" else 1)
        outputs, *final = torch.onnx.ops.symbolic_multi_out(
            self.kind,
            (x.transpose(0, 1), self.weight_ih, self.weight_hh, self.bias, lengths.to(torch.int32)),
            self.attributes,
            dtypes=[torch.float32] * (1 + len(last)),
            shapes=[(time, directions, batch, self.size), *last],
        )
        return outputs.permute(2, 0, 1, 3).flatten(2), from_torch_state(tuple(final))


def extend_sinusoids(model: Transformer, max_length: int) -> Transformer:
    """Extend sinusoidal positions to the maximum length, since a graph cannot compute more of them."""
    for stack in (model.encoder, model.decoder):
        if isinstance(stack.position, Sinusoidal):
            stack.position = Sinusoidal(
                stack.position.d_model, max(max_length, BeamSearchConfig().max_length) + 1
            )
    return model


def kv_names(prefix: str, layers: int) -> list[str]:
    return [f"{prefix}.{layer}.{part}" for layer in range(layers) for part in ("keys", "values")]


BertLike = TextEmbedder | BertPretrainer | BertClassifier | BertTagger | BertAnswerer


def encoder_graph(model: nn.Module) -> Graph:
    """The graph of a model without a decoder: BERT, a GPT classifier, ViT."""
    model = copy.deepcopy(model).cpu().eval()
    match model:
        case VitClassifier():
            return VitGraph(model)
        case GptClassifier():
            return GptGraph(model)
        case TextEmbedder() | BertPretrainer() | BertClassifier() | BertTagger() | BertAnswerer():
            return BertGraph(model)
    raise TypeError(f"{type(model).__name__} cannot be traced")


class BertGraph(Graph):
    """Ids and segments (batch, length), padded at the end -> outputs of the head, see `bert_outputs`."""

    def __init__(self, model: BertLike) -> None:
        super().__init__()
        self.model = model
        self.inputs, self.axes = ["ids", "segments"], [{0: BATCH, 1: LENGTH}, {0: BATCH, 1: LENGTH}]
        self.outputs = ["vectors" if isinstance(model, TextEmbedder) else "scores"]

    def example(self) -> list[Tensor]:
        ids = torch.tensor([[1, 2, 3, 4], [2, 3, 4, 1]])
        return [ids, torch.tensor([[0, 0, 1, 1], [0, 0, 0, 1]])]

    def forward(self, ids: Tensor, segments: Tensor) -> Tensor:
        return bert_outputs(self.model, ids, segments)


def bert_outputs(model: BertLike, ids: Tensor, segments: Tensor) -> Tensor:
    """Outputs of a BERT on padded texts: scores of labels (batch, labels) or per token, or text vectors."""
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
        last_hidden = hidden.gather(1, last.view(-1, 1, 1).expand(-1, 1, hidden.size(-1))).squeeze(1)
        return self.model.classify(last_hidden)


class VitGraph(Graph):
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
