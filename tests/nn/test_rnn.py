"""The RNN models: each step as the papers write it, steps equal the full pass, padding reaches no state."""

import numpy as np
import pytest
import torch

from regard.config.models import RnnConfig, TransformerConfig
from regard.config.schema import build as read
from regard.errors import RecipeError
from regard.nn import Recorder
from regard.nn.build import build
from regard.nn.rnn import Rnn

PAD = 2
VOCABULARY = 30

KINDS = [
    {},
    {"reverse": True},
    {"bidirectional": True},
    {"attention": "bahdanau", "score": "additive"},
    {"attention": "bahdanau", "score": "concat", "bidirectional": True},
    {"attention": "bahdanau", "reverse": True},
    {"attention": "luong", "score": "dot"},
    {"attention": "luong", "score": "general", "bidirectional": True, "encoder_hidden": 5},
    {"attention": "luong", "score": "concat"},
    {"attention": "luong", "input_feeding": True},
    {"attention": "luong", "score": "dot", "reverse": True},
]
every_kind = pytest.mark.parametrize(
    "kind", KINDS, ids=lambda kind: "-".join(map(str, kind.values())) or "none"
)
every_cell = pytest.mark.parametrize("cell", ["gru", "lstm"])


def small(cell: str = "gru", **changes) -> Rnn:
    torch.manual_seed(0)
    config = RnnConfig("rnn", **{"cell": cell, "embedding": 6, "hidden": 8, "layers": 1, **changes})
    model = build(config, VOCABULARY, VOCABULARY, PAD).double().eval()
    with torch.no_grad():  # no part may hide behind a start at zero
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    return model


def ids(*shape: int) -> torch.Tensor:
    return torch.randint(4, VOCABULARY, shape, generator=torch.Generator().manual_seed(1))


# ---- the formulas, written out in numpy


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def softmax(x: np.ndarray) -> np.ndarray:
    powers = np.exp(x - x.max())
    return powers / powers.sum()


def weights_of(model: Rnn) -> dict[str, np.ndarray]:
    return {name: each.numpy() for name, each in model.state_dict().items()}


def rnn_step(w: dict[str, np.ndarray], name: str, x: np.ndarray, state: tuple, way: str = "") -> tuple:
    """One step of a GRU or an LSTM, told apart by their number of gates; `way` is the direction's suffix."""
    inner = {
        part: w[f"{name}.layers.0.{part}_l0{way}"] for part in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    }
    h = state[0]
    from_x = inner["weight_ih"] @ x + inner["bias_ih"]
    from_h = inner["weight_hh"] @ h + inner["bias_hh"]
    if len(from_x) == 3 * len(h):
        (xr, xz, xn), (hr, hz, hn) = np.split(from_x, 3), np.split(from_h, 3)
        r, z = sigmoid(xr + hr), sigmoid(xz + hz)
        n = np.tanh(xn + r * hn)
        return ((1 - z) * n + z * h,)
    i, f, g, o = np.split(from_x + from_h, 4)
    c = sigmoid(f) * state[1] + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(c), c


def read_source(model: Rnn, w: dict[str, np.ndarray], source: list[int], cell: str) -> tuple[np.ndarray, tuple]:
    """All states h_i of a one-way encoder, and the last (with its cell)."""
    size = model.encoder.size
    state = (np.zeros(size),) if cell == "gru" else (np.zeros(size), np.zeros(size))
    every = []
    for word in source:
        state = rnn_step(w, "encoder", embedded(w, "source", word), state)
        every.append(state[0])
    return np.stack(every), state


def embedded(w: dict[str, np.ndarray], side: str, word: int) -> np.ndarray:
    table = w[f"{side}_embedding.weight"]
    return table[word] * np.sqrt(table.shape[1])


def score(w: dict[str, np.ndarray], kind: str, s: np.ndarray, h: np.ndarray) -> float:
    at = "decoder.attention.score."
    if kind == "dot":
        return s @ h
    if kind == "general":
        return s @ w[at + "weight"] @ h
    if kind == "concat":  # v^T tanh(W [h; s])
        return (w[at + "value.weight"] @ np.tanh(w[at + "weight"] @ np.concatenate([h, s])))[0]
    return (w[at + "value.weight"] @ np.tanh(w[at + "query.weight"] @ s + w[at + "key.weight"] @ h))[0]


def output(w: dict[str, np.ndarray], vector: np.ndarray) -> np.ndarray:
    return w["output_weight"] @ vector + w["output_bias"]


@every_cell
@pytest.mark.parametrize("form", ["additive", "concat"])
def test_bahdanau_step_by_step_as_written(form: str, cell: str) -> None:
    model = small(cell, attention="bahdanau", score=form)
    w, source, target = weights_of(model), ids(1, 5), ids(1, 4)
    every, s = read_source(model, w, source[0].tolist(), cell)  # the last encoder state is s_0
    record, state = Recorder(), model.start(source)
    for word in target[0].tolist():
        alpha = softmax(np.array([score(w, form, s[0], h) for h in every]))  # from s_{t-1}
        context = alpha @ every
        s = rnn_step(w, "decoder.rnn", np.concatenate([context, embedded(w, "target", word)]), s)
        with torch.no_grad():
            scores, state = model.step(torch.tensor([word]), state, record)
        np.testing.assert_allclose(record["decoder.cross"][0, 0, -1].numpy(), alpha, atol=1e-6)
        np.testing.assert_allclose(state.top[0].numpy(), s[0], atol=1e-6)
        np.testing.assert_allclose(scores[0].numpy(), output(w, s[0]), atol=1e-6)


@every_cell
@pytest.mark.parametrize("feeding", [False, True])
@pytest.mark.parametrize("form", ["dot", "general", "concat"])
def test_luong_step_by_step_as_written(form: str, feeding: bool, cell: str) -> None:
    model = small(cell, attention="luong", score=form, input_feeding=feeding)
    w, source, target = weights_of(model), ids(1, 5), ids(1, 4)
    every, s = read_source(model, w, source[0].tolist(), cell)
    record, state, vector = Recorder(), model.start(source), np.zeros(8)
    for word in target[0].tolist():
        x = embedded(w, "target", word)
        s = rnn_step(w, "decoder.rnn", np.concatenate([vector, x]) if feeding else x, s)
        alpha = softmax(np.array([score(w, form, s[0], h) for h in every]))  # from s_t
        context = alpha @ every
        vector = np.tanh(w["decoder.combine.weight"] @ np.concatenate([context, s[0]]))
        with torch.no_grad():
            scores, state = model.step(torch.tensor([word]), state, record)
        np.testing.assert_allclose(record["decoder.cross"][0, 0, -1].numpy(), alpha, atol=1e-6)
        np.testing.assert_allclose(state.top[0].numpy(), s[0], atol=1e-6)
        np.testing.assert_allclose(scores[0].numpy(), output(w, vector), atol=1e-6)


@every_cell
def test_without_attention_the_last_state_starts_the_decoder(cell: str) -> None:
    model = small(cell)
    w, source, target = weights_of(model), ids(1, 5), ids(1, 4)
    _, s = read_source(model, w, source[0].tolist(), cell)
    with torch.no_grad():
        scores = model(source, target)[0].numpy()
    for place, word in enumerate(target[0].tolist()):
        s = rnn_step(w, "decoder.rnn", embedded(w, "target", word), s)
        np.testing.assert_allclose(scores[place], output(w, s[0]), atol=1e-6)


@every_cell
def test_a_bidirectional_encoder_reads_from_both_ends(cell: str) -> None:
    model = small(cell, bidirectional=True, attention="luong", score="dot")
    w, source = weights_of(model), ids(1, 5)
    size = model.encoder.size
    start = (np.zeros(size),) * (1 if cell == "gru" else 2)
    ways = {}
    for way, words in (("", source[0].tolist()), ("_reverse", source[0].tolist()[::-1])):
        state, every = start, []
        for word in words:
            state = rnn_step(w, "encoder", embedded(w, "source", word), state, way)
            every.append(state[0])
        ways[way] = every
    with torch.no_grad():
        state = model.start(source)
    both = np.concatenate([np.stack(ways[""]), np.stack(ways["_reverse"][::-1])], axis=1)
    np.testing.assert_allclose(state.memory.values[0, 0].numpy(), both, atol=1e-6)
    np.testing.assert_allclose(
        state.top[0].numpy(), np.concatenate([ways[""][-1], ways["_reverse"][-1]]), atol=1e-6
    )


def test_states_of_another_size_are_projected() -> None:
    model = small(encoder_hidden=5)
    w, source = weights_of(model), ids(1, 4)
    _, (last,) = read_source(model, w, source[0].tolist(), "gru")
    expected = np.tanh(w["bridge.projections.0.weight"] @ last + w["bridge.projections.0.bias"])
    with torch.no_grad():
        np.testing.assert_allclose(model.start(source).top[0].numpy(), expected, atol=1e-6)


# ---- what every model must keep


@every_kind
@every_cell
@pytest.mark.parametrize("layers", [1, 2])
def test_steps_equal_the_full_pass(kind: dict, cell: str, layers: int) -> None:
    model = small(cell, layers=layers, **kind)
    source, target = ids(3, 7), ids(3, 9)
    with torch.no_grad():
        full = model(source, target)
        state = model.start(source)
        for place in range(target.size(1)):
            scores, state = model.step(target[:, place], state)
            assert torch.allclose(scores, full[:, place], atol=1e-10)


@every_kind
@every_cell
def test_padding_reaches_no_state(kind: dict, cell: str) -> None:
    model = small(cell, layers=2, **kind)
    source, target = ids(2, 6), ids(2, 5)
    wide_source = torch.cat([source, torch.full((2, 4), PAD)], 1)
    wide_source[1, 4:] = PAD
    wide_target = torch.cat([target, torch.full((2, 3), PAD)], 1)
    short = source[1:, :4]
    with torch.no_grad():
        model.source_embedding.weight[PAD] = 9.0  # were it read, it would be seen
        wide = model(wide_source, wide_target)[:, :5]
        assert torch.allclose(wide[0], model(source[:1], target[:1])[0], atol=1e-10)
        assert torch.allclose(wide[1], model(short, target[1:])[0], atol=1e-10)
        state, alone = model.start(wide_source), model.start(short)
    for layer, other in zip(state.layers, alone.layers, strict=True):
        for part, own in zip(layer, other, strict=True):
            assert torch.allclose(part[1], own[0], atol=1e-10)


@every_kind
def test_a_selected_state_continues_its_sentence(kind: dict) -> None:
    model = small(**kind)
    source, target = ids(3, 6), ids(3, 4)
    source[2, 4:] = PAD
    rows = torch.tensor([2, 0, 2])
    with torch.no_grad():
        state = model.start(source)
        for place in range(3):
            _, state = model.step(target[:, place], state)
        expected, _ = model.step(target[:, 3], state)
        chosen, _ = model.step(target[rows, 3], state.select(rows))
    assert torch.allclose(chosen, expected[rows], atol=1e-10)


def test_a_reversed_source_is_read_from_its_end() -> None:
    forward, backward = small(), small(reverse=True)
    backward.load_state_dict(forward.state_dict())
    source, target = ids(2, 6), ids(2, 3)
    with torch.no_grad():
        assert torch.allclose(backward(source, target), forward(source.flip(1), target), atol=1e-10)


def test_alignments_stand_in_the_order_of_the_source() -> None:
    """What is remembered of a reversed source is turned back, also where sentences are padded."""
    plain, turned = small(attention="luong", score="dot"), small(attention="luong", score="dot", reverse=True)
    source = ids(2, 6)
    source[1, 4:] = PAD
    mirrored = source.clone()
    mirrored[0], mirrored[1, :4] = source[0].flip(0), source[1, :4].flip(0)
    with torch.no_grad():
        one, other = Recorder(), Recorder()
        plain(mirrored, ids(2, 3), one)
        turned(source, ids(2, 3), other)
    expected = one["decoder.cross"].clone()
    expected[0], expected[1, ..., :4] = expected[0].flip(-1), expected[1, ..., :4].flip(-1)
    assert torch.allclose(other["decoder.cross"], expected, atol=1e-10)
    assert other["decoder.cross"].shape == (2, 1, 3, 6)
    assert torch.equal(other["decoder.cross"][1, ..., 4:], torch.zeros(1, 3, 2).double())


@every_kind
def test_every_weight_learns(kind: dict) -> None:
    model = small(**kind).train()
    source = ids(3, 6)
    source[1, 4:] = PAD
    model(source, ids(3, 5)).square().mean().backward()
    idle = [name for name, each in model.named_parameters() if each.grad is None or not each.grad.abs().sum()]
    assert idle == []


def test_a_step_costs_the_same_however_much_was_written() -> None:
    """Unlike a Transformer's, whose step looks back at all it wrote."""
    from torch.utils.flop_counter import FlopCounterMode

    def cost(model, steps: int) -> int:
        tokens = ids(4)
        with torch.no_grad():
            state = model.start(ids(4, 6))
            for _ in range(steps):
                _, state = model.step(tokens, state)
            with FlopCounterMode(display=False) as counter:
                model.step(tokens, state, Recorder())  # recorded: nothing is fused away from the count
        return counter.get_total_flops()

    recurrent = small(attention="bahdanau")
    assert cost(recurrent, 1) == cost(recurrent, 300) > 0
    transformer = build(TransformerConfig(size="tiny"), VOCABULARY, VOCABULARY, PAD).eval()
    assert cost(transformer, 1) < cost(transformer, 300)


def test_tables_can_be_shared() -> None:
    model = small(tie_embeddings="all", embedding=8)
    assert model.target_embedding is model.source_embedding
    assert model.output[0] is model.source_embedding.weight
    assert small(tie_embeddings="output", embedding=8).output[0].shape == (VOCABULARY, 8)


# ---- recipes that cannot be


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (
            {"attention": "luong", "score": "dot", "hidden": 512, "encoder_hidden": 300, "bidirectional": True},
            "model.score: dot needs states of equal size; the encoder gives 600 (2 x 300), the decoder has 512",
        ),
        (
            {"attention": "luong", "score": "dot", "hidden": 512, "encoder_hidden": 256},
            "model.score: dot needs states of equal size; the encoder gives 256, the decoder has 512",
        ),
        (
            {"reverse": True, "bidirectional": True},
            "model.reverse: a bidirectional encoder reads the source from both ends already",
        ),
        ({"score": "general"}, 'model.score: this is an option of attention, and attention is "none"'),
        ({"score_size": 64}, 'model.score_size: this is an option of attention, and attention is "none"'),
        (
            {"input_feeding": True},
            'model.input_feeding: this is an option of attention, and attention is "none"',
        ),
        (
            {"attention": "bahdanau", "score": "dot"},
            "bahdanau attention has no dot score; allowed: additive, concat",
        ),
        (
            {"attention": "luong", "score": "additive"},
            "luong attention has no additive score; allowed: general, dot",
        ),
        (
            {"attention": "bahdanau", "input_feeding": True},
            "Bahdanau's decoder gets the context as input already",
        ),
        ({"attention": "luong", "score": "general", "score_size": 9}, "a general score has no network inside"),
        ({"tie_embeddings": "all", "embedding": 128}, "embedding is 128, hidden is 512"),
        ({"cell": "rnn"}, 'model.cell: "rnn" is not a choice; allowed: gru, lstm'),
    ],
)
def test_impossible_models_are_refused_in_a_sentence(given: dict, sentence: str) -> None:
    with pytest.raises(RecipeError) as refused:
        read(RnnConfig, {"kind": "rnn", **given}, "model")
    assert sentence in str(refused.value)
