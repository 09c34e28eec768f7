"""The claims of `regard show cost`: memory exponents exactly repeatable, time exponents in a slow test."""

import pytest
import torch

from regard.lessons import cost
from regard.lessons.cost import LAYERS, PlainSelfAttention, single_head_attention

MEMORY_EXPONENTS = {"plain attention": 2.0, "fused attention": 1.0, "LSTM": 1.0, "convolution": 1.0}


def saved_bytes(name: str, lengths: tuple[int, ...], d_model: int) -> list[int]:
    layer = next(layer for layer in LAYERS if layer.name == name).make(d_model)
    return [
        cost.count_saved_bytes(layer, torch.randn(1, length, d_model, requires_grad=True)) for length in lengths
    ]


@pytest.mark.parametrize("name", MEMORY_EXPONENTS)
def test_memory_exponents(name: str) -> None:
    lengths = (512, 1024, 2048)
    exponent = cost.fitted_exponent(lengths, saved_bytes(name, lengths, d_model=8))
    assert exponent == pytest.approx(MEMORY_EXPONENTS[name], abs=0.07)


def test_plain_attention_keeps_the_weights_and_fused_does_not() -> None:
    weights = 4 * 1024**2  # bytes of n x n in float32
    (plain,), (fused,) = (saved_bytes(name, (1024,), 8) for name in ("plain attention", "fused attention"))
    assert weights < plain < 1.2 * weights
    assert fused < 0.2 * weights


def test_parameters_and_views_are_not_counted_twice() -> None:
    linear = torch.nn.Linear(8, 8)
    x = torch.randn(1, 10, 8, requires_grad=True)
    assert cost.count_saved_bytes(linear, x) == 10 * 8 * 4


def test_both_attentions_compute_the_same() -> None:
    plain, fused = PlainSelfAttention(16), single_head_attention(16)
    fused.load_state_dict(plain.attend.state_dict())
    x = torch.randn(2, 12, 16)
    torch.testing.assert_close(plain(x), fused(x))


@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: layer.name)
def test_every_layer_keeps_the_shape(layer: cost.ComparedLayer) -> None:
    assert layer.make(16)(torch.randn(1, 9, 16)).shape == (1, 9, 16)


def test_fitted_exponent_finds_a_power_law() -> None:
    lengths = (100, 300, 700, 2000)
    assert cost.fitted_exponent(lengths, [5 * n**1.7 for n in lengths]) == pytest.approx(1.7)


def test_a_series_that_takes_too_long_stops_and_says_so() -> None:
    threads = torch.get_num_threads()
    result = cost.measure((8, 16, 32, 64, 128, 256), d_model=8, seconds=0.001)
    assert all(series.stopped and len(series.lengths) == cost.FITTED_LENGTHS for series in result.series)
    assert "stopped early" in result.finding()
    assert result.tables()[0].rows[-1][0] == "64"
    assert torch.get_num_threads() == threads


def test_measure_fills_every_length_when_there_is_time() -> None:
    lines: list[str] = []
    result = cost.measure((32, 64, 128), d_model=8, seconds=1.0, progress=lines.append)
    assert [series.lengths for series in result.series] == [(32, 64, 128)] * 4
    assert all(seconds > 0 for series in result.series for seconds in series.seconds)
    assert "stopped early" not in result.finding()
    assert any("plain attention" in line for line in lines)
    book = {row[0]: row[1:4] for row in result.tables()[2].rows}
    assert book["plain attention"] == ("n^2 d", "O(1)", "O(1)")
    assert book["LSTM"] == ("n d^2", "O(n)", "O(n)")
    assert book["convolution"] == ("k n d^2", "O(1)", "O(log_k n)")


@pytest.mark.slow
def test_time_exponents() -> None:
    result = cost.measure((512, 1024, 2048, 4096), seconds=60)
    exponents = {series.layer.name: series.time_exponent for series in result.series}
    assert 1.6 < exponents["plain attention"] < 2.4
    assert 1.6 < exponents["fused attention"] < 2.4
    assert 0.8 < exponents["LSTM"] < 1.2
    assert 0.7 < exponents["convolution"] < 1.3
