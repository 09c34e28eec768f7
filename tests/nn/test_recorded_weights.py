"""Recorded weights are the plain path's for every kind of model, and recording leaves the output unchanged."""

from collections import defaultdict

import numpy as np
import pytest
import torch
from torch import nn

from regard.config.models import RnnConfig, TransformerConfig
from regard.nn import Attention, Recorder, causal_mask
from regard.nn.attention import split_heads
from regard.nn.build import build
from regard.nn.kernel_regression import KernelRegression

PAD, VOCABULARY = 2, 30
TRANSFORMERS = ["sinusoidal", "learned", "relative", "rotary", "alibi", "none"]
RNNS = [
    {"attention": "bahdanau", "score": "additive"},
    {"attention": "bahdanau", "score": "concat", "bidirectional": True},
    {"attention": "luong", "score": "dot"},
    {"attention": "luong", "score": "general", "input_feeding": True},
    {"attention": "luong", "score": "concat", "reverse": True},
]


def softmax(scores: np.ndarray, mask: np.ndarray) -> np.ndarray:
    powers = np.where(mask, np.exp(scores - scores.max(-1, keepdims=True)), 0.0)
    return powers / powers.sum(-1, keepdims=True)


class Watched:
    """The weights of every attention of a model, computed beside it from what went in; nothing is recorded."""

    def __init__(self, model: nn.Module) -> None:
        self.weights: dict[str, list[np.ndarray]] = defaultdict(list)
        for name, module in model.named_modules():
            if isinstance(module, Attention):
                module.register_forward_hook(self.hook(name), with_kwargs=True)

    def hook(self, name: str):
        def compute(attention: Attention, given, named, output) -> None:
            assert named.get("record") is None
            query, memory = given
            places = memory.positions[max(0, memory.length - query.size(-2)) :]
            asked = attention.position.rotate(split_heads(attention.query(query), attention.heads), places)
            scores = attention.score.compare(asked, memory.keys)
            bias = attention.position.bias(asked, places, memory.positions)
            scores = scores if bias is None else scores + bias
            mask = named.get("mask")
            seen = torch.ones(1, 1, 1, dtype=torch.bool) if mask is None else mask
            self.weights[name].append(softmax(scores.numpy(), seen.unsqueeze(1).numpy()))

        return compute

    def joined(self) -> list[np.ndarray]:
        """In the order in which the layers looked; the steps of a decoder one after another."""
        return [np.concatenate(steps, axis=-2) for steps in self.weights.values()]


def pair_models() -> list:
    size = {"encoder_layers": 2, "decoder_layers": 2, "d_model": 32, "heads": 4, "d_ff": 48, "max_length": 40}
    transformers = [TransformerConfig(position=position, **size) for position in TRANSFORMERS]
    recurrent = [RnnConfig("rnn", embedding=12, hidden=16, **kind) for kind in RNNS]
    return [
        pytest.param(
            each, id=f"{each.kind}-{getattr(each, 'position', None) or f'{each.attention}-{each.score}'}"
        )
        for each in (*transformers, *recurrent)
    ]


@pytest.mark.parametrize("config", pair_models())
def test_a_model_of_pairs(config) -> None:
    torch.manual_seed(0)
    model = build(config, VOCABULARY, VOCABULARY, PAD).eval()
    source, target = torch.randint(4, VOCABULARY, (2, 7)), torch.randint(4, VOCABULARY, (2, 5))
    source[1, 5:] = PAD
    record = Recorder()
    with torch.no_grad():
        recorded = model(source, target, record)
        watched = Watched(model)
        unrecorded = model(source, target)
    torch.testing.assert_close(recorded, unrecorded, rtol=1e-6, atol=1e-6)
    expected = watched.joined()
    assert len(record.names) == len(expected) > 0
    for name, weights in zip(record.names, expected, strict=True):
        assert name.endswith(("self", "cross"))
        np.testing.assert_allclose(record[name].numpy(), weights, rtol=0, atol=1e-6)
    cross = record[record.names[-1]]
    assert (cross[1, ..., 5:] == 0).all()
    np.testing.assert_allclose(cross.sum(-1).numpy(), 1.0, atol=1e-5)


def test_kernel_regression() -> None:
    torch.manual_seed(0)
    model, places, record = (
        KernelRegression.from_points(torch.rand(9), torch.rand(9), "fixed", 2.0),
        torch.rand(4),
        Recorder(),
    )
    recorded = model(places, record=record)
    watched = Watched(model)
    torch.testing.assert_close(recorded, model(places), rtol=0, atol=1e-6)
    np.testing.assert_allclose(record["kernel"].numpy(), watched.joined()[0], rtol=0, atol=1e-6)


def test_a_watch_that_forgot_the_mask_would_be_noticed() -> None:
    scores, mask = np.zeros((3, 3)), causal_mask(3)[0].numpy()
    assert softmax(scores, mask)[0].tolist() == [1, 0, 0]
    assert softmax(scores, mask)[2] == pytest.approx([1 / 3] * 3)
