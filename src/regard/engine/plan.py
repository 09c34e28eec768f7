"""Decides whether the native engine supports a model; nothing else in the package does.

`plan(model)` checks the types of the modules, settings, hooks and parameters, and returns a `Plan`, which lists
the native entry points that may run the model, or `Unsupported` with the reason. Plans are cached; checking
that a model is unchanged takes a fraction of a millisecond.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, cast
from weakref import WeakKeyDictionary, ref

import torch
from torch import Tensor, nn
from torch.nn.modules import module as torch_module

from regard.engine.library import kernels
from regard.engine.locate import find_library
from regard.nn import (
    Attention,
    DecoderBlock,
    EncoderBlock,
    EncoderStack,
    FeedForward,
    Gaussian,
    Learned,
    Merging,
    MultiHead,
    Position,
    Pruning,
    Residual,
    Rotary,
    ScaledDot,
    ScaledEmbedding,
    SelfAttention,
    Sinusoidal,
)
from regard.nn.bert import Bert
from regard.nn.ensemble import Ensemble
from regard.nn.gpt import Gpt, GptLanguageModel
from regard.nn.knn import Datastore, KnnModel
from regard.nn.transformer import Decoder, Encoder, Transformer
from regard.nn.vit import Sinusoidal2d, Vit

Use = Literal["hidden states", "token loss", "beam search", "generation"]
"""The native entry points."""

LANES = 8
"""Components of a head that a vector instruction computes together."""

MAX_GRADIENT_COPIES = 2**28
"""Limit on the floats in all threads' copies of the gradient: 1 GiB."""


@dataclass(frozen=True)
class Unsupported:
    """Why the native engine does not support a model, which PyTorch then runs."""

    reason: str


@dataclass(frozen=True)
class Sublayer:
    """A residual connection and its sublayer, as the kernels compute them; dropout in 256ths, 0 if inactive."""

    kind: Literal["self", "cross", "feed_forward"]
    residual: Residual
    inner: Attention | FeedForward
    pre_norm: bool
    eps: float
    dropout: int
    inner_dropout: int
    heads: int = 0
    d_ff: int = 0
    activation: str = ""
    causal: bool = False
    rotary_base: float = 0.0
    """0 without rotary positions."""

    @property
    def norm(self) -> nn.LayerNorm:
        return cast(nn.LayerNorm, self.residual.norm)

    @property
    def attention(self) -> Attention:
        return cast(Attention, self.inner)

    @property
    def feed_forward(self) -> FeedForward:
        return cast(FeedForward, self.inner)

    @property
    def projections(self) -> tuple[nn.Linear, ...]:
        """Query, key, value and output; or those of the feed-forward network."""
        if self.kind == "feed_forward":
            return self.feed_forward.fc1, self.feed_forward.fc2
        attention = self.attention
        layers = (attention.query, attention.key, attention.value, attention.output)
        return cast(tuple[nn.Linear, ...], layers)


@dataclass(frozen=True)
class Stack:
    """The blocks of an encoder or a decoder, its final norm if there is one, and its position scheme.

    `dropout` is the dropout threshold of the input.
    """

    blocks: tuple[tuple[Sublayer, ...], ...]
    norm: nn.LayerNorm | None
    position: Position
    d_model: int
    dropout: int = 0

    @property
    def sublayers(self) -> Iterator[Sublayer]:
        return (sublayer for block in self.blocks for sublayer in block)


@dataclass(frozen=True)
class Plan:
    """Native support for a model: all uses that are not in `refused`."""

    kind: Literal["encoder-decoder", "GPT", "BERT", "ViT", "ensemble"]
    stacks: tuple[Stack, ...]
    refused: dict[Use, str] = field(default_factory=dict)
    parameters: int = 0
    members: tuple["Plan", ...] = ()

    def refuses(self, use: Use) -> str | None:
        """The reason why a use is not supported; None if it is."""
        if use in ("hidden states", "token loss") and use not in self.refused and torch.is_grad_enabled():
            copies = torch.get_num_threads() * self.parameters
            if copies > MAX_GRADIENT_COPIES:
                return (
                    f"the gradients of {torch.get_num_threads()} threads need {copies:,} floats, "
                    f"more than {MAX_GRADIENT_COPIES:,}"
                )
        return self.refused.get(use)


def plan(model: nn.Module) -> Plan | Unsupported:
    """Which native entry points support this model, in its current state and that of the process.

    Args:
        model: Any module.

    Returns:
        A plan, or why the model is not supported.
    """
    reason = process_refusal()
    if reason is not None:
        return Unsupported(reason)
    cached = _plans.get(model)
    if cached is not None and cached[0].holds():
        return cached[1]
    try:
        result: Plan | Unsupported = _plan_model(model)
    except _Refused as refused:
        result = Unsupported(str(refused))
    _plans[model] = Guard(model), result
    return result


def supports(model: nn.Module, use: Use) -> Plan | None:
    """The plan of a model if it supports this use, else None."""
    result = plan(model)
    return result if isinstance(result, Plan) and result.refuses(use) is None else None


def describe(model: nn.Module, uses: Sequence[Use]) -> str:
    """One line for logs: for each use whether it is native, or PyTorch and why."""
    result = plan(model)
    if isinstance(result, Unsupported):
        return f"PyTorch ({result.reason})"
    parts = []
    for use in uses:
        reason = result.refuses(use)
        parts.append(f"{use}: native" if reason is None else f"{use}: PyTorch ({reason})")
    return "; ".join(parts)


def describe_training(model: nn.Module) -> str:
    """One line for logs and model cards: whether training is native, or PyTorch and why."""
    body = next((module for module in model.modules() if type(module) in _PLANNERS), model)
    result = plan(body)
    if isinstance(result, Unsupported):
        return f"PyTorch ({result.reason})"
    uses: tuple[Use, ...] = ("token loss", "hidden states")
    reasons = [result.refuses(use) for use in uses]
    if reasons[0] is None:
        return "native, fused token loss"
    return "native" if reasons[1] is None else f"PyTorch ({reasons[1]})"


def process_refusal() -> str | None:
    """The reason why the engine is unavailable in the current state of the process; None if it is available."""
    if kernels() is None:
        return find_library()[1]
    if torch.compiler.is_compiling() or torch._C._get_tracing_state() is not None:
        return "torch.compile or tracing captures PyTorch operations only"
    if torch.is_autocast_enabled("cpu"):
        return "autocast is on; the kernels compute in float32"
    if torch._C._functorch.peek_interpreter_stack() is not None:
        return "a torch.func transform is active"
    if torch.autograd.forward_ad._current_level >= 0:
        return "forward-mode differentiation is active"
    if torch._C._len_torch_dispatch_stack() or torch._C._len_torch_function_stack():
        return "a torch dispatch or function mode is active"
    if any(
        (
            torch_module._global_forward_hooks,
            torch_module._global_forward_pre_hooks,
            torch_module._global_backward_hooks,
            torch_module._global_backward_pre_hooks,
        )
    ):
        return "a global module hook is registered"
    return None


def tensors_supported(*tensors: Tensor) -> bool:
    """Whether kernels on single tensors support these: float32, on the CPU, contiguous."""
    return process_refusal() is None and all(tensor_refusal(tensor) is None for tensor in tensors)


def tensor_refusal(tensor: Tensor) -> str | None:
    """Why the kernels do not support a tensor, as a predicate such as "is not contiguous"; None if they do."""
    if type(tensor) is not Tensor and type(tensor) is not nn.Parameter:
        return f"is a {type(tensor).__name__}"
    if tensor.dtype != torch.float32:
        return f"is {str(tensor.dtype).removeprefix('torch.')}; the kernels compute in float32"
    if tensor.device.type != "cpu":
        return f"is on {tensor.device}"
    if not tensor.is_contiguous():
        return "is not contiguous"
    return None


class Guard:
    """Snapshot of a model's modules, settings, hooks and parameters, to detect changes.

    Values inside parameters are not included; where the kernels store copies of them, see `search.Fingerprint`.
    """

    def __init__(self, model: nn.Module) -> None:
        root, *submodules = model.modules()
        self.root, self.submodules = ref(root), submodules  # a guard must not keep its model alive
        self.types, self.root_type = [type(module) for module in submodules], type(root)
        attributes = [module.__dict__ for module in (root, *submodules)]
        containers = [mapping[name] for mapping in attributes for name in CONTAINERS]
        self.hooks = [mapping[name] for mapping in attributes for name in HOOKS]
        self.has_hooks = any(self.hooks)
        self.mappings = [*attributes, *containers]
        self.sizes = list(map(len, self.mappings))  # detects entries that were added
        self.entries = [
            (mapping, name)
            for mapping in self.mappings
            for name, value in mapping.items()
            if not isinstance(value, dict | set) and name not in UNUSED
        ]
        self.values = self._values()
        self.tensors = [*model.parameters(), *model.buffers()]
        self.layout = self._layout()
        self.forwards = [kind.forward for kind in KNOWN]

    def _values(self) -> list[Any]:
        return [mapping[name] for mapping, name in self.entries]

    def _layout(self) -> list[Any]:
        return [
            (tensor.data_ptr(), tensor.dtype, tensor.shape, tensor.is_contiguous()) for tensor in self.tensors
        ]

    def holds(self) -> bool:
        """Whether nothing has changed; values are compared by identity first, which costs little."""
        try:
            return (
                any(self.hooks) == self.has_hooks
                and list(map(len, self.mappings)) == self.sizes
                and self._values() == self.values
                and type(self.root()) is self.root_type
                and list(map(type, self.submodules)) == self.types
                and self._layout() == self.layout
                and [kind.forward for kind in KNOWN] == self.forwards
            )
        except (KeyError, RuntimeError, ValueError):  # removed, or a tensor that cannot be compared
            return False


_plans: "WeakKeyDictionary[nn.Module, tuple[Guard, Plan | Unsupported]]" = WeakKeyDictionary()


KNOWN: tuple[type[nn.Module], ...] = (
    *(nn.Linear, nn.LayerNorm, nn.Identity, nn.Embedding, nn.ModuleList),
    *(Attention, MultiHead, ScaledDot, Gaussian, Position, Sinusoidal, Learned, Rotary, Sinusoidal2d),
    *(nn.Dropout, FeedForward, Residual, SelfAttention, ScaledEmbedding, Merging, Pruning),
    *(EncoderBlock, DecoderBlock, EncoderStack, Encoder, Decoder),
    *(Transformer, Gpt, GptLanguageModel, Bert, Vit, Ensemble, KnnModel, Datastore),
)
"""The classes that the kernels implement; their subclasses are not supported."""

HOOKS = {
    "_forward_hooks": "a forward hook",
    "_forward_pre_hooks": "a forward pre-hook",
    "_backward_hooks": "a backward hook",
    "_backward_pre_hooks": "a backward pre-hook",
}


CONTAINERS = ("_parameters", "_buffers", "_modules")
"""Attributes of a module whose contents the guard compares."""

UNUSED = ("_is_full_backward_hook", "in_features", "out_features", "normalized_shape", "elementwise_affine")
"""Attributes that do not affect the computation: shapes are those of the parameters."""


class _Refused(Exception):
    """Raised while planning, with the reason."""


def _plan_model(model: nn.Module) -> Plan:
    planner = _PLANNERS.get(type(model))
    if planner is None:
        raise _Refused(f"the kernels do not implement {type(model).__name__}")
    for name, module in model.named_modules():
        _check_module(name or type(model).__name__, module)
    for name, tensor in (*model.named_parameters(), *model.named_buffers()):
        if tensor.is_floating_point() and not name.startswith(("datastore.", "members.")):
            reason = tensor_refusal(tensor)
            if reason is not None:
                raise _Refused(f"{name} {reason}")
    return planner(model)


def _check_module(name: str, module: nn.Module) -> None:
    """Refuse subclasses, hooks, compiled calls and replaced methods."""
    kind = type(module)
    if kind not in KNOWN:
        raise _Refused(f"{name} is a {kind.__name__}")
    if kind.forward.__module__ not in (kind.__module__, *(base.__module__ for base in kind.__mro__)):
        raise _Refused(f"{kind.__name__}.forward was replaced")
    for attribute, hook in HOOKS.items():
        if getattr(module, attribute):
            raise _Refused(f"{name} has {hook}")
    if module._compiled_call_impl is not None:
        raise _Refused(f"{name} is compiled")
    for attribute, value in vars(module).items():
        if callable(value) and callable(getattr(kind, attribute, None)):
            raise _Refused(f"{name}.{attribute} was replaced")


def _linear(name: str, module: nn.Module, out: int, size: int) -> nn.Linear:
    if not isinstance(module, nn.Linear):
        raise _Refused(f"{name} is a {type(module).__name__}, not a linear layer")
    if module.weight.shape != (out, size):
        raise _Refused(f"{name} maps {module.weight.size(1)} to {module.weight.size(0)}, not {size} to {out}")
    if module.bias is not None and module.bias.shape != (out,):
        raise _Refused(f"{name} has a bias of size {module.bias.numel()}, not {out}")
    return module


def _norm(name: str, module: nn.Module, width: int) -> nn.LayerNorm:
    if not isinstance(module, nn.LayerNorm):
        raise _Refused(f"{name} is a {type(module).__name__}, not a LayerNorm")
    weight, bias = cast(Tensor | None, module.weight), cast(Tensor | None, module.bias)
    if weight is None or bias is None:
        raise _Refused(f"{name} has no {'weight' if weight is None else 'bias'}")
    if module.normalized_shape != (width,) or weight.shape != (width,) or bias.shape != (width,):
        raise _Refused(f"{name} normalizes {module.normalized_shape}, not {width}")
    return module


def dropout_threshold(p: float) -> int:
    """Number of the 256 byte values that drop an element: the kernels round the probability to 1/256."""
    return min(255, max(1, round(p * 256))) if p else 0


def _threshold(name: str, dropout: nn.Module) -> int:
    if not isinstance(dropout, nn.Dropout):
        raise _Refused(f"{name} is a {type(dropout).__name__}, not dropout")
    if not 0.0 <= dropout.p < 1.0:
        raise _Refused(f"{name} has a probability of {dropout.p}")
    return dropout_threshold(dropout.p) if dropout.training else 0


def _attention(
    name: str, residual: Residual, kind: Literal["self", "cross"], width: int, *, causal: bool
) -> Sublayer:
    attention = residual.attention
    if type(residual.sublayer) is not (SelfAttention if kind == "self" else type(attention)):
        raise _Refused(f"{name} contains a {type(residual.sublayer).__name__}")
    if type(attention) not in (Attention, MultiHead):
        raise _Refused(f"{name} contains a {type(attention).__name__}")
    if type(attention.score) is not ScaledDot:
        raise _Refused(f"{name} has the score {type(attention.score).__name__}, not ScaledDot")
    if type(attention.position) not in (Position, Rotary):
        raise _Refused(f"{name} has {type(attention.position).__name__} positions inside attention")
    if kind == "cross" and type(attention.position) is not Position:
        raise _Refused(f"{name} has {type(attention.position).__name__} positions")
    heads = attention.heads
    if heads < 1 or width % heads or width // heads % LANES:
        raise _Refused(f"{name} has heads of size {width / heads:g}, not a multiple of {LANES}")
    if type(attention.position) is Rotary and attention.position.head_size != width // heads:
        raise _Refused(f"{name} rotates heads of size {attention.position.head_size}, not {width // heads}")
    for part in ("query", "key", "value", "output"):
        _linear(f"{name}.{part}", getattr(attention, part), width, width)
    if not 0.0 <= attention.dropout < 1.0:
        raise _Refused(f"{name} has an attention dropout of {attention.dropout}")
    return Sublayer(
        kind,
        residual,
        attention,
        residual.placement == "pre",
        _norm(f"{name}.norm", residual.norm, width).eps,
        _threshold(f"{name}.dropout", residual.dropout),
        dropout_threshold(attention.dropout) if attention.training else 0,
        heads=heads,
        causal=causal,
        rotary_base=attention.position.base if type(attention.position) is Rotary else 0.0,
    )


def _feed_forward(name: str, residual: Residual, width: int) -> Sublayer:
    inner = residual.sublayer
    if not isinstance(inner, FeedForward):
        raise _Refused(f"{name} contains a {type(inner).__name__}")
    d_ff = inner.fc1.weight.size(0)
    _linear(f"{name}.fc1", inner.fc1, d_ff, width)
    _linear(f"{name}.fc2", inner.fc2, width, d_ff)
    gate = cast(nn.Module | None, inner.gate)
    if (gate is not None) != (inner.activation == "swiglu"):
        raise _Refused(
            f"{name} has {'a' if gate is not None else 'no'} gate with activation {inner.activation}"
        )
    if gate is not None:
        _linear(f"{name}.gate", gate, d_ff, width)
    return Sublayer(
        "feed_forward",
        residual,
        inner,
        residual.placement == "pre",
        _norm(f"{name}.norm", residual.norm, width).eps,
        _threshold(f"{name}.dropout", residual.dropout),
        _threshold(f"{name}.sublayer.dropout", inner.dropout),
        d_ff=d_ff,
        activation=inner.activation,
    )


def _block(name: str, block: nn.Module, width: int) -> tuple[Sublayer, ...]:
    """The sublayers of an encoder block, or of a decoder block, whose self-attention is causal."""
    if not isinstance(block, EncoderBlock | DecoderBlock):
        raise _Refused(f"{name} is a {type(block).__name__}")
    cross = block.cross_attention if isinstance(block, DecoderBlock) else None
    causal = isinstance(block, DecoderBlock)
    return (
        _attention(f"{name}.self_attention", block.self_attention, "self", width, causal=causal),
        *(
            ()
            if cross is None
            else (_attention(f"{name}.cross_attention", cross, "cross", width, causal=False),)
        ),
        _feed_forward(f"{name}.feed_forward", block.feed_forward, width),
    )


def _stack(
    name: str, blocks: nn.ModuleList, norm: nn.Module, position: Position, width: int, dropout: nn.Module
) -> Stack:
    if not len(blocks):
        raise _Refused(f"{name} has no blocks")
    if type(position) is Learned and position.table.size(1) != width:
        raise _Refused(f"{name} has positions of size {position.table.size(1)}, not {width}")
    return Stack(
        tuple(_block(f"{name}.{number}", block, width) for number, block in enumerate(blocks)),
        None if isinstance(norm, nn.Identity) else _norm(f"{name}.norm", norm, width),
        position,
        width,
        _threshold("dropout", dropout),
    )


def _count_parameters(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def _embedding(name: str, table: Tensor, width: int) -> None:
    if table.dim() != 2 or table.size(1) != width:
        raise _Refused(f"{name} has vectors of shape {tuple(table.shape)[1:]}, not {width}")


def _plan_transformer(model: nn.Module) -> Plan:
    assert isinstance(model, Transformer)
    width = model.source_embedding.weight.size(1)
    _embedding("target_embedding", model.target_embedding.weight, width)
    weight, bias = model.output
    _embedding("output_weight", weight, width)
    if bias.shape != (weight.size(0),):
        raise _Refused(f"output_bias has size {bias.numel()}, not {weight.size(0)}")
    encoder, decoder = (
        _stack(name, side.blocks, side.norm, side.position, width, model.dropout)
        for name, side in (("encoder.blocks", model.encoder), ("decoder.blocks", model.decoder))
    )
    if any(len(block) != 3 for block in decoder.blocks):
        raise _Refused("a decoder block has no cross-attention")
    refused: dict[Use, str] = {"generation": "an encoder-decoder uses beam search"}
    if is_in_training_mode(model, (encoder, decoder)):
        refused["beam search"] = "the model is in training mode"
    return Plan("encoder-decoder", (encoder, decoder), refused, _count_parameters(model))


def is_in_training_mode(model: nn.Module, stacks: Sequence[Stack]) -> bool:
    sublayers = (sublayer for stack in stacks for sublayer in stack.sublayers)
    return model.training or any(sublayer.dropout or sublayer.inner_dropout for sublayer in sublayers)


def _plan_gpt(model: nn.Module) -> Plan:
    gpt = model.gpt if isinstance(model, GptLanguageModel) else model
    assert isinstance(gpt, Gpt)
    width = gpt.token_embedding.embedding_dim
    _embedding("token_embedding", gpt.token_embedding.weight, width)
    if gpt.token_embedding.max_norm is not None:
        raise _Refused("token_embedding has max_norm")
    decoder = gpt.decoder
    stack = _stack("decoder.blocks", decoder.blocks, decoder.norm, decoder.position, width, gpt.dropout)
    if any(len(block) != 2 for block in stack.blocks):
        raise _Refused("a decoder block has cross-attention")
    refused: dict[Use, str] = {"beam search": "a GPT has no encoder"}
    if gpt.symbol_embedding is not None:
        refused["token loss"] = refused["generation"] = "its special tokens have a separate embedding"
    elif type(model) is not GptLanguageModel:
        refused["token loss"] = refused["generation"] = "a GPT without an output layer has no logits"
    elif is_in_training_mode(model, (stack,)):
        refused["generation"] = "the model is in training mode"
    return Plan("GPT", (stack,), refused, _count_parameters(model))


def _encoder_only(kind: Literal["BERT", "ViT"], model: nn.Module, stack: Stack) -> Plan:
    reason = f"a {kind} returns hidden states only"
    refused: dict[Use, str] = {"token loss": reason, "beam search": reason, "generation": reason}
    return Plan(kind, (stack,), refused, _count_parameters(model))


def _plan_bert(model: nn.Module) -> Plan:
    assert isinstance(model, Bert)
    width = model.token_embedding.embedding_dim
    return _encoder_only(
        "BERT",
        model,
        _stack("blocks", model.blocks, nn.Identity(), model.position_embedding, width, model.dropout),
    )


def _plan_vit(model: nn.Module) -> Plan:
    assert isinstance(model, Vit)
    width = model.patch_embedding.out_features
    return _encoder_only(
        "ViT", model, _stack("blocks", model.blocks, nn.Identity(), Position(), width, model.dropout)
    )


def _plan_ensemble(model: nn.Module) -> Plan:
    """Encoder-decoders that are averaged in beam search, each with or without a kNN datastore."""
    members = tuple(model.members) if isinstance(model, Ensemble) else (model,)
    plans = []
    for number, member in enumerate(members, start=1):
        inner = member.model if isinstance(member, KnnModel) else member
        if type(inner) is not Transformer:
            raise _Refused(f"member {number} is a {type(inner).__name__}")
        if inner.training:
            raise _Refused(f"member {number} is in training mode")
        member_plan = plan(inner)
        if isinstance(member_plan, Unsupported):
            raise _Refused(member_plan.reason)
        reason = member_plan.refuses("beam search")
        if reason is not None:
            raise _Refused(reason)
        if isinstance(member, KnnModel):
            _check_datastore(member.datastore, inner)
        plans.append(member_plan)
    sizes = {inner.output_bias.numel() for inner in transformers_of(model)}
    if len(sizes) > 1:
        raise _Refused(f"the members have vocabularies of {', '.join(f'{size:,}' for size in sorted(sizes))}")
    stacks = tuple(stack for member_plan in plans for stack in member_plan.stacks)
    return Plan(
        "ensemble",
        stacks,
        {
            "hidden states": "an ensemble supports beam search only",
            "generation": "an ensemble supports beam search only",
            "token loss": "an ensemble supports beam search only",
        },
        _count_parameters(model),
        tuple(plans),
    )


def _check_datastore(datastore: Datastore, model: Transformer) -> None:
    if datastore.keys.device.type != "cpu" or datastore.tokens.dtype != torch.int32:
        raise _Refused("the datastore is not on the CPU")
    if not datastore.keys.is_contiguous() or not datastore.tokens.is_contiguous():
        raise _Refused("the datastore is not contiguous")
    if type(datastore.score) is not Gaussian:
        raise _Refused(f"the datastore has the score {type(datastore.score).__name__}, not Gaussian")


def transformers_of(model: nn.Module) -> list[Transformer]:
    """The encoder-decoders of an ensemble, or of a single model, without their datastores."""
    members = model.members if isinstance(model, Ensemble) else (model,)
    return [cast(Transformer, member.model if isinstance(member, KnnModel) else member) for member in members]


def datastores_of(model: nn.Module) -> list[Datastore | None]:
    """The kNN datastore of each of `transformers_of`, or None."""
    members = model.members if isinstance(model, Ensemble) else (model,)
    return [member.datastore if isinstance(member, KnnModel) else None for member in members]


_PLANNERS: dict[type[nn.Module], Callable[[nn.Module], Plan]] = {
    Transformer: _plan_transformer,
    Gpt: _plan_gpt,
    GptLanguageModel: _plan_gpt,
    Bert: _plan_bert,
    Vit: _plan_vit,
    Ensemble: _plan_ensemble,
    KnnModel: _plan_ensemble,
}
