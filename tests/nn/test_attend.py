"""The mechanism: masked softmax, and two paths that give the same."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.autograd import gradcheck

from regard.nn import Dot, ScaledDot, attend, causal_mask, masked_softmax
from regard.nn.attention import fused_attention, plain_attention, unmask_empty_rows

TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-10}
thorough = settings(max_examples=60, deadline=None, derandomize=True)


def ignore(weights: Tensor) -> None:
    """A record that wants nothing, and so makes `attend` take the plain path."""


# Masked softmax


def test_valid_lengths_one_a_sequence():
    scores = torch.zeros(2, 2, 4)
    assert masked_softmax(scores, torch.tensor([2, 4])).tolist() == [[[0.5, 0.5, 0, 0]] * 2, [[0.25] * 4] * 2]


def test_valid_lengths_one_a_query():
    weights = masked_softmax(torch.zeros(2, 2, 4), torch.tensor([[1, 2], [4, 0]]))
    assert weights.tolist() == [[[1, 0, 0, 0], [0.5, 0.5, 0, 0]], [[0.25] * 4, [0] * 4]]


@pytest.mark.parametrize("lengths", [torch.tensor([2, 3]), torch.tensor([[1, 2, 3], [3, 0, 1]])])
def test_valid_lengths_are_shared_by_the_heads(lengths):
    scores = torch.randn(2, 5, 3, 3)
    by_head = [masked_softmax(scores[:, head], lengths) for head in range(5)]
    assert torch.equal(masked_softmax(scores, lengths), torch.stack(by_head, dim=1))


def test_without_a_mask_it_is_the_softmax():
    scores = torch.randn(2, 3, 4)
    assert torch.equal(masked_softmax(scores), torch.softmax(scores, -1))


def test_lengths_and_a_mask_together_are_refused():
    with pytest.raises(ValueError, match="valid_lengths or mask, not both"):
        masked_softmax(torch.zeros(1, 1, 2), torch.tensor([1]), mask=causal_mask(1, 2))


def test_masked_keys_have_no_effect_whatever_their_scores():
    scores = torch.tensor([[[0.0, 1.0, 1e30]]])
    weights = masked_softmax(scores, torch.tensor([2]))
    assert weights[0, 0, 2].item() == 0.0
    torch.testing.assert_close(weights[..., :2], torch.softmax(scores[..., :2], -1))


def test_the_gradient_of_the_masked_softmax_is_right():
    scores = torch.randn(2, 2, 3, 4, dtype=torch.float64, requires_grad=True)
    mask = torch.rand(2, 1, 3, 4) < 0.6
    mask[0, 0, 1] = False  # a query that sees nothing
    assert gradcheck(lambda s: masked_softmax(s, mask=mask), (scores,))
    assert gradcheck(lambda s: masked_softmax(s, torch.tensor([3, 0])), (scores,))
    assert gradcheck(lambda s: masked_softmax(s, torch.tensor([[1, 2, 0], [4, 3, 2]])), (scores,))


# The forgotten scale


@pytest.mark.parametrize("path", [None, ignore], ids=["fused", "plain"])
def test_the_scores_are_divided_by_the_root_of_the_size(path):
    torch.manual_seed(0)
    query, keys, values = (torch.randn(2, n, 16, dtype=torch.float64) for n in (3, 5, 5))
    products = torch.einsum("bqd,bkd->bqk", query, keys)
    expected = torch.einsum("bqk,bkv->bqv", torch.softmax(products / 4, -1), values)  # 4 = sqrt(16)
    forgotten = torch.einsum("bqk,bkv->bqv", torch.softmax(products, -1), values)
    mixed = attend(query, keys, values, record=path)
    torch.testing.assert_close(mixed, expected, rtol=0, atol=1e-10)
    assert (mixed - forgotten).abs().max() > 0.1


# Two paths


@st.composite
def problems(draw):
    """Query, keys, values, mask and bias of any fitting shapes; some queries may see nothing."""
    dtype = draw(st.sampled_from([torch.float32, torch.float64]))
    batch, heads = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    queries, keys = draw(st.integers(1, 6)), draw(st.integers(1, 40))
    size, value_size = draw(st.sampled_from([1, 2, 3, 8])), draw(st.sampled_from([1, 3, 8]))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**32)))

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=dtype)

    mask_shape = draw(
        st.sampled_from(
            [
                None,
                (batch, 1, 1, keys),
                (1, 1, queries, keys),
                (batch, 1, queries, keys),
                (batch, heads, queries, keys),
            ]
        )
    )
    bias_shape = draw(st.sampled_from([None, (heads, queries, keys), (batch, heads, queries, keys)]))
    mask = bias = None
    if mask_shape is not None:
        open_share = draw(st.sampled_from([0.0, 0.3, 0.8]))
        mask = torch.rand(mask_shape, generator=generator) < open_share
    if bias_shape is not None:
        bias = normal(*bias_shape)
    return (
        normal(batch, heads, queries, size),
        normal(batch, heads, keys, size),
        normal(batch, heads, keys, value_size),
        mask,
        bias,
    )


@thorough
@given(problem=problems(), trained_bias=st.booleans())
def test_the_fused_path_equals_the_plain_path_forward_and_backward(problem, trained_bias):
    query, keys, values, mask, bias = problem

    def run(record):
        leaves = [t.clone().requires_grad_() for t in (query, keys, values)]
        used = bias
        if bias is not None and trained_bias:
            used = bias.clone().requires_grad_()
            leaves.append(used)
        mixed = attend(*leaves[:3], mask=mask, bias=used, record=record)
        mixed.sin().sum().backward()
        return [mixed.detach(), *(leaf.grad for leaf in leaves)]

    for one, other in zip(run(None), run(ignore), strict=True):
        assert one.isfinite().all()
        torch.testing.assert_close(one, other, rtol=0, atol=TOLERANCE[query.dtype])


@thorough
@given(problem=problems())
def test_queries_without_keys_get_zeros_and_give_no_gradient(problem):
    query, keys, values, mask, bias = problem
    if mask is None:
        mask = torch.zeros(1, 1, query.size(-2), keys.size(-2), dtype=torch.bool)
    blind = (~mask.any(-1)).expand(query.shape[:-1])
    for record in (None, ignore):
        leaf = query.clone().requires_grad_()
        mixed = attend(leaf, keys, values, mask=mask, bias=bias, record=record)
        mixed.sum().backward()
        assert mixed.isfinite().all()
        assert (mixed[blind] == 0).all()
        assert leaf.grad.isfinite().all()
        assert (leaf.grad[blind] == 0).all()


@thorough
@given(problem=problems())
def test_unmasking_empty_rows_and_zeroing_their_result_equals_the_mask(problem):
    """What devices other than the CPU do, tried here."""
    query, keys, values, mask, bias = problem
    if mask is None:
        return
    opened, blind = unmask_empty_rows(mask)
    assert opened.any(-1).all()
    there = fused_attention(query, keys, values, mask=opened, bias=bias).masked_fill(blind, 0.0)
    here = plain_attention(ScaledDot()(query, keys), values, mask=mask, bias=bias)
    torch.testing.assert_close(there, here, rtol=0, atol=TOLERANCE[query.dtype])


@pytest.mark.parametrize("record", [None, ignore], ids=["fused", "plain"])
def test_the_gradient_of_each_path_is_right(record):
    torch.manual_seed(0)
    query, keys, values = (torch.randn(1, 2, n, 3, dtype=torch.float64, requires_grad=True) for n in (2, 4, 4))
    bias = torch.randn(2, 2, 4, dtype=torch.float64, requires_grad=True)
    mask = torch.tensor([[[[True, True, False, True], [False] * 4]]])

    def mix(q, k, v, b):
        return attend(q, k, v, mask=mask, bias=b, record=record)

    assert gradcheck(mix, (query, keys, values, bias))


# Watching and dropping


def test_weights_are_recorded_before_dropout():
    torch.manual_seed(0)
    seen = []
    query, keys, values = (torch.randn(1, n, 4) for n in (3, 6, 6))
    attend(query, keys, values, dropout=0.5, record=seen.append)
    torch.testing.assert_close(seen[0], torch.softmax(ScaledDot()(query, keys), -1))


@pytest.mark.parametrize("record", [None, ignore], ids=["fused", "plain"])
def test_dropout_falls_on_the_weights_and_keeps_the_expectation(record):
    torch.manual_seed(0)
    query, keys = torch.zeros(4000, 1, 2), torch.zeros(4000, 4, 2)  # every weight is 1/4
    values = torch.eye(4).expand(4000, 4, 4)  # so what comes out is the weights
    weights = attend(query, keys, values, dropout=0.5, record=record)
    assert set(weights.unique().tolist()) == {0.0, 0.5}
    assert weights.mean().item() == pytest.approx(0.25, abs=3 * 0.25 / 16000**0.5)


def test_another_score_than_the_scaled_dot_is_never_fused():
    torch.manual_seed(0)
    x = torch.randn(1, 3, 16, dtype=torch.float64)
    expected = torch.softmax(x @ x.mT, -1) @ x
    torch.testing.assert_close(attend(x, x, x, score=Dot()), expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("record", [None, ignore], ids=["fused", "plain"])
def test_a_mask_of_numbers_is_refused(record):
    """0.0 and 1.0 taken as something to add to the scores would hide nothing, silently."""
    x = torch.randn(1, 3, 4)
    with pytest.raises((TypeError, ValueError)):
        attend(x, x, x, mask=causal_mask(3).float(), record=record)
