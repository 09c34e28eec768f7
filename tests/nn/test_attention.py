"""Multi-head attention equals PyTorch's, and the known mistakes are not made."""

import itertools
import math

import pytest
import torch
from torch import Tensor, nn
from torch.autograd import gradcheck
from torch.nn import functional

from regard.nn import (
    Additive,
    Alibi,
    Attention,
    Dot,
    General,
    MultiHead,
    Recorder,
    Relative,
    Rotary,
    Sinusoidal,
    causal_mask,
)
from regard.nn.attention import join_heads, split_heads

BATCH, QUERIES, KEYS = 3, 5, 7
TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-10}
DTYPES = [torch.float32, torch.float64]


def close(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual, expected, rtol=0, atol=TOLERANCE[actual.dtype])


def copy_weights(ours: MultiHead, theirs: nn.MultiheadAttention) -> None:
    """Give ours the weights of theirs."""
    if theirs.in_proj_weight is None:
        matrices = (theirs.q_proj_weight, theirs.k_proj_weight, theirs.v_proj_weight)
    else:
        matrices = theirs.in_proj_weight.chunk(3)
    with torch.no_grad():
        for mine, matrix in zip((ours.query, ours.key, ours.value), matrices, strict=True):
            mine.weight.copy_(matrix)
        ours.output.weight.copy_(theirs.out_proj.weight)
        if theirs.in_proj_bias is not None:
            for mine, row in zip((ours.query, ours.key, ours.value), theirs.in_proj_bias.chunk(3), strict=True):
                if mine.bias is not None:  # ours has none on keys: softmax does not see it
                    mine.bias.copy_(row)
            ours.output.bias.copy_(theirs.out_proj.bias)


def pair(
    dtype: torch.dtype, key_size: int | None = None, value_size: int | None = None, bias: bool = True
) -> tuple[MultiHead, nn.MultiheadAttention]:
    torch.manual_seed(11)
    theirs = nn.MultiheadAttention(
        12, 3, kdim=key_size, vdim=value_size, bias=bias, batch_first=True, dtype=dtype
    )
    for name, parameter in theirs.named_parameters():
        if "bias" in name:
            nn.init.normal_(parameter)  # PyTorch starts with zeros, which would hide a forgotten bias
    ours = MultiHead(12, 3, key_size=key_size, value_size=value_size, bias=bias).to(dtype)
    copy_weights(ours, theirs)
    return ours.eval(), theirs.eval()


def masks(queries: int, keys: int) -> tuple[Tensor, Tensor]:
    """True where one may look: padding (batch, key) and who sees whom (query, key); nobody is blind."""
    padding = torch.arange(keys) < torch.tensor([keys, keys - 1, 2]).unsqueeze(1)
    visible = torch.ones(queries, keys, dtype=torch.bool).tril(keys - queries)
    return padding, visible


# Parity


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("padded", "masked"), list(itertools.product([False, True], repeat=2)))
@pytest.mark.parametrize("cross", [False, True], ids=["self", "cross"])
@pytest.mark.parametrize("recorded", [False, True], ids=["fused", "plain"])
def test_equals_pytorch(dtype, padded, masked, cross, recorded):
    ours, theirs = pair(dtype)
    query = torch.randn(BATCH, QUERIES, 12, dtype=dtype)
    source = torch.randn(BATCH, KEYS, 12, dtype=dtype) if cross else query
    padding, visible = masks(QUERIES, source.size(1))
    expected, weights = theirs(
        query,
        source,
        source,
        key_padding_mask=~padding if padded else None,
        attn_mask=~visible if masked else None,
        average_attn_weights=False,
    )
    mask = None
    if padded:
        mask = padding.unsqueeze(1)
    if masked:
        mask = visible.unsqueeze(0) if mask is None else mask & visible
    record = Recorder()
    mixed = ours(query, ours.project_kv(source), mask=mask, record=record.under("here") if recorded else None)
    close(mixed, expected)
    if recorded:
        close(record["here"], weights)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("key_size", "value_size"), [(8, 10), (8, None), (None, 10), (5, 5)])
def test_equals_pytorch_with_keys_and_values_of_other_sizes(dtype, key_size, value_size):
    ours, theirs = pair(dtype, key_size, value_size or 12)
    query = torch.randn(BATCH, QUERIES, 12, dtype=dtype)
    keys = torch.randn(BATCH, KEYS, key_size or 12, dtype=dtype)
    values = torch.randn(BATCH, KEYS, value_size or 12, dtype=dtype)
    padding, visible = masks(QUERIES, KEYS)
    expected, _ = theirs(query, keys, values, key_padding_mask=~padding, attn_mask=~visible)
    close(ours(query, ours.project_kv(keys, values), mask=padding.unsqueeze(1) & visible), expected)


def test_equals_pytorch_without_biases():
    ours, theirs = pair(torch.float64, bias=False)
    x = torch.randn(BATCH, QUERIES, 12, dtype=torch.float64)
    assert not [name for name, _ in ours.named_parameters() if "bias" in name]
    close(ours(x, ours.project_kv(x)), theirs(x, x, x)[0])


def test_equals_pytorch_with_an_added_bias():
    ours, theirs = pair(torch.float64)
    x = torch.randn(BATCH, QUERIES, 12, dtype=torch.float64)
    bias = torch.randn(QUERIES, QUERIES, dtype=torch.float64)
    close(ours(x, ours.project_kv(x), bias=bias), theirs(x, x, x, attn_mask=bias)[0])


def test_the_gradients_equal_pytorchs():
    ours, theirs = pair(torch.float64)
    x = torch.randn(BATCH, QUERIES, 12, dtype=torch.float64)
    one, other = x.clone().requires_grad_(), x.clone().requires_grad_()
    ours(one, ours.project_kv(one)).square().sum().backward()
    theirs(other, other, other)[0].square().sum().backward()
    close(one.grad, other.grad)
    together = torch.cat([ours.query.weight.grad, ours.key.weight.grad, ours.value.weight.grad])
    close(together, theirs.in_proj_weight.grad)
    close(ours.output.weight.grad, theirs.out_proj.weight.grad)


# The known mistakes


def test_every_head_is_scaled_by_its_own_size_and_joined_in_order():
    torch.manual_seed(5)
    attention = MultiHead(12, 3).double()
    x = torch.randn(2, 4, 12, dtype=torch.float64)
    heads = []
    for rows in (slice(0, 4), slice(4, 8), slice(8, 12)):
        query, key, value = (
            x @ layer.weight[rows].T + (0 if layer.bias is None else layer.bias[rows])
            for layer in (attention.query, attention.key, attention.value)
        )
        weights = torch.softmax(torch.einsum("bqd,bkd->bqk", query, key) / math.sqrt(4), -1)
        heads.append(torch.einsum("bqk,bkd->bqd", weights, value))
    mixed = attention(x, attention.project_kv(x))
    close(mixed, attention.output(torch.cat(heads, -1)))
    for order in itertools.permutations(range(3)):
        joined = attention.output(torch.cat([heads[h] for h in order], -1))
        assert torch.allclose(mixed, joined, atol=0.01) == (order == (0, 1, 2))
    interleaved = torch.stack(heads, -1).flatten(-2)
    assert (mixed - attention.output(interleaved)).abs().max() > 0.01


def test_swapping_two_heads_throughout_changes_nothing_and_swapping_the_join_does():
    torch.manual_seed(5)
    attention = MultiHead(8, 2).double()
    x = torch.randn(2, 4, 8, dtype=torch.float64)
    before = attention(x, attention.project_kv(x))
    swap = torch.tensor([4, 5, 6, 7, 0, 1, 2, 3])
    with torch.no_grad():
        for layer in (attention.query, attention.key, attention.value):
            layer.weight.copy_(layer.weight[swap])
            if layer.bias is not None:
                layer.bias.copy_(layer.bias[swap])
    wrong = attention(x, attention.project_kv(x))
    with torch.no_grad():
        attention.output.weight.copy_(attention.output.weight[:, swap])
    close(attention(x, attention.project_kv(x)), before)
    assert (wrong - before).abs().max() > 0.01


def test_split_makes_a_head_of_neighbours_and_join_undoes_it():
    x = torch.arange(24).view(1, 2, 12)
    assert split_heads(x, 3)[0, 1, 0].tolist() == [4, 5, 6, 7]
    assert torch.equal(join_heads(split_heads(x, 3)), x)


def test_the_four_projections_are_four_and_start_different():
    attention = MultiHead(8, 2)
    weights = [attention.query.weight, attention.key.weight, attention.value.weight, attention.output.weight]
    assert len(list(attention.parameters())) == 7  # four matrices, and a bias for all but the keys
    assert len(list(MultiHead(8, 2, key_bias=True).parameters())) == 8
    for one, other in itertools.combinations(weights, 2):
        assert one is not other
        assert one.data_ptr() != other.data_ptr()
        assert not torch.allclose(one, other)


def test_the_projections_start_xavier_uniform_with_zero_biases():
    torch.manual_seed(0)
    attention = MultiHead(256, 4)
    bound = math.sqrt(6 / (256 + 256))
    for layer in (attention.query, attention.key, attention.value, attention.output):
        assert layer.weight.abs().max().item() <= bound
        assert layer.weight.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.02)
        assert layer.bias is None or (layer.bias == 0).all()


@pytest.mark.parametrize("shape", [(), (5,), (1, 3, 2, 5, 5)])
def test_a_mask_of_the_wrong_rank_is_refused_by_its_shape(shape):
    attention = MultiHead(8, 2)
    x = torch.randn(3, 5, 8)
    with pytest.raises(
        ValueError, match=r"a mask is \(query, key\), \(batch or 1, query or 1, key\)"
    ) as refusal:
        attention(x, attention.project_kv(x), mask=torch.ones(shape, dtype=torch.bool))
    assert str(shape) in str(refusal.value)
    assert "padding_mask, length_mask and causal_mask" in str(refusal.value)


@pytest.mark.parametrize("recorded", [False, True], ids=["fused", "plain"])
@pytest.mark.parametrize("shape", [(4, 4), (1, 4), (4, 1), (1, 1)])
def test_a_mask_of_two_axes_is_query_by_key_as_in_pytorch(shape, recorded):
    """Also where the batch has as many sequences as there are queries, so that a batch axis would fit."""
    torch.manual_seed(0)
    attention = MultiHead(8, 2).double()
    x = torch.randn(4, 4, 8, dtype=torch.float64)
    memory = attention.project_kv(x)
    mask = torch.rand(4, 4) < 0.5
    mask |= torch.eye(4, dtype=torch.bool)
    mask = mask[: shape[0], : shape[1]]
    record = Recorder().under("a") if recorded else None
    found = attention(x, memory, mask=mask, record=record)
    assert torch.equal(found, attention(x, memory, mask=mask.expand(4, 4).unsqueeze(0), record=record))
    query = split_heads(attention.query(x), 2)
    by_torch = functional.scaled_dot_product_attention(query, memory.keys, memory.values, attn_mask=mask)
    close(found, attention.output(join_heads(by_torch)))


def test_a_mask_holds_for_all_heads_or_has_an_axis_for_them():
    torch.manual_seed(0)
    attention = MultiHead(8, 2).double()
    x = torch.randn(3, 5, 8, dtype=torch.float64)
    memory = attention.project_kv(x)
    shared = causal_mask(5)
    close(
        attention(x, memory, mask=shared),
        attention(x, memory, mask=shared.unsqueeze(1).expand(3, 2, 5, 5)),
    )
    record = Recorder()
    apart = torch.stack([shared[0], torch.ones(5, 5, dtype=torch.bool)]).unsqueeze(0)
    attention(x, memory, mask=apart, record=record.under("a"))
    assert (record["a"][:, 0].triu(1) == 0).all()
    assert (record["a"][:, 1] > 0).all()


@pytest.mark.parametrize("recorded", [False, True], ids=["fused", "plain"])
def test_a_mask_of_numbers_is_refused_by_heads(recorded):
    attention = MultiHead(8, 2)
    x = torch.randn(1, 3, 8)
    record = Recorder().under("a") if recorded else None
    with pytest.raises((TypeError, ValueError)):
        attention(x, attention.project_kv(x), mask=causal_mask(3).float(), record=record)


def test_heads_that_do_not_divide_the_size_are_refused():
    with pytest.raises(ValueError, match="10 is not a multiple of 3"):
        MultiHead(10, 3)


# One class for every model


@pytest.mark.parametrize("score", [Dot(), General(6, 4), Additive(6, 4, 5)], ids=["dot", "general", "additive"])
def test_without_projections_it_is_the_score_and_a_weighted_mean(score):
    torch.manual_seed(0)
    score = score.double()
    states = torch.randn(2, 7, 6 if isinstance(score, Dot) else 4, dtype=torch.float64)
    query = torch.randn(2, 1, 6, dtype=torch.float64)
    attention = Attention(score).double()
    weights = torch.softmax(score(query, states), -1)
    close(attention(query, attention.project_kv(states)), weights @ states)


def test_a_memory_may_be_asked_again_and_again():
    torch.manual_seed(0)
    attention = MultiHead(8, 2).double()
    source, query = (torch.randn(2, n, 8, dtype=torch.float64) for n in (6, 4))
    memory = attention.project_kv(source)
    steps = [attention(query[:, i : i + 1], memory) for i in range(4)]
    close(torch.cat(steps, 1), attention(query, memory))


def test_relative_positions_are_refused_with_another_score():
    with pytest.raises(ValueError, match=r"Relative positions .* not for General"):
        Attention(General(4, 4), position=Relative(4))


def test_attention_dropout_acts_while_training_only():
    torch.manual_seed(0)
    attention, x = MultiHead(8, 2, dropout=0.5), torch.randn(2, 6, 8)
    memory = attention.project_kv(x)
    attention.eval()
    calm = attention(x, memory)
    assert torch.equal(attention(x, memory), calm)
    attention.train()
    assert not torch.allclose(attention(x, memory), calm)


# Gradients


@pytest.mark.parametrize("recorded", [False, True], ids=["fused", "plain"])
def test_gradients_of_multi_head_attention_are_right_with_every_scheme(make_position, recorded):
    torch.manual_seed(0)
    attention = MultiHead(4, 2, position=make_position(4, 2)).double()
    x = torch.randn(1, 3, 4, dtype=torch.float64, requires_grad=True)
    mask = torch.tensor([[[True, False, False], [True, True, False], [False, False, False]]])
    record = Recorder().under("a") if recorded else None

    def look(x, *_):
        placed = attention.position.embed(x)
        return attention(placed, attention.project_kv(placed), mask=mask, record=record)

    # The parameters are changed in place by gradcheck, so naming them as inputs is enough.
    assert gradcheck(look, (x, *attention.parameters()))


# More queries than keys


def test_more_queries_than_keys_need_no_places_where_attention_does_not_ask_for_them():
    torch.manual_seed(0)
    attention = MultiHead(8, 2, position=Sinusoidal(8)).double()
    query, source = (torch.randn(2, n, 8, dtype=torch.float64) for n in (5, 2))
    memory = attention.project_kv(source)
    one_by_one = [attention(query[:, i : i + 1], memory) for i in range(5)]
    close(attention(query, memory), torch.cat(one_by_one, 1))


@pytest.mark.parametrize("keys", [1, 2])
@pytest.mark.parametrize("position", [Relative(4), Rotary(4), Alibi(2)], ids=lambda p: type(p).__name__)
def test_more_queries_than_keys_must_say_where_they_stand(position, keys):
    """They "stand where the last keys stand", and there are not enough of those."""
    attention = MultiHead(8, 2, position=position)
    query, source = torch.randn(1, 3, 8), torch.randn(1, keys, 8)
    memory = attention.project_kv(source)
    assert attention(query, memory, positions=torch.arange(3)).shape == (1, 3, 8)
    with pytest.raises(ValueError, match="position"):
        attention(query, memory)
