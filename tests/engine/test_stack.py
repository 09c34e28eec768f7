"""The operators of the packed stack: registered, differentiable once, and safe at their border."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from support.kernel_dropout import dropout_bytes
from torch import Tensor, nn
from torch.library import opcheck
from torch.utils.checkpoint import checkpoint

from regard.config.models import BertConfig, GptConfig, TransformerConfig
from regard.engine.forward import bert_hidden, gpt_hidden
from regard.engine.loss import linear_cross_entropy
from regard.engine.plan import Plan, plan
from regard.engine.stack import StackSpec, run_stack, stack_backward, stack_forward
from regard.engine.token_loss import language_model_loss, token_loss, translation_loss
from regard.engine.token_reduction import match, weighted_sum
from regard.nn import Packed
from regard.nn.build import build, build_bert, build_gpt
from regard.nn.token_reduction import match as plain_match

LENGTHS = [3, 1, 17, 8, 2]


def encoder(**settings: Any) -> nn.Module:
    torch.manual_seed(1)
    config = BertConfig(**{"layers": 2, "d_model": 32, "heads": 2, "d_ff": 48, "max_length": 64, "dropout": 0.0, "attention_dropout": 0.0, **settings})  # fmt: skip
    made = build_bert(config, "none", 50, 0).bert
    assert isinstance(made, nn.Module)
    for each in made.parameters():
        each.data += 0.1 * torch.randn_like(each)
    return made


def spec_of(model: nn.Module, **options: Any) -> StackSpec:
    found = plan(model)
    assert isinstance(found, Plan)
    return StackSpec().add(found.stacks[-1], **options)


def batch(lengths: list[int] = LENGTHS, width: int = 32) -> tuple[Tensor, Tensor]:
    torch.manual_seed(2)
    packed = Packed(torch.randn(sum(lengths), width), torch.tensor(lengths))
    return packed.values.requires_grad_(), packed.offsets


def test_dropout_bytes_do_not_repeat() -> None:
    numbers = torch.arange(1_000_000)
    one, other = dropout_bytes(numbers, 5), dropout_bytes(numbers, 6)
    assert float((one == other).float().mean()) == pytest.approx(1 / 256, abs=5e-4)
    assert float((one[1:] == one[:-1]).float().mean()) == pytest.approx(1 / 256, abs=5e-4)


# ---- Operators. ----


def forward_arguments(**changes: Any) -> tuple[Any, ...]:
    model, (x, offsets) = encoder(**changes), batch()
    spec = spec_of(model)
    return (
        x, offsets, None, None, None, None, None, spec.tensors, spec.settings, spec.numbers, spec.seeds(), 2, True,
        False,
    )  # fmt: skip


CHECKS = ("test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_static")


def test_the_stack_is_a_proper_operator() -> None:
    arguments = forward_arguments(dropout=0.2)
    opcheck(stack_forward, arguments, test_utils=CHECKS[:3])
    x, offsets, *rest = (each.detach() if isinstance(each, Tensor) else each for each in arguments)
    out, saved, *_ = stack_forward(x, offsets, *rest)
    opcheck(
        stack_backward, (torch.ones_like(out), x, saved, offsets, *rest[:-2]), test_utils=(CHECKS[0], CHECKS[2])
    )


def test_the_losses_are_proper_operators() -> None:
    hidden, weight, bias = torch.randn(20, 8), torch.randn(30, 8), torch.randn(30)
    given = [each.requires_grad_() for each in (hidden, weight, bias)]
    labels = torch.randint(4, 30, (20,))
    operator = torch.ops.regard.linear_cross_entropy
    opcheck(operator, (*given, labels, 0, 0.9, 0.1 / 28, 0.0, True), test_utils=CHECKS)
    model, text = gpt(), torch.randint(50, (31,))
    spec = spec_of(model)
    tables = [
        -1,
        -1,
        spec.register(model.gpt.token_embedding.weight),
        spec.register(model.gpt.decoder.position.table),
    ]
    offsets = Packed(text, torch.tensor(LENGTHS)).offsets
    arguments = (
        None, None, text, offsets, text, spec.tensors, spec.settings, spec.numbers, spec.seeds(),
        [*tables, tables[2], -1], [1.0, 1.0, 1.0, 0.0, 0.0], 0, True,
    )  # fmt: skip
    opcheck(token_loss, arguments, test_utils=CHECKS[:3])
    x, weights, target = torch.randn(6, 8, requires_grad=True), torch.rand(6), torch.tensor([0, 0, 1, 1, 2, 2])
    opcheck(weighted_sum, (x, weights, target, torch.tensor([0, 6], dtype=torch.int32), 3), test_utils=CHECKS)


def gpt(**settings: Any) -> Any:
    torch.manual_seed(0)
    config = GptConfig(**{"layers": 2, "d_model": 32, "heads": 2, "d_ff": 48, "max_length": 32, "dropout": 0.0, "attention_dropout": 0.0, **settings})  # fmt: skip
    return build_gpt(config, "language", 50).train()


def test_export_and_compile_see_the_operator() -> None:
    """A module whose forward calls the operator: exported as one node, and compiled without a graph break."""
    arguments = forward_arguments()
    x, offsets, tensors, settings = arguments[0].detach(), arguments[1], arguments[7], arguments[8]

    class Runner(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.tensors = nn.ParameterList([each.detach() for each in tensors])

        def forward(self, x: Tensor, offsets: Tensor) -> Tensor:
            out = torch.ops.regard.stack_forward(
                x, offsets, None, None, None, None, None, list(self.tensors), settings, arguments[9], [0] * 9, 1, False,
                False,
            )  # fmt: skip
            return out[0] + 1

    runner = Runner()
    with torch.no_grad():
        expected = runner(x, offsets)
        exported = torch.export.export(runner, (x, offsets))
        assert any("stack_forward" in str(node.target) for node in exported.graph.nodes)
        assert torch.equal(exported.module()(x, offsets), expected)
        compiled = torch.compile(runner, backend="eager", fullgraph=True)
        assert torch.equal(compiled(x, offsets), expected)


# ---- Derivatives. ----


def differentiable() -> dict[str, tuple[Callable[[Tensor], Tensor], Tensor]]:
    """Each operation as a function of one tensor."""
    x, offsets = batch()
    stack, labels = spec_of(encoder(dropout=0.0)), torch.arange(len(x)) % 20
    weight, target, half = torch.randn(20, 32), torch.arange(len(x)) // 2, torch.full((len(x),), 0.5)
    embedding = nn.Parameter(torch.randn(50, 32))
    language = gpt()
    language.gpt.token_embedding.weight = embedding
    text = Packed(torch.randint(50, (len(x),)), torch.tensor(LENGTHS))

    def loss_of_model(table: Tensor) -> Tensor:
        found = language_model_loss(language, text, text.values)
        assert found is not None
        return found

    return {
        "stack": (lambda x: run_stack(stack, x, offsets)[0], x),
        "linear_cross_entropy": (lambda x: linear_cross_entropy(x, weight, None, labels), x),
        "weighted_sum": (lambda x: weighted_sum(x, half, target, offsets, 20), x),
        "token_loss": (loss_of_model, embedding),
    }


@pytest.mark.parametrize("name", list(differentiable()))
def test_a_second_derivative_is_refused(name: str) -> None:
    function, x = differentiable()[name]
    loss = function(x).square().sum() + x.pow(3).sum()  # beside a path that has one
    with pytest.raises(RuntimeError, match="no second derivatives"):
        torch.autograd.grad(loss, x, create_graph=True)


@pytest.mark.parametrize("name", ["stack", "linear_cross_entropy", "weighted_sum"])
@pytest.mark.parametrize("how", ["checkpoint", "saved tensors are copied"])
def test_activation_checkpointing_and_offloading_give_the_same_gradient(name: str, how: str) -> None:
    function, x = differentiable()[name]
    (expected,) = torch.autograd.grad(function(x).square().sum(), x)
    if how == "checkpoint":
        out = checkpoint(function, x, use_reentrant=False)
    else:
        with torch.autograd.graph.saved_tensors_hooks(lambda x: x.clone(), lambda x: x.clone()):
            out = function(x)
    filler = [torch.randn(40, 32) for _ in range(50)]  # takes the freed memory
    (found,) = torch.autograd.grad(out.square().sum(), x)
    del filler
    assert torch.equal(found, expected)


def test_dropout_is_drawn_again_by_checkpointing() -> None:
    spec, (x, offsets) = spec_of(encoder(dropout=0.3).train()), batch()

    def function(x: Tensor) -> Tensor:
        return run_stack(spec, x, offsets)[0]

    torch.manual_seed(5)
    (expected,) = torch.autograd.grad(function(x).square().sum(), x)
    torch.manual_seed(5)
    (found,) = torch.autograd.grad(checkpoint(function, x, use_reentrant=False).square().sum(), x)
    assert torch.equal(found, expected)


# ---- What is computed. ----


@pytest.mark.parametrize("model", [encoder, lambda: gpt().gpt], ids=["BERT", "GPT"])
def test_a_sequence_has_the_same_bits_in_any_batch(model: Callable[[], nn.Module]) -> None:
    spec = spec_of(model().eval())
    x, offsets = batch([300, 5, 12, 1, 190, 64])
    with torch.no_grad():
        together, *_ = run_stack(spec, x, offsets)
        for first, last in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True):
            alone, *_ = run_stack(spec, x[first:last], torch.tensor([0, last - first], dtype=torch.int32))
            assert torch.equal(alone, together[first:last])


def test_selected_rows_are_those_of_all_rows_with_their_gradients() -> None:
    spec, (x, offsets) = spec_of(encoder()), batch()
    selected = torch.tensor([0, 2, 5, 9, 20, 22, 29, 30], dtype=torch.int32)
    counts = torch.tensor([2, 0, 3, 1, 2])
    selected_offsets = torch.nn.functional.pad(counts.cumsum(0), (1, 0)).int()
    some, *_ = run_stack(spec, x, offsets, selected=selected, selected_offsets=selected_offsets)
    every, *_ = run_stack(spec, x, offsets)
    torch.testing.assert_close(some, every[selected.long()])
    upstream = torch.randn_like(some)
    wanted = [x, *(each for each in spec.tensors if each.requires_grad)]
    ours = torch.autograd.grad(some, wanted, upstream)
    theirs = torch.autograd.grad(every[selected.long()], wanted, upstream)
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_sublayers_one_after_another_are_the_stack() -> None:
    model, (x, offsets) = encoder(), batch()
    found = plan(model)
    assert isinstance(found, Plan)
    whole, *_ = run_stack(spec_of(model), x, offsets)
    parts = x
    for number in range(4):
        spec = StackSpec().add(found.stacks[0], 0, slice(number, number + 1))
        parts, *_ = run_stack(spec, parts, offsets)
    assert torch.equal(parts, whole)


def test_statistics_and_key_bias_are_those_of_the_attention() -> None:
    model, (x, offsets) = encoder(layers=1), batch()
    bias = torch.randn(len(x))
    out, received, keys = run_stack(spec_of(model), x, offsets, key_bias=bias, stats=True)
    block = model.blocks[0]  # type: ignore[index,union-attr]
    packed = Packed(x, torch.tensor(LENGTHS))
    mask, weights = packed.nonpad.unsqueeze(1), []
    padded, placed = packed.padded(0.0), packed.like(bias).padded(0.0)
    twin = block.self_attention(padded, mask=mask, bias=placed[:, None, None, :], record=weights.append)
    twin = block.feed_forward(twin)[packed.nonpad]
    torch.testing.assert_close(out, twin, rtol=1e-4, atol=1e-5)
    (seen,) = weights
    expected = (seen * packed.nonpad[:, None, :, None]).sum((1, 2))[packed.nonpad]
    torch.testing.assert_close(received, expected, rtol=1e-4, atol=1e-5)
    attention = block.self_attention.sublayer.attention
    theirs = attention.key(padded).view(*padded.shape[:2], 2, 16).mean(2)[packed.nonpad]
    torch.testing.assert_close(keys, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("shares", [1, 2, 3, 7, 40])
def test_any_number_of_shares_gives_the_same_gradient(shares: int, monkeypatch: pytest.MonkeyPatch) -> None:
    spec, (x, offsets) = spec_of(encoder(dropout=0.2).train()), batch([300, 5, 12, 1, 190, 64])
    wanted = [x, *(each for each in spec.tensors if each.requires_grad)]

    def gradients(count: int) -> tuple[Tensor, ...]:
        monkeypatch.setattr("regard.engine.stack.shares_of", lambda _: count)
        torch.manual_seed(4)
        return torch.autograd.grad(run_stack(spec, x, offsets)[0].square().sum(), wanted)

    for ours, theirs in zip(gradients(shares), gradients(1), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=2e-5 * float(theirs.abs().max()))


def test_parameters_without_gradient_get_none_and_the_others_theirs() -> None:
    model, (x, offsets) = encoder(), batch()
    free = [each for each in spec_of(model).tensors if each.requires_grad]
    whole = torch.autograd.grad(run_stack(spec_of(model), x, offsets)[0].square().sum(), free)
    expected = {id(each): gradient for each, gradient in zip(free, whole, strict=True)}
    for name, each in model.named_parameters():
        each.requires_grad_("norm" not in name and "fc1" not in name and "query" not in name)
    wanted = [each for each in spec_of(model).tensors if each.requires_grad]
    found = torch.autograd.grad(run_stack(spec_of(model), x, offsets)[0].square().sum(), wanted)
    assert 0 < len(wanted) < len(free)
    for each, gradient in zip(wanted, found, strict=True):
        torch.testing.assert_close(gradient, expected[id(each)], rtol=1e-4, atol=1e-5)


def test_an_empty_batch_and_empty_sequences() -> None:
    spec = spec_of(encoder())
    x, offsets = batch([4, 0, 3])
    out, *_ = run_stack(spec, x, offsets)
    alone, *_ = run_stack(spec, x[4:], torch.tensor([0, 3], dtype=torch.int32))
    assert torch.equal(out[4:], alone)
    none, *_ = run_stack(spec, torch.empty(0, 32), torch.tensor([0], dtype=torch.int32))
    assert none.shape == (0, 32)


# ---- Refusals at the border. ----


@pytest.mark.parametrize(
    "offsets",
    [[0, 3, 8], [0, 12], [0, 12, 10], [1, 10], [0, -2, 10]],
    ids=["too few", "beyond the rows", "falling", "not from 0", "negative"],
)
def test_offsets_that_do_not_fit_the_rows_are_refused(offsets: list[int]) -> None:
    spec, wrong, x = spec_of(encoder()), torch.tensor(offsets, dtype=torch.int32), torch.randn(10, 32)
    with pytest.raises(ValueError, match="do not match 10 rows"):
        run_stack(spec, x, wrong)
    with pytest.raises(ValueError, match="do not match 10 rows"):
        run_stack(spec, x, torch.tensor([0, 10]))  # int64


def test_selected_rows_outside_their_sequence_are_refused() -> None:
    spec, x = spec_of(encoder()), torch.randn(10, 32)
    offsets = torch.tensor([0, 4, 10], dtype=torch.int32)
    for selected in ([4, 5], [-1, 5], [0, 10]):
        with pytest.raises(ValueError, match="outside its sequence"):
            run_stack(
                spec, x, offsets, selected=torch.tensor(selected, dtype=torch.int32),
                selected_offsets=torch.tensor([0, 1, 2], dtype=torch.int32),
            )  # fmt: skip


def test_ids_and_lengths_beyond_the_model_are_refused() -> None:
    model, ids = gpt(), torch.zeros(40, dtype=torch.long)
    with pytest.raises(ValueError, match="longer than the 32 learned positions"):
        language_model_loss(model, Packed(ids, torch.tensor([40])), ids)
    wrong = Packed(torch.tensor([1, 2, 50, 3]), torch.tensor([4]))
    with pytest.raises(ValueError, match="token id 50 is outside the vocabulary of 50"):
        language_model_loss(model, wrong, ids[:4])
    with pytest.raises(ValueError, match="3 labels for 4 target tokens"):
        language_model_loss(model, Packed(ids[:4], torch.tensor([4])), ids[:3])


def test_a_bias_with_a_gradient_is_refused() -> None:
    x, offsets = batch()
    with pytest.raises(ValueError, match="has no gradient"):
        run_stack(spec_of(encoder()), x, offsets, key_bias=torch.zeros(len(x), requires_grad=True))


# ---- Losses of models, and token merging. ----


def test_the_loss_of_a_language_model_is_that_of_its_logits() -> None:
    model = gpt()
    packed = Packed(torch.randint(50, (31,)), torch.tensor(LENGTHS))
    labels = torch.randint(50, (31,))
    found = language_model_loss(model, packed, labels)
    assert found is not None
    logits = model(packed.padded(0))[packed.nonpad]
    expected = nn.functional.cross_entropy(logits, labels, reduction="sum")
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=0)
    ours, theirs = (torch.autograd.grad(each, list(model.parameters())) for each in (found, expected))
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)
    with torch.no_grad():
        assert language_model_loss(model, packed, labels) == found.detach()


def test_models_that_share_no_code_path_agree_on_hidden_states() -> None:
    model = gpt(norm="post", activation="silu", position="rotary").gpt
    ids = torch.randint(50, (4, 11)).masked_fill(torch.arange(11) >= torch.tensor([[11], [3], [1], [7]]), -1)
    found = gpt_hidden(model, Packed.from_padded(ids, ids != -1)).values
    torch.testing.assert_close(found, model(ids)[ids != -1], rtol=1e-4, atol=1e-5)
    bert = encoder()
    words = torch.randint(1, 50, (3, 9)).masked_fill(torch.arange(9) >= torch.tensor([[9], [4], [1]]), 0)
    packed = Packed.from_padded(words, words != 0)
    hidden = bert_hidden(bert, packed, torch.zeros_like(packed.values))  # type: ignore[arg-type]
    theirs = bert(words, torch.zeros_like(words))
    torch.testing.assert_close(hidden.values, theirs[words != 0], rtol=1e-4, atol=1e-5)


def test_the_loss_of_a_translation_without_gradient_is_the_same() -> None:
    torch.manual_seed(1)
    config = TransformerConfig(encoder_layers=1, decoder_layers=1, d_model=32, heads=2, d_ff=48, dropout=0.0)
    model = build(config, 60, 60, 0)
    packed = Packed(torch.randint(4, 60, (31,)), torch.tensor(LENGTHS))
    with_gradient = translation_loss(model, packed, packed, packed.values, padding=0, smoothing=0.1)
    with torch.no_grad():
        without = translation_loss(model, packed, packed, packed.values, padding=0, smoothing=0.1)
    assert with_gradient is not None
    assert without == with_gradient.detach()


def test_token_merging_is_the_plain_one() -> None:
    torch.manual_seed(1)
    lengths, counts = torch.tensor([9, 1, 4, 12]), torch.tensor([3, 0, 1, 5])
    keys = Packed(torch.randn(26, 8), lengths)
    target = match(keys.values, keys, counts, neighbors_only=False, first_stays=True)
    plain = plain_match(keys.padded(0.0), keys.nonpad, counts, neighbors_only=False, first_stays=True)
    starts = torch.nn.functional.pad((lengths - counts).cumsum(0), (1, 0))[:-1]
    assert torch.equal(target, (plain + starts.unsqueeze(1))[keys.nonpad])
    x, weight = torch.randn(26, 16, requires_grad=True), torch.rand(26)
    count = int((lengths - counts).sum())
    ours = weighted_sum(x, weight, target, keys.offsets, count)
    theirs = torch.zeros(count, 16).index_add(0, target, x * weight.unsqueeze(1))
    assert torch.allclose(ours, theirs, atol=1e-6)
    upstream = torch.randn_like(ours)
    assert torch.allclose(*(torch.autograd.grad(each, x, upstream)[0] for each in (ours, theirs)), atol=1e-6)
    with pytest.raises(ValueError, match="at most half"):
        match(keys.values, keys, counts + 9, neighbors_only=False, first_stays=True)
