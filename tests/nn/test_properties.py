"""What holds for every shape, mask and type: padding, order, caching, weights."""

from collections.abc import Iterable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from regard.nn import (
    Additive,
    Concat,
    Cosine,
    Dot,
    Gaussian,
    General,
    KvCache,
    MultiHead,
    Recorder,
    ScaledDot,
    Sinusoidal,
    attend,
    causal_mask,
    length_mask,
    masked_softmax,
)

TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-10}
quick = settings(max_examples=20, deadline=None, derandomize=True)

dtypes = st.sampled_from([torch.float32, torch.float64])
seeds = st.integers(0, 2**32)
filler = st.floats(-1e15, 1e15)  # what stands in the padding
FUSED = 1e6
"""With more in the padding, the scores that PyTorch's fused kernel computes once more on the way back may differ from
those of the way there by more than exp can take."""

SCORES = {
    "dot": lambda size: Dot(),
    "scaled dot": lambda size: ScaledDot(),
    "general": lambda size: General(size, size),
    "additive": lambda size: Additive(size, size, 3),
    "concat": lambda size: Concat(size, size, 3),
    "gaussian": lambda size: Gaussian(0.5, learned=True),
    "cosine": lambda size: Cosine(2.0, learned=True),
}


def close(actual: Tensor, expected: Tensor) -> None:
    """Equal to 1e-5 or 1e-10, in proportion where numbers are large."""
    tolerance = TOLERANCE[actual.dtype]
    torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance)


def noise(seed: int, *shape: int, dtype: torch.dtype) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def ignore(weights: Tensor) -> None:
    """A record that wants nothing, and so makes `attend` take the plain path."""


# Padding


@pytest.mark.parametrize("name", list(SCORES))
@pytest.mark.parametrize("record", [None, ignore], ids=["", "watched"])
@quick
@given(
    dtype=dtypes,
    seed=seeds,
    length=st.integers(1, 5),
    more=st.integers(0, 6),
    content=filler,
    size=st.integers(1, 4),
)
def test_padding_never_changes_what_a_score_gives(name, record, dtype, seed, length, more, content, size):
    torch.manual_seed(seed)
    score = SCORES[name](size).to(dtype)
    query, keys, values = (noise(seed + i, 2, n, size, dtype=dtype) for i, n in enumerate((3, length, length)))

    def run(padding: int) -> list[Tensor]:
        junk = torch.full((2, padding, size), content, dtype=dtype)
        junk[1] *= -0.5
        q = query.clone().requires_grad_()
        k, v = (torch.cat([t, junk], 1).requires_grad_() for t in (keys, values))
        score.zero_grad()
        mixed = attend(
            q,
            k,
            v,
            score=score,
            mask=length_mask(torch.tensor([length, length]), length + padding),
            record=record,
        )
        mixed.sin().sum().backward()
        assert (k.grad[:, length:] == 0).all()
        assert (v.grad[:, length:] == 0).all()
        return [
            mixed.detach(),
            q.grad,
            k.grad[:, :length],
            v.grad[:, :length],
            *(p.grad for p in score.parameters()),
        ]

    for padded, bare in zip(run(more), run(0), strict=True):
        close(padded, bare)


@pytest.mark.parametrize("recorded", [False, True], ids=["fused", "plain"])
@quick
@given(
    dtype=dtypes,
    seed=seeds,
    lengths=st.lists(st.integers(1, 5), min_size=1, max_size=3),
    more=st.integers(0, 6),
    content=filler,
    causal=st.booleans(),
)
def test_padding_never_changes_self_attention_or_its_gradients(
    make_position, recorded, dtype, seed, lengths, more, content, causal
):
    torch.manual_seed(seed)
    content = content if recorded else max(-FUSED, min(content, FUSED))
    attention = MultiHead(4, 2, position=make_position(4, 2)).to(dtype)
    sentences = [noise(seed + i, 1, n, 4, dtype=dtype) for i, n in enumerate(lengths)]
    names = [name for name, _ in attention.named_parameters()]

    def run(x: Tensor, mask: Tensor, real: Tensor) -> tuple[Tensor, Tensor, list[Tensor]]:
        """Output and input gradient at the real places, and the gradients of the parameters."""
        attention.zero_grad()
        x = x.clone().requires_grad_()
        placed = attention.position.embed(x)
        record = Recorder().under("a") if recorded else None
        if causal:
            mask = mask & causal_mask(x.size(1))
        mixed = attention(placed, attention.project_kv(placed), mask=mask, record=record)
        mixed[real].sin().sum().backward()
        assert (x.grad[~real] == 0).all()
        gradients = [torch.zeros(()) if p.grad is None else p.grad.clone() for p in attention.parameters()]
        return mixed.detach()[real], x.grad[real], gradients

    size = max(lengths) + more
    batch = torch.full((len(lengths), size, 4), content, dtype=dtype)
    for row, sentence in enumerate(sentences):
        batch[row, : sentence.size(1)] = sentence[0]
    mask = length_mask(torch.tensor(lengths), size)
    padded, padded_grad, padded_params = run(batch, mask, mask[:, 0])

    alone = [
        run(s, torch.ones(1, 1, s.size(1), dtype=torch.bool), torch.ones(1, s.size(1), dtype=torch.bool))
        for s in sentences
    ]
    close(padded, torch.cat([mixed for mixed, _, _ in alone]))
    close(padded_grad, torch.cat([grad for _, grad, _ in alone]))
    for i, name in enumerate(names):
        expected = sum(gradients[i] for _, _, gradients in alone)
        torch.testing.assert_close(
            padded_params[i],
            expected,
            rtol=TOLERANCE[dtype],
            atol=10 * TOLERANCE[dtype],  # sums over all places
            msg=lambda text, name=name: f"gradient of {name}: {text}",
        )


# Order


@pytest.mark.parametrize("name", list(SCORES))
@quick
@given(dtype=dtypes, seed=seeds, keys=st.integers(1, 8), size=st.integers(1, 4), masked=st.booleans())
def test_permuting_keys_together_with_values_changes_nothing(name, dtype, seed, keys, size, masked):
    torch.manual_seed(seed)
    score = SCORES[name](size).to(dtype)
    query, key, value = (noise(seed + i, 2, n, size, dtype=dtype) for i, n in enumerate((3, keys, keys)))
    order, mask = torch.randperm(keys), torch.rand(2, 3, keys) < 0.6
    before = attend(query, key, value, score=score, mask=mask if masked else None)
    after = attend(
        query, key[:, order], value[:, order], score=score, mask=mask[..., order] if masked else None
    )
    close(after, before)


@quick
@given(dtype=dtypes, seed=seeds, keys=st.integers(1, 8), recorded=st.booleans())
def test_permuting_what_is_looked_at_changes_nothing_for_several_heads(dtype, seed, keys, recorded):
    torch.manual_seed(seed)
    attention = MultiHead(6, 3).to(dtype)
    query, source = noise(seed, 2, 3, 6, dtype=dtype), noise(seed + 1, 2, keys, 6, dtype=dtype)
    order, mask = torch.randperm(keys), torch.rand(2, 3, keys) < 0.6
    record = Recorder().under("a") if recorded else None
    before = attention(query, attention.project_kv(source), mask=mask, record=record)
    after = attention(query, attention.project_kv(source[:, order]), mask=mask[..., order], record=record)
    close(after, before)


# Weights


@quick
@given(
    dtype=dtypes,
    seed=seeds,
    shape=st.tuples(st.integers(1, 3), st.integers(1, 3), st.integers(1, 5), st.integers(1, 9)),
    spread=st.sampled_from([1e-3, 1.0, 100.0, 1e4]),
    open_share=st.sampled_from([0.0, 0.2, 0.7, 1.0]),
)
def test_weights_are_shares_of_what_may_be_seen(dtype, seed, shape, spread, open_share):
    torch.manual_seed(seed)
    scores = (spread * noise(seed, *shape, dtype=dtype)).requires_grad_()
    mask = torch.rand(shape) < open_share
    weights = masked_softmax(scores, mask=mask)
    assert (weights >= 0).all()
    assert (weights[~mask] == 0).all()
    sees = mask.any(-1)
    close(weights.sum(-1), sees.to(dtype))
    weights.square().sum().backward()
    assert scores.grad.isfinite().all()
    assert (scores.grad[~mask] == 0).all()


@quick
@given(dtype=dtypes, seed=seeds, queries=st.integers(1, 4), keys=st.integers(4, 7))
def test_the_weights_a_layer_records_are_shares_too(make_position, dtype, seed, queries, keys):
    torch.manual_seed(seed)
    attention, record = MultiHead(8, 2, position=make_position(8, 2)).to(dtype), Recorder()
    source = noise(seed, 2, keys, 8, dtype=dtype)
    mask = torch.rand(2, queries, keys) < 0.5
    attention(source[:, keys - queries :], attention.project_kv(source), mask=mask, record=record.under("a"))
    weights, over_heads = record["a"], mask.unsqueeze(1).expand(2, 2, queries, keys)
    assert (weights >= 0).all()
    assert (weights[~over_heads] == 0).all()
    close(weights.sum(-1), over_heads.any(-1).to(dtype))


@pytest.mark.parametrize("recorded", [False, True], ids=["fused", "plain"])
@quick
@given(dtype=dtypes, seed=seeds, length=st.integers(1, 6), blind=st.integers(0, 5))
def test_a_query_that_sees_nothing_yields_zeros(make_position, recorded, dtype, seed, length, blind):
    torch.manual_seed(seed)
    attention = MultiHead(4, 2, position=make_position(4, 2)).to(dtype)
    x = noise(seed, 2, length, 4, dtype=dtype).requires_grad_()
    mask = torch.ones(2, length, length, dtype=torch.bool)
    mask[0, blind % length] = False
    placed = attention.position.embed(x)
    record = Recorder().under("a") if recorded else None
    mixed = attention(placed, attention.project_kv(placed), mask=mask, record=record)
    assert torch.equal(mixed[0, blind % length], attention.output.bias)  # a projection of zeros
    assert mixed.isfinite().all()
    mixed.square().sum().backward()
    assert x.grad.isfinite().all()
    for parameter in attention.parameters():
        assert parameter.grad is None or parameter.grad.isfinite().all()


@pytest.mark.parametrize("recorded", [False, True], ids=["fused", "plain"])
def test_nobody_sees_anything(make_position, recorded):
    attention = MultiHead(4, 2, position=make_position(4, 2))
    x = torch.randn(2, 3, 4, requires_grad=True)
    record = Recorder().under("a") if recorded else None
    mixed = attention(x, attention.project_kv(x), mask=torch.zeros(1, 1, 3, dtype=torch.bool), record=record)
    assert (mixed == 0).all()  # the biases start at zero
    mixed.sum().backward()
    assert (x.grad == 0).all()


# Cached equals full


class Line:
    """Self-attention that counts places on, as a decoder does."""

    def __init__(self, attention: MultiHead) -> None:
        self.attention = attention

    def whole(self, x: Tensor) -> Tensor:
        placed = self.attention.position.embed(x)
        return self.attention(placed, self.attention.project_kv(placed), mask=causal_mask(x.size(1)))

    def step(self, x: Tensor, cache: KvCache) -> tuple[Tensor, KvCache]:
        placed = self.attention.position.embed(x, cache.length)
        cache = cache.extend(self.attention.project_kv(placed, start=cache.length))
        return self.attention(placed, cache.memory, mask=causal_mask(x.size(1), cache.length)), cache

    def steps(self, chunks: Iterable[Tensor], cache: KvCache) -> Tensor:
        found = []
        for chunk in chunks:
            mixed, cache = self.step(chunk, cache)
            found.append(mixed)
        return torch.cat(found, 1)


@quick
@given(
    dtype=dtypes,
    seed=seeds,
    chunks=st.lists(st.integers(1, 5), min_size=1, max_size=6),
    capacity=st.integers(1, 9),
)
def test_chunk_by_chunk_equals_the_whole_causal_pass(make_position, dtype, seed, chunks, capacity):
    torch.manual_seed(seed)
    line = Line(MultiHead(8, 2, position=make_position(8, 2)).to(dtype))
    x, cache = noise(seed, 2, sum(chunks), 8, dtype=dtype), KvCache(capacity=capacity)
    with torch.no_grad():
        close(line.steps(x.split(chunks, dim=1), cache), line.whole(x))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_token_by_token_equals_the_whole_causal_pass(make_position, dtype):
    torch.manual_seed(0)
    line = Line(MultiHead(8, 2, position=make_position(8, 2)).to(dtype))
    x, cache = torch.randn(2, 40, 8, dtype=dtype), KvCache(capacity=4)
    with torch.no_grad():
        steps = line.steps(x.split(1, dim=1), cache)
        torch.testing.assert_close(steps, line.whole(x), rtol=0, atol=TOLERANCE[dtype])


@quick
@given(
    dtype=dtypes,
    seed=seeds,
    before=st.integers(1, 5),
    after=st.lists(st.integers(1, 3), min_size=1, max_size=3),
    rows=st.lists(st.integers(0, 2), min_size=1, max_size=5),
    capacity=st.integers(1, 9),
)
def test_selected_rows_go_on_as_if_they_had_been_there_from_the_start(
    make_position, dtype, seed, before, after, rows, capacity
):
    torch.manual_seed(seed)
    line = Line(MultiHead(8, 2, position=make_position(8, 2)).to(dtype))
    x, index, cache = (
        noise(seed, 3, before + sum(after), 8, dtype=dtype),
        torch.tensor(rows),
        KvCache(capacity=capacity),
    )
    with torch.no_grad():
        _, cache = line.step(x[:, :before], cache)
        steps = line.steps(x[index, before:].split(after, dim=1), cache.select(index))
        close(steps, line.whole(x[index])[:, before:])


def test_the_future_is_not_seen(make_position):
    torch.manual_seed(0)
    line = Line(MultiHead(8, 2, position=make_position(8, 2)).double())
    x = torch.randn(2, 9, 8, dtype=torch.float64)
    changed = x.clone()
    changed[:, 5:] = torch.randn(2, 4, 8, dtype=torch.float64)
    torch.testing.assert_close(line.whole(x)[:, :5], line.whole(changed)[:, :5], rtol=0, atol=1e-10)
    assert (line.whole(x)[:, 5:] - line.whole(changed)[:, 5:]).abs().min() > 0


def test_steps_past_the_prepared_sinusoids_count_on():
    position = Sinusoidal(8, prepared=3)
    x = torch.zeros(1, 1, 8)
    steps = torch.cat([position.embed(x, start) for start in range(6)], 1)
    torch.testing.assert_close(steps, position.embed(torch.zeros(1, 6, 8)), rtol=0, atol=0)
