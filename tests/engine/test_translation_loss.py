"""The token loss of translation: the same numbers for any number of threads, and what it leaves to hidden states."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from regard.config.models import TransformerConfig
from regard.data.batches import Batch, Batches
from regard.engine.library import library
from regard.nn.build import build
from regard.nn.transformer import Transformer
from regard.tokenization import Tokenizer
from regard.training.objectives import Seq2SeqObjective

PADDING, WORDS = Tokenizer.padding, 75
PLAN = sys.modules["regard.engine.plan"]


def model_of(**settings: Any) -> Transformer:
    torch.manual_seed(2)
    config = {"encoder_layers": 2, "decoder_layers": 1, "d_model": 32, "heads": 2, "d_ff": 48, "dropout": 0.2}
    model = build(TransformerConfig(**{**config, **settings}), WORDS, WORDS, PADDING).train()
    assert isinstance(model, Transformer)
    return model


def batch_of(lengths: list[tuple[int, int]]) -> Batch:
    torch.manual_seed(4)
    pairs = [tuple(torch.randint(4, WORDS, (each,)).tolist() for each in both) for both in lengths]
    (batch,) = Batches.of_pairs(pairs, 100_000, 400)  # type: ignore[arg-type]
    return batch


SHORT = batch_of([(3, 5), (9, 2), (1, 1), (7, 7), (12, 20), (2, 6)])
LONG = batch_of([(90, 120), (130, 100), (300, 310), (5, 4), (150, 160)])


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
        name: each.grad.clone() for name, each in model.named_parameters() if each.grad is not None
    }


@pytest.mark.parametrize("count", [2, 3, 7])
@pytest.mark.parametrize("r_drop", [0.0, 1.5])
@pytest.mark.parametrize("batch", [SHORT, LONG], ids=["short", "long"])
def test_any_number_of_threads_gives_the_same_step(batch: Batch, r_drop: float, count: int) -> None:
    model = model_of(attention_dropout=0.15, max_length=512)
    with threads(1):
        loss, expected = step(model, batch, r_drop)
    with threads(count):
        found_loss, found = step(model, batch, r_drop)
        again_loss, again = step(model, batch, r_drop)
    torch.testing.assert_close(found_loss, loss, rtol=1e-6, atol=0)
    for name, each in expected.items():
        torch.testing.assert_close(found[name], each, rtol=0, atol=2e-5 * float(each.abs().max()), msg=name)
        assert torch.equal(found[name], again[name]), name
    assert torch.equal(found_loss, again_loss)


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
def test_what_the_engine_does_not_compute_is_left_to_the_modules(settings: dict[str, Any], reason: str) -> None:
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
def test_every_shape_of_a_transformer_is_trained_natively(settings: dict[str, Any]) -> None:
    assert fused(model_of(**settings), SHORT) is not None


def test_threads_have_no_gradients_of_their_own_where_those_would_fill_the_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = model_of()
    copies = torch.get_num_threads() * sum(each.numel() for each in model.parameters())
    monkeypatch.setattr(PLAN, "MAX_GRADIENT_COPIES", copies)
    assert fused(model, SHORT) is not None
    monkeypatch.setattr(PLAN, "MAX_GRADIENT_COPIES", copies - 1)
    assert fused(model, SHORT) is None
    with torch.no_grad():
        assert fused(model, SHORT) is not None  # which has no gradients


def test_without_gradients_the_loss_alone_is_computed() -> None:
    model = model_of(dropout=0.0)
    with torch.no_grad():
        found = fused(model, SHORT)
    assert found is not None
    assert not found.requires_grad
    assert found == step(model, SHORT)[0]


def test_frozen_parameters_have_no_gradient_and_accumulated_batches_add_up() -> None:
    model = model_of(dropout=0.0)
    model.source_embedding.weight.requires_grad_(False)
    _, once = step(model, SHORT)
    assert model.source_embedding.weight.grad is None
    loss = fused(model, SHORT)
    assert loss is not None
    (loss / SHORT.num_targets).backward()  # type: ignore[no-untyped-call]
    for name, each in model.named_parameters():
        if each.grad is not None:
            torch.testing.assert_close(each.grad, 2 * once[name])
