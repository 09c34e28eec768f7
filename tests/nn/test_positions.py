"""Where tokens stand: each scheme against its formula, and past the lengths it was prepared for."""

import cmath
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.nn import Alibi, Learned, MultiHead, Position, Relative, Rotary, Sinusoidal
from regard.nn.positions import alibi_slopes, sinusoids

quick = settings(max_examples=40, deadline=None, derandomize=True)


# Order


def look(attention: MultiHead, x: torch.Tensor) -> torch.Tensor:
    placed = attention.position.embed(x)
    return attention(placed, attention.project_kv(placed))


def test_without_positions_attention_sees_a_set():
    torch.manual_seed(0)
    attention = MultiHead(8, 2).double()
    x, order = torch.randn(2, 6, 8, dtype=torch.float64), torch.randperm(6)
    torch.testing.assert_close(look(attention, x[:, order]), look(attention, x)[:, order], rtol=0, atol=1e-10)


def test_with_positions_attention_sees_a_sequence(make_ordered):
    torch.manual_seed(0)
    attention = MultiHead(8, 2, position=make_ordered(8, 2)).double()
    x, order = torch.randn(2, 6, 8, dtype=torch.float64), torch.tensor([3, 0, 5, 1, 4, 2])
    assert (look(attention, x[:, order]) - look(attention, x)[:, order]).abs().max() > 1e-3


def test_no_scheme_changes_nothing():
    x, places = torch.randn(1, 2, 3, 4), torch.arange(3)
    nothing = Position()
    assert nothing.embed(x) is x
    assert nothing.rotate(x, places) is x
    assert nothing.bias(x, places, places) is None
    assert nothing.value_bias(x, places, places) is None


@pytest.mark.parametrize("scheme", [Relative(4, reach=3), Rotary(4), Alibi(2)], ids=lambda s: type(s).__name__)
def test_relative_rotary_and_alibi_see_distances_not_places(scheme):
    torch.manual_seed(0)
    attention = MultiHead(8, 2, position=scheme).double()
    x = torch.randn(2, 6, 8, dtype=torch.float64)
    here = look(attention, x)
    far = torch.arange(5000, 5006)
    there = attention(x, attention.project_kv(x, positions=far), positions=far)
    torch.testing.assert_close(there, here, rtol=0, atol=1e-9)


# Sinusoidal


@pytest.mark.parametrize("size", [2, 4, 16, 512])
def test_three_ways_to_the_sinusoids_agree(size):
    length, table = 30, sinusoids(30, size, torch.float64)
    for place in (0, 1, 7, length - 1):
        row = table[place].tolist()
        for i in range(size // 2):
            angle = place / 10000 ** (2 * i / size)
            turned = cmath.exp(1j * math.exp(-2 * i / size * math.log(10000))) ** place
            assert row[2 * i] == pytest.approx(math.sin(angle), abs=1e-12)
            assert row[2 * i + 1] == pytest.approx(math.cos(angle), abs=1e-12)
            assert row[2 * i] == pytest.approx(turned.imag, abs=1e-12)
            assert row[2 * i + 1] == pytest.approx(turned.real, abs=1e-12)


def test_sinusoids_at_known_places():
    table = Sinusoidal(4).at(0, 3)
    assert table[0].tolist() == [0, 1, 0, 1]
    expected = [0.841471, 0.540302, 0.009999833, 0.99995]  # sin 1, cos 1, sin 0.01, cos 0.01
    torch.testing.assert_close(table[1], torch.tensor(expected), rtol=0, atol=1e-6)
    assert table[2, 0].item() == pytest.approx(math.sin(2), abs=1e-6)


def test_a_place_far_away_is_a_rotation_of_a_near_one():
    """PE(pos + k) is a linear function of PE(pos) (section 3.5), here for k = 3 at the pair i = 1 of d = 8."""
    table, rate = sinusoids(20, 8, torch.float64), 10000 ** (-2 / 8)
    cos, sin = math.cos(3 * rate), math.sin(3 * rate)
    turn = torch.tensor([[cos, sin], [-sin, cos]], dtype=torch.float64)
    torch.testing.assert_close(table[:17, 2:4] @ turn.T, table[3:, 2:4], rtol=0, atol=1e-12)


def test_the_sinusoids_are_a_buffer_and_are_not_saved():
    scheme = Sinusoidal(8)
    assert [name for name, _ in scheme.named_buffers()] == ["table"]
    assert not list(scheme.parameters())
    assert not scheme.state_dict()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("start", "length"), [(0, 4), (0, 5), (3, 1), (3, 9), (4, 1), (1000, 3)])
def test_sinusoids_past_the_prepared_length_equal_a_longer_table(dtype, start, length):
    x = torch.randn(2, length, 8, dtype=dtype)
    short, long = Sinusoidal(8, prepared=4), Sinusoidal(8, prepared=2000)
    placed = short.embed(x, start)
    assert placed.dtype == dtype
    assert torch.equal(placed, long.embed(x, start))
    assert torch.equal(placed, x + sinusoids(2000, 8, dtype)[start : start + length])


def test_sinusoids_are_exact_at_a_place_of_a_million():
    there = sinusoids(1, 2, torch.float32, start=1_000_000)[0]
    assert there.tolist() == pytest.approx([math.sin(1e6), math.cos(1e6)], abs=1e-7)


def test_sinusoids_of_an_odd_size_are_refused():
    with pytest.raises(ValueError, match="pairs of sine and cosine; the size 7 is odd"):
        Sinusoidal(7)


# Learned


def test_learned_positions_are_added_from_the_start_given():
    scheme = Learned(4, 10)
    x = torch.randn(2, 3, 4)
    assert [name for name, _ in scheme.named_parameters()] == ["table"]
    assert torch.equal(scheme.embed(x, start=5), x + scheme.table[5:8])
    assert torch.equal(scheme.embed(x, start=7), x + scheme.table[7:10])


@pytest.mark.parametrize(("start", "length", "end"), [(0, 11, 11), (8, 3, 11), (10, 1, 11), (40, 2, 42)])
def test_learned_positions_refuse_what_is_too_long_and_name_both_lengths(start, length, end):
    with pytest.raises(ValueError, match=rf"length {end} is longer than the 10 learned positions") as refusal:
        Learned(4, 10).embed(torch.zeros(1, length, 4), start)
    assert "\n" not in str(refusal.value)


# Relative


@pytest.mark.parametrize(("reach", "queries", "keys"), [(1, 4, 4), (2, 5, 5), (16, 4, 4), (2, 2, 9)])
def test_relative_positions_are_shaws_equations_3_and_4(reach, queries, keys):
    torch.manual_seed(0)
    attention = MultiHead(6, 2, position=Relative(3, reach)).double()
    source = torch.randn(2, keys, 6, dtype=torch.float64)
    query = source[:, keys - queries :]
    mixed = attention(query, attention.project_kv(source))

    scheme, size, rows = attention.position, 3, []
    for b in range(2):
        for i in range(queries):
            heads = []
            for h in range(2):
                part = slice(h * size, (h + 1) * size)
                q = (attention.query(query[b, i]))[part]
                logits, contents = [], []
                for j in range(keys):
                    distance = j - (i + keys - queries)
                    place = max(-reach, min(reach, distance)) + reach
                    key = attention.key(source[b, j])[part] + scheme.keys[place]
                    contents.append(attention.value(source[b, j])[part] + scheme.values[place])
                    logits.append(q.dot(key) / math.sqrt(size))  # eq. 4
                shares = torch.softmax(torch.stack(logits), 0)
                heads.append(sum(s * c for s, c in zip(shares, contents, strict=True)))  # eq. 3
            rows.append(attention.output(torch.cat(heads)))
    expected = torch.stack(rows).view(2, queries, 6)
    torch.testing.assert_close(mixed, expected, rtol=0, atol=1e-10)


def test_relative_vectors_are_shared_by_the_heads():
    scheme = Relative(4, reach=16)
    assert {name: tuple(p.shape) for name, p in scheme.named_parameters()} == {
        "keys": (33, 4),
        "values": (33, 4),
    }


def test_beyond_its_reach_relative_attention_cannot_tell_distances_apart():
    torch.manual_seed(0)
    scheme = Relative(4, reach=3)
    query = torch.randn(1, 2, 1, 4)
    near, far = scheme.bias(query, torch.tensor([0]), torch.tensor([2, 3, 4, 900])).split([1, 3], dim=-1)
    assert (far == far[..., :1]).all()
    assert (near != far[..., :1]).all()


# Rotary


@quick
@given(
    seed=st.integers(0, 2**32),
    half=st.integers(1, 8),
    query_place=st.integers(0, 3000),
    key_place=st.integers(0, 3000),
    shift=st.integers(0, 100_000),
)
def test_rotary_products_depend_on_the_distance_only(seed, half, query_place, key_place, shift):
    generator = torch.Generator().manual_seed(seed)
    query, key = (torch.randn(1, 2 * half, generator=generator, dtype=torch.float64) for _ in range(2))
    scheme = Rotary(2 * half)

    def product(a: int, b: int) -> torch.Tensor:
        return (scheme.rotate(query, torch.tensor([a])) * scheme.rotate(key, torch.tensor([b]))).sum()

    torch.testing.assert_close(
        product(query_place + shift, key_place + shift), product(query_place, key_place), rtol=0, atol=1e-8
    )


def test_rotary_turns_neighbouring_components_like_complex_numbers():
    torch.manual_seed(0)
    x, places = torch.randn(2, 5, 8, dtype=torch.float64), torch.tensor([0, 1, 2, 50, 4000])
    turned = Rotary(8).rotate(x, places)
    for row, place in enumerate(places.tolist()):
        for i in range(4):
            pair = complex(*x[1, row, 2 * i : 2 * i + 2].tolist())
            expected = pair * cmath.exp(1j * place * 10000 ** (-2 * i / 8))
            assert complex(*turned[1, row, 2 * i : 2 * i + 2].tolist()) == pytest.approx(expected, abs=1e-10)
    torch.testing.assert_close(turned.norm(dim=-1), x.norm(dim=-1))
    assert torch.equal(turned[:, 0], x[:, 0])  # place 0 is no turn


def test_rotary_products_do_change_with_the_distance():
    scheme, ones = Rotary(4), torch.ones(1, 4, dtype=torch.float64)
    products = [(ones * scheme.rotate(ones, torch.tensor([k]))).sum().item() for k in range(4)]
    assert products[0] == pytest.approx(4)
    assert len({round(p, 6) for p in products}) == 4


def test_rotary_keeps_the_type_and_stays_exact_far_away():
    x = torch.randn(1, 4)
    place = torch.tensor([1_000_000])
    assert Rotary(4).rotate(x, place).dtype == torch.float32
    torch.testing.assert_close(
        Rotary(4).rotate(x, place), Rotary(4).rotate(x.double(), place).float(), rtol=0, atol=1e-6
    )


def test_rotary_of_an_odd_size_is_refused():
    with pytest.raises(ValueError, match="the head size 5 is odd"):
        Rotary(5)


# ALiBi


def paper_slopes(heads: int) -> list[float]:
    """The reference function of Press et al. 2022."""

    def power_of_two(n: int) -> list[float]:
        start = 2 ** (-(2 ** -(math.log2(n) - 3)))
        return [start * start**i for i in range(n)]

    if math.log2(heads).is_integer():
        return power_of_two(heads)
    closest = 2 ** math.floor(math.log2(heads))
    return power_of_two(closest) + paper_slopes(2 * closest)[0::2][: heads - closest]


def test_the_slopes_of_8_heads_are_a_half_to_a_256th():
    assert alibi_slopes(8).tolist() == [1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32, 1 / 64, 1 / 128, 1 / 256]


@pytest.mark.parametrize("heads", [1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 20, 31])
def test_the_slopes_are_the_papers(heads):
    assert Alibi(heads).slopes.tolist() == pytest.approx(paper_slopes(heads), rel=1e-6)


def test_alibi_takes_slope_times_distance_off_the_scores():
    query_places, key_places = torch.tensor([7, 8]), torch.arange(9)
    bias = Alibi(2).bias(torch.zeros(1, 2, 2, 4), query_places, key_places)
    for head, slope in enumerate([1 / 16, 1 / 256]):
        for row, i in enumerate([7, 8]):
            assert bias[head, row].tolist() == [-slope * abs(i - j) for j in range(9)]


def test_alibi_keeps_no_parameters_and_saves_nothing():
    assert not list(Alibi(8).parameters())
    assert not Alibi(8).state_dict()


# Long texts


@pytest.mark.parametrize(
    "scheme",
    [Sinusoidal(4, prepared=8), Relative(2, reach=2), Rotary(2), Alibi(2)],
    ids=lambda s: type(s).__name__,
)
def test_any_length_works(scheme):
    torch.manual_seed(0)
    attention = MultiHead(4, 2, position=scheme)
    with torch.no_grad():
        assert look(attention, torch.randn(1, 1500, 4)).isfinite().all()
