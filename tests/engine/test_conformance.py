"""The conformance grid: the native engine equals plain PyTorch modules in float64, values and gradients.

The reference runs the same modules on padded batches, with the kernels' dropout masks.
"""

import copy
import itertools
import zlib
from typing import Any

import pytest
import torch
from support.kernel_dropout import kernel_dropout
from torch import Tensor, nn

from regard.config.models import BertConfig, GptConfig, TransformerConfig, VitConfig
from regard.data.batches import Batch, Batches
from regard.engine import Plan, plan
from regard.engine.forward import bert_hidden, bert_hidden_at, gpt_hidden, vit_pooled
from regard.engine.plan import supports
from regard.nn import Packed
from regard.nn.build import build, build_bert, build_gpt, build_vit
from regard.nn.transformer import Transformer
from regard.tokenization import Tokenizer
from regard.training.objectives import Seq2SeqObjective, SmoothedKL

PADDING, WORDS = Tokenizer.padding, 75
SIZES = (
    {"encoder_layers": 2, "decoder_layers": 1, "d_model": 32, "heads": 2, "d_ff": 48},
    {"encoder_layers": 1, "decoder_layers": 2, "d_model": 64, "heads": 4, "d_ff": 32},
)
ACTIVATIONS = ("relu", "gelu", "gelu-tanh", "silu", "swiglu")
REGULARISATION = (
    {},
    {"dropout": 0.2},
    {"dropout": 0.2, "attention_dropout": 0.15, "r_drop": 1.5},
)
GRID = list(
    itertools.product(
        ("pre", "post"), ACTIVATIONS, ("sinusoidal", "learned", "rotary"), ("all", "output", "none"), range(3)
    )
)


def randomised(model: nn.Module, seed: int = 2) -> Any:
    """As if it had learned something: no norm is 1, no bias 0."""
    torch.manual_seed(seed)
    for each in model.parameters():
        each.data += (0.3 if each.dim() == 1 else 0.05) * torch.randn_like(each)
    return model


def batch_of(lengths: list[tuple[int, int]]) -> Batch:
    torch.manual_seed(4)
    pairs = [tuple(torch.randint(4, WORDS, (each,)).tolist() for each in both) for both in lengths]
    (batch,) = Batches.of_pairs(pairs, 100_000, 400)  # type: ignore[arg-type]
    return batch


BATCH = batch_of([(3, 5), (9, 2), (1, 1), (7, 7), (12, 20), (2, 6)])
LONG = batch_of([(90, 120), (130, 100), (300, 310), (5, 4), (150, 160)])


def gradients(loss: Tensor, model: nn.Module) -> dict[str, Tensor]:
    model.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    return {name: each.grad.clone() for name, each in model.named_parameters() if each.grad is not None}


def padded(batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
    source, target, labels = (each.padded(PADDING) for each in (batch.source, batch.target, batch.labels))
    return source, target, labels


def reference(model: Transformer, batch: Batch, r_drop: float) -> tuple[Tensor, dict[str, Tensor]]:
    """The loss of the written-out formulas over padded modules in float64."""
    twin = copy.deepcopy(model).double()
    source, target, labels = padded(batch)
    if r_drop:
        source, target, labels = (torch.cat((each, each)) for each in (source, target, labels))
    torch.manual_seed(6)
    with kernel_dropout(twin, source != PADDING, target != PADDING):
        logits = twin(source, target)
    divergence = SmoothedKL(WORDS, PADDING, 0.1)
    if not r_drop:
        loss = divergence(logits, labels)
    else:
        p, q = (torch.log_softmax(each, -1) for each in logits.chunk(2))
        real = batch.labels.nonpad.unsqueeze(-1)
        loss = divergence(logits, labels) / 2 + r_drop * ((p.exp() - q.exp()) * (p - q) * real).sum() / 2
    return loss.detach(), gradients(loss, twin)


def check(model: Transformer, batch: Batch, r_drop: float) -> None:
    torch.manual_seed(6)
    loss = Seq2SeqObjective(model, PADDING, 0.1, r_drop)(batch)
    found = gradients(loss, model)
    expected_loss, expected = reference(model, batch, r_drop)
    torch.testing.assert_close(loss.detach().double(), expected_loss, rtol=3e-6, atol=0)
    assert found.keys() == expected.keys()
    for name, each in expected.items():
        tolerance = 5e-5 * float(each.abs().max())
        torch.testing.assert_close(found[name].double(), each, rtol=0, atol=tolerance, msg=name)


@pytest.mark.parametrize(("norm", "activation", "position", "tie_embeddings", "regularisation"), GRID)
def test_loss_and_gradients_of_the_encoder_decoder(
    norm: str, activation: str, position: str, tie_embeddings: str, regularisation: int
) -> None:
    settings = dict(REGULARISATION[regularisation])
    r_drop = float(settings.pop("r_drop", 0.0))
    size = SIZES[zlib.crc32(f"{norm} {activation} {position} {tie_embeddings}".encode()) % len(SIZES)]
    config = {
        **size,
        "dropout": 0.0,
        "norm": norm,
        "activation": activation,
        "position": position,
        "tie_embeddings": tie_embeddings,
    }
    torch.manual_seed(1)
    model = randomised(build(TransformerConfig(**{**config, **settings}), WORDS, WORDS, PADDING).train())  # type: ignore[arg-type]
    assert supports(model, "hidden states")
    assert supports(model, "token loss")
    check(model, BATCH, r_drop)


@pytest.mark.parametrize("regularisation", range(3))
def test_sentences_that_do_not_fit_into_one_chunk(regularisation: int) -> None:
    settings = dict(REGULARISATION[regularisation])
    r_drop = float(settings.pop("r_drop", 0.0))
    config = {**SIZES[0], "dropout": 0.0, "position": "learned", "max_length": 512, **settings}
    torch.manual_seed(1)
    model = randomised(build(TransformerConfig(**config), WORDS, WORDS, PADDING).train())  # type: ignore[arg-type]
    check(model, LONG, r_drop)


def test_loss_from_hidden_states_where_the_fused_loss_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(1)
    config = TransformerConfig(**SIZES[0], dropout=0.2, attention_dropout=0.15)  # type: ignore[arg-type]
    model = randomised(build(config, WORDS, WORDS, PADDING).train())
    monkeypatch.setattr("regard.training.objectives.translation_loss", lambda *_, **__: None)
    check(model, BATCH, 0.0)
    check(model, BATCH, 1.5)


@pytest.mark.parametrize("dropout", [0.0, 0.2])
@pytest.mark.parametrize("position", ["learned", "sinusoidal", "rotary"])
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("norm", ["pre", "post"])
def test_hidden_states_and_gradients_of_gpt(norm: str, activation: str, position: str, dropout: float) -> None:
    torch.manual_seed(1)
    config = GptConfig(
        layers=2, d_model=32, heads=2, d_ff=48, max_length=16, norm=norm, activation=activation, position=position,  # type: ignore[arg-type]
        dropout=dropout, attention_dropout=dropout,
    )  # fmt: skip
    model = randomised(build_gpt(config, "language", 50)).train()
    gpt, twin = model.gpt, copy.deepcopy(model.gpt).double()
    ids = torch.randint(50, (4, 11)).masked_fill(torch.arange(11) >= torch.tensor([[11], [3], [1], [7]]), -1)
    assert supports(gpt, "hidden states")
    torch.manual_seed(6)
    found = gpt_hidden(gpt, Packed.from_padded(ids, ids != -1)).values
    torch.manual_seed(6)
    with kernel_dropout(twin, ids != -1):
        expected = twin(ids)[ids != -1]
    assert_same(found, expected, gpt, twin)


def assert_same(found: Tensor, expected: Tensor, model: nn.Module, twin: nn.Module) -> None:
    """Values, and gradients of a random projection of them."""
    torch.testing.assert_close(
        found.double(), expected, rtol=0, atol=1e-5 * max(1.0, float(expected.detach().abs().max()))
    )
    upstream = torch.randn(found.shape, generator=torch.Generator().manual_seed(8))
    ours = gradients((found * upstream).sum(), model)
    theirs = gradients((expected * upstream.double()).sum(), twin)
    assert ours.keys() == theirs.keys()
    for name, each in theirs.items():
        tolerance = 5e-5 * max(float(each.abs().max()), 1e-3)
        torch.testing.assert_close(ours[name].double(), each, rtol=0, atol=tolerance, msg=name)


@pytest.mark.parametrize("places", [None, [0, 9, 13], [10, 0, 8, 3]], ids=["all", "first", "some"])
@pytest.mark.parametrize("activation", ["relu", "gelu", "gelu-tanh", "silu"])
@pytest.mark.parametrize("heads", [2, 4])
def test_hidden_states_and_gradients_of_bert(heads: int, activation: str, places: list[int] | None) -> None:
    torch.manual_seed(1)
    config = BertConfig(
        layers=2,
        d_model=32,
        heads=heads,
        d_ff=48,
        max_length=16,
        activation=activation,
        dropout=0.0,
        attention_dropout=0.0,
    )  # type: ignore[arg-type]
    model = randomised(build_bert(config, "none", 50, 0)).train()
    bert, twin = model.bert, copy.deepcopy(model.bert).double()
    ids = torch.randint(1, 50, (3, 9)).masked_fill(torch.arange(9) >= torch.tensor([[9], [4], [1]]), 0)
    segments = (torch.arange(9) > 2).long().expand(3, 9)
    at = None if places is None else torch.tensor(places)
    assert supports(bert, "hidden states")
    expected, packed, packed_segments = (
        twin(ids, segments),
        Packed.from_padded(ids, ids != 0),
        segments[ids != 0],
    )
    if at is None:
        found, expected = bert_hidden(bert, packed, packed_segments).values, expected[ids != 0]
    else:
        found, expected = bert_hidden_at(bert, packed, packed_segments, at), expected[ids != 0][at]
    assert_same(found, expected, bert, twin)


@pytest.mark.parametrize("pooling", ["class", "mean"])
@pytest.mark.parametrize("position", ["learned", "sinusoidal"])
@pytest.mark.parametrize("activation", ["relu", "gelu", "gelu-tanh", "silu"])
def test_hidden_states_and_gradients_of_vit(activation: str, position: str, pooling: str) -> None:
    torch.manual_seed(1)
    config = VitConfig(
        height=8, width=12, channels=3, patch=4, layers=2, d_model=32, heads=4, d_ff=48, dropout=0.0, attention_dropout=0.0,
        activation=activation, position=position, pooling=pooling, mean=(0.5, 0.4, 0.3), std=(0.2, 0.3, 0.4),  # type: ignore[arg-type]
    )  # fmt: skip
    vit = randomised(build_vit(config, 5)).train().vit
    twin, pixels = copy.deepcopy(vit).double(), torch.rand(3, 3, 8, 12)
    assert supports(vit, "hidden states")
    assert_same(vit_pooled(vit, pixels), twin(pixels.double()), vit, twin)


def curve(steps: int, twin: bool) -> list[float]:
    torch.manual_seed(11)
    model = build(
        TransformerConfig(encoder_layers=2, decoder_layers=2, d_model=32, heads=4, d_ff=64, dropout=0.2),
        60,
        60,
        PADDING,
    )
    # A ReLU within a rounding of 0 opens here and not there: short steps over many tokens keep that small.
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-4)
    objective = Seq2SeqObjective(model.train(), PADDING, 0.1)
    generator = torch.Generator().manual_seed(5)
    pairs = []
    for _ in range(800):
        words = torch.randint(4, 60, (int(torch.randint(3, 12, (), generator=generator)),), generator=generator)
        pairs.append((words.tolist(), [*words.flip(0).tolist(), 5]))
    batches = list(Batches.of_pairs(pairs, 512, 64))
    losses = []
    for number in range(steps):
        batch = batches[number * 7 % len(batches)]
        torch.manual_seed(number)
        if twin:
            source, target, labels = padded(batch)
            with kernel_dropout(model, source != PADDING, target != PADDING):
                total = SmoothedKL(60, PADDING, 0.1)(model(source, target), labels)
        else:
            total = objective(batch)
        loss = total / batch.tokens
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        losses.append(loss.item())
    return losses


def test_200_steps_have_the_loss_curve_of_plain_pytorch() -> None:
    ours, twin = curve(200, twin=False), curve(200, twin=True)
    assert max(abs(one - other) for one, other in zip(ours, twin, strict=True)) < 1e-4
    assert ours[-1] < ours[0] - 0.5


def test_the_plan_names_what_it_supports() -> None:
    model = build(TransformerConfig(**SIZES[0]), WORDS, WORDS, PADDING).eval()  # type: ignore[arg-type]
    found = plan(model)
    assert isinstance(found, Plan)
    assert found.refused == {"generation": "an encoder-decoder uses beam search"}
