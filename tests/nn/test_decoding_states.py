"""A decoding state stays valid after a step: the same prefix can be continued by other tokens."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from regard.config.models import GptConfig, RnnConfig, TransformerConfig
from regard.engine.generate import native_gpt
from regard.engine.library import kernels
from regard.nn.build import build, build_gpt
from regard.nn.ensemble import Ensemble
from regard.nn.gpt import GptLanguageModel
from regard.nn.knn import Datastore, KnnModel
from regard.tokenization import Tokenizer

VOCABULARY, WIDTH, STEPS = 30, 16, 4
SOURCE = torch.tensor([[5, 6, 7, 8], [9, 10, 11, 12]])


def transformer(seed: int = 1, **changes: Any) -> nn.Module:
    torch.manual_seed(seed)
    sizes = {
        "encoder_layers": 1,
        "decoder_layers": 2,
        "d_model": WIDTH,
        "heads": 2,
        "d_ff": 32,
        "max_length": 200,
    }
    return shaken(build(TransformerConfig(**{**sizes, **changes}), VOCABULARY, VOCABULARY, Tokenizer.padding))


def rnn(**changes: Any) -> nn.Module:
    torch.manual_seed(2)
    config = RnnConfig("rnn", embedding=16, hidden=24, **changes)
    return shaken(build(config, VOCABULARY, VOCABULARY, Tokenizer.padding))


def gpt(**changes: Any) -> GptLanguageModel:
    torch.manual_seed(3)
    config = GptConfig(**{"layers": 2, "d_model": WIDTH, "heads": 2, "d_ff": 32, "max_length": 12, **changes})
    model = shaken(build_gpt(config, "language", VOCABULARY))
    assert isinstance(model, GptLanguageModel)
    return model


def shaken(model: nn.Module) -> nn.Module:
    for each in model.parameters():
        nn.init.normal_(each, std=0.3)
    return model.eval()


def knn() -> nn.Module:
    torch.manual_seed(4)
    store = Datastore(torch.randn(20, WIDTH), torch.randint(4, 30, (20,)), count=4, weight=0.4, sharpness=0.5)
    return KnnModel(transformer(), store)


MODELS = {
    "transformer": transformer,
    "transformer, rotary": lambda: transformer(position="rotary"),
    "transformer, relative": lambda: transformer(position="relative"),
    "transformer, additive": lambda: transformer(score="additive"),
    "gpt": gpt,
    "rnn": lambda: rnn(attention="none"),
    "bahdanau": lambda: rnn(attention="bahdanau"),
    "luong with input feeding": lambda: rnn(attention="luong", input_feeding=True),
    "lstm": lambda: rnn(attention="luong", cell="lstm", layers=2),
    "ensemble": lambda: Ensemble([transformer(1), rnn(attention="bahdanau")]),
    "knn": knn,
    "native gpt": lambda: native_gpt(gpt()),
}


@pytest.fixture(params=list(MODELS))
def model(request: pytest.FixtureRequest) -> Any:
    if request.param == "native gpt" and kernels() is None:
        pytest.skip("there is no compiled library")
    return MODELS[request.param]()


def replay(model: Any, tokens: Tensor, rows: Tensor | None = None) -> Tensor:
    """The last scores after tokens (batch, length), from a fresh state."""
    state = model.start(SOURCE if rows is None else SOURCE[rows])
    for column in tokens.unbind(1):
        scores, state = model.step(column, state)
    return scores


def tokens(seed: int, length: int) -> Tensor:
    return torch.randint(4, VOCABULARY, (2, length), generator=torch.Generator().manual_seed(seed))


def close(found: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)


@torch.no_grad()
def test_a_state_can_be_continued_by_different_tokens(model: Any) -> None:
    """Three branches from one state, the first taken up again last, and one branch from a branch."""
    prefix = tokens(0, STEPS)
    state = model.start(SOURCE)
    for column in prefix.unbind(1):
        _, state = model.step(column, state)
    branches = [tokens(seed, 2) for seed in (1, 2, 3)]
    stepped = [model.step(branch[:, 0], state) for branch in branches]
    for branch, (scores, _) in zip(branches, stepped, strict=True):
        close(scores, replay(model, torch.cat([prefix, branch[:, :1]], 1)))
    for branch, (_, after) in zip(branches, stepped, strict=True):
        for column in (branch[:, 1], branches[0][:, 1].flip(0)):
            scores, _ = model.step(column, after)
            close(scores, replay(model, torch.cat([prefix, branch[:, :1], column.unsqueeze(1)], 1)))
    scores, _ = model.step(branches[0][:, 0], state)  # the old state, after all of this
    close(scores, stepped[0][0])


@torch.no_grad()
def test_a_step_changes_nothing_in_the_old_state(model: Any) -> None:
    """Also for selected rows that continue beyond the capacity of a buffer."""
    prefix = tokens(0, 2)
    state = model.start(SOURCE)
    for column in prefix.unbind(1):
        _, state = model.step(column, state)
    before, _ = model.step(prefix[:, 0], state)
    rows = torch.tensor([1, 0, 1])
    other = state.select(rows)
    for number in range(9):
        _, other = model.step(torch.full((3,), 4 + number), other)
    _, after = model.step(prefix[:, 1], state)
    scores, _ = model.step(prefix[:, 0], state)
    close(scores, before)
    scores, _ = model.step(prefix[:, 1], after)
    close(scores, replay(model, torch.cat([prefix, prefix[:, 1:], prefix[:, 1:]], 1)))


@torch.no_grad()
def test_a_start_can_be_stepped_twice(model: Any) -> None:
    state = model.start(SOURCE)
    first, _ = model.step(torch.tensor([7, 8]), state)
    second, _ = model.step(torch.tensor([9, 4]), state)
    close(first, replay(model, torch.tensor([[7], [8]])))
    close(second, replay(model, torch.tensor([[9], [4]])))
    assert not torch.allclose(first, second, atol=1e-3)


@torch.no_grad()
def test_a_gpts_full_window_slides_in_every_branch() -> None:
    for model in [gpt(), *([native_gpt(gpt())] if kernels() is not None else [])]:
        assert model is not None
        prefix = tokens(0, 8)  # with the prompt of 4, a full window of 12
        state = model.start(SOURCE)
        for column in prefix.unbind(1):
            _, state = model.step(column, state)
        for seed in (1, 2):
            branch = tokens(seed, 2)
            scores, after = model.step(branch[:, 0], state)
            close(scores, replay(model, torch.cat([prefix, branch[:, :1]], 1)))
            scores, _ = model.step(branch[:, 1], after)
            close(scores, replay(model, torch.cat([prefix, branch], 1)))
