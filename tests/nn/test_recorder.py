"""Recording who looked where: names, joined steps, and no trace left behind."""

import numpy as np
import pytest
import torch
from torch import nn

from regard.nn import BlockShape, DecoderBlock, EncoderBlock, KvCache, MultiHead, Recorder, causal_mask

SHAPE = BlockShape(d_model=16, heads=4, d_ff=32, dropout=0.0)


def tensors_on(model: nn.Module) -> dict[str, int]:
    """Every tensor a module holds as an attribute, in containers too, by name."""
    found = {}

    def look_into(name: str, value: object) -> None:
        if isinstance(value, torch.Tensor):
            found[name] = id(value)
        elif isinstance(value, dict):
            for key, inner in value.items():
                look_into(f"{name}.{key}", inner)
        elif isinstance(value, (list, tuple, set)):
            for number, inner in enumerate(value):
                look_into(f"{name}.{number}", inner)

    for name, module in model.named_modules():
        look_into(name, {key: value for key, value in vars(module).items() if key != "_modules"})
    return found


@pytest.fixture
def decoder() -> nn.ModuleList:
    torch.manual_seed(0)
    return nn.ModuleList(DecoderBlock(SHAPE) for _ in range(3)).eval()


def decode(
    decoder: nn.ModuleList, x: torch.Tensor, encoded: torch.Tensor, record: Recorder | None
) -> torch.Tensor:
    below = record.under("decoder") if record is not None else None
    for number, block in enumerate(decoder):
        x = block(
            x,
            block.project_kv(encoded),
            mask=causal_mask(x.size(1)),
            record=below.under(number) if below is not None else None,
        )
    return x


def test_layers_are_named_by_their_path_in_the_order_of_computation(decoder):
    record = Recorder()
    decode(decoder, torch.randn(2, 3, 16), torch.randn(2, 5, 16), record)
    assert record.names == [f"decoder.{n}.{kind}" for n in range(3) for kind in ("self", "cross")]
    assert record["decoder.2.self"].shape == (2, 4, 3, 3)
    assert record["decoder.2.cross"].shape == (2, 4, 3, 5)
    assert dict(record.items()).keys() == set(record.names)
    assert "decoder.2.cross (2, 4, 3, 5)" in repr(record)


def test_an_encoder_block_names_its_self_attention():
    record = Recorder()
    EncoderBlock(SHAPE)(torch.randn(1, 3, 16), record=record.under("encoder").under(0))
    assert record.names == ["encoder.0.self"]


def test_heads_as_arrays_have_names_of_their_own(decoder):
    record = Recorder()
    decode(decoder, torch.randn(2, 3, 16), torch.randn(2, 5, 16), record)
    arrays = record.numpy()
    assert len(arrays) == 3 * 2 * 4
    third = arrays["decoder.2.cross.head3"]
    assert isinstance(third, np.ndarray)
    assert third.shape == (2, 3, 5)
    assert third.dtype == np.float32
    np.testing.assert_array_equal(third, record["decoder.2.cross"][:, 3].numpy())


def test_what_is_recorded_are_the_weights_used():
    torch.manual_seed(0)
    attention, x, record = MultiHead(8, 2).double(), torch.randn(2, 4, 8, dtype=torch.float64), Recorder()
    mixed = attention(x, attention.project_kv(x), mask=causal_mask(4), record=record.under("a"))
    weights = record["a"]
    assert not weights.requires_grad
    rebuilt = attention.output((weights @ attention.project_kv(x).values).transpose(1, 2).flatten(2))
    torch.testing.assert_close(rebuilt, mixed, rtol=0, atol=1e-10)


def test_recording_leaves_the_output_unchanged(decoder):
    x, encoded = torch.randn(2, 3, 16), torch.randn(2, 5, 16)
    with torch.no_grad():
        unwatched = decode(decoder, x, encoded, None)
        watched = decode(decoder, x, encoded, Recorder())
    torch.testing.assert_close(watched, unwatched, rtol=0, atol=1e-6)


@pytest.mark.parametrize("recorded", [False, True])
def test_nothing_is_left_on_the_modules(decoder, recorded):
    before = tensors_on(decoder)
    attributes = {name: set(vars(module)) for name, module in decoder.named_modules()}
    assert before  # the parameters, at least
    decode(decoder, torch.randn(2, 3, 16), torch.randn(2, 5, 16), Recorder() if recorded else None)
    assert tensors_on(decoder) == before
    assert {name: set(vars(module)) for name, module in decoder.named_modules()} == attributes


def test_steps_are_joined_and_earlier_ones_padded_with_zeros():
    torch.manual_seed(0)
    attention, x = MultiHead(8, 2).eval(), torch.randn(2, 5, 8)
    whole, stepwise, cache = Recorder(), Recorder(), KvCache()
    with torch.no_grad():
        attention(x, attention.project_kv(x), mask=causal_mask(5), record=whole.under("a"))
        for i in range(5):
            step = x[:, i : i + 1]
            cache = cache.extend(attention.project_kv(step, start=i))
            attention(step, cache.memory, record=stepwise.under("a"))
    assert stepwise["a"].shape == (2, 2, 5, 5)
    assert (stepwise["a"].triu(1) == 0).all()
    torch.testing.assert_close(stepwise["a"], whole["a"], rtol=0, atol=1e-6)


def test_steps_of_several_queries_are_joined_too():
    record = Recorder()
    record.under("a")(torch.full((1, 1, 2, 2), 0.5))
    record.under("a")(torch.full((1, 1, 1, 4), 0.25))
    assert record["a"][0, 0].tolist() == [[0.5, 0.5, 0, 0], [0.5, 0.5, 0, 0], [0.25] * 4]


def test_an_unknown_name_is_refused_with_the_known_ones():
    record = Recorder()
    with pytest.raises(KeyError, match="'a'; recorded: none"):
        record["a"]
    record.under("encoder").under(0)(torch.ones(1, 1, 1, 1))
    record.under("encoder").under(1)(torch.ones(1, 1, 1, 1))
    with pytest.raises(KeyError, match=r"'decoder\.0'; recorded: encoder\.0, encoder\.1"):
        record["decoder.0"]


def test_an_empty_recorder_still_records():
    """`record and record.under(...)` must not take an empty record for none."""
    record = Recorder()
    assert bool(record)
    assert bool(record.under("a"))
    EncoderBlock(SHAPE)(torch.randn(1, 2, 16), record=record)
    assert record.names == ["self"]


def test_weights_without_a_name_are_refused():
    with pytest.raises(ValueError, match=r"recorder\.under\(name\)"):
        Recorder()(torch.ones(1, 1, 1, 1))


def test_views_share_one_record():
    record = Recorder()
    record.under("a").under("b")(torch.ones(1, 1, 1, 1))
    assert record.names == record.under("elsewhere").names == ["a.b"]
