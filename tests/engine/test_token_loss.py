"""The token loss of translation: the same for any number of threads, and the models it does not support."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from support.pair_batches import LONG, PADDING, SHORT, WORDS
from torch import Tensor, nn

from regard.config.models import TransformerConfig
from regard.data.batches import Batch
from regard.engine.library import library
from regard.nn.build import build
from regard.nn.transformer import Transformer
from regard.training.objectives import Seq2SeqObjective

PLAN = sys.modules["regard.engine.plan"]


def model_of(**settings: Any) -> Transformer:
    torch.manual_seed(2)
    config = {"encoder_layers": 2, "decoder_layers": 1, "d_model": 32, "heads": 2, "d_ff": 48, "dropout": 0.2}
    model = build(TransformerConfig(**{**config, **settings}), WORDS, WORDS, PADDING).train()
    assert isinstance(model, Transformer)
    return model


@contextmanager
def threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    library().use_threads(count)
    try:
        yield
    finally:
        library().use_threads(before)


def fused(model: nn.Module, batch: Batch, r_drop: float = 0.0) -> Tensor | None:
    objective = Seq2SeqObjective(model, PADDING, 0.1, r_drop)
    return objective.fused(batch.source, batch.target, batch.labels.values)


def step(model: nn.Module, batch: Batch, r_drop: float = 0.0) -> tuple[Tensor, dict[str, Tensor]]:
    torch.manual_seed(6)
    loss = fused(model, batch, r_drop)
    assert loss is not None
    model.zero_grad()
    (loss / batch.num_targets).backward()  # type: ignore[no-untyped-call]
    return loss.detach(), {
        name: parameter.grad.clone()
        for name, parameter in model.named_parameters()
        if parameter.grad is not None
    }


@pytest.mark.parametrize("count", [2, 3, 7])
@pytest.mark.parametrize("r_drop", [0.0, 1.5])
@pytest.mark.parametrize("batch", [SHORT, LONG], ids=["short", "long"])
def test_any_number_of_threads_gives_the_same_step(batch: Batch, r_drop: float, count: int) -> None:
    model = model_of(attention_dropout=0.15, max_length=512)
    with threads(1):
        loss, expected = step(model, batch, r_drop)
    with threads(count):
        threaded_loss, threaded = step(model, batch, r_drop)
        again_loss, again = step(model, batch, r_drop)
    torch.testing.assert_close(threaded_loss, loss, rtol=1e-6, atol=0)
    for name, gradient in expected.items():
        torch.testing.assert_close(
            threaded[name], gradient, rtol=0, atol=2e-5 * float(gradient.abs().max()), msg=name
        )
        assert torch.equal(threaded[name], again[name]), name
    assert torch.equal(threaded_loss, again_loss)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"position": "alibi"}, "encoder.blocks.0.self_attention.sublayer.attention.position is a Alibi"),
        ({"score": "dot"}, "encoder.blocks.0.self_attention.sublayer.attention.score is a Dot"),
        (
            {"d_model": 36, "heads": 3},
            "encoder.blocks.0.self_attention has heads of size 12, not a multiple of 8",
        ),
    ],
    ids=str,
)
def test_unsupported_models_run_as_modules(settings: dict[str, Any], reason: str) -> None:
    model = model_of(**settings)
    assert PLAN.plan(model).reason == reason
    assert fused(model, SHORT) is None
    assert torch.isfinite(Seq2SeqObjective(model, PADDING, 0.1)(SHORT))


@pytest.mark.parametrize(
    "settings",
    [
        {"norm": "post"},
        {"activation": "gelu"},
        {"position": "rotary"},
        {"d_model": 48, "heads": 2},
        {"d_ff": 41},
    ],
    ids=str,
)
def test_supported_transformer_variants_are_trained_natively(settings: dict[str, Any]) -> None:
    assert fused(model_of(**settings), SHORT) is not None


def test_the_fused_loss_is_not_used_where_per_thread_gradients_exceed_the_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = model_of()
    copies = torch.get_num_threads() * sum(parameter.numel() for parameter in model.parameters())
    monkeypatch.setattr(PLAN, "MAX_GRADIENT_COPIES", copies)
    assert fused(model, SHORT) is not None
    monkeypatch.setattr(PLAN, "MAX_GRADIENT_COPIES", copies - 1)
    assert fused(model, SHORT) is None
    with torch.no_grad():
        assert fused(model, SHORT) is not None  # which has no gradients


def test_without_gradients_only_the_loss_is_computed() -> None:
    model = model_of(dropout=0.0)
    with torch.no_grad():
        loss = fused(model, SHORT)
    assert loss is not None
    assert not loss.requires_grad
    assert loss == step(model, SHORT)[0]


def test_frozen_parameters_have_no_gradient_and_accumulated_batches_add_up() -> None:
    model = model_of(dropout=0.0)
    model.source_embedding.weight.requires_grad_(False)
    _, once = step(model, SHORT)
    assert model.source_embedding.weight.grad is None
    loss = fused(model, SHORT)
    assert loss is not None
    (loss / SHORT.num_targets).backward()  # type: ignore[no-untyped-call]
    for name, parameter in model.named_parameters():
        if parameter.grad is not None:
            torch.testing.assert_close(parameter.grad, 2 * once[name])
