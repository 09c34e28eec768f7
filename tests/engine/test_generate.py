"""Native GPT generation: the scores of the plain model, each row bit-identical in any batch."""

import pytest
import torch

from regard.config.models import GptConfig
from regard.engine.generate import NativeGpt, native_gpt
from regard.nn.build import build_gpt
from regard.nn.gpt import GptLanguageModel


def model(**changes: object) -> GptLanguageModel:
    torch.manual_seed(0)
    shape = {"layers": 2, "d_model": 32, "heads": 2, "d_ff": 64, "max_length": 16}
    made = build_gpt(GptConfig(**{**shape, **changes}), "language", 50).eval()  # type: ignore[arg-type]
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    assert isinstance(made, GptLanguageModel)
    return made


def native_of(plain: GptLanguageModel) -> NativeGpt:
    native = native_gpt(plain)
    assert native is not None
    return native


@pytest.mark.parametrize("activation", ["gelu-tanh", "relu", "gelu", "silu", "swiglu"])
@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("position", ["learned", "sinusoidal", "rotary"])
@torch.no_grad()
def test_scores_equal_the_plain_models_also_beyond_the_window(
    position: str, norm: str, activation: str
) -> None:
    plain = model(position=position, norm=norm, activation=activation)
    native, ids = native_of(plain), torch.randint(50, (3, 40))
    states = plain.start(ids[:, :5]), native.start(ids[:, :5])
    for index in range(5, 40):
        wanted, first = plain.step(ids[:, index], states[0])
        actual, second = native.step(ids[:, index], states[1])
        states = first, second
        assert torch.allclose(actual, wanted, atol=1e-4), index


@torch.no_grad()
def test_rows_can_be_selected_repeated_and_dropped() -> None:
    plain = model()
    native, ids = native_of(plain), torch.randint(50, (2, 12))
    _, state = native.step(ids[:, 5], native.start(ids[:, :5]))
    for rows in ([1, 0, 1, 1], [3, 0, 2], [1]):
        state = state.select(torch.tensor(rows))
        scores, state = native.step(torch.arange(len(rows)), state)
        assert torch.allclose(scores, plain(state.ids)[:, -1], atol=1e-4)


@torch.no_grad()
def test_a_row_is_bit_identical_in_any_batch() -> None:
    native, ids = native_of(model()), torch.randint(50, (9, 8))
    scores, _ = native.step(ids[:, 7], native.start(ids[:, :7]))
    for row in range(9):
        alone, _ = native.step(ids[row : row + 1, 7], native.start(ids[row : row + 1, :7]))
        assert torch.equal(alone[0], scores[row])


@pytest.mark.parametrize("changes", [{"position": "alibi"}, {"position": "relative"}, {"score": "general"}])
def test_unsupported_models_use_the_plain_model(changes: dict[str, object]) -> None:
    assert native_gpt(model(**changes)) is None
    assert native_gpt(model().train()) is None


@torch.no_grad()
def test_an_old_state_can_be_stepped_again() -> None:
    plain = model()
    runner = native_of(plain)
    source, tokens = torch.randint(50, (2, 4)), torch.randint(50, (6, 2))
    _, old = runner.step(tokens[0], runner.start(source))
    one, left = runner.step(tokens[1], old)
    two, right = runner.step(tokens[2], old)
    three, _ = runner.step(tokens[3], left)
    four, _ = runner.step(tokens[4], right)
    again, _ = runner.step(tokens[1], old)
    rows = torch.tensor([1, 1, 0])
    chosen, _ = runner.step(tokens[3][rows], left.select(rows))
    for scores, path in (
        (one, (0, 1)),
        (two, (0, 2)),
        (three, (0, 1, 3)),
        (four, (0, 2, 4)),
        (again, (0, 1)),
    ):
        whole = torch.cat([source, tokens[list(path)].T], dim=1)
        assert torch.allclose(scores, plain(whole)[:, -1], atol=1e-4)
    assert torch.allclose(chosen, three[rows], atol=1e-5)
