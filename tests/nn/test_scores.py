"""The scores against their formulas, written out number by number."""

import math

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck

from regard.nn import Additive, Concat, Cosine, Dot, Gaussian, General, ScaledDot, Score, attend, length_mask

QUERY, KEY, HIDDEN = 3, 4, 5
TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-10}
DTYPES = [torch.float32, torch.float64]

ALL = {
    "dot": lambda: Dot(),
    "scaled dot": lambda: ScaledDot(),
    "general": lambda: General(QUERY, KEY),
    "additive": lambda: Additive(QUERY, KEY, HIDDEN),
    "concat": lambda: Concat(QUERY, KEY, HIDDEN),
    "gaussian": lambda: Gaussian(0.7, learned=True),
    "cosine": lambda: Cosine(1.7, learned=True),
}


@pytest.fixture(params=list(ALL))
def score(request: pytest.FixtureRequest) -> Score:
    torch.manual_seed(1)
    return ALL[request.param]().double()


def inputs(score: Score, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
    """Queries (2, 3, size) and keys (2, 5, size), of different sizes where the score takes them."""
    generator = torch.Generator().manual_seed(7)
    key_size = KEY if isinstance(score, (General, Additive, Concat)) else QUERY
    query = torch.randn(2, 3, QUERY, generator=generator, dtype=dtype)
    return query, torch.randn(2, 5, key_size, generator=generator, dtype=dtype)


def pair_by_pair(formula, query: Tensor, keys: Tensor) -> Tensor:
    """formula(q, k) for every pair of vectors, as lists of Python floats."""
    return torch.tensor(
        [
            [[formula(q, k) for k in ks] for q in qs]
            for qs, ks in zip(query.tolist(), keys.tolist(), strict=True)
        ],
        dtype=query.dtype,
    )


# The numbers of the texts


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-12)])
def test_additive_attention_over_equal_keys_averages_the_values_that_may_be_seen(dtype, tolerance):
    torch.manual_seed(0)
    query = torch.randn(2, 1, 20, dtype=dtype)
    keys = torch.ones(2, 10, 2, dtype=dtype)
    values = torch.arange(40, dtype=dtype).reshape(1, 10, 4).repeat(2, 1, 1)
    mixed = attend(
        query,
        keys,
        values,
        score=Additive(20, 2, 8).to(dtype),
        mask=length_mask(torch.tensor([2, 6]), 10),
    )
    expected = torch.tensor([[[2, 3, 4, 5]], [[10, 11, 12, 13]]], dtype=dtype)
    torch.testing.assert_close(mixed, expected, rtol=0, atol=tolerance)


def test_i_am_good():
    words = torch.tensor([[1, 3, 2], [1, 1, 3], [1, 2, 1]], dtype=torch.float64)
    seen = []
    mixed = attend(words, words, words, score=Dot(), record=seen.append)
    expected = [[1, 2.957691, 2.011295], [1, 1.540148, 2.722573], [1, 2.864164, 2.000000]]
    torch.testing.assert_close(mixed, torch.tensor(expected, dtype=torch.float64), rtol=0, atol=5e-7)
    # The text prints .97 and .90 for .976 and .909, so that its rows sum to 1; the mixed values above are exact.
    printed = torch.tensor([[0.97, 0.02, 0.01], [0.27, 0.73, 0.00], [0.90, 0.05, 0.05]], dtype=torch.float64)
    torch.testing.assert_close(seen[0], printed, rtol=0, atol=0.01)
    weights = [[round(w, 2) for w in row] for row in seen[0].tolist()]
    assert weights == [[0.98, 0.02, 0.01], [0.27, 0.73, 0.00], [0.91, 0.05, 0.05]]


def test_one_query_and_four_keys():
    query = torch.tensor([[0.6, 1.2, -1.2, 1.8]], dtype=torch.float64)
    first = [-0.2, 0.4, 1.2, 0.8]
    second = [0.2, 0.4, -0.6, 0.6]
    # The text gives two of the four keys. The third scores -.36, so the first one turned round does; the
    # fourth scores what the first does.
    keys = torch.tensor([first, second, [-c for c in first], first], dtype=torch.float64)
    values = torch.tensor([4.0, 1.0, 5.0, 6.0], dtype=torch.float64).unsqueeze(1) + torch.arange(4)
    scores = Dot()(query, keys)
    torch.testing.assert_close(
        scores, torch.tensor([[0.36, 2.4, -0.36, 0.36]], dtype=torch.float64), rtol=0, atol=1e-12
    )
    seen = []
    mixed = attend(query, keys, values, score=Dot(), record=seen.append)
    assert [round(w, 3) for w in seen[0][0].tolist()] == [0.098, 0.756, 0.048, 0.098]
    assert [round(m, 2) for m in mixed[0].tolist()] == [1.98, 2.98, 3.98, 4.98]


# Why the scale


@pytest.mark.parametrize("d", [4, 64, 512])
def test_a_dot_product_has_variance_d_and_a_scaled_one_variance_1(d):
    generator = torch.Generator().manual_seed(d)
    query, keys = (torch.randn(400, d, generator=generator) for _ in range(2))
    assert Dot()(query, keys).var().item() == pytest.approx(d, rel=0.1)
    assert ScaledDot()(query, keys).var().item() == pytest.approx(1, rel=0.1)


def test_without_the_scale_the_softmax_saturates_and_its_gradient_shrinks():
    def steepness(score: Score, d: int) -> float:
        """The mean of s(1-s), which is what comes back through a softmax."""
        generator = torch.Generator().manual_seed(d)
        query, keys = (torch.randn(200, n, d, generator=generator, dtype=torch.float64) for n in (5, 10))
        share = torch.softmax(score(query, keys), dim=-1)
        return (share * (1 - share)).mean().item()

    unscaled = [steepness(Dot(), d) for d in (4, 64, 1024)]
    assert unscaled[0] > 2 * unscaled[1] > 4 * unscaled[2]
    scaled = [steepness(ScaledDot(), d) for d in (4, 64, 1024)]
    assert max(scaled) < 1.1 * min(scaled)
    assert scaled[2] > 10 * unscaled[2]


def test_the_gradient_that_reaches_the_query_shrinks_without_the_scale():
    generator = torch.Generator().manual_seed(3)
    query = torch.randn(100, 1, 1024, generator=generator, dtype=torch.float64)
    keys = torch.randn(100, 10, 1024, generator=generator, dtype=torch.float64)

    def gradient_of_scores(score: Score) -> float:
        scores = score(query, keys).requires_grad_()
        torch.softmax(scores, dim=-1)[..., 0].sum().backward()
        return scores.grad.abs().mean().item()

    assert gradient_of_scores(Dot()) < gradient_of_scores(ScaledDot()) / 10


# Against the formulas


@pytest.mark.parametrize("dtype", DTYPES)
def test_dot_and_scaled_dot_are_their_formulas(dtype):
    query, keys = inputs(Dot(), dtype)

    def dot(q, k):
        return sum(a * b for a, b in zip(q, k, strict=True))

    def scaled(q, k):
        return dot(q, k) / math.sqrt(QUERY)

    close(Dot()(query, keys), pair_by_pair(dot, query, keys))
    close(ScaledDot()(query, keys), pair_by_pair(scaled, query, keys))


@pytest.mark.parametrize("dtype", DTYPES)
def test_general_is_its_formula(dtype):
    torch.manual_seed(2)
    score = General(QUERY, KEY).to(dtype)
    query, keys = inputs(score, dtype)
    weight = score.weight.tolist()

    def formula(q, k):
        return sum(q[i] * weight[i][j] * k[j] for i in range(QUERY) for j in range(KEY))

    close(score(query, keys), pair_by_pair(formula, query, keys))


@pytest.mark.parametrize("dtype", DTYPES)
def test_additive_is_its_formula(dtype):
    torch.manual_seed(2)
    score = Additive(QUERY, KEY, HIDDEN).to(dtype)
    query, keys = inputs(score, dtype)
    w_q, w_k, w_v = score.query.weight.tolist(), score.key.weight.tolist(), score.value.weight[0].tolist()

    def formula(q, k):
        total = 0.0
        for h in range(HIDDEN):
            inner = sum(w_q[h][i] * q[i] for i in range(QUERY)) + sum(w_k[h][j] * k[j] for j in range(KEY))
            total += w_v[h] * math.tanh(inner)
        return total

    close(score(query, keys), pair_by_pair(formula, query, keys))


@pytest.mark.parametrize("dtype", DTYPES)
def test_concat_is_its_formula_with_the_key_before_the_query(dtype):
    torch.manual_seed(2)
    score = Concat(QUERY, KEY, HIDDEN).to(dtype)
    query, keys = inputs(score, dtype)
    weight, v = score.weight.tolist(), score.value.weight[0].tolist()

    def formula(q, k):
        side_by_side = [*k, *q]
        return sum(
            v[h] * math.tanh(sum(w * c for w, c in zip(weight[h], side_by_side, strict=True)))
            for h in range(HIDDEN)
        )

    close(score(query, keys), pair_by_pair(formula, query, keys))


@pytest.mark.parametrize("dtype", DTYPES)
def test_gaussian_is_its_formula(dtype):
    score = Gaussian(0.7).to(dtype)
    query, keys = inputs(score, dtype)
    sharpness = score.sharpness.item()

    def formula(q, k):
        return -sum(((a - b) * sharpness) ** 2 for a, b in zip(q, k, strict=True)) / 2

    close(score(query, keys), pair_by_pair(formula, query, keys))


def test_gaussian_of_sharpness_0_is_plain_averaging():
    query, keys = inputs(Gaussian())
    mixed = attend(query, keys, keys, score=Gaussian(0.0))
    close(mixed, keys.mean(-2, keepdim=True).expand_as(mixed))


def test_gaussian_sharpness_is_trained_only_if_requested():
    assert [name for name, _ in Gaussian(learned=True).named_parameters()] == ["sharpness"]
    assert not list(Gaussian().parameters())
    assert "sharpness" in Gaussian().state_dict()


@pytest.mark.parametrize("dtype", DTYPES)
def test_cosine_is_its_formula(dtype):
    score = Cosine(1.7).to(dtype)
    query, keys = inputs(score, dtype)
    scale = score.scale.item()

    def formula(q, k):
        return scale * sum(a * b for a, b in zip(q, k, strict=True)) / (math.hypot(*q) * math.hypot(*k))

    close(score(query, keys), pair_by_pair(formula, query, keys))


def test_cosine_does_not_depend_on_lengths():
    score = Cosine(3.0)
    query, keys = inputs(score)
    close(score(1e6 * query, 1e-3 * keys), score(query, keys))
    close(score(query, query).diagonal(dim1=-2, dim2=-1), torch.full((2, 3), 3.0, dtype=query.dtype))


def test_cosine_of_a_vector_of_zeros_is_0_and_its_gradient_is_finite():
    query = torch.zeros(1, 2, requires_grad=True)
    scores = Cosine(3.0)(query, torch.tensor([[3.0, 4.0], [0.0, 0.0]]))
    assert scores.tolist() == [[0.0, 0.0]]
    scores.sum().backward()
    assert query.grad.isfinite().all()


def test_cosine_scale_is_trained_only_if_requested():
    assert [name for name, _ in Cosine(learned=True).named_parameters()] == ["scale"]
    assert not list(Cosine().parameters())
    assert "scale" in Cosine().state_dict()


def test_cosine_refuses_unequal_sizes():
    with pytest.raises(
        ValueError, match="a cosine score needs queries and keys of the same size; queries have 3"
    ):
        Cosine()(torch.randn(1, 3), torch.randn(1, 4))


def test_preparing_the_keys_first_changes_nothing(score):
    query, keys = inputs(score)
    prepared = score.prepare(keys)
    one_by_one = [score.compare(query[:, i : i + 1], prepared) for i in range(query.size(1))]
    close(torch.cat(one_by_one, dim=1), score(query, keys))


def test_a_score_takes_any_leading_shape(score):
    query, keys = inputs(score)
    expected = score(query, keys)
    more = score(query.view(2, 1, 1, *query.shape[1:]), keys.view(2, 1, 1, *keys.shape[1:]))
    close(more, expected.view(2, 1, 1, *expected.shape[1:]))


def test_gradients_are_right(score):
    query, keys = inputs(score)
    query, keys = query[:1, :2].clone().requires_grad_(), keys[:1, :3].clone().requires_grad_()
    # The parameters are changed in place by gradcheck, so naming them as inputs is enough.
    assert gradcheck(lambda q, k, *_: score(q, k), (query, keys, *score.parameters()))


@pytest.mark.parametrize("dot", [Dot(), ScaledDot()])
def test_a_dot_of_unequal_sizes_is_refused_by_both_sizes(dot):
    with pytest.raises(ValueError, match=r"queries have 3, keys have 4.*General, Additive and Concat"):
        dot(torch.zeros(1, 2, 3), torch.zeros(1, 2, 4))
    with pytest.raises(ValueError, match="queries have 3, keys have 4"):
        attend(torch.zeros(1, 2, 3), torch.zeros(1, 2, 4), torch.zeros(1, 2, 4), score=dot)


def close(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual, expected, rtol=0, atol=TOLERANCE[actual.dtype])
