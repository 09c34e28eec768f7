"""The convolutional model: the paper's formulas in numpy, steps equal the full pass, padding changes nothing."""

import math

import numpy as np
import pytest
import torch

from regard.config.models import ConvS2SConfig
from regard.config.schema import build as read
from regard.errors import RecipeError, RegardError
from regard.interop import huggingface_marian, onnx_graphs
from regard.nn import Recorder
from regard.nn.build import build
from regard.nn.convs2s import ConvS2S
from regard.tasks.registry import load_recipe

PAD = 2
VOCABULARY = 30


def small(**changes) -> ConvS2S:
    torch.manual_seed(0)
    sizes = {"embedding": 6, "hidden": 8, "encoder_layers": 2, "decoder_layers": 2, "max_length": 20, **changes}
    model = build(ConvS2SConfig("convs2s", **sizes), VOCABULARY, VOCABULARY, PAD).double().eval()
    with torch.no_grad():  # no part may hide behind a start at zero
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    return model


def ids(*shape: int) -> torch.Tensor:
    return torch.randint(4, VOCABULARY, shape, generator=torch.Generator().manual_seed(1))


# ---- the formulas, written out in numpy for one sentence


def array(tensor: torch.Tensor) -> np.ndarray:
    return tensor.detach().numpy()


def projected(layer, x: np.ndarray) -> np.ndarray:
    return x @ array(layer.weight).T + array(layer.bias)


def gated(layer, x: np.ndarray) -> np.ndarray:
    """v([A B]) = A * sigmoid(B) of each window of `kernel` positions."""
    weight, bias = array(layer.convolution.weight), array(layer.convolution.bias)
    kernel = weight.shape[2]
    rows = []
    for first in range(len(x) - kernel + 1):
        both = sum(weight[:, :, offset] @ x[first + offset] for offset in range(kernel)) + bias
        a, b = np.split(both, 2)
        rows.append(a / (1 + np.exp(-b)))
    return np.stack(rows)


def reference(model: ConvS2S, source: list[int], target: list[int]) -> np.ndarray:
    def embedded(embedding, position, tokens: list[int]) -> np.ndarray:
        return array(embedding.weight)[tokens] * embedding.scale + array(position.table)[: len(tokens)]

    read = embedded(model.source_embedding, model.source_position, source)
    written = embedded(model.target_embedding, model.target_position, target)
    half, encoder, decoder = math.sqrt(0.5), model.encoder, model.decoder
    hidden = projected(encoder.widen, read)
    zeros = np.zeros((encoder.margin, hidden.shape[1]))
    for layer in encoder.layers:
        hidden = (hidden + gated(layer, np.concatenate([zeros, hidden, zeros]))) * half
    keys = projected(encoder.output, hidden)
    values = (keys + read) * half
    hidden = projected(decoder.widen, written)
    for layer in decoder.layers:
        before = np.zeros((decoder.before, hidden.shape[1]))
        convolved = gated(layer.convolution, np.concatenate([before, hidden]))
        query = (projected(layer.query, convolved) + written) * half
        scores = query @ keys.T / math.sqrt(keys.shape[1])
        weights = np.exp(scores - scores.max(1, keepdims=True))
        weights /= weights.sum(1, keepdims=True)
        context = weights @ values * math.sqrt(len(source))
        hidden = ((convolved + projected(layer.output, context)) * half + hidden) * half
    return projected(decoder.output, hidden)


@pytest.mark.parametrize("kernel", [1, 3, 5])
def test_it_is_what_the_paper_says(kernel: int) -> None:
    model = small(kernel=kernel)
    source, target = ids(1, 7), ids(1, 5)
    np.testing.assert_allclose(
        array(model.hidden(source, target))[0],
        reference(model, source[0].tolist(), target[0].tolist()),
        rtol=1e-10,
        atol=1e-12,
    )


@torch.no_grad()
@pytest.mark.parametrize("kernel", [1, 3, 5])
def test_steps_equal_the_full_pass_and_leave_old_states_valid(kernel: int) -> None:
    model = small(kernel=kernel)
    source, target = ids(3, 7), ids(3, 6)
    source[1, 4:] = PAD
    whole = model(source, target)
    state = model.start(source)
    for place in range(target.size(1)):
        again, _ = model.step(target[:, place], state)
        scores, state = model.step(target[:, place], state)
        assert torch.equal(scores, again)
        torch.testing.assert_close(scores, whole[:, place])
    rows = torch.tensor([2, 2, 0])
    chosen, _ = model.step(target[rows, 0], state.select(rows))
    scores, _ = model.step(target[:, 0], state)
    torch.testing.assert_close(chosen, scores[rows])


@torch.no_grad()
def test_padding_changes_nothing() -> None:
    model = small()
    source, target = ids(2, 9), ids(2, 5)
    source[0, 5:] = PAD
    alone = model(source[:1, :5], target[:1])
    torch.testing.assert_close(model(source, target)[:1], alone)


def test_the_future_is_not_seen() -> None:
    model = small()
    source, target = ids(1, 6), ids(1, 6)
    changed = target.clone()
    changed[0, 4:] = 5
    assert torch.equal(model(source, target)[:, :4], model(source, changed)[:, :4])


def test_attention_of_every_layer_is_recorded() -> None:
    model, record = small(), Recorder()
    source = ids(2, 7)
    source[1, 4:] = PAD
    model.hidden(source, ids(2, 5), record)
    assert record.names == ["decoder.0.cross", "decoder.1.cross"]
    for weights in record.numpy().values():
        assert weights.shape == (2, 5, 7)
        np.testing.assert_allclose(weights.sum(-1), 1, rtol=1e-6)
        assert not weights[1, :, 4:].any()


def test_the_gradient_of_the_keys_is_scaled() -> None:
    model = small(encoder_layers=1, decoder_layers=4)
    read = torch.randn(1, 5, 6, dtype=torch.float64, requires_grad=True)
    keys, _ = model.encoder(read, torch.ones(1, 5, dtype=torch.bool))
    (scaled,) = torch.autograd.grad(keys.sum(), read, retain_graph=True)
    model.encoder.gradient_scale = 1.0
    keys, _ = model.encoder(read, torch.ones(1, 5, dtype=torch.bool))
    (plain,) = torch.autograd.grad(keys.sum(), read)
    torch.testing.assert_close(scaled, plain / 8)


def test_it_learns_to_copy() -> None:
    torch.manual_seed(0)
    config = ConvS2SConfig("convs2s", embedding=32, hidden=32, encoder_layers=2, decoder_layers=2, dropout=0.0)
    model = build(config, VOCABULARY, VOCABULARY, PAD)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for _ in range(150):
        source = torch.randint(4, VOCABULARY, (32, 8))
        target = torch.cat([torch.ones(32, 1, dtype=torch.long), source[:, :-1]], dim=1)
        loss = torch.nn.functional.cross_entropy(model(source, target).flatten(0, 1), source.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert float(loss.detach()) < 0.1


def test_the_recipe_and_what_it_refuses() -> None:
    recipe = load_recipe("convs2s", {"model.kernel": 5})
    assert isinstance(recipe.model, ConvS2SConfig)
    assert recipe.model.kernel == 5
    with pytest.raises(RecipeError, match="kernel: 4 is even"):
        read(ConvS2SConfig, {"kind": "convs2s", "kernel": 4})


def test_exports_it_has_no_format_for() -> None:
    with pytest.raises(RegardError, match="no such translation model"):
        huggingface_marian.check(ConvS2SConfig("convs2s"))
    with pytest.raises(RegardError, match="not ConvS2S"):
        onnx_graphs.seq2seq_graphs(small(), 20)
