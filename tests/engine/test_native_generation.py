"""The next token without leaving C: the scores of the plain model, row by row the same bits in any company."""

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
    for each in made.parameters():
        torch.nn.init.normal_(each, std=0.3)
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
def test_scores_are_those_of_the_plain_model_beyond_the_window_too(
    position: str, norm: str, activation: str
) -> None:
    plain = model(position=position, norm=norm, activation=activation)
    native, ids = native_of(plain), torch.randint(50, (3, 40))
    states = plain.start(ids[:, :5]), native.start(ids[:, :5])
    for place in range(5, 40):
        wanted, first = plain.step(ids[:, place], states[0])
        found, second = native.step(ids[:, place], states[1])
        states = first, second
        assert torch.allclose(found, wanted, atol=1e-4), place


@torch.no_grad()
def test_rows_can_be_chosen_repeated_and_left_out() -> None:
    plain = model()
    native, ids = native_of(plain), torch.randint(50, (2, 12))
    _, state = native.step(ids[:, 5], native.start(ids[:, :5]))
    for rows in ([1, 0, 1, 1], [3, 0, 2], [1]):
        state = state.select(torch.tensor(rows))
        scores, state = native.step(torch.arange(len(rows)), state)
        assert torch.allclose(scores, plain(state.ids)[:, -1], atol=1e-4)


@torch.no_grad()
def test_a_row_has_the_same_bits_in_any_company() -> None:
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
