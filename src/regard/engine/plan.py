"""The one decision whether native code may run a model.

`plan(model)` checks module *types*, settings, hooks and parameters, and returns a `Plan`, which says what the
native entry points may do, or `Unsupported` with the reason. A model whose modules have not changed since is
re-checked in a fraction of a millisecond. Nothing else in the package decides this.
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
"""Components of a head that are computed together."""

MAX_GRADIENT_COPIES = 2**28
"""Floats in the gradients of all threads together, one copy each until they are added up: a gigabyte."""


@dataclass(frozen=True)
class Unsupported:
    """Why native code does not run a model; plain PyTorch does."""

    reason: str


@dataclass(frozen=True)
class Sublayer:
    """A residual connection as the kernels compute it; dropout in 256ths, 0 where it is inactive."""

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
    """The blocks of an encoder or a decoder, the final norm if there is one, and the position scheme.

    `dropout` is the threshold of the dropout of its input.
    """

    blocks: tuple[tuple[Sublayer, ...], ...]
    norm: nn.LayerNorm | None
    position: Position
    d_model: int
    dropout: int = 0

    @property
    def sublayers(self) -> Iterator[Sublayer]:
        return (each for block in self.blocks for each in block)


@dataclass(frozen=True)
class Plan:
    """What native code may do for a model: every use that `refused` does not name."""

    kind: Literal["encoder-decoder", "GPT", "BERT", "ViT", "ensemble"]
    stacks: tuple[Stack, ...]
    refused: dict[Use, str] = field(default_factory=dict)
    parameters: int = 0
    members: tuple["Plan", ...] = ()

    def refuses(self, use: Use) -> str | None:
        """Why this use is not supported; None if it is."""
        if use in ("hidden states", "token loss") and use not in self.refused and torch.is_grad_enabled():
            copies = torch.get_num_threads() * self.parameters
            if copies > MAX_GRADIENT_COPIES:
                return (
                    f"{torch.get_num_threads()} threads need {copies:,} floats for their gradients, "
                    f"more than {MAX_GRADIENT_COPIES:,}"
                )
        return self.refused.get(use)


def plan(model: nn.Module) -> Plan | Unsupported:
    """What native code may do for this model, as it is now and in the process as it is now."""
    reason = process_refusal()
    if reason is not None:
        return Unsupported(reason)
    known = _plans.get(model)
    if known is not None and known[0].holds():
        return known[1]
    try:
        result: Plan | Unsupported = _plan_model(model)
    except _Refused as refused:
        result = Unsupported(str(refused))
    _plans[model] = Guard(model), result
    return result


def supports(model: nn.Module, use: Use) -> Plan | None:
    """The plan of a model where it supports this use."""
    found = plan(model)
    return found if isinstance(found, Plan) and found.refuses(use) is None else None


def describe(model: nn.Module, uses: Sequence[Use]) -> str:
    """One line for people: which engine runs each of these uses, and if not the native one, why."""
    found = plan(model)
    if isinstance(found, Unsupported):
        return f"PyTorch ({found.reason})"
    parts = []
    for use in uses:
        reason = found.refuses(use)
        parts.append(f"{use}: native" if reason is None else f"{use}: PyTorch ({reason})")
    return "; ".join(parts)


def describe_training(model: nn.Module) -> str:
    """One line for logs and model cards: which engine trains a model, and if not the native one, why."""
    body = next((each for each in model.modules() if type(each) in _PLANNERS), model)
    found = plan(body)
    if isinstance(found, Unsupported):
        return f"PyTorch ({found.reason})"
    uses: tuple[Use, ...] = ("token loss", "hidden states")
    reasons = [found.refuses(use) for use in uses]
    if reasons[0] is None:
        return "native, fused token loss"
    return "native" if reasons[1] is None else f"PyTorch ({reasons[1]})"


def process_refusal() -> str | None:
    """Why no native code may run in this process at this moment."""
    if kernels() is None:
        return find_library()[1]
    if torch.compiler.is_compiling() or torch._C._get_tracing_state() is not None:
        return "torch.compile or tracing sees PyTorch operations only"
    if torch.is_autocast_enabled("cpu"):
        return "autocast is on, the kernels compute in float32"
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
    """Whether kernels that need no model may take these tensors: float32, on the CPU, contiguous."""
    return process_refusal() is None and all(tensor_refusal(each) is None for each in tensors)


def tensor_refusal(tensor: Tensor) -> str | None:
    if type(tensor) is not Tensor and type(tensor) is not nn.Parameter:
        return f"is a {type(tensor).__name__}"
    if tensor.dtype != torch.float32:
        return f"is {str(tensor.dtype).removeprefix('torch.')}, the kernels compute in float32"
    if tensor.device.type != "cpu":
        return f"is on {tensor.device}"
    if not tensor.is_contiguous():
        return "is not contiguous"
    return None


class Guard:
    """Notices whether a model's modules, settings, hooks or parameters were changed since it was made.

    Values inside parameters do not matter here: what the kernels keep of them has a checksum of its own.
    """

    def __init__(self, model: nn.Module) -> None:
        root, *below = model.modules()
        self.root, self.below = ref(root), below  # what guards a model must not keep it alive
        self.types, self.root_type = [type(each) for each in below], type(root)
        attributes = [each.__dict__ for each in (root, *below)]
        containers = [each[name] for each in attributes for name in CONTAINERS]
        self.hooks = [each[name] for each in attributes for name in HOOKS]
        self.hooked = any(self.hooks)
        self.dicts = [*attributes, *containers]
        self.sizes = list(map(len, self.dicts))  # what is added or replaced by another name shows here
        self.places = [
            (each, name)
            for each in self.dicts
            for name, value in each.items()
            if not isinstance(value, dict | set) and name not in UNUSED
        ]
        self.values = self._values()
        self.tensors = [*model.parameters(), *model.buffers()]
        self.layout = self._layout()
        self.forwards = [each.forward for each in KNOWN]

    def _values(self) -> list[Any]:
        return [each[name] for each, name in self.places]

    def _layout(self) -> list[Any]:
        return [(each.data_ptr(), each.dtype, each.shape, each.is_contiguous()) for each in self.tensors]

    def holds(self) -> bool:
        """Values are compared by identity first, so nothing is computed for equal ones."""
        try:
            return (
                any(self.hooks) == self.hooked
                and list(map(len, self.dicts)) == self.sizes
                and self._values() == self.values
                and type(self.root()) is self.root_type
                and list(map(type, self.below)) == self.types
                and self._layout() == self.layout
                and [each.forward for each in KNOWN] == self.forwards
            )
        except (
            KeyError,
            RuntimeError,
            ValueError,
        ):  # gone, or a tensor that cannot be compared with the old one
            return False


_plans: "WeakKeyDictionary[nn.Module, tuple[Guard, Plan | Unsupported]]" = WeakKeyDictionary()


KNOWN: tuple[type[nn.Module], ...] = (
    *(nn.Linear, nn.LayerNorm, nn.Identity, nn.Embedding, nn.ModuleList),
    *(Attention, MultiHead, ScaledDot, Gaussian, Position, Sinusoidal, Learned, Rotary, Sinusoidal2d),
    *(nn.Dropout, FeedForward, Residual, SelfAttention, ScaledEmbedding, Merging, Pruning),
    *(EncoderBlock, DecoderBlock, EncoderStack, Encoder, Decoder),
    *(Transformer, Gpt, GptLanguageModel, Bert, Vit, Ensemble, KnnModel, Datastore),
)
"""The classes whose computation the kernels know; a subclass is another class."""

HOOKS = {
    "_forward_hooks": "a forward hook",
    "_forward_pre_hooks": "a forward pre-hook",
    "_backward_hooks": "a backward hook",
    "_backward_pre_hooks": "a backward pre-hook",
}


CONTAINERS = ("_parameters", "_buffers", "_modules")
"""Of a module's attributes, those whose contents matter to the guard."""

UNUSED = ("_is_full_backward_hook", "in_features", "out_features", "normalized_shape", "elementwise_affine")
"""Attributes that no computation reads; shapes are those of the parameters."""


class _Refused(Exception):
    """Raised while planning, with the reason."""


def _plan_model(model: nn.Module) -> Plan:
    planner = _PLANNERS.get(type(model))
    if planner is None:
        raise _Refused(f"the kernels do not know {type(model).__name__}")
    for name, module in model.named_modules():
        _check_module(name or type(model).__name__, module)
    for name, tensor in (*model.named_parameters(), *model.named_buffers()):
        if tensor.is_floating_point() and not name.startswith(("datastore.", "members.")):
            reason = tensor_refusal(tensor)
            if reason is not None:
                raise _Refused(f"{name} {reason}")
    return planner(model)


def _check_module(name: str, module: nn.Module) -> None:
    """The class itself, without hooks, compiled calls or replaced methods."""
    kind = type(module)
    if kind not in KNOWN:
        raise _Refused(f"{name} is a {kind.__name__}")
    if kind.forward.__module__ not in (kind.__module__, *(each.__module__ for each in kind.__mro__)):
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
        raise _Refused(f"{name} has a bias of {module.bias.numel()} numbers, not {out}")
    return module


def _biased(name: str, module: nn.Linear) -> None:
    if module.bias is None:
        raise _Refused(f"{name} has no bias")


def _norm(name: str, module: nn.Module, width: int) -> nn.LayerNorm:
    if not isinstance(module, nn.LayerNorm):
        raise _Refused(f"{name} is a {type(module).__name__}, not a LayerNorm")
    weight, bias = cast(Tensor | None, module.weight), cast(Tensor | None, module.bias)
    if weight is None or bias is None:
        raise _Refused(f"{name} has no {'weight' if weight is None else 'bias'}")
    if module.normalized_shape != (width,) or weight.shape != (width,) or bias.shape != (width,):
        raise _Refused(f"{name} is for {module.normalized_shape}, not {width}")
    return module


def dropout_threshold(p: float) -> int:
    """How many of 256 byte values drop an element: the kernels' dropout rate is a multiple of 1/256."""
    return min(255, max(1, round(p * 256))) if p else 0


def _threshold(name: str, dropout: nn.Module) -> int:
    if not isinstance(dropout, nn.Dropout):
        raise _Refused(f"{name} is a {type(dropout).__name__}, not dropout")
    if not 0.0 <= dropout.p < 1.0:
        raise _Refused(f"{name} drops everything")
    return dropout_threshold(dropout.p) if dropout.training else 0


def _attention(
    name: str, residual: Residual, kind: Literal["self", "cross"], width: int, *, causal: bool
) -> Sublayer:
    attention = residual.attention
    if type(residual.sublayer) is not (SelfAttention if kind == "self" else type(attention)):
        raise _Refused(f"{name} holds a {type(residual.sublayer).__name__}")
    if type(attention) not in (Attention, MultiHead):
        raise _Refused(f"{name} holds a {type(attention).__name__}")
    if type(attention.score) is not ScaledDot:
        raise _Refused(f"{name} scores by {type(attention.score).__name__}, not ScaledDot")
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
        raise _Refused(f"{name} holds a {type(inner).__name__}")
    d_ff = inner.fc1.weight.size(0)
    _linear(f"{name}.fc1", inner.fc1, d_ff, width)
    _linear(f"{name}.fc2", inner.fc2, width, d_ff)
    gate = cast(nn.Module | None, inner.gate)
    if (gate is not None) != (inner.activation == "swiglu"):
        raise _Refused(f"{name} has {'a' if gate is not None else 'no'} gate with {inner.activation}")
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
        raise _Refused(f"{name} has positions of {position.table.size(1)} numbers, not {width}")
    return Stack(
        tuple(_block(f"{name}.{number}", block, width) for number, block in enumerate(blocks)),
        None if isinstance(norm, nn.Identity) else _norm(f"{name}.norm", norm, width),
        position,
        width,
        _threshold("dropout", dropout),
    )


def _count(model: nn.Module) -> int:
    return sum(each.numel() for each in model.parameters())


def _embedding(name: str, table: Tensor, width: int) -> None:
    if table.dim() != 2 or table.size(1) != width:
        raise _Refused(f"{name} holds vectors of {tuple(table.shape)[1:]}, not {width}")


def _plan_transformer(model: nn.Module) -> Plan:
    assert isinstance(model, Transformer)
    width = model.source_embedding.weight.size(1)
    _embedding("target_embedding", model.target_embedding.weight, width)
    weight, bias = model.output
    _embedding("output_weight", weight, width)
    if bias.shape != (weight.size(0),):
        raise _Refused(f"output_bias has {bias.numel()} numbers for {weight.size(0)} words")
    encoder, decoder = (
        _stack(name, side.blocks, side.norm, side.position, width, model.dropout)
        for name, side in (("encoder.blocks", model.encoder), ("decoder.blocks", model.decoder))
    )
    if any(len(block) != 3 for block in decoder.blocks):
        raise _Refused("a decoder block has no cross-attention")
    refused: dict[Use, str] = {"generation": "a translation is searched for"}
    if is_in_training_mode(model, (encoder, decoder)):
        refused["beam search"] = "the model is in training mode"
    return Plan("encoder-decoder", (encoder, decoder), refused, _count(model))


def is_in_training_mode(model: nn.Module, stacks: Sequence[Stack]) -> bool:
    sublayers = (each for stack in stacks for each in stack.sublayers)
    return model.training or any(each.dropout or each.inner_dropout for each in sublayers)


def _plan_gpt(model: nn.Module) -> Plan:
    gpt = model.gpt if isinstance(model, GptLanguageModel) else model
    assert isinstance(gpt, Gpt)
    width = gpt.token_embedding.embedding_dim
    _embedding("token_embedding", gpt.token_embedding.weight, width)
    if gpt.token_embedding.max_norm is not None:
        raise _Refused("token_embedding renormalises its vectors")
    decoder = gpt.decoder
    stack = _stack("decoder.blocks", decoder.blocks, decoder.norm, decoder.position, width, gpt.dropout)
    if any(len(block) != 2 for block in stack.blocks):
        raise _Refused("a decoder block has cross-attention")
    refused: dict[Use, str] = {"beam search": "a GPT has no source to search from"}
    if gpt.symbol_embedding is not None:
        refused["token loss"] = refused["generation"] = "its special tokens have an embedding of their own"
    elif type(model) is not GptLanguageModel:
        refused["token loss"] = refused["generation"] = "a GPT without its output layer has no logits"
    elif is_in_training_mode(model, (stack,)):
        refused["generation"] = "the model is in training mode"
    return Plan("GPT", (stack,), refused, _count(model))


def _encoder_only(kind: Literal["BERT", "ViT"], model: nn.Module, stack: Stack) -> Plan:
    reason = f"a {kind} gives hidden states only"
    refused: dict[Use, str] = {"token loss": reason, "beam search": reason, "generation": reason}
    return Plan(kind, (stack,), refused, _count(model))


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
    """Models that are searched together, each with or without a kNN datastore."""
    members = tuple(model.members) if isinstance(model, Ensemble) else (model,)
    plans = []
    for number, member in enumerate(members, start=1):
        inner = member.model if isinstance(member, KnnModel) else member
        if type(inner) is not Transformer:
            raise _Refused(f"member {number} is a {type(inner).__name__}")
        if inner.training:
            raise _Refused(f"member {number} is in training mode")
        found = plan(inner)
        if isinstance(found, Unsupported):
            raise _Refused(found.reason)
        reason = found.refuses("beam search")
        if reason is not None:
            raise _Refused(reason)
        if isinstance(member, KnnModel):
            _check_datastore(member.datastore, inner)
        plans.append(found)
    words = {inner.output_bias.numel() for inner in transformers_of(model)}
    if len(words) > 1:
        raise _Refused(f"the members have vocabularies of {', '.join(f'{each:,}' for each in sorted(words))}")
    stacks = tuple(stack for each in plans for stack in each.stacks)
    return Plan(
        "ensemble",
        stacks,
        {
            "hidden states": "an ensemble is searched",
            "generation": "an ensemble is searched",
            "token loss": "an ensemble is searched",
        },
        _count(model),
        tuple(plans),
    )


def _check_datastore(datastore: Datastore, model: Transformer) -> None:
    if datastore.keys.device.type != "cpu" or datastore.tokens.dtype != torch.int32:
        raise _Refused("the datastore is not on the CPU")
    if not datastore.keys.is_contiguous() or not datastore.tokens.is_contiguous():
        raise _Refused("the datastore is not contiguous")
    if type(datastore.score) is not Gaussian:
        raise _Refused(f"the datastore is scored by {type(datastore.score).__name__}")


def transformers_of(model: nn.Module) -> list[Transformer]:
    """The encoder-decoders that are searched together, alone or with a datastore each."""
    members = model.members if isinstance(model, Ensemble) else (model,)
    return [cast(Transformer, each.model if isinstance(each, KnnModel) else each) for each in members]


def datastores_of(model: nn.Module) -> list[Datastore | None]:
    """For each of `transformers_of` its kNN datastore, if it has one."""
    members = model.members if isinstance(model, Ensemble) else (model,)
    return [each.datastore if isinstance(each, KnnModel) else None for each in members]


_PLANNERS: dict[type[nn.Module], Callable[[nn.Module], Plan]] = {
    Transformer: _plan_transformer,
    Gpt: _plan_gpt,
    GptLanguageModel: _plan_gpt,
    Bert: _plan_bert,
    Vit: _plan_vit,
    Ensemble: _plan_ensemble,
    KnnModel: _plan_ensemble,
}
