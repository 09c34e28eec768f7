"""Recurrent layers: a stack of GRUs or LSTMs, over whole sequences or one step at a time."""

from typing import Any, Literal, cast

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

LayerState = tuple[Tensor, ...]
"""State of a layer between two steps: (batch, size) each, hidden state, and for an LSTM cell state."""


class Recurrent(nn.Module):
    """Layers of GRU or LSTM cells, in one direction or both, with dropout between the layers.

    `forward` runs over whole sequences, `step` takes one token; both use the same weights and are tested
    equal. With `lengths`, padding at the end of a sequence never changes a state.

    Args:
        cell: "gru" or "lstm".
        input_size: Size of the inputs.
        size: Size of the hidden states of one direction.
        layers: Number of layers.
        bidirectional: Whether each layer runs in both directions; such layers have no `step`.
        dropout: Dropout probability between the layers.
    """

    def __init__(
        self,
        cell: Literal["gru", "lstm"],
        input_size: int,
        size: int,
        layers: int = 1,
        *,
        bidirectional: bool = False,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.size = size
        self.output_size = 2 * size if bidirectional else size
        make = nn.GRU if cell == "gru" else nn.LSTM
        self.layers = nn.ModuleList(
            make(size_in, size, batch_first=True, bidirectional=bidirectional)
            for size_in in [input_size, *[self.output_size] * (layers - 1)]
        )
        self.cell = gru_cell if cell == "gru" else lstm_cell
        self.dropout = nn.Dropout(dropout)
        for layer in self.layers:
            init_weights(cast(nn.RNNBase, layer))

    def forward(
        self, x: Tensor, lengths: Tensor | None = None, state: list[LayerState] | None = None
    ) -> tuple[Tensor, list[LayerState]]:
        """Run over whole sequences.

        Args:
            x: (batch, time, input).
            lengths: (batch,), length of each sequence; None: there is no padding.
            state: Initial state of each layer; None: zeros.

        Returns:
            (batch, time, output), and the last state of each layer; states of two directions are concatenated,
            forward first.
        """
        if lengths is None:
            return self._run(x, state)
        packed = pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)
        output, last = self._run(packed, state)
        unpacked, _ = pad_packed_sequence(output, batch_first=True, total_length=x.size(1))
        return unpacked, last

    def _run(self, x: Any, state: list[LayerState] | None) -> tuple[Any, list[LayerState]]:
        """Run all layers over padded (a tensor) or packed sequences: PyTorch's layers take both."""
        last = []
        for number, layer in enumerate(self.layers):
            initial = None if state is None else to_torch_state(state[number])
            x, layer_state = layer(self._drop(x) if number else x, initial)
            last.append(from_torch_state(layer_state))
        return x, last

    def _drop(self, x: Any) -> Any:
        return x._replace(data=self.dropout(x.data)) if isinstance(x, PackedSequence) else self.dropout(x)

    def project(self, x: Tensor, first: int = 0) -> Tensor:
        """The contribution of x (..., columns) to the gates of the first layer: (..., gates).

        `first` is the column of the layer's input at which x begins. Inputs that are known for all steps can so
        be projected by one matrix product before the first step.
        """
        layer = cast(nn.RNNBase, self.layers[0])
        return functional.linear(x, cast(Tensor, layer.weight_ih_l0)[:, first : first + x.size(-1)])

    def step(self, gates: Tensor, state: list[LayerState]) -> tuple[Tensor, list[LayerState]]:
        """One step of one direction.

        Args:
            gates: (batch, gates), the projected input of the first layer, without its bias.
            state: State of each layer.

        Returns:
            Hidden state of the last layer (batch, size), and the new state of each layer.
        """
        next_state: list[LayerState] = []
        for number, layer in enumerate(self.layers):
            rnn = cast(nn.RNNBase, layer)
            if number:
                gates = functional.linear(self.dropout(next_state[-1][0]), cast(Tensor, rnn.weight_ih_l0))
            next_state.append(self.cell(gates, state[number], rnn))
        return next_state[-1][0], next_state


def gru_cell(gates: Tensor, state: LayerState, rnn: nn.RNNBase) -> LayerState:
    """r, z = sigmoid(...); n = tanh(W x + r (U h)); h' = (1 - z) n + z h: PyTorch's order of gates."""
    (h,) = state
    from_input = gates + cast(Tensor, rnn.bias_ih_l0)
    from_state = functional.linear(h, cast(Tensor, rnn.weight_hh_l0), cast(Tensor, rnn.bias_hh_l0))
    size = h.size(-1)
    r, z = torch.sigmoid(from_input[:, : 2 * size] + from_state[:, : 2 * size]).chunk(2, 1)
    n = torch.tanh(torch.addcmul(from_input[:, 2 * size :], r, from_state[:, 2 * size :]))
    return (torch.lerp(n, h, z),)


def lstm_cell(gates: Tensor, state: LayerState, rnn: nn.RNNBase) -> LayerState:
    """i, f, o = sigmoid(...), g = tanh(...); c' = f c + i g; h' = o tanh(c'): PyTorch's order is i, f, g, o."""
    h, c = state
    bias = cast(Tensor, rnn.bias_ih_l0) + cast(Tensor, rnn.bias_hh_l0)
    all_gates = functional.linear(h, cast(Tensor, rnn.weight_hh_l0), bias) + gates
    i, f, g, o = all_gates.chunk(4, 1)
    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(c), c


def init_weights(rnn: nn.RNNBase) -> None:
    """Xavier-uniform input weights, orthogonal recurrent weights, forget-gate bias 1."""
    for name, weight in rnn.named_parameters():
        if name.startswith("weight_ih"):
            nn.init.xavier_uniform_(weight)
        elif name.startswith("weight_hh"):
            for gate in weight.data.chunk(len(weight) // rnn.hidden_size):
                nn.init.orthogonal_(gate)
        else:
            nn.init.zeros_(weight)
            if isinstance(rnn, nn.LSTM) and name.startswith("bias_ih"):
                nn.init.ones_(weight.data[rnn.hidden_size : 2 * rnn.hidden_size])


def to_torch_state(state: LayerState) -> Tensor | tuple[Tensor, Tensor]:
    """A state of one direction as PyTorch's layers take it: (1, batch, size), a pair of them for an LSTM."""
    if len(state) == 1:
        return state[0].unsqueeze(0)
    h, c = state
    return h.unsqueeze(0), c.unsqueeze(0)


def from_torch_state(state: Tensor | tuple[Tensor, ...]) -> LayerState:
    """(directions, batch, size), or a pair of them -> (batch, directions * size) each."""
    parts = state if isinstance(state, tuple) else (state,)
    return tuple(torch.cat(list(part), dim=-1) if part.size(0) > 1 else part[0] for part in parts)
