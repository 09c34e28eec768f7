"""Ensembles: averaged scores, separate states."""

import pytest
import torch
from torch import nn

from regard.config.models import RnnConfig, TransformerConfig
from regard.decoding import BeamSearchConfig, DecodingConstraints, search
from regard.nn import Recorder
from regard.nn.build import build
from regard.nn.ensemble import Ensemble
from regard.tokenization import Tokenizer

WORDS = 30
SOURCE = torch.tensor([[5, 6, 7, 1], [8, 9, 10, 1]])
TOKENS = torch.tensor([0, 0])
LIMITS = DecodingConstraints(
    Tokenizer.begin, Tokenizer.end, (Tokenizer.begin, Tokenizer.padding, Tokenizer.unknown)
)


def member(seed: int, kind: str = "transformer") -> nn.Module:
    torch.manual_seed(seed)
    config = (
        TransformerConfig(encoder_layers=1, decoder_layers=2, d_model=16, heads=2, d_ff=32)
        if kind == "transformer"
        else RnnConfig("rnn", embedding=16, hidden=24, attention="bahdanau")
    )
    return build(config, WORDS, WORDS, Tokenizer.padding).eval()


def test_an_ensemble_of_one_equals_its_model() -> None:
    one = member(1)
    options = BeamSearchConfig(beam=3, nbest=3)
    assert search(Ensemble([one]), SOURCE, LIMITS, options) == search(one, SOURCE, LIMITS, options)


@pytest.mark.parametrize("other", ["transformer", "rnn"])
def test_probabilities_are_the_geometric_mean(other: str) -> None:
    members = [member(1), member(2, other)]
    both = Ensemble(members)
    after = torch.tensor([7, 8])
    with torch.no_grad():
        _, state = both.step(TOKENS, both.start(SOURCE))
        scores, _ = both.step(after, state)
        alone = []
        for model in members:
            _, known = model.step(TOKENS, model.start(SOURCE))
            alone.append(model.step(after, known)[0].softmax(-1))
    mean = (alone[0] * alone[1]).sqrt()
    assert torch.allclose(scores.softmax(-1), mean / mean.sum(-1, keepdim=True), atol=1e-6)


def test_select_applies_to_the_state_of_every_member() -> None:
    both = Ensemble([member(1), member(2, "rnn")])
    rows = torch.tensor([1, 0, 1])
    with torch.no_grad():
        _, state = both.step(TOKENS, both.start(SOURCE))
        chosen, _ = both.step(torch.tensor([4, 5, 6]), state.select(rows))
        _, again = both.step(TOKENS[:1].expand(3), both.start(SOURCE[rows]))
        direct, _ = both.step(torch.tensor([4, 5, 6]), again)
    assert torch.allclose(chosen, direct, atol=1e-6)


def test_recorded_weights_are_named_by_member() -> None:
    record = Recorder()
    both = Ensemble([member(1), member(2)])
    with torch.no_grad():
        both.step(TOKENS, both.start(SOURCE), record)
    assert {name.split(".")[0] for name in record.names} == {"1", "2"}


def test_an_empty_ensemble_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one"):
        Ensemble([])
