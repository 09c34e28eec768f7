"""Changes that users make to a model or its environment, which the engine must honour or refuse.

`python tests/support/mutations.py` prints what happens to each of them.
"""

import sys
import types
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize
from torch.utils.flop_counter import FlopCounterMode

from regard.config.models import TransformerConfig
from regard.engine.plan import describe, plan
from regard.nn import Additive, Alibi, EncoderBlock, Position, Relative, Rotary, ScaledDot, ScaledEmbedding
from regard.nn.build import build
from regard.nn.transformer import Transformer
from regard.tokenization import Tokenizer

WORDS, PADDING = 75, Tokenizer.padding


def small(**settings: Any) -> Transformer:
    torch.manual_seed(2)
    config = {"encoder_layers": 2, "decoder_layers": 2, "d_model": 32, "heads": 2, "d_ff": 48, "dropout": 0.0}
    model = build(TransformerConfig(**{**config, **settings}), WORDS, WORDS, PADDING)
    for weight in model.parameters():
        weight.data += (0.3 if weight.dim() == 1 else 0.2) * torch.randn_like(weight)
    assert isinstance(model, Transformer)
    model.output_bias.data[Tokenizer.end] += 2.0
    return model


class LoraLinear(nn.Linear):
    """A linear layer with a low-rank addition, as loralib has it."""

    @classmethod
    def of(cls, layer: nn.Linear) -> "LoraLinear":
        lora = cls(layer.in_features, layer.out_features, bias=layer.bias is not None)
        lora.load_state_dict(layer.state_dict())
        lora.lora_a = nn.Parameter(torch.randn(2, layer.in_features) * 0.3)
        lora.lora_b = nn.Parameter(torch.randn(layer.out_features, 2) * 0.3)
        return lora

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) + x @ self.lora_a.T @ self.lora_b.T


class Doubled(nn.Module):
    def forward(self, weight: Tensor) -> Tensor:
        return 2 * weight


class ShiftedNorm(nn.LayerNorm):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) + 1


class SharpDot(ScaledDot):
    def compare(self, query: Tensor, prepared: Tensor) -> Tensor:
        return 3 * super().compare(query, prepared)


class DoubledBlock(EncoderBlock):
    def forward(self, *args: Any, **options: Any) -> Tensor:
        return 2 * super().forward(*args, **options)


class HalvedEmbedding(ScaledEmbedding):
    def forward(self, ids: Tensor) -> Tensor:
        return super().forward(ids) / 2


class ColdTransformer(Transformer):
    def scores(self, hidden: Tensor) -> Tensor:
        return super().scores(hidden) / 3


def block(model: Transformer, side: str = "encoder", number: int = 0) -> Any:
    return getattr(model, side).blocks[number]


def attention(model: Transformer, side: str = "encoder", number: int = 0) -> Any:
    return block(model, side, number).self_attention.sublayer.attention


def network(model: Transformer, side: str = "encoder", number: int = 0) -> Any:
    return block(model, side, number).feed_forward.sublayer


def shrunk(layer: nn.Linear, out: int, size: int) -> nn.Linear:
    smaller = nn.Linear(size, out)
    with torch.no_grad():
        smaller.weight.copy_(layer.weight.repeat(2, 2)[:out, :size])
    return smaller


def resize(model: Transformer, d_ff: int) -> None:
    inner = network(model)
    inner.fc1, inner.fc2 = shrunk(inner.fc1, d_ff, 32), shrunk(inner.fc2, 32, d_ff)


def without_bias(module: Any, name: str) -> None:
    layer = getattr(module, name)
    replacement = nn.Linear(layer.in_features, layer.out_features, bias=False)
    replacement.weight = layer.weight
    setattr(module, name, replacement)


def patched_forward(model: Transformer) -> None:
    layer = attention(model).query
    plain = layer.forward
    layer.forward = lambda x: plain(x) * 2


def numpy_write(model: Transformer) -> None:
    network(model, "decoder").fc1.weight.detach().numpy()[...] *= 1.5


def one_number(model: Transformer) -> None:
    attention(model, "decoder", 1).value.weight.data[3, 5] += 4.0


def swapped_data(model: Transformer) -> None:
    weight = network(model).fc1.weight
    weight.data = weight.data * 1.5


def ema_swap(model: Transformer) -> None:
    for weight in model.parameters():
        weight.data.lerp_(torch.ones_like(weight), 0.1)


def doubled_module(model: nn.Module) -> nn.Module:
    return model.double()


Change = Callable[[Transformer], object]


@dataclass(frozen=True)
class Mutation:
    """A change to a model; `during` surrounds what is then computed."""

    name: str
    change: Change
    during: Callable[[Transformer], AbstractContextManager[object]] = lambda _: nullcontext()
    honoured: bool = False
    """Whether native code runs the changed model; otherwise it must refuse it."""
    both: bool = True
    """Whether the change concerns training and search alike; else training only."""


@contextmanager
def global_hook(register: Callable[..., Any], hook: Callable[..., Any]) -> Iterator[None]:
    handle = register(hook)
    try:
        yield
    finally:
        handle.remove()


def hook_on(find: Callable[[Transformer], nn.Module], register: str) -> Change:
    """A hook that changes what passes, so that ignoring it changes the numbers."""

    def change(model: Transformer) -> None:
        module = find(model)
        match register:
            case "register_forward_hook":
                module.register_forward_hook(lambda _, __, out: out * 1.5)
            case "register_forward_pre_hook":
                module.register_forward_pre_hook(lambda _, inputs: (inputs[0] * 1.5, *inputs[1:]))
            case "register_full_backward_hook":
                module.register_full_backward_hook(lambda _, into, __: tuple(tensor * 1.5 for tensor in into))
            case "register_full_backward_pre_hook":
                module.register_full_backward_pre_hook(lambda _, out: tuple(tensor * 1.5 for tensor in out))

    return change


def set_attribute(find: Callable[[Transformer], Any], name: str, value: Any) -> Change:
    return lambda model: setattr(find(model), name, value)


def parametrized(find: Callable[[Transformer], nn.Module]) -> Change:
    return lambda model: parametrize.register_parametrization(find(model), "weight", Doubled())


def as_class(model: Transformer, kind: type[nn.Module], find: Callable[[Transformer], nn.Module]) -> None:
    find(model).__class__ = kind


def tied(model: Transformer) -> None:
    attention(model, "encoder", 1).query.weight = attention(model).query.weight


def class_patched(model: Transformer) -> AbstractContextManager[object]:
    @contextmanager
    def patch() -> Iterator[None]:
        plain = nn.Linear.forward
        nn.Linear.forward = lambda self, x: plain(self, x) * 1.1  # type: ignore[method-assign]
        try:
            yield
        finally:
            nn.Linear.forward = plain  # type: ignore[method-assign]

    return patch()


MUTATIONS = [
    Mutation(
        "LoRA subclass of nn.Linear as query",
        lambda m: setattr(attention(m), "query", LoraLinear.of(attention(m).query)),
    ),
    Mutation(
        "LoRA subclass of nn.Linear as output of cross-attention",
        lambda m: setattr(
            block(m, "decoder").cross_attention.sublayer,
            "output",
            LoraLinear.of(block(m, "decoder").cross_attention.sublayer.output),
        ),
    ),
    Mutation(
        "LoRA subclass of nn.Linear in the feed-forward network",
        lambda m: setattr(network(m), "fc1", LoraLinear.of(network(m).fc1)),
    ),
    Mutation("parametrisation of query", parametrized(lambda m: attention(m).query)),
    Mutation("parametrisation of the feed-forward network", parametrized(lambda m: network(m, "decoder").fc2)),
    Mutation("parametrisation of a norm", parametrized(lambda m: block(m).self_attention.norm)),
    Mutation("weight norm on query", lambda m: nn.utils.parametrizations.weight_norm(attention(m).query)),
    Mutation(
        "spectral norm on key", lambda m: nn.utils.parametrizations.spectral_norm(attention(m).key.eval())
    ),
    Mutation("feed-forward network of one layer narrower", lambda m: resize(m, 32), honoured=True),
    Mutation("feed-forward network of one layer wider", lambda m: resize(m, 80), honoured=True),
    Mutation("feed-forward network of an odd width", lambda m: resize(m, 41), honoured=True),
    Mutation("feed-forward network without bias", lambda m: without_bias(network(m), "fc1"), honoured=True),
    Mutation("attention output without bias", lambda m: without_bias(attention(m), "output"), honoured=True),
    Mutation("query without bias", lambda m: without_bias(attention(m), "query"), honoured=True),
    Mutation(
        "norm without bias", lambda m: setattr(block(m).feed_forward, "norm", nn.LayerNorm(32, bias=False))
    ),
    Mutation(
        "norm without affine parameters",
        lambda m: setattr(block(m).feed_forward, "norm", nn.LayerNorm(32, elementwise_affine=False)),
    ),
    Mutation("norm replaced by RMSNorm", lambda m: setattr(block(m).feed_forward, "norm", nn.RMSNorm(32))),
    Mutation("norm replaced by the identity", lambda m: setattr(block(m).feed_forward, "norm", nn.Identity())),
    Mutation(
        "LayerNorm epsilon of one layer",
        set_attribute(lambda m: block(m).self_attention.norm, "eps", 0.5),
        honoured=True,
    ),
    Mutation(
        "LayerNorm epsilon of the final norm",
        set_attribute(lambda m: m.decoder.norm, "eps", 0.5),
        honoured=True,
    ),
    Mutation("number of heads of one layer", set_attribute(attention, "heads", 4), honoured=True),
    Mutation(
        "norm placement of one layer",
        set_attribute(lambda m: block(m).feed_forward, "placement", "post"),
        honoured=True,
    ),
    Mutation("activation of one layer", set_attribute(network, "activation", "silu"), honoured=True),
    Mutation(
        "subclass of LayerNorm", lambda m: as_class(m, ShiftedNorm, lambda m: block(m).self_attention.norm)
    ),
    Mutation("patched forward of query", patched_forward),
    Mutation(
        "patched method of attention",
        lambda m: setattr(
            attention(m),
            "project_kv",
            types.MethodType(lambda self, x, **_: type(self).project_kv(self, 2 * x), attention(m)),
        ),
    ),
    Mutation("nn.Linear.forward replaced in the class", lambda _: None, during=class_patched),
    Mutation("subclass of a block", lambda m: as_class(m, DoubledBlock, block)),
    Mutation("subclass of the embedding", lambda m: as_class(m, HalvedEmbedding, lambda m: m.source_embedding)),
    Mutation("subclass of the model with its own scores", lambda m: as_class(m, ColdTransformer, lambda m: m)),
    Mutation("score replaced by its subclass", set_attribute(attention, "score", SharpDot())),
    Mutation(
        "score replaced by an additive one", lambda m: setattr(attention(m), "score", Additive(16, 16, 8))
    ),
    Mutation("rotary positions in one layer", set_attribute(attention, "position", Rotary(16)), honoured=True),
    Mutation("ALiBi positions in one layer", set_attribute(attention, "position", Alibi(2))),
    Mutation("relative positions in one layer", lambda m: setattr(attention(m), "position", Relative(16))),
    Mutation(
        "positions of the encoder taken away",
        set_attribute(lambda m: m.encoder, "position", Position()),
        honoured=True,
    ),
    Mutation(
        "final norm of the decoder taken away",
        set_attribute(lambda m: m.decoder, "norm", nn.Identity()),
        honoured=True,
    ),
    Mutation("embedding scale", set_attribute(lambda m: m.target_embedding, "scale", 1.0), honoured=True),
    Mutation("forward hook on query", hook_on(lambda m: attention(m).query, "register_forward_hook")),
    Mutation("forward pre-hook on query", hook_on(lambda m: attention(m).query, "register_forward_pre_hook")),
    Mutation(
        "backward hook on query",
        hook_on(lambda m: attention(m).query, "register_full_backward_hook"),
        both=False,
    ),
    Mutation(
        "backward pre-hook on query",
        hook_on(lambda m: attention(m).query, "register_full_backward_pre_hook"),
        both=False,
    ),
    Mutation("forward hook on attention", hook_on(attention, "register_forward_hook")),
    Mutation(
        "forward hook on a score",
        lambda m: attention(m).score.register_forward_hook(lambda _, __, out: out * 1.5),
    ),
    Mutation("forward hook on a block", hook_on(block, "register_forward_hook")),
    Mutation("forward hook on the encoder", hook_on(lambda m: m.encoder, "register_forward_hook")),
    Mutation(
        "global forward hook",
        lambda _: None,
        during=lambda _: global_hook(
            nn.modules.module.register_module_forward_hook,
            lambda module, _, out: out * 1.1 if type(module) is nn.Linear else None,
        ),
    ),
    Mutation(
        "global forward pre-hook",
        lambda _: None,
        during=lambda _: global_hook(
            nn.modules.module.register_module_forward_pre_hook,
            lambda module, inputs: (inputs[0] * 1.1,) if type(module) is nn.Linear else None,
        ),
    ),
    Mutation(
        "global backward hook",
        lambda _: None,
        during=lambda _: global_hook(
            nn.modules.module.register_module_full_backward_hook,
            lambda module, into, _: (
                tuple(tensor * 1.1 for tensor in into) if type(module) is nn.Linear else None
            ),
        ),
        both=False,
    ),
    Mutation(
        "gradient hook on a parameter",
        lambda m: attention(m).query.weight.register_hook(lambda g: 2 * g),
        honoured=True,
        both=False,
    ),
    Mutation("frozen parameter", lambda m: attention(m).query.weight.requires_grad_(False), honoured=True),
    Mutation("two layers share a weight", tied, honoured=True),
    Mutation(
        "weights written through .data",
        lambda m: network(m, "decoder").fc1.weight.data.mul_(1.5),
        honoured=True,
    ),
    Mutation("one number written through .data", one_number, honoured=True),
    Mutation("weights written through numpy", numpy_write, honoured=True),
    Mutation(
        "weights written in place", lambda m: torch.no_grad()(network(m).fc1.weight.mul_)(1.5), honoured=True
    ),
    Mutation("parameter with swapped data", swapped_data, honoured=True),
    Mutation(
        "parameter replaced",
        lambda m: setattr(attention(m).key, "weight", nn.Parameter(attention(m).key.weight.detach() * 2)),
        honoured=True,
    ),
    Mutation("EMA swap of all parameters", ema_swap, honoured=True),
    Mutation(
        "load_state_dict",
        lambda m: m.load_state_dict({name: 1.1 * tensor for name, tensor in m.state_dict().items()}),
        honoured=True,
    ),
    Mutation(
        "weight that is not contiguous",
        lambda m: setattr(attention(m).query.weight, "data", attention(m).query.weight.data.T.contiguous().T),
    ),
    Mutation("FLOP counter", lambda _: None, during=lambda _: FlopCounterMode(display=False)),
    Mutation("default device mode", lambda _: None, during=lambda _: torch.device("cpu")),
    Mutation("module.compile", lambda m: setattr(m.encoder, "_compiled_call_impl", m.encoder._call_impl)),
]

DROPOUT_MUTATIONS: dict[str, Change] = {
    "residual dropout of one layer 0.9": set_attribute(lambda m: block(m).self_attention.dropout, "p", 0.9),
    "feed-forward dropout of one layer 0.9": set_attribute(lambda m: network(m).dropout, "p", 0.9),
    "attention dropout of one layer 0.9": set_attribute(attention, "dropout", 0.9),
    "embedding dropout 0.9": set_attribute(lambda m: m.dropout, "p", 0.9),
    "one block in evaluation mode": lambda m: block(m).eval(),
    "a subclass of nn.Dropout": lambda m: setattr(block(m).self_attention, "dropout", nn.AlphaDropout(0.2)),
}


def happens(mutation: Mutation) -> str:
    model = small().eval()
    plan(model)
    with ExitStack() as stack:
        mutation.change(model)
        stack.enter_context(mutation.during(model))
        return describe(model, ("hidden states", "token loss", "beam search"))


if __name__ == "__main__":
    for mutation in MUTATIONS:
        print(f"{mutation.name:60} {happens(mutation)}")
    for name, change in DROPOUT_MUTATIONS.items():
        model = small(dropout=0.2, attention_dropout=0.2).train()
        change(model)
        print(f"{name:60} {describe(model, ('hidden states', 'token loss'))}")
    sys.exit(0)
