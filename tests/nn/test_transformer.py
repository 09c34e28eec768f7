"""The Transformer: sizes as the paper has them, cached steps equal the full pass, padding changes nothing."""

import pytest
import torch

from regard.config.models import TransformerConfig
from regard.engine.forward import seq2seq_hidden
from regard.nn import Packed, Recorder
from regard.nn.transformer import Transformer

POSITIONS = ["sinusoidal", "learned", "relative", "rotary", "alibi", "none"]
PAD = 2


def small(**changes) -> Transformer:
    torch.manual_seed(0)
    shape = {"encoder_layers": 2, "decoder_layers": 2, "d_model": 32, "heads": 4, "d_ff": 48, "max_length": 40}
    return Transformer(TransformerConfig(**{**shape, **changes}), 50, 50, PAD).eval()


def ids(*shape: int) -> torch.Tensor:
    return torch.randint(4, 50, shape, generator=torch.Generator().manual_seed(1))


def parameters(size: str, vocabulary: int) -> int:
    with torch.device("meta"):
        model = Transformer(TransformerConfig(size=size), vocabulary, vocabulary, PAD)
    return sum(each.numel() for each in model.parameters())


def test_base_and_big_have_the_papers_sizes() -> None:
    assert parameters("base", 37000) == pytest.approx(65e6, rel=0.03)
    assert parameters("big", 37000) == pytest.approx(213e6, rel=0.03)


@pytest.mark.parametrize("position", POSITIONS)
@pytest.mark.parametrize("norm", ["pre", "post"])
def test_cached_steps_equal_the_full_pass(position: str, norm: str) -> None:
    model = small(position=position, norm=norm).double()
    source, target = ids(3, 7), ids(3, 9)
    with torch.no_grad():
        full = model(source, target)
        state = model.start(source)
        for place in range(target.size(1)):
            scores, state = model.step(target[:, place], state)
            assert torch.allclose(scores, full[:, place], atol=1e-10)


@pytest.mark.parametrize("position", POSITIONS)
def test_padding_changes_nothing(position: str) -> None:
    model = small(position=position).double()
    source, target = ids(2, 6), ids(2, 5)
    wide_source = torch.cat([source, torch.full((2, 4), PAD)], 1)
    wide_target = torch.cat([target, torch.full((2, 3), PAD)], 1)
    with torch.no_grad():
        assert torch.allclose(model(wide_source, wide_target)[:, :5], model(source, target), atol=1e-10)
        narrow, _ = model.step(target[:, 0], model.start(source))
        wide, _ = model.step(target[:, 0], model.start(wide_source))
        assert torch.allclose(narrow, wide, atol=1e-10)


def test_no_token_attends_to_later_tokens() -> None:
    model = small()
    source, target = ids(1, 6), ids(1, 8)
    changed = target.clone()
    changed[0, 5] = 4 if target[0, 5] != 4 else 5
    with torch.no_grad():
        before, after = model(source, target), model(source, changed)
    assert torch.equal(before[:, :5], after[:, :5])
    assert not torch.allclose(before[:, 5:], after[:, 5:])


def test_a_selected_state_continues_its_sentence() -> None:
    model = small().double()
    source, target = ids(3, 6), ids(3, 4)
    rows = torch.tensor([2, 0, 2])
    with torch.no_grad():
        state = model.start(source)
        for place in range(3):
            _, state = model.step(target[:, place], state)
        chosen, _ = model.step(target[rows, 3], state.select(rows))
        assert torch.allclose(chosen, model(source, target)[rows, 3], atol=1e-10)


def test_recording_names_every_layer_and_leaves_the_result() -> None:
    model = small()
    source, target = ids(2, 6), ids(2, 5)
    record = Recorder()
    with torch.no_grad():
        assert torch.allclose(model(source, target, record), model(source, target), atol=1e-5)
    assert record.names == [
        "encoder.0.self", "encoder.1.self",
        "decoder.0.self", "decoder.0.cross", "decoder.1.self", "decoder.1.cross",
    ]  # fmt: skip
    assert record["decoder.1.cross"].shape == (2, 4, 5, 6)
    assert torch.allclose(record["decoder.1.cross"].sum(-1), torch.ones(2, 4, 5), atol=1e-5)


@pytest.mark.parametrize(("tie_embeddings", "tables"), [("all", 1), ("output", 2), ("none", 3)])
def test_which_tables_are_one(tie_embeddings: str, tables: int) -> None:
    model = small(tie_embeddings=tie_embeddings)
    assert sum(each.shape == (50, 32) for each in model.parameters()) == tables
    assert model.output[0] is (
        model.target_embedding.weight if tie_embeddings != "none" else model.output_weight
    )


@pytest.mark.parametrize("position", POSITIONS)
def test_every_parameter_learns(position: str) -> None:
    model = small(position=position, tie_embeddings="none")
    model(ids(2, 6), ids(2, 5)).square().sum().backward()
    assert [name for name, each in model.named_parameters() if each.grad is None or not each.grad.any()] == []


def test_packed_hidden_states_are_those_of_the_tokens() -> None:
    """Packed by the engine or padded, also where the gold text is shorter than the target given."""
    torch.manual_seed(0)
    made = Transformer(
        TransformerConfig(encoder_layers=1, decoder_layers=1, d_model=16, heads=2, d_ff=32), 30, 30, 2
    )
    made.eval()
    source, target = torch.randint(4, 30, (3, 6)), torch.randint(4, 30, (3, 7))
    source[1, 4:] = target[1, 5:] = target[2, 2:] = 2
    packed, written = (Packed.from_padded(each, each != 2) for each in (source, target))
    expected = made.hidden(source, target)[target != 2]
    assert torch.allclose(seq2seq_hidden(made, packed, written).values, expected, atol=1e-5)
