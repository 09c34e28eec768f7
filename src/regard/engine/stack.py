"""The packed Transformer stack as PyTorch operators: hidden states of packed batches, forward and backward.

The operators are registered with `torch.library`, with implementations for fake tensors and autograd, so that
export, compile and activation checkpointing support them. Their arguments are tensors and numbers only: a
`StackSpec` lists the parameters of a planned stack, and refers to them by their index in that list.
"""

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import accumulate
from typing import Any, cast

import torch
from torch import Tensor, nn

from regard.engine.header import header
from regard.engine.library import data_ptr, library, optional_ptr, refuse_second_order
from regard.engine.plan import Stack, Sublayer
from regard.nn import Rotary

C = header().structs
KINDS = {"self": "SELF_ATTENTION", "cross": "CROSS_ATTENTION", "feed_forward": "FEED_FORWARD"}
ACTIVATIONS = {"relu": "RELU", "gelu": "GELU", "gelu-tanh": "GELU_TANH", "silu": "SILU", "swiglu": "SWIGLU"}
STACK_SETTINGS, SUBLAYER_SETTINGS = 5, 18
"""Number of integers in `StackSpec.settings` for a stack, and for each of its sublayers."""


def draw_seed(threshold: int) -> int:
    """A seed for dropout in the kernels, from PyTorch's generator; 0, not drawn, if nothing is dropped."""
    return int(torch.randint(2**62, ())) if threshold else 0


@dataclass
class StackSpec:
    """One or more stacks in the form that the operators take.

    Attributes:
        tensors: Parameters and other tables, each once. Their gradients are one array, in this order.
        settings: Integers: widths, kinds, dropout thresholds, indices into `tensors` (-1 for none).
        numbers: LayerNorm epsilons and rotary bases.
    """

    tensors: list[Tensor] = field(default_factory=list)
    settings: list[int] = field(default_factory=list)
    numbers: list[float] = field(default_factory=list)
    dropouts: list[int] = field(default_factory=list)
    """Dropout threshold of each seed."""

    def register(self, tensor: Tensor | None) -> int:
        """Append a tensor to `tensors` if it is new; returns its index, -1 for None."""
        if tensor is None:
            return -1
        for index, listed in enumerate(self.tensors):
            if listed is tensor:
                return index
        self.tensors.append(tensor)
        return len(self.tensors) - 1

    def add(self, stack: Stack, dropout: int = 0, sublayers: slice = slice(None)) -> "StackSpec":
        """Append a stack, or some of its sublayers (the final norm belongs to the last one); returns itself.

        Args:
            dropout: Threshold of the dropout of the input.
        """
        chosen = list(stack.sublayers)[sublayers]
        norm = stack.norm if sublayers == slice(None) else None
        self.settings += [stack.d_model, len(chosen), dropout]
        self.settings += [-1, -1] if norm is None else [self.register(norm.weight), self.register(norm.bias)]
        self.numbers.append(0.0 if norm is None else norm.eps)
        self.dropouts.append(dropout)
        for sublayer in chosen:
            self._add_sublayer(sublayer)
        return self

    def _add_sublayer(self, sublayer: Sublayer) -> None:
        constants = header().constants
        linears = linears_of(sublayer)
        in_memory = (linears[1], linears[0], *linears[2:]) if sublayer.kind == "feed_forward" else linears
        used = [layer for layer in in_memory if layer is not None]
        # The weights of a group are adjacent, so that one matrix product computes their gradients.
        for tensor in (*(layer.weight for layer in used), *(layer.bias for layer in used)):
            self.register(cast(Tensor | None, tensor))
        self.settings += [
            constants[KINDS[sublayer.kind]],
            int(sublayer.pre_norm),
            sublayer.heads,
            int(sublayer.causal),
            constants[ACTIVATIONS[sublayer.activation or "relu"]],
            sublayer.dropout,
            sublayer.inner_dropout,
            sublayer.d_ff,
            self.register(sublayer.norm.weight),
            self.register(sublayer.norm.bias),
        ]
        for layer in linears:
            indices = (-1, -1) if layer is None else (self.register(layer.weight), self.register(layer.bias))
            self.settings += indices
        self.numbers += [sublayer.eps, sublayer.rotary_base]
        self.dropouts += [sublayer.inner_dropout, sublayer.dropout]

    def seeds(self) -> list[int]:
        """New seeds, drawn in the order of the sublayers."""
        return [draw_seed(threshold) for threshold in self.dropouts]


def linears_of(sublayer: Sublayer) -> tuple[nn.Linear | None, ...]:
    """Linear layers in the order of engine.h: query, key, value, output; or fc1, gate, None, fc2."""
    if sublayer.kind != "feed_forward":
        return sublayer.projections
    network = sublayer.feed_forward
    return network.fc1, network.gate, None, network.fc2


class GradientLayout:
    """Offsets of the gradients of the tensors that need one, in one array of all gradients."""

    def __init__(self, tensors: Sequence[Tensor]) -> None:
        self.required = [tensor.requires_grad for tensor in tensors]
        self.sizes = [tensor.numel() if tensor.requires_grad else 0 for tensor in tensors]
        self.offsets = list(accumulate(self.sizes, initial=0))
        self.total = self.offsets.pop()

    def __getitem__(self, index: int) -> int:
        """Offset of the gradient of tensor `index`; -1 if it needs none, or for index -1."""
        return -1 if index < 0 or not self.required[index] else self.offsets[index]

    def split(self, gradient: Tensor, tensors: Sequence[Tensor]) -> list[Tensor | None]:
        """The gradient of each tensor, None if it needs none."""
        parts = gradient.split_with_sizes(self.sizes)
        return [
            part.view(tensor.shape) if tensor.requires_grad else None
            for part, tensor in zip(parts, tensors, strict=True)
        ]


@lru_cache(maxsize=32)
def rotary_table(length: int, head_size: int, base: float) -> Tensor:
    """Cosine and sine of each pair of components at each position: (length, head_size)."""
    steps = torch.arange(0, head_size, 2, dtype=torch.float64)
    angle = torch.arange(length).unsqueeze(-1) * base ** (-steps / head_size)
    return torch.stack((angle.cos(), angle.sin()), -1).flatten(1).float()


class StackStructs:
    """The C structs of the stacks of a spec; the tensors that they point to must outlive them."""

    def __init__(
        self,
        tensors: Sequence[Tensor],
        settings: Sequence[int],
        numbers: Sequence[float],
        seeds: Sequence[int],
        max_length: int,
    ) -> None:
        self.tensors, self.layout, self.max_length = tensors, GradientLayout(tensors), max_length
        self.referenced: list[object] = []  # kept alive for the pointers in the structs
        self.stacks: list[Any] = []
        self.settings, self.numbers, self.seeds = iter(settings), iter(numbers), iter(seeds)
        while (d_model := next(self.settings, None)) is not None:
            self.stacks.append(self._stack(d_model))

    def _stack(self, d_model: int) -> Any:
        count, dropout = next(self.settings), next(self.settings)
        norm = self._norm()
        seed = next(self.seeds)
        sublayers = (C["Sublayer"] * count)(*(self._sublayer(d_model) for _ in range(count)))
        self.referenced.append(sublayers)
        return C["Stack"](d_model, count, ctypes.addressof(sublayers), norm, dropout, seed)

    def _sublayer(self, d_model: int) -> Any:
        kind, pre_norm, heads, causal, activation, dropout, inner_dropout, d_ff = (
            next(self.settings) for _ in range(8)
        )
        norm = self._norm()
        linears = [self._linear() for _ in range(header().constants["LINEARS"])]
        base, inner_seed, seed = next(self.numbers), next(self.seeds), next(self.seeds)
        rotary = None if not base else rotary_table(-(-self.max_length // 64) * 64, d_model // heads, base)
        self.referenced.append(rotary)
        return C["Sublayer"](
            *(kind, pre_norm, heads, causal, activation, dropout, inner_dropout, d_ff, seed, inner_seed),
            *(optional_ptr(rotary), 0 if rotary is None else len(rotary), norm),
            (C["Linear"] * len(linears))(*linears),
        )

    def _norm(self) -> Any:
        weight, bias = next(self.settings), next(self.settings)
        return C["LayerNorm"](*self.pointers(weight, bias), next(self.numbers))

    def _linear(self) -> Any:
        return C["Linear"](*self.pointers(next(self.settings), next(self.settings)))

    def pointers(self, *indices: int) -> list[int | None]:
        """Addresses of tensors (None for -1), then the offsets of their gradients."""
        addresses = [None if index < 0 else data_ptr(self.tensors[index]) for index in indices]
        return [*addresses, *(self.layout[index] for index in indices)]


def run_struct(
    structs: StackStructs,
    offsets: Tensor,
    source: Tensor | None,
    source_offsets: Tensor | None,
    selected: Tensor | None,
    selected_offsets: Tensor | None,
    key_bias: Tensor | None,
    shares: int,
    saves: bool,
    received: Tensor | None = None,
    mean_keys: Tensor | None = None,
) -> Any:
    """A `StackRun` of engine.h."""
    (stack,) = structs.stacks
    structs.referenced.append(stack)
    return C["StackRun"](
        ctypes.addressof(stack),
        data_ptr(offsets),
        optional_ptr(source_offsets),
        len(offsets) - 1,
        *map(optional_ptr, (source, selected, selected_offsets, key_bias, received, mean_keys)),
        structs.layout.total,
        shares,
        saves,
    )


def max_length(offsets: Tensor) -> int:
    """Length of the longest sequence."""
    return int(offsets.diff().max()) if len(offsets) > 1 else 0


@torch.library.custom_op("regard::stack_forward", mutates_args=())
def stack_forward(
    x: Tensor,
    offsets: Tensor,
    source: Tensor | None,
    source_offsets: Tensor | None,
    selected: Tensor | None,
    selected_offsets: Tensor | None,
    key_bias: Tensor | None,
    tensors: Sequence[Tensor],
    settings: Sequence[int],
    numbers: Sequence[float],
    seeds: Sequence[int],
    shares: int,
    saves: bool,
    stats: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Hidden states, saved activations, and with `stats` attention received and mean keys."""
    structs = StackStructs(tensors, settings, numbers, seeds, max_length(offsets))
    rows = len(x) if selected is None else len(selected)
    heads = int(structs.stacks[0].count and settings[STACK_SETTINGS + 2])
    received = x.new_zeros(len(x) if stats else 0)
    mean_keys = x.new_empty((len(x), x.size(1) // heads) if stats else (0, 0))
    run = run_struct(
        structs, offsets, source, source_offsets, selected, selected_offsets, key_bias, shares, saves,
        *((received, mean_keys) if stats else ()),
    )  # fmt: skip
    floats = ctypes.c_int64(0)
    if saves:
        library().stack_saved_floats(ctypes.byref(run), ctypes.byref(floats))
    saved = x.new_empty(floats.value)
    out = x.new_empty(rows, x.size(1))
    library().stack_forward(ctypes.byref(run), *map(data_ptr, (x, saved, out)))
    return out, saved, received, mean_keys


@stack_forward.register_fake
def _(
    x: Tensor,
    offsets: Tensor,
    source: Tensor | None,
    source_offsets: Tensor | None,
    selected: Tensor | None,
    selected_offsets: Tensor | None,
    key_bias: Tensor | None,
    tensors: Sequence[Tensor],
    settings: Sequence[int],
    numbers: Sequence[float],
    seeds: Sequence[int],
    shares: int,
    saves: bool,
    stats: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    rows = x.size(0) if selected is None else selected.size(0)
    size = torch.library.get_ctx().new_dynamic_size() if saves else 0
    heads = settings[STACK_SETTINGS + 2]
    mean_keys = x.new_empty((x.size(0), x.size(1) // heads) if stats else (0, 0))
    return x.new_empty(rows, x.size(1)), x.new_empty(size), x.new_empty(x.size(0) if stats else 0), mean_keys


@torch.library.custom_op("regard::stack_backward", mutates_args=())
def stack_backward(
    grad_out: Tensor,
    x: Tensor,
    saved: Tensor,
    offsets: Tensor,
    source: Tensor | None,
    source_offsets: Tensor | None,
    selected: Tensor | None,
    selected_offsets: Tensor | None,
    key_bias: Tensor | None,
    tensors: Sequence[Tensor],
    settings: Sequence[int],
    numbers: Sequence[float],
    seeds: Sequence[int],
    shares: int,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of x, of the source (empty if there is none) and of all tensors in one array."""
    structs = StackStructs(tensors, settings, numbers, seeds, max_length(offsets))
    run = run_struct(
        structs, offsets, source, source_offsets, selected, selected_offsets, key_bias, shares, saves=True
    )
    grad_x, grad_source = torch.empty_like(x), x.new_empty(0) if source is None else torch.empty_like(source)
    gradient = x.new_empty(structs.layout.total)
    library().stack_backward(
        ctypes.byref(run),
        *map(data_ptr, (x, saved, grad_out, grad_x)),
        None if source is None else data_ptr(grad_source),
        data_ptr(gradient),
    )
    return grad_x, grad_source, gradient


@stack_backward.register_fake
def _(
    grad_out: Tensor,
    x: Tensor,
    saved: Tensor,
    offsets: Tensor,
    source: Tensor | None,
    source_offsets: Tensor | None,
    selected: Tensor | None,
    selected_offsets: Tensor | None,
    key_bias: Tensor | None,
    tensors: Sequence[Tensor],
    settings: Sequence[int],
    numbers: Sequence[float],
    seeds: Sequence[int],
    shares: int,
) -> tuple[Tensor, Tensor, Tensor]:
    grad_source = x.new_empty(0) if source is None else torch.empty_like(source)
    return torch.empty_like(x), grad_source, x.new_empty(GradientLayout(tensors).total)


def _save_for_backward(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    x, offsets, source, source_offsets, selected, selected_offsets, key_bias, tensors, *settings, _, _ = inputs
    _, saved, received, mean_keys = output
    ctx.mark_non_differentiable(saved, received, mean_keys)
    ctx.set_materialize_grads(False)
    ctx.settings = settings  # settings, numbers, seeds, shares
    ctx.saves = inputs[-2]
    ctx.save_for_backward(
        x, saved, offsets, source, source_offsets, selected, selected_offsets, key_bias, *tensors
    )


@refuse_second_order
def _stack_gradients(ctx: Any, grad_out: Tensor | None, *_: Tensor | None) -> tuple[Any, ...]:
    x, saved, *rest = ctx.saved_tensors
    batch, tensors = rest[:6], rest[6:]
    no_gradients = [None] * len(tensors)
    if grad_out is None:
        return *(None,) * 7, no_gradients, *(None,) * 6
    if not ctx.saves:
        raise RuntimeError("the native stack has no gradient: it was run without saving activations")
    grad_x, grad_source, gradient = stack_backward(
        grad_out.contiguous(), x, saved, *batch, tensors, *ctx.settings
    )
    grad_tensors = GradientLayout(tensors).split(gradient, tensors)
    return grad_x, None, grad_source if batch[1] is not None else None, *(None,) * 4, grad_tensors, *(None,) * 6


stack_forward.register_autograd(_stack_gradients, setup_context=_save_for_backward)


def shares_of(tokens: int) -> int:
    """Number of parts of a batch that have separate gradients: one per thread, each with at least 48 tokens."""
    return max(1, min(torch.get_num_threads(), tokens // 48))


@dataclass(frozen=True)
class PackedRows:
    """Offsets of packed sequences, and the number of their rows."""

    offsets: Tensor  # (sequences + 1,), int32
    rows: int

    def check(self, what: str) -> None:
        """Raise ValueError for offsets that do not match the rows, before C reads them."""
        offsets = self.offsets
        if (
            offsets.dtype != torch.int32
            or not offsets.is_contiguous()
            or int(offsets[0]) != 0
            or int(offsets[-1]) != self.rows
            or bool((offsets.diff() < 0).any())
        ):
            raise ValueError(
                f"offsets {offsets.tolist()[:8]} do not match {self.rows} {what}: "
                "int32 offsets increase from 0 to the number of rows"
            )


def check_selected(selected: Tensor, selected_offsets: Tensor, rows: PackedRows) -> None:
    """Raise ValueError for selected rows outside their sequence, before C reads them."""
    PackedRows(selected_offsets, len(selected)).check("selected rows")
    if len(selected_offsets) != len(rows.offsets) or selected.dtype != torch.int32:
        raise ValueError(
            f"{len(selected_offsets) - 1} sequences of selected rows for {len(rows.offsets) - 1} sequences"
        )
    number = torch.arange(len(rows.offsets) - 1).repeat_interleave(selected_offsets.diff())
    if bool(((selected < rows.offsets[number]) | (selected >= rows.offsets[number + 1])).any()):
        raise ValueError("a selected row is outside its sequence")


def run_stack(
    spec: StackSpec,
    x: Tensor,
    offsets: Tensor,
    *,
    source: Tensor | None = None,
    source_offsets: Tensor | None = None,
    selected: Tensor | None = None,
    selected_offsets: Tensor | None = None,
    key_bias: Tensor | None = None,
    stats: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:
    """Run a stack on a packed batch, with gradients.

    Args:
        spec: The stack.
        x: (rows, d_model).
        offsets: (sequences + 1,) int32, start of each sequence.
        source: (source rows, d_model), the encoder's output for cross-attention.
        source_offsets: As `offsets`, for the source.
        selected: (selected rows,) int32, the rows, sequence by sequence, that the last block computes.
        selected_offsets: As `offsets`, for the selected rows.
        key_bias: (rows,), added to the scores of each key in the first sublayer.
        stats: Return statistics of the first sublayer: the attention that each key received, summed over heads,
            and the mean of the heads' keys.

    Returns:
        Hidden states (rows or selected rows, d_model), received (rows,) and mean keys (rows, head size), which
        are empty without `stats`.

    Raises:
        ValueError: Offsets do not match the rows.
        MemoryError: An allocation failed.
    """
    PackedRows(offsets, len(x)).check("rows")
    if source is not None:
        assert source_offsets is not None
        PackedRows(source_offsets, len(source)).check("source rows")
        if len(source_offsets) != len(offsets):
            raise ValueError(f"{len(source_offsets) - 1} source sequences for {len(offsets) - 1} sequences")
        source = source.contiguous()
    if selected is not None:
        assert selected_offsets is not None
        check_selected(selected, selected_offsets, PackedRows(offsets, len(x)))
    if key_bias is not None and key_bias.requires_grad:
        raise ValueError("the key bias of the native stack has no gradient; detach it")
    saves = torch.is_grad_enabled() and any(
        tensor.requires_grad for tensor in (x, *([] if source is None else [source]), *spec.tensors)
    )
    out, _, received, mean_keys = stack_forward(
        x.contiguous(), offsets, source, source_offsets, selected, selected_offsets, key_bias, spec.tensors,
        spec.settings, spec.numbers, spec.seeds(), shares_of(len(x)), saves, stats,
    )  # fmt: skip
    return out, received, mean_keys


def rotary_base_of(position: object) -> float:
    return position.base if type(position) is Rotary else 0.0
