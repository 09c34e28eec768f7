"""Packed batches: known heads run without any padded ids, everything else is called with padded ones."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from regard.config.models import BertConfig, GptConfig, RnnConfig, TransformerConfig
from regard.data.batches import Batches
from regard.data.examples import IGNORE_INDEX, Example, TextBatch, all_batches
from regard.engine.forward import bert_hidden_at, run, run_tokens, seq2seq_hidden
from regard.nn import Packed
from regard.nn.bert import TextEmbedder
from regard.nn.build import Head, build, build_bert, build_gpt, build_text_model
from regard.training.objectives import (
    ClassObjective,
    GptClassObjective,
    HeadObjective,
    LanguageObjective,
    PretrainingObjective,
    Seq2SeqObjective,
    SpanObjective,
    TagObjective,
)

WORDS, PADDING = 50, 2
Plain = Callable[[], AbstractContextManager[None]]
BERT = BertConfig(layers=2, d_model=32, heads=2, d_ff=48, max_length=16, dropout=0.0, attention_dropout=0.0)
GPT = GptConfig(layers=2, d_model=32, heads=2, d_ff=48, max_length=16, dropout=0.0, attention_dropout=0.0)


def texts() -> TextBatch:
    """Five texts of different lengths, some words marked, a label and an answer's span each."""
    chance = np.random.default_rng(3)
    examples = []
    for number, length in enumerate((9, 4, 1, 7, 4)):
        marks = np.where(chance.random(length) < 0.5, chance.integers(0, 4, length), IGNORE_INDEX)
        labels = (number % 2, min(2, length - 1))
        examples.append(Example(number, chance.integers(3, WORDS - 3, length), min(3, length), labels, marks))
    (batch,) = all_batches(examples, 1000)
    return batch


def head_of(head: Head) -> Any:
    torch.manual_seed(0)
    model = build_bert(BERT, head, WORDS, PADDING, 4)
    for each in model.parameters():
        each.data += 0.1 * torch.randn_like(each)
    return model.eval()


@pytest.fixture
def never_padded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Integers are token ids: none may be padded, or found in a padded batch."""
    padded = Packed.padded

    def only_scores(packed: Packed, fill: float) -> Tensor:
        assert packed.values.is_floating_point(), "token ids were padded"
        return padded(packed, fill)

    def never(*_: object) -> Packed:
        raise AssertionError("a padded batch was packed")

    monkeypatch.setattr(Packed, "padded", only_scores)
    monkeypatch.setattr(Packed, "from_padded", staticmethod(never))
    monkeypatch.setattr(Packed, "repacked", never)


OBJECTIVES: list[tuple[Callable[[], nn.Module], Callable[[nn.Module], HeadObjective]]] = [
    (lambda: head_of("classes"), ClassObjective),
    (lambda: head_of("tags"), TagObjective),
    (lambda: head_of("span"), SpanObjective),
    (lambda: head_of("pretraining"), PretrainingObjective),
    (lambda: build_gpt(GPT, "language", WORDS), LanguageObjective),
    (
        lambda: build_text_model(GPT, "classes", WORDS, -1, 4),
        lambda model: GptClassObjective(model, language=0.5),
    ),
]


def loss_and_gradients(objective: Callable[[Any], Tensor], model: nn.Module, batch: object) -> list[Tensor]:
    model.zero_grad()
    loss = objective(batch)
    loss.backward()  # type: ignore[no-untyped-call]
    return [loss.detach(), *(each.grad for each in model.parameters() if each.grad is not None)]


@pytest.mark.parametrize(("make", "objective"), OBJECTIVES)
def test_losses_of_packed_texts_equal_those_of_the_padded_modules(
    make: Callable[[], nn.Module],
    objective: Callable[[nn.Module], HeadObjective],
    plain: Plain,
    request: pytest.FixtureRequest,
) -> None:
    torch.manual_seed(1)
    model, batch = make().eval(), texts()
    if isinstance(objective(model), SpanObjective | LanguageObjective):
        batch = TextBatch(
            batch.ids, batch.segments, batch.labels.clamp(max=0), batch.token_labels.clamp(min=0), 25, 25, 5, ()
        )
    with plain():
        expected = loss_and_gradients(objective(model), model, batch)
    request.getfixturevalue("never_padded")
    found = loss_and_gradients(objective(model), model, batch)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("r_drop", [0.0, 1.0])
def test_the_loss_of_packed_pairs_equals_that_of_the_padded_modules(
    r_drop: float, plain: Plain, request: pytest.FixtureRequest
) -> None:
    torch.manual_seed(1)
    config = TransformerConfig(encoder_layers=1, decoder_layers=1, d_model=16, heads=2, d_ff=32, dropout=0.0)
    model = build(config, WORDS, WORDS, PADDING)
    (batch,) = Batches.of_pairs([([5, 6, 7], [8]), ([9], [10, 11, 12, 13]), ([], [14])], 1000, 20)
    objective = Seq2SeqObjective(model, PADDING, 0.1, r_drop)
    with plain():
        expected = loss_and_gradients(objective, model, batch)
    request.getfixturevalue("never_padded")
    for one, other in zip(loss_and_gradients(objective, model, batch), expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("pooling", ["mean", "cls", "max"])
@pytest.mark.parametrize("body", ["bert", "gpt"])
def test_pooled_vectors(body: str, pooling: Any, plain: Plain, request: pytest.FixtureRequest) -> None:
    torch.manual_seed(1)
    below = build_gpt(GPT, "language", WORDS).gpt if body == "gpt" else head_of("none").bert
    model, batch = TextEmbedder(below, pooling).eval(), texts()
    with plain():
        expected = run(model, batch.ids, batch.segments)
    request.getfixturevalue("never_padded")
    found = run(model, batch.ids, batch.segments)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    assert found.shape == (5, 32)


def test_some_positions_only(plain: Plain, request: pytest.FixtureRequest) -> None:
    bert, batch = head_of("none").bert, texts()
    positions = torch.tensor([24, 0, 6, 3])
    with plain():
        expected = bert_hidden_at(bert, batch.ids, batch.segments, positions)
    request.getfixturevalue("never_padded")
    found = bert_hidden_at(bert, batch.ids, batch.segments, positions)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("where", ["head", "body", "block"])
def test_hooks_fire_and_see_padded_ids(where: str) -> None:
    model, batch = head_of("tags"), texts()
    expected = run_tokens(model, batch.ids, batch.segments).values
    hooked = {"head": model, "body": model.bert, "block": model.bert.blocks[0]}[where]
    seen: list[Tensor] = []
    hooked.register_forward_hook(lambda _, inputs, output: seen.append(inputs[0]))
    found = run_tokens(model, batch.ids, batch.segments)
    assert [each.shape[:2] for each in seen] == [(5, 9)]
    if where != "block":
        assert torch.equal(seen[0], batch.ids.padded(PADDING))
    torch.testing.assert_close(found.values, expected, rtol=1e-5, atol=1e-5)
    assert torch.equal(found.lengths, batch.ids.lengths)


def test_a_wrapped_model_is_called_with_its_own_padding() -> None:
    class Wrapped(nn.Module):
        def __init__(self, inner: nn.Module) -> None:
            super().__init__()
            self.inner = inner

        def forward(self, ids: Tensor, segments: Tensor) -> Tensor:
            self.seen = ids
            return self.inner(ids, segments)  # type: ignore[no-any-return]

    model, batch = head_of("classes"), texts()
    wrapped = Wrapped(model)
    found = run(wrapped, batch.ids, batch.segments)
    torch.testing.assert_close(found, run(model, batch.ids, batch.segments), rtol=1e-5, atol=1e-5)
    assert torch.equal(wrapped.seen, batch.ids.padded(PADDING))
    with pytest.raises(TypeError, match="Linear contains no BERT"):
        run(nn.Linear(2, 2), batch.ids)


def test_a_model_without_a_native_body_is_padded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(1)
    model = build(RnnConfig("rnn", hidden=16, embedding=16, dropout=0.0), WORDS, WORDS, PADDING).eval()
    padded, calls = Packed.padded, []
    monkeypatch.setattr(Packed, "padded", lambda packed, fill: calls.append(fill) or padded(packed, fill))
    source, target = Packed.from_rows([[5, 6, 7], [8]]), Packed.from_rows([[0, 9], [0, 10]])
    found = seq2seq_hidden(model, source, target)
    assert calls == [PADDING, PADDING]
    alone = seq2seq_hidden(model, Packed.from_rows([[8]]), Packed.from_rows([[0, 10]]))
    torch.testing.assert_close(found.split()[1], alone.values)


def test_packed_there_and_back() -> None:
    packed = Packed.from_rows([[5, 6, 7], [], np.array([8], np.uint32), [9, 10]])
    assert packed.padded(0).tolist() == [[5, 6, 7], [0, 0, 0], [8, 0, 0], [9, 10, 0]]
    assert torch.equal(packed.repacked(packed.padded(0)).values, packed.values)
    assert torch.equal(packed.padded(0).flatten()[packed.padded_positions], packed.values)
    assert [each.tolist() for each in packed.twice().split()] == 2 * [[5, 6, 7], [], [8], [9, 10]]
    assert packed.to("cpu") is packed
    assert Packed.from_rows([]).padded(0).shape == (0, 0)
    vectors = Packed(torch.randn(3, 2, requires_grad=True), torch.tensor([1, 2]))
    vectors.padded(0.0).sum().backward()  # type: ignore[no-untyped-call]
    assert torch.equal(vectors.values.grad, torch.ones(3, 2))  # type: ignore[arg-type]
