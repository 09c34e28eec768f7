"""Decoding states: stepping leaves the old state as it was, and it may be stepped again by other tokens."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from regard.config.models import GptConfig, RnnConfig, TransformerConfig
from regard.nn.build import build, build_gpt
from regard.nn.ensemble import Ensemble
from regard.nn.knn import Datastore, KnnModel
from regard.nn.ngram import count_ngrams

VOCABULARY = 30


def transformer(**changes: Any) -> nn.Module:
    config = TransformerConfig(encoder_layers=1, decoder_layers=2, d_model=16, heads=2, d_ff=32, **changes)
    return build(config, VOCABULARY, VOCABULARY, 0)


def rnn(**changes: Any) -> nn.Module:
    return build(RnnConfig("rnn", embedding=8, hidden=8, **changes), VOCABULARY, VOCABULARY, 0)


def gpt(max_length: int = 64) -> nn.Module:
    config = GptConfig(layers=2, d_model=16, heads=2, d_ff=32, max_length=max_length)
    return build_gpt(config, "language", VOCABULARY)


def ngram() -> nn.Module:
    chance = np.random.default_rng(1)
    return count_ngrams([chance.integers(0, VOCABULARY, 300)], VOCABULARY, 3)


MODELS: dict[str, Callable[[], nn.Module]] = {
    "transformer": transformer,
    "transformer, rotary": lambda: transformer(position="rotary"),
    "transformer, relative": lambda: transformer(position="relative"),
    "rnn without attention": lambda: rnn(cell="lstm"),
    "bahdanau": lambda: rnn(attention="bahdanau"),
    "luong, input feeding": lambda: rnn(attention="luong", input_feeding=True),
    "gpt": gpt,
    "gpt, sliding window": lambda: gpt(max_length=6),
    "ngram": ngram,
    "ensemble": lambda: Ensemble([transformer(), rnn(attention="luong")]),
    "kNN": lambda: KnnModel(
        transformer(),  # type: ignore[arg-type]
        Datastore(torch.randn(20, 16), torch.arange(20), count=3, weight=0.3, sharpness=1.0),
    ),
}


@pytest.mark.parametrize("name", list(MODELS))
@torch.no_grad()
def test_an_old_state_can_be_stepped_again(name: str) -> None:
    torch.manual_seed(0)
    model: Any = MODELS[name]().eval()
    source = torch.tensor([[5, 6, 7, 1], [8, 9, 1, 0]] if "gpt" not in name else [[5, 6, 7, 1], [8, 9, 1, 2]])
    if name == "ngram":
        source = source[:, :3]
    tokens = torch.randint(4, VOCABULARY, (6, 2))

    def after(steps: list[torch.Tensor]) -> tuple[torch.Tensor, Any]:
        """The scores of a path by itself, from the start."""
        state = model.start(source)
        for step in steps:
            scores, state = model.step(step, state)
        return scores, state

    _, old = after([tokens[0], tokens[1]])
    one, left = model.step(tokens[2], old)
    two, right = model.step(tokens[3], old)
    three, _ = model.step(tokens[4], left)
    four, _ = model.step(tokens[5], right)
    again, _ = model.step(tokens[2], old)
    rows = torch.tensor([1, 1, 0])
    chosen, _ = model.step(tokens[4][rows], left.select(rows))
    late, _ = model.step(tokens[5], left)
    prefix = [tokens[0], tokens[1]]
    for scores, path in (
        (one, [*prefix, tokens[2]]),
        (two, [*prefix, tokens[3]]),
        (three, [*prefix, tokens[2], tokens[4]]),
        (four, [*prefix, tokens[3], tokens[5]]),
        (again, [*prefix, tokens[2]]),
        (late, [*prefix, tokens[2], tokens[5]]),
    ):
        torch.testing.assert_close(scores, after(path)[0], rtol=0, atol=1e-6)
    torch.testing.assert_close(chosen, three[rows], rtol=0, atol=1e-5)
    assert name.startswith("ngram") or not torch.allclose(one, two, atol=1e-4)
