"""Calls of every exported C function that allocates, with fresh buffers, so that results can be compared."""

import ctypes
import os
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

import regard
from regard.config.models import BertConfig, GptConfig, TransformerConfig
from regard.data.batches import Batch, Batches
from regard.engine.forward import bert_hidden_at
from regard.engine.generate import native_gpt
from regard.engine.header import header
from regard.engine.library import kernels
from regard.engine.loss import linear_cross_entropy
from regard.engine.ops import orthogonalize as native_orthogonalize
from regard.engine.ops import prepack, weight_gradient
from regard.engine.search import SearchSettings, native_search
from regard.engine.token_reduction import match
from regard.nn import Packed
from regard.nn.build import build, build_bert, build_gpt
from regard.nn.ensemble import Ensemble
from regard.nn.knn import Datastore, KnnModel
from regard.nn.transformer import Transformer
from regard.tokenization import Tokenizer
from regard.training.objectives import Seq2SeqObjective

Result = list[Tensor]
Call = Callable[[], Result]

WORDS = 75
LENGTHS = [(3, 5), (1, 1), (17, 9), (8, 8), (2, 40), (33, 16)]
WIDTH = 32


def native() -> ctypes.CDLL:
    library = kernels()
    assert library is not None
    return library


def child_environment(**changes: str) -> dict[str, str]:
    """Environment of a child process that imports this package and this file."""
    folders = (Path(regard.__file__).parents[1], Path(__file__).parents[1])
    return {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, folders)), **changes}


def ptr(tensor: Tensor) -> int:
    return tensor.data_ptr()


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


# ---- Single functions. ----


def token_loss_of_rows(r_drop: float = 0.0) -> Result:
    """smoothed_cross_entropy, or r_drop_cross_entropy."""
    passes = 2 if r_drop else 1
    hidden, weight, bias = random(300 * passes, WIDTH), random(WORDS, WIDTH, seed=1), random(WORDS, seed=2)
    inputs = [tensor.requires_grad_() for tensor in (hidden, weight, bias)]
    labels = torch.arange(300) % (WORDS - 4) + 4
    loss = linear_cross_entropy(*inputs, labels, padding=0, smoothing=0.1, r_drop=r_drop)
    return [loss.detach(), *torch.autograd.grad(loss, inputs)]


def token_loss_of_two_passes() -> Result:
    return token_loss_of_rows(1.5)


def gradient_of_weights() -> Result:
    return [weight_gradient(random(200, 70), random(200, 48, seed=1))]


def orthogonalize() -> Result:
    x = random(5, 20, 40)
    return [native_orthogonalize(x / x.norm(dim=(1, 2), keepdim=True), 5, (3.4445, -4.7750, 2.0315))]


def nearest_keys() -> Result:
    keys, query = random(1500, WIDTH), random(80, WIDTH, seed=1)
    packed, half, tokens = prepack(keys), -keys.square().sum(1) / 2, torch.zeros(1500, dtype=torch.int32)
    store = header().structs["Datastore"](ptr(packed), ptr(half), ptr(tokens), 1500, 4, 1.0, 0.5)
    scores, positions = torch.empty(80, 4), torch.empty(80, 4, dtype=torch.int64)
    native().nearest_keys(ctypes.byref(store), ptr(query), 80, WIDTH, 4, ptr(scores), ptr(positions))
    return [scores, positions]


def match_tokens() -> Result:
    lengths = torch.tensor([query for query, _ in LENGTHS])
    keys = random(int(lengths.sum()), 16)
    return [match(keys, Packed(keys, lengths), lengths // 3, neighbors_only=False, first_stays=True)]


KERNELS: list[Call] = [
    *(token_loss_of_rows, token_loss_of_two_passes, gradient_of_weights, orthogonalize, nearest_keys),
    match_tokens,
]


# ---- Whole models. ----


def transformer(seed: int = 2, **settings: object) -> Transformer:
    torch.manual_seed(seed)
    config = {"encoder_layers": 2, "decoder_layers": 1, "d_model": 32, "heads": 2, "d_ff": 48, **settings}
    model = build(TransformerConfig(**config), WORDS, WORDS, Tokenizer.padding)  # type: ignore[arg-type]
    assert isinstance(model, Transformer)
    for weight in model.parameters():
        torch.nn.init.normal_(weight, std=0.3)
    with torch.no_grad():
        model.output_bias[Tokenizer.end] = 2.0  # some sentences end early, others are cut off
    return model


def training_batch() -> Batch:
    generator = torch.Generator().manual_seed(4)
    pairs = [
        tuple(torch.randint(4, WORDS, (length,), generator=generator).tolist() for length in pair_lengths)
        for pair_lengths in [*LENGTHS, (150, 120), (130, 100)]
    ]
    (batch,) = Batches.of_pairs(pairs, 100_000, 400)  # type: ignore[arg-type]
    return batch


def train_step(r_drop: float = 0.0, **settings: object) -> Result:
    """token_loss: the loss and the gradient of each parameter."""
    model = transformer(encoder_layers=1, dropout=0.2, **settings).train()
    torch.manual_seed(6)
    loss = Seq2SeqObjective(model, Tokenizer.padding, 0.1, r_drop)(training_batch())
    loss.backward()  # type: ignore[no-untyped-call]
    return [loss.detach(), *(weight.grad for weight in model.parameters() if weight.grad is not None)]


def train_step_with_two_passes() -> Result:
    return train_step(1.5)


def train_step_of_a_gated_post_norm_model() -> Result:
    return train_step(norm="post", activation="swiglu", position="rotary", attention_dropout=0.1)


def loss_without_gradient() -> Result:
    with torch.no_grad():
        return [Seq2SeqObjective(transformer().eval(), Tokenizer.padding, 0.1)(training_batch())]


def hidden_states() -> Result:
    """stack_forward and stack_backward, for the first tokens of a BERT's texts."""
    torch.manual_seed(1)
    config = BertConfig(
        layers=2, d_model=32, heads=2, d_ff=48, max_length=256, dropout=0.2, attention_dropout=0.2
    )
    bert = build_bert(config, "none", 50, 0).bert.train()
    ids = torch.randint(1, 50, (5, 200), generator=torch.Generator().manual_seed(3))
    ids = ids.masked_fill(torch.arange(200) >= torch.tensor([[200], [3], [90], [180], [1]]), 0)
    torch.manual_seed(6)
    packed = Packed.from_padded(ids, ids != 0)
    segments, firsts = torch.zeros_like(packed.values), packed.offsets[:-1].long()
    hidden = bert_hidden_at(bert, packed, segments, firsts)  # type: ignore[arg-type]
    loss = hidden.square().sum()
    loss.backward()  # type: ignore[no-untyped-call]
    gradients = (weight.grad for weight in bert.parameters() if weight.grad is not None)
    return [hidden.detach(), *gradients]


def beam_search(count: int = 1, beam: int = 4, nbest: int = 2) -> Result:
    """beam_search: the ids and scores of the hypotheses."""
    models = [transformer(seed).eval() for seed in range(2, 2 + count)]
    datastore = Datastore(random(40, 32), torch.arange(40) % WORDS, count=4, weight=0.3, sharpness=0.1)
    search = native_search(Ensemble([KnnModel(models[0], datastore), *models[1:]]).eval(), 64)
    assert search is not None
    forbidden = (Tokenizer.begin, Tokenizer.padding, Tokenizer.unknown)
    translations = search.translate(
        [[5, 6, 7, 8, 1], [9, 1], [20, 30, 40, 50, 60, 70, 74, 4, 5, 1], [33, 44, 55, 1]],
        SearchSettings(beam, nbest, 40, Tokenizer.begin, Tokenizer.end, forbidden, 1.0),
    )
    ids = [token for hypotheses in translations for hypothesis in hypotheses for token in (*hypothesis.ids, -1)]
    return [
        torch.tensor(ids),
        torch.tensor([hypothesis.score for hypotheses in translations for hypothesis in hypotheses]),
    ]


def beam_search_of_an_ensemble() -> Result:
    return beam_search(2)


def language_model() -> Result:
    """prefill and next_token."""
    torch.manual_seed(0)
    model = build_gpt(GptConfig(layers=2, d_model=32, heads=2, d_ff=64, max_length=16), "language", 50).eval()
    native = native_gpt(model)
    assert native is not None
    ids = torch.arange(24).view(3, 8) % 50
    state = native.start(ids[:, :5])
    first, state = native.step(ids[:, 5], state)
    second, _ = native.step(ids[:, 6], state)
    return [first, second]


MODELS: list[Call] = [
    *(train_step, train_step_with_two_passes, train_step_of_a_gated_post_norm_model, loss_without_gradient),
    *(hidden_states, beam_search, beam_search_of_an_ensemble, language_model),
]
