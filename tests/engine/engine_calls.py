"""Calls of every exported function that allocates, each with fresh buffers: what they return can be compared."""

import ctypes
import os
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

import regard
from regard.config import GptModel, TransformerModel
from regard.data.batches import Batch, Batches
from regard.engine.generate import native_gpt
from regard.engine.library import kernels
from regard.engine.search import SearchSettings, native_search
from regard.engine.structs import Around, Asked, Looked, Remembered, Thought
from regard.engine.train_step import PairBatch, fused_token_loss
from regard.nn.build import build, build_gpt
from regard.nn.ensemble import Ensemble
from regard.nn.knn import Datastore, KnnModel
from regard.nn.transformer import Transformer
from regard.text import Tokenizer

Result = list[Tensor]
Call = Callable[[], Result]

WORDS = 75
LENGTHS = [(3, 5), (1, 1), (17, 9), (8, 8), (2, 40), (33, 16)]
HEADS, SIZE = 2, 16
WIDTH = HEADS * SIZE


def native() -> ctypes.CDLL:
    library = kernels()
    assert library is not None
    return library


def child_environment(**changes: str) -> dict[str, str]:
    """For a child process that imports this package and this file."""
    folders = (Path(regard.__file__).parents[1], Path(__file__).parent)
    return {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, folders)), **changes}


def ptr(tensor: Tensor) -> int:
    return tensor.data_ptr()


def prepacked(weight: Tensor, *, transposed: bool = False) -> Tensor:
    inside, out = weight.shape if transposed else reversed(weight.shape)
    panels = torch.empty(-(-out // 16), inside, 16)
    native().lay_out(ptr(weight), ptr(panels), out, inside, transposed)
    return panels


def offsets(lengths: list[int]) -> Tensor:
    return torch.tensor([0, *lengths]).cumsum(0).to(torch.int32)


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


# ---- Single kernels. ----


def relu_dropped_backward() -> Result:
    g, out = random(300, 80), random(300, 80, seed=1).relu()
    gx, gbias = torch.empty(300, 80), torch.empty(80)
    native().relu_dropped_backward(ptr(g), ptr(out), ptr(gx), ptr(gbias), 300, 80, 51)
    return [gx, gbias]


def gelu_backward() -> Result:
    g, x = random(300, 80), random(300, 80, seed=1)
    gx, gbias = torch.empty(300, 80), torch.empty(80)
    native().gelu_backward(ptr(g), ptr(x), ptr(gx), ptr(gbias), 300, 80)
    return [gx, gbias]


def smoothed_rows() -> Result:
    scores, bias, gold = random(300, WORDS), random(WORDS, seed=1), torch.arange(300) % (WORDS - 4) + 4
    losses, gbias = torch.empty(300, dtype=torch.float64), torch.zeros(WORDS)
    native().smoothed_rows(
        *(ptr(scores), ptr(bias), ptr(gold), 300, WORDS, 0, 0.9, 0.1 / (WORDS - 2), ptr(losses), ptr(gbias))
    )
    return [losses, scores, gbias]


def twin_rows() -> Result:
    first, second, bias = random(300, WORDS), random(300, WORDS, seed=2), random(WORDS, seed=1)
    gold = torch.arange(300) % (WORDS - 4) + 4
    losses, gbias = torch.empty(300, dtype=torch.float64), torch.zeros(WORDS)
    native().twin_rows(
        *(ptr(first), ptr(second), ptr(bias), ptr(gold), 300, WORDS, 0),
        *(0.9, 0.1 / (WORDS - 2), 1.5, ptr(losses), ptr(gbias)),
    )
    return [losses, first, second, gbias]


def outer() -> Result:
    g, x, w = random(200, 70), random(200, 48, seed=1), torch.empty(70, 48)
    native().outer(ptr(g), 70, ptr(x), 48, 200, 0, ptr(w))
    return [w]


def orthogonal() -> Result:
    x = random(5, 20, 40)
    x /= x.norm(dim=(1, 2), keepdim=True)
    native().orthogonal(ptr(x), *x.shape, 5, 3.4445, -4.7750, 2.0315)
    return [x]


def nearest() -> Result:
    keys, query = random(1500, WIDTH), random(80, WIDTH, seed=1)
    panels, half, words = prepacked(keys), -keys.square().sum(1) / 2, torch.zeros(1500, dtype=torch.int32)
    store = Remembered(ptr(panels), ptr(half), ptr(words), 1500, 4, 1.0, 0.5)
    best, which = torch.empty(80, 4), torch.empty(80, 4, dtype=torch.int64)
    native().nearest(ctypes.byref(store), ptr(query), 80, WIDTH, 4, ptr(best), ptr(which))
    return [best, which]


def match_apart() -> Result:
    lengths = [query for query, _ in LENGTHS]
    start, many = offsets(lengths), torch.tensor([length // 3 for length in lengths])
    keys, into = random(sum(lengths), SIZE), torch.empty(sum(lengths), dtype=torch.int64)
    native().match_apart(ptr(keys), ptr(start), len(lengths), SIZE, ptr(many), 0, 1, ptr(into))
    return [into]


def attention() -> Result:
    """attend_apart and attend_apart_backward."""
    queries, keys = ([each[side] for each in LENGTHS] for side in (0, 1))
    qstart, kstart = offsets(queries), offsets(keys)
    q = random(sum(queries), WIDTH)
    k, v = (random(sum(keys), WIDTH, seed=seed) for seed in (1, 2))
    asked = Asked(
        *(ptr(q), ptr(k), ptr(v), WIDTH, WIDTH, WIDTH, ptr(qstart), ptr(kstart), len(queries)),
        *(HEADS, SIZE, 0, 51, SIZE**-0.5, 99, None, None),
    )
    out, norms, g = torch.empty_like(q), torch.empty(len(q), HEADS), random(*q.shape, seed=3)
    gq, gk, gv = (torch.empty_like(each) for each in (q, k, v))
    native().attend_apart(ctypes.byref(asked), ptr(out), ptr(norms))
    native().attend_apart_backward(
        *(ctypes.byref(asked), ptr(out), ptr(norms), ptr(g), ptr(gq), ptr(gk), ptr(gv), WIDTH, WIDTH)
    )
    return [out, gq, gk, gv]


def feed_forward_sublayer() -> Result:
    """think_there and think_back."""
    rows, inner = 203, 96
    x, g, norm, norm_bias = random(rows, WIDTH), random(rows, WIDTH, seed=1), random(WIDTH), random(WIDTH)
    fc1, fc2, bias1, bias2 = random(inner, WIDTH), random(WIDTH, inner), random(inner), random(WIDTH)
    around = Around(ptr(x), ptr(norm), ptr(norm_bias), rows, WIDTH, 51, 7, 1e-5)
    forward, backward = ([prepacked(each, transposed=back) for each in (fc1, fc2)] for back in (False, True))
    normed, wide, out = torch.empty(rows, WIDTH), torch.empty(rows, inner), torch.empty(rows, WIDTH)
    thought = Thought(around, *map(ptr, (*forward, bias1, bias2)), inner, 26, 8)
    native().think_there(ctypes.byref(thought), ptr(normed), ptr(wide), ptr(out))
    gx, gsaid, gwide = torch.empty(rows, WIDTH), torch.empty(rows, WIDTH), torch.empty(rows, inner)
    sums = torch.empty(inner + 3 * WIDTH)
    thought = Thought(around, *map(ptr, backward), None, None, inner, 26, 8)
    native().think_back(ctypes.byref(thought), *map(ptr, (g, wide, gx, gsaid, gwide, sums)))
    return [out, gx, gsaid, gwide, sums]


def attention_sublayer() -> Result:
    """look_there and look_back: cross-attention."""
    queries, keys = ([each[side] for each in LENGTHS] for side in (0, 1))
    qstart, kstart = offsets(queries), offsets(keys)
    rows, sources = sum(queries), sum(keys)
    x, source, g = random(rows, WIDTH), random(sources, WIDTH, seed=1), random(rows, WIDTH, seed=2)
    norm, norm_bias = random(WIDTH), random(WIDTH)
    maps = random(WIDTH, WIDTH), random(2 * WIDTH, WIDTH, seed=3), random(WIDTH, WIDTH, seed=4)
    biases = random(WIDTH), random(2 * WIDTH), random(WIDTH)
    forward, backward = ([prepacked(each, transposed=back) for each in maps] for back in (False, True))

    def looked(panels: list[Tensor], *some: int | None) -> Looked:
        packed = Asked(
            *(None, None, None, 0, 0, 0, ptr(qstart), ptr(kstart), len(queries)),
            *(HEADS, SIZE, 0, 26, SIZE**-0.5, 99, None, None),
        )
        around = Around(ptr(x), ptr(norm), ptr(norm_bias), rows, WIDTH, 51, 7, 1e-5)
        return Looked(around, ptr(source), *map(ptr, panels), *some, sources, 0, packed)

    normed, asked, mixed, out = (torch.empty(rows, WIDTH) for _ in range(4))
    recalled, norms = torch.empty(sources, 2 * WIDTH), torch.empty(rows, HEADS)
    there = looked(forward, *map(ptr, biases))
    native().look_there(ctypes.byref(there), *map(ptr, (normed, asked, recalled, mixed, norms, out)))
    gx, gsaid, gmixed, gasked = (torch.empty(rows, WIDTH) for _ in range(4))
    gsource, grecalled, sums = (
        torch.empty(sources, WIDTH),
        torch.empty(sources, 2 * WIDTH),
        torch.empty(6 * WIDTH),
    )
    back = looked(backward, None, None, None)
    native().look_back(
        ctypes.byref(back),
        *map(
            ptr,
            (g, asked, recalled, mixed, norms, gx, gsource, gsaid, gmixed, gasked, grecalled, sums),
        ),
    )
    return [out, gx, gsource, gsaid, gasked, grecalled, sums]


KERNELS: list[Call] = [
    *(relu_dropped_backward, gelu_backward, smoothed_rows, twin_rows, outer, orthogonal, nearest, match_apart),
    *(attention, feed_forward_sublayer, attention_sublayer),
]


# ---- Whole models. ----


def transformer(seed: int = 2, **settings: object) -> Transformer:
    torch.manual_seed(seed)
    config = {"encoder_layers": 2, "decoder_layers": 1, "d_model": 32, "heads": 2, "d_ff": 48, **settings}
    model = build(TransformerModel(**config), WORDS, WORDS, Tokenizer.padding)  # type: ignore[arg-type]
    assert isinstance(model, Transformer)
    for each in model.parameters():
        torch.nn.init.normal_(each, std=0.3)
    with torch.no_grad():
        model.output_bias[Tokenizer.end] = 2.0  # some end soon, some are cut off
    return model


def training_batch() -> Batch:
    generator = torch.Generator().manual_seed(4)
    pairs = [
        tuple(torch.randint(4, WORDS, (length,), generator=generator).tolist() for length in both)
        for both in [*LENGTHS, (150, 120), (130, 100)]
    ]
    (batch,) = Batches.of_pairs(pairs, 100_000, 400)  # type: ignore[arg-type]
    return batch


def train_step(r_drop: float = 0.0) -> Result:
    """learn: the loss and the gradient of each parameter."""
    model = transformer(encoder_layers=1, dropout=0.2).train()
    torch.manual_seed(6)
    batch = training_batch()
    pairs = PairBatch(batch.source, batch.target, batch.gold)
    loss = fused_token_loss(model, pairs, padding=Tokenizer.padding, smoothing=0.1, r_drop=r_drop)
    assert loss is not None
    loss.backward()  # type: ignore[no-untyped-call]
    return [loss.detach(), *(each.grad for each in model.parameters() if each.grad is not None)]


def train_step_with_two_passes() -> Result:
    return train_step(1.5)


def beam_search(count: int = 1, beam: int = 4, nbest: int = 2) -> Result:
    """translate: the ids and scores of some sentences."""
    models = [transformer(seed).eval() for seed in range(2, 2 + count)]
    neighbours = Datastore(random(40, 32), torch.arange(40) % WORDS, count=4, weight=0.3, sharpness=0.1)
    search = native_search(Ensemble([KnnModel(models[0], neighbours), *models[1:]]).eval(), 64)
    assert search is not None
    never = (Tokenizer.begin, Tokenizer.padding, Tokenizer.unknown)
    found = search.translate(
        [[5, 6, 7, 8, 1], [9, 1], [20, 30, 40, 50, 60, 70, 74, 4, 5, 1], [33, 44, 55, 1]],
        SearchSettings(beam, nbest, 40, Tokenizer.begin, Tokenizer.end, never, 1.0),
    )
    ids = [number for hypotheses in found for each in hypotheses for number in (*each.ids, -1)]
    return [torch.tensor(ids), torch.tensor([each.score for hypotheses in found for each in hypotheses])]


def beam_search_of_an_ensemble() -> Result:
    return beam_search(2)


def language_model() -> Result:
    """read_first and next_token."""
    torch.manual_seed(0)
    model = build_gpt(GptModel(layers=2, d_model=32, heads=2, d_ff=64, longest=16), "language", 50).eval()
    lean = native_gpt(model)
    assert lean is not None
    ids = torch.arange(24).view(3, 8) % 50
    state = lean.start(ids[:, :5])
    first, state = lean.step(ids[:, 5], state)
    second, _ = lean.step(ids[:, 6], state)
    return [first, second]


MODELS: list[Call] = [
    *(train_step, train_step_with_two_passes, beam_search, beam_search_of_an_ensemble, language_model)
]
