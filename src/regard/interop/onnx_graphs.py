"""What goes into ONNX: a module that reads a source, and one that takes a step, tensors in and tensors out.

Names tell what belongs together: what the reader puts out under a name, and what a step puts out as `next.` and
the name, is what the next step takes in under that name.
"""

import copy
from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn

from regard.decoding import BeamSearchConfig
from regard.errors import RegardError
from regard.nn import KeyValue, KvCacheStep, LayerState, Sinusoidal, padding_mask
from regard.nn.recurrent import from_torch_state
from regard.nn.rnn import Rnn, RnnState, reverse_sequences
from regard.nn.seq2seq import Seq2SeqModel
from regard.nn.transformer import Transformer

BATCH, LENGTH, PAST = "batch", "length", "past"
"""The axes whose sizes are open."""


class Graph(nn.Module):
    """A module to trace, with the names of its inputs and outputs and the open axes of the inputs."""

    inputs: list[str]
    outputs: list[str]
    axes: list[dict[int, str]]

    def example(self) -> list[Tensor]:
        """Inputs to trace it with; no open axis has size 1, which a trace would take for fixed."""
        raise NotImplementedError

    def open_axes(self) -> tuple[Any, ...]:
        """The axes as the tracer wants them: for it, all that comes in by `*` is one argument."""
        plain = self.forward.__code__.co_argcount - 1
        return (*self.axes[:plain], *([tuple(self.axes[plain:])] if len(self.axes) > plain else []))


def graphs(model: Seq2SeqModel, max_length: int) -> tuple[Graph, Graph]:
    """Reader and step of a model."""
    model = copy.deepcopy(model).cpu().eval()
    match model:
        case Transformer():
            return TransformerReader(model, max_length), TransformerStep(model, max_length)
        case Rnn():
            return RnnReader(model), RnnStep(model)
    raise RegardError(f"ONNX export supports Transformers and recurrent models, not {type(model).__name__}")


SOURCE = torch.tensor([[4, 5, 6, 1], [5, 6, 1, 2], [4, 1, 2, 2]])
"""Three sentences, two of them padded."""


class TransformerReader(Graph):
    """Source ids (batch, length) -> who may be looked at, and each block's keys and values of the source."""

    def __init__(self, model: Transformer, max_length: int) -> None:
        super().__init__()
        self.model = prepared(model, max_length)
        self.inputs, self.axes = ["source"], [{0: BATCH, 1: LENGTH}]
        self.outputs = ["mask", *names("memory", len(model.decoder.blocks))]

    def example(self) -> list[Tensor]:
        return [SOURCE]

    def forward(self, source: Tensor) -> tuple[Tensor, ...]:
        return read(self.model, source)


def read(model: Transformer, source: Tensor) -> tuple[Tensor, ...]:
    mask = padding_mask(source, model.padding)
    memory = model.decoder.project_kv(model.encode(source, mask))
    return mask, *(part for each in memory for part in (each.keys, each.values))


class TransformerStep(Graph):
    """Tokens (batch,), the source, what was written -> scores (batch, vocabulary), what is written now."""

    def __init__(self, model: Transformer, max_length: int) -> None:
        super().__init__()
        self.model = prepared(model, max_length)
        self.layers = len(model.decoder.blocks)
        self.inputs = ["tokens", "mask", *names("memory", self.layers), *names("cache", self.layers)]
        self.outputs = ["scores", *(f"next.{name}" for name in names("cache", self.layers))]
        self.axes = [
            {0: BATCH},
            {0: BATCH, 2: LENGTH},
            *({0: BATCH, 2: LENGTH} for _ in range(2 * self.layers)),
            *({0: BATCH, 2: PAST} for _ in range(2 * self.layers)),
        ]

    def example(self) -> list[Tensor]:
        mask, *memory = read(self.model, SOURCE)
        written = [torch.zeros(len(SOURCE), each.size(1), 3, each.size(3)) for each in memory]
        return [torch.tensor([4, 5, 6]), mask, *memory, *written]

    def forward(self, tokens: Tensor, mask: Tensor, *memory_and_cache: Tensor) -> tuple[Tensor, ...]:
        pairs = list(zip(memory_and_cache[::2], memory_and_cache[1::2], strict=True))
        memory = [KeyValue(*pair, torch.arange(pair[0].size(-2))) for pair in pairs[: self.layers]]
        caches = [Written(*pair) for pair in pairs[self.layers :]]
        hidden = self.model.decoder(
            self.model.target_embedding(tokens.unsqueeze(1)),
            memory,
            source_mask=mask,
            caches=cast(list[KvCacheStep], caches),
        )
        after = (part for each in caches for part in (each.keys, each.values))
        return self.model.scores(hidden.squeeze(1)), *after


class Written:
    """A `KvCacheStep` that concatenates, since a trace cannot follow writing in place."""

    def __init__(self, keys: Tensor, values: Tensor) -> None:
        self.keys, self.values = keys, values
        self.length = keys.size(-2)

    def extend(self, new: KeyValue) -> KeyValue:
        self.keys = torch.cat([self.keys, new.keys], dim=-2)
        self.values = torch.cat([self.values, new.values], dim=-2)
        return KeyValue(self.keys, self.values, torch.arange(self.keys.size(-2)))


class RnnReader(Graph):
    """Source ids (batch, length) -> the decoder's first state."""

    def __init__(self, model: Rnn) -> None:
        super().__init__()
        self.model = model
        self.layers = nn.ModuleList(Layer(cast(nn.RNNBase, each)) for each in model.encoder.layers)
        self.inputs, self.axes = ["source"], [{0: BATCH, 1: LENGTH}]
        self.outputs = state_names(model)

    def example(self) -> list[Tensor]:
        return [SOURCE]

    def forward(self, source: Tensor) -> tuple[Tensor, ...]:
        lengths = (source != self.model.padding).sum(1)
        x = self.model.source_embedding(reverse_sequences(source, lengths) if self.model.reverse else source)
        last: list[LayerState] = []
        for layer in self.layers:
            x, after = layer(x, lengths)
            last.append(after)
        encoded = reverse_sequences(x, lengths) if self.model.reverse else x
        mask = padding_mask(source, self.model.padding)
        return tuple(tensors_of(self.model.decoder.begin(self.model.bridge(last), encoded, mask)))


class RnnStep(Graph):
    """Tokens (batch,) and the state -> scores (batch, vocabulary) and the state after it."""

    def __init__(self, model: Rnn) -> None:
        super().__init__()
        self.model = model
        named = state_names(model)
        self.inputs = ["tokens", *named]
        self.moving = [name for name in named if name.startswith(("state", "fed"))]
        self.outputs = ["scores", *(f"next.{name}" for name in self.moving)]
        self.axes = [{0: BATCH, 2: LENGTH} if name in LOOKED_AT else {0: BATCH} for name in self.inputs]

    def example(self) -> list[Tensor]:
        state = self.model.start(SOURCE)
        return [torch.tensor([4, 5, 6]), *tensors_of(state)]

    def forward(self, tokens: Tensor, *state: Tensor) -> tuple[Tensor, ...]:
        scores, after = self.model.step(tokens, state_of(self.model, state))
        found = dict(zip(state_names(self.model), tensors_of(after), strict=True))
        return scores, *(found[name] for name in self.moving)


LOOKED_AT = ("memory.keys", "memory.values", "mask")


def state_names(model: Rnn) -> list[str]:
    """The parts of a state, in the order of `tensors_of`."""
    parts = ["state", "cell"] if isinstance(model.encoder.layers[0], nn.LSTM) else ["state"]
    layers = [f"state.{layer}.{part}" for layer in range(len(model.decoder.rnn.layers)) for part in parts]
    looks = hasattr(model.decoder, "attention")
    feeds = looks and hasattr(model.decoder, "combine") and model.decoder.fed
    return [*layers, *(LOOKED_AT if looks else ()), *(["fed"] if feeds else [])]


def tensors_of(state: RnnState) -> list[Tensor]:
    memory = [] if state.memory is None else [state.memory.keys, state.memory.values]
    maps = [] if state.memory is None or state.mask is None else [state.mask]
    layers = [part for layer in state.layers for part in layer]
    return layers + memory + maps + ([] if state.fed is None else [state.fed])


def state_of(model: Rnn, tensors: Sequence[Tensor]) -> RnnState:
    found = dict(zip(state_names(model), tensors, strict=True))
    layers = [
        tuple(found[name] for name in found if name.startswith(f"state.{layer}."))
        for layer in range(len(model.decoder.rnn.layers))
    ]
    memory = None
    if "memory.keys" in found:
        keys = found["memory.keys"]
        memory = KeyValue(keys, found["memory.values"], torch.arange(keys.size(-2)))
    return RnnState(layers, memory, found.get("mask"), found.get("fed"))


GATES = {"GRU": (1, 0, 2), "LSTM": (0, 3, 1, 2)}
"""PyTorch's gates in ONNX's order: z, r, n of r, z, n; i, o, f, g of i, f, g, o."""


class Layer(nn.Module):
    """One recurrent layer as ONNX's own operator, which knows how long each sentence is."""

    def __init__(self, rnn: nn.RNNBase) -> None:
        super().__init__()
        self.kind = "LSTM" if isinstance(rnn, nn.LSTM) else "GRU"
        self.size, self.endings = rnn.hidden_size, ["", "_reverse"] if rnn.bidirectional else [""]
        self.inside, self.around = (nn.Buffer(self.of(rnn, name)) for name in ("weight_ih", "weight_hh"))
        self.bias = nn.Buffer(torch.cat([self.of(rnn, name) for name in ("bias_ih", "bias_hh")], dim=1))
        self.attributes: dict[str, Any] = {
            "hidden_size": rnn.hidden_size,
            "direction": "bidirectional" if rnn.bidirectional else "forward",
            **({"linear_before_reset": 1} if self.kind == "GRU" else {}),
        }

    def of(self, rnn: nn.RNNBase, name: str) -> Tensor:
        """A weight in all directions, its gates in ONNX's order: (directions, gates * size, ...)."""
        every = [cast(Tensor, getattr(rnn, f"{name}_l0{ending}")).detach() for ending in self.endings]
        gates = GATES[self.kind]
        return torch.stack([torch.cat([each.chunk(len(gates))[gate] for gate in gates]) for each in every])

    def forward(self, x: Tensor, lengths: Tensor) -> tuple[Tensor, LayerState]:
        """Padded sentences (batch, time, size) -> (batch, time, directions * size), and the last state."""
        batch, time, many = x.size(0), x.size(1), len(self.endings)
        last = [(many, batch, self.size)] * (2 if self.kind == "LSTM" else 1)
        written, *after = torch.onnx.ops.symbolic_multi_out(
            self.kind,
            (x.transpose(0, 1), self.inside, self.around, self.bias, lengths.to(torch.int32)),
            self.attributes,
            dtypes=[torch.float32] * (1 + len(last)),
            shapes=[(time, many, batch, self.size), *last],
        )
        return written.permute(2, 0, 1, 3).flatten(2), from_torch_state(tuple(after))


def prepared(model: Transformer, max_length: int) -> Transformer:
    """The model with as many sinusoids as may be asked for: a trace cannot make more of them."""
    for stack in (model.encoder, model.decoder):
        if isinstance(stack.position, Sinusoidal):
            stack.position = Sinusoidal(
                stack.position.d_model, max(max_length, BeamSearchConfig().max_length) + 1
            )
    return model


def names(what: str, layers: int) -> list[str]:
    return [f"{what}.{layer}.{part}" for layer in range(layers) for part in ("keys", "values")]
