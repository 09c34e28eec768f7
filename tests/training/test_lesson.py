"""A batch through the whole model by one kernel, against the same model asked layer by layer."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from regard.config import TransformerModel
from regard.data.batches import Batch, Batches
from regard.engine import find_library, kernels
from regard.models.build import build
from regard.models.transformer import Transformer
from regard.text import Tokenizer
from regard.training import lesson, objective
from regard.training.lesson import learned
from regard.training.objective import PairObjective

PADDING, WORDS = Tokenizer.padding, 75

pytestmark = pytest.mark.skipif(kernels() is None, reason=find_library()[1])


def model_of(**settings: Any) -> Transformer:
    torch.manual_seed(2)
    config = {"encoder_layers": 2, "decoder_layers": 1, "d_model": 32, "heads": 2, "d_ff": 48, "dropout": 0.2}
    model = build(TransformerModel(**{**config, **settings}), WORDS, WORDS, PADDING).train()  # type: ignore[arg-type]
    for each in model.parameters():  # as if it had learned something: no norm is 1, no bias 0
        if each.dim() == 1:
            each.data += 0.3 * torch.randn_like(each)
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
    native, before = kernels(), torch.get_num_threads()
    assert native is not None
    native.use_threads(count)
    try:
        yield
    finally:
        native.use_threads(before)


def gradients(loss: Tensor, model: nn.Module, batch: Batch) -> dict[str, Tensor]:
    model.zero_grad()
    (loss / batch.golds).backward()  # type: ignore[no-untyped-call]
    return {name: each.grad.clone() for name, each in model.named_parameters() if each.grad is not None}


def at_once(model: nn.Module, batch: Batch, r_drop: float = 0.0) -> tuple[Tensor, dict[str, Tensor]]:
    torch.manual_seed(6)
    loss = learned(model, batch, padding=PADDING, smoothing=0.1, r_drop=r_drop)
    assert loss is not None
    return loss.detach(), gradients(loss, model, batch)


@pytest.mark.parametrize(
    ("settings", "r_drop", "count"),
    [
        ({}, 0.0, 1),
        ({}, 0.0, 3),
        ({}, 1.5, 1),
        ({}, 1.5, 2),
        ({"dropout": 0.0}, 0.0, 2),
        ({"attention_dropout": 0.15}, 0.0, 7),
        ({"share": "none", "position": "learned", "longest": 512}, 1.5, 2),
        ({"d_model": 64, "heads": 4, "d_ff": 16, "share": "output"}, 0.0, 1),
    ],
    ids=str,
)
@pytest.mark.parametrize("batch", [SHORT, LONG], ids=["short", "long"])
def test_loss_and_gradient_are_those_of_layers_one_by_one(
    batch: Batch, settings: dict[str, Any], r_drop: float, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = model_of(**settings)
    with threads(count):
        loss, found = at_once(model, batch, r_drop)
        again, same = at_once(model, batch, r_drop)
    monkeypatch.setattr(objective, "learned", lambda *_, **__: None)
    torch.manual_seed(6)
    plain = PairObjective(model, PADDING, 0.1, r_drop)(batch)
    expected = gradients(plain, model, batch)
    torch.testing.assert_close(loss, plain.detach(), rtol=1e-6, atol=0)
    assert found.keys() == expected.keys()
    for name, each in expected.items():
        torch.testing.assert_close(found[name], each, rtol=0, atol=2e-5 * float(each.abs().max()), msg=name)
        assert torch.equal(found[name], same[name])
    assert torch.equal(loss, again)


@pytest.mark.parametrize(
    "settings",
    [
        {"norm": "post"},
        {"activation": "gelu"},
        {"position": "rotary"},
        {"d_model": 48, "heads": 2},  # a block of chance would belong to two rows
        {"d_ff": 40},
    ],
    ids=str,
)
def test_models_it_does_not_know_are_left_to_their_layers(settings: dict[str, Any]) -> None:
    model = model_of(**settings)
    assert learned(model, SHORT, padding=PADDING, smoothing=0.1) is None
    assert torch.isfinite(PairObjective(model, PADDING, 0.1)(SHORT))


def test_cores_have_no_gradients_of_their_own_where_those_would_fill_the_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = model_of()
    most = torch.get_num_threads() * sum(each.numel() for each in model.parameters())
    monkeypatch.setattr(lesson, "MOST_COPIES", most)
    assert learned(model, SHORT, padding=PADDING, smoothing=0.1) is not None
    monkeypatch.setattr(lesson, "MOST_COPIES", most - 1)
    assert learned(model, SHORT, padding=PADDING, smoothing=0.1) is None


def test_whoever_watches_is_told() -> None:
    model, seen = model_of(), []
    assert learned(model, SHORT, padding=PADDING, smoothing=0.1) is not None
    handle = model.encoder.blocks[0].register_forward_hook(lambda *_: seen.append(1))
    PairObjective(model, PADDING, 0.1)(SHORT)
    assert seen == [1]
    handle.remove()
    with torch.no_grad():
        assert learned(model, SHORT, padding=PADDING, smoothing=0.1) is None


def test_targets_that_are_not_shifted_by_one_are_left_to_the_layers() -> None:
    source, target, gold = SHORT.source, SHORT.target.clone(), SHORT.gold
    target[0, 1:] = PADDING
    assert (
        learned(model_of(), Batch(source, target, gold, SHORT.tokens, ()), padding=PADDING, smoothing=0.1)
        is None
    )


def test_what_is_not_to_learn_has_no_gradient_and_accumulated_batches_add_up() -> None:
    model = model_of(dropout=0.0)
    model.source_embedding.weight.requires_grad_(False)
    (_, once) = at_once(model, SHORT)
    assert model.source_embedding.weight.grad is None
    loss = learned(model, SHORT, padding=PADDING, smoothing=0.1)
    assert loss is not None
    (loss / SHORT.golds).backward()  # type: ignore[no-untyped-call]
    for name, each in model.named_parameters():
        if each.grad is not None:
            torch.testing.assert_close(each.grad, 2 * once[name])
