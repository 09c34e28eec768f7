"""Every differentiable kernel against plain PyTorch, with the same dropout masks."""

import pytest
import torch
from kernel_dropout import dropout_bytes, row_mask, weight_mask
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from regard.engine import ops
from regard.engine.pack import PackedMask, SequenceOffsets
from regard.engine.token_reduction import match, weighted_sum
from regard.nn import FeedForward, MultiHead, token_reduction
from regard.nn.attention import join, plain, split
from regard.nn.scores import ScaledDot

LENGTHS = [(3, 5), (1, 1), (17, 9), (8, 8), (2, 40), (33, 16)]
SEED = 0x1234_5678_9ABC_DEF0 >> 1


def same_gradients(ours: Tensor, theirs: Tensor, wanted: tuple[Tensor, ...], atol: float) -> None:
    upstream = torch.randn_like(ours)
    for one, other in zip(
        torch.autograd.grad(ours, wanted, upstream), torch.autograd.grad(theirs, wanted, upstream), strict=True
    ):
        assert torch.allclose(one, other, atol=max(atol, 1e-5 * float(other.abs().max())))


@pytest.mark.parametrize("shape", [(1,), (31,), (32,), (7, 33), (300, 64)])
@pytest.mark.parametrize("threshold", [1, 26, 77, 255])
def test_dropout_and_addition(shape: tuple[int, ...], threshold: int) -> None:
    torch.manual_seed(3)
    x, y = (torch.randn(shape, requires_grad=True) for _ in range(2))
    out = ops.dropout_add(x, y, threshold, seed=SEED)
    twin = x + y * row_mask(1, x.numel(), threshold, SEED).view(shape)
    assert torch.allclose(out, twin, atol=1e-6)
    same_gradients(out, twin, (x, y), 1e-6)


def test_dropout_bytes_do_not_repeat() -> None:
    numbers = torch.arange(1_000_000)
    one, other = dropout_bytes(numbers, 5), dropout_bytes(numbers, 6)
    assert float((one == other).float().mean()) == pytest.approx(1 / 256, abs=5e-4)
    assert float((one[1:] == one[:-1]).float().mean()) == pytest.approx(1 / 256, abs=5e-4)


def test_linear_layers_side_by_side_are_one_product() -> None:
    torch.manual_seed(3)
    layers = [nn.Linear(24, 40), nn.Linear(24, 16, bias=False), nn.Linear(24, 8)]
    x = torch.randn(35, 24, requires_grad=True)
    for one, layer in zip(ops.linear(x, layers), layers, strict=True):
        assert torch.allclose(one, layer(x), atol=1e-6)
    wanted = (x, *(each for layer in layers for each in layer.parameters()))
    same_gradients(
        torch.cat(list(ops.linear(x, layers)), 1), torch.cat([each(x) for each in layers], 1), wanted, 1e-5
    )


@pytest.mark.parametrize("size", [(5, 8, 32), (40, 16, 96), (3, 8, 20)])
@pytest.mark.parametrize("threshold", [0, 51])
def test_linear_relu_dropout(size: tuple[int, int, int], threshold: int) -> None:
    torch.manual_seed(0)
    rows, narrow, wide = size
    layer = FeedForward(narrow, wide).fc1
    nn.init.normal_(layer.bias)
    x = torch.randn(rows, narrow, requires_grad=True)
    out = ops.linear_relu_dropout(x, layer, threshold, seed=99)
    mask = row_mask(rows, wide, threshold, 99, padded=True) if threshold else torch.ones(rows, wide)
    twin = torch.relu(layer(x)) * mask
    assert torch.allclose(out, twin, atol=1e-5)
    same_gradients(out, twin, (x, layer.weight, layer.bias), 1e-4)


def test_linear_gelu() -> None:
    torch.manual_seed(0)
    layer = nn.Linear(24, 40)
    x = (torch.randn(70, 24) * 4).requires_grad_()
    out, twin = ops.linear_gelu(x, layer), functional.gelu(layer(x), approximate="tanh")
    torch.testing.assert_close(out, twin, rtol=1e-4, atol=1e-5)
    same_gradients(out, twin, (x, layer.weight, layer.bias), 1e-3)


def tokens(lengths: list[int], heads: int, size: int) -> tuple[Tensor, SequenceOffsets]:
    return torch.randn(heads, sum(lengths), size, requires_grad=True), SequenceOffsets(torch.tensor(lengths))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("heads", "size"), [(1, 8), (4, 32), (3, 40)])
@pytest.mark.parametrize("threshold", [0, 64])
def test_varlen_attention(causal: bool, heads: int, size: int, threshold: int) -> None:
    torch.manual_seed(1)
    query_lengths = [query for query, _ in LENGTHS]
    key_lengths = query_lengths if causal else [key for _, key in LENGTHS]
    (query, asking), (keys, asked) = tokens(query_lengths, heads, size), tokens(key_lengths, heads, size)
    values, _ = tokens(key_lengths, heads, size)
    mask = PackedMask(asking, asked, causal)
    torch.manual_seed(7)
    out = ops.varlen_attention(query, keys, values, mask, threshold)
    torch.manual_seed(7)
    query_heads, key_heads, value_heads = (
        where.padded(each.transpose(0, 1)).transpose(1, 2)
        for where, each in ((asking, query), (asked, keys), (asked, values))
    )
    scores = ScaledDot().compare(query_heads, key_heads)
    mixed = plain_with_masks(scores, value_heads, mask, threshold)
    twin = mixed.transpose(1, 2)[asking.nonpad].transpose(0, 1)
    assert torch.allclose(out, twin, atol=1e-5)
    same_gradients(out, twin, (query, keys, values), 1e-4)


def plain_with_masks(scores: Tensor, values: Tensor, mask: PackedMask, threshold: int) -> Tensor:
    if not threshold:
        return plain(scores, values, mask=mask.mask())
    weights = torch.softmax(
        scores.masked_fill(~mask.mask(), -torch.inf).masked_fill(~mask.queries.nonpad[:, None, :, None], 0), -1
    )
    real = mask.queries.nonpad
    dropped = torch.ones(*real.shape, scores.size(1), scores.size(-1))
    number = torch.arange(int(real.sum()))
    dropped[real] = weight_mask(number, scores.size(1), scores.size(-1), threshold, ops.draw_seed(threshold))
    return (weights * dropped.transpose(1, 2)) @ values


@pytest.mark.parametrize(
    ("lengths", "sentence"),
    [
        ([3, 5], "add up to 8, but there are 10"),
        ([3, 9], "add up to 12"),
        ([12, -2], "add up to 10, but there are 10"),
    ],
)
def test_lengths_that_are_not_those_of_the_tokens_are_refused(lengths: list[int], sentence: str) -> None:
    x, right = torch.randn(2, 10, 8), SequenceOffsets(torch.tensor([4, 6]))
    wrong = SequenceOffsets(torch.tensor(lengths))
    for mask in (PackedMask(wrong, right), PackedMask(right, wrong)):
        with pytest.raises(ValueError, match=sentence):
            ops.varlen_attention(x, x, x, mask)


@pytest.mark.parametrize("probability", [0.0, 0.3])
@pytest.mark.parametrize("cross", [False, True])
@pytest.mark.parametrize(("heads", "width"), [(1, 8), (4, 128), (3, 120)])
def test_a_fused_attention_sublayer_is_its_parts(
    probability: float, cross: bool, heads: int, width: int
) -> None:
    torch.manual_seed(0)
    threshold = round(probability * 256)
    asking, asked = (SequenceOffsets(torch.tensor([each[side] for each in LENGTHS])) for side in (0, 1))
    mask = PackedMask(asking, asked if cross else asking, causal=not cross)
    x = torch.randn(sum(each for each, _ in LENGTHS), width, requires_grad=True)
    source = torch.randn(sum(each for _, each in LENGTHS), width, requires_grad=True) if cross else None
    attention, norm = MultiHead(width, heads, key_bias=cross), nn.LayerNorm(width)
    projections = (attention.query, attention.key, attention.value, attention.output)
    for each in (*attention.parameters(), *norm.parameters()):
        nn.init.normal_(each, std=0.3)
    torch.manual_seed(5)
    out = ops.attention_sublayer(x, norm, projections, heads, mask, threshold, threshold, source)
    torch.manual_seed(5)
    normed = norm(x)
    q = attention.query(normed)
    k, v = (layer(normed if source is None else source) for layer in (attention.key, attention.value))
    mixed = ops.varlen_attention(*(split(each, heads) for each in (q, k, v)), mask, threshold)
    twin = ops.dropout_add(x, attention.output(join(mixed)), threshold)
    assert torch.allclose(out, twin, atol=1e-4)
    wanted = (x, *([] if source is None else [source]), *norm.parameters(), *attention.parameters())
    same_gradients(out, twin, wanted, 1e-3)


@pytest.mark.parametrize("size", [(1, 8, 32), (70, 16, 96), (203, 20, 40), (400, 128, 256)])
@pytest.mark.parametrize("probability", [0.0, 0.3])
def test_a_fused_feed_forward_sublayer_is_its_parts(size: tuple[int, int, int], probability: float) -> None:
    torch.manual_seed(0)
    rows, width, d_ff = size
    threshold = round(probability * 256)
    fc1, fc2, norm = nn.Linear(width, d_ff), nn.Linear(d_ff, width), nn.LayerNorm(width)
    x = torch.randn(rows, width, requires_grad=True)
    torch.manual_seed(5)
    out = ops.feed_forward_sublayer(x, norm, fc1, fc2, threshold, threshold)
    torch.manual_seed(5)
    twin = ops.dropout_add(x, fc2(ops.linear_relu_dropout(norm(x), fc1, threshold)), threshold)
    assert torch.allclose(out, twin, atol=1e-5)
    same_gradients(out, twin, (x, *norm.parameters(), *fc1.parameters(), *fc2.parameters()), 1e-3)


def differentiable() -> dict[str, tuple[object, tuple[Tensor, ...]]]:
    """Each operation as a function of tensors, with tensors to call it on."""
    torch.manual_seed(2)
    ends = SequenceOffsets(torch.tensor([3, 5]))
    mask, fc1, fc2, norm = PackedMask(ends, ends), nn.Linear(16, 32), nn.Linear(32, 16), nn.LayerNorm(16)
    attention = MultiHead(16, 2)
    projections = (attention.query, attention.key, attention.value, attention.output)
    x = torch.randn(8, 16, requires_grad=True)
    into, share = torch.tensor([0, 0, 1, 2, 2, 3, 4, 4]), torch.full((8,), 0.5)
    return {
        "linear": (lambda x: ops.linear(x, (fc1,))[0], (x,)),
        "dropout_add": (lambda x: ops.dropout_add(x, x * 2, 64, seed=3), (x,)),
        "linear_relu_dropout": (lambda x: ops.linear_relu_dropout(x, fc1, 64, seed=3), (x,)),
        "linear_gelu": (lambda x: ops.linear_gelu(x, fc1), (x,)),
        "varlen_attention": (lambda q: ops.varlen_attention(split(q, 2), split(q, 2), split(q, 2), mask), (x,)),
        "attention_sublayer": (lambda x: ops.attention_sublayer(x, norm, projections, 2, mask, 0, 0), (x,)),
        "feed_forward_sublayer": (lambda x: ops.feed_forward_sublayer(x, norm, fc1, fc2, 0, 0), (x,)),
        "weighted_sum": (lambda x: weighted_sum(x, share, into, ends, 5), (x,)),
    }


@pytest.mark.parametrize("name", list(differentiable()))
def test_a_second_derivative_is_refused(name: str) -> None:
    function, given = differentiable()[name]
    (x,) = given
    loss = function(x).square().sum() + x.pow(3).sum()  # beside a path that has one
    with pytest.raises(RuntimeError, match="no second derivatives"):
        torch.autograd.grad(loss, x, create_graph=True)


@pytest.mark.parametrize("name", list(differentiable()))
@pytest.mark.parametrize("how", ["checkpoint", "saved tensors are copied"])
def test_activation_checkpointing_and_offloading_give_the_same_gradient(name: str, how: str) -> None:
    function, given = differentiable()[name]
    (expected,) = torch.autograd.grad(function(*given).square().sum(), given)
    if how == "checkpoint":
        out = checkpoint(function, *given, use_reentrant=False)
        filler = [torch.randn(8, 16) for _ in range(50)]  # takes the freed memory
        (found,) = torch.autograd.grad(out.square().sum(), given)
        del filler
    else:
        with torch.autograd.graph.saved_tensors_hooks(lambda x: x.clone(), lambda x: x.clone()):
            out = function(*given)
        filler = [torch.randn(8, 16) for _ in range(50)]
        (found,) = torch.autograd.grad(out.square().sum(), given)
        del filler
    assert torch.equal(found, expected)


def test_token_matching_is_the_plain_one() -> None:
    torch.manual_seed(1)
    sequences, counts = SequenceOffsets(torch.tensor([9, 1, 4, 12])), torch.tensor([3, 0, 1, 5])
    keys = torch.randn(26, 8)
    target = match(keys, sequences, counts, near=False, first_stays=True)
    plain = token_reduction.match(
        sequences.padded(keys), sequences.nonpad, counts, near=False, first_stays=True
    )
    starts = SequenceOffsets(sequences.lengths - counts).firsts.unsqueeze(1)
    assert torch.equal(target, (plain + starts)[sequences.nonpad])
    with pytest.raises(ValueError, match="at most half"):
        match(keys, sequences, counts + 9, near=False, first_stays=True)


def test_the_weighted_sum_of_merged_tokens() -> None:
    torch.manual_seed(1)
    sequences, x = SequenceOffsets(torch.tensor([3, 5])), torch.randn(8, 16, requires_grad=True)
    target, share = torch.tensor([0, 0, 1, 2, 2, 3, 4, 4]), torch.rand(8)
    ours = weighted_sum(x, share, target, sequences, 5)
    theirs = x.new_zeros(5, 16).index_add(0, target, x * share.unsqueeze(1))
    assert torch.allclose(ours, theirs, atol=1e-6)
    same_gradients(ours, theirs, (x,), 1e-6)
