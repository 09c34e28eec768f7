"""Training tokens a second, ours and the peers': the same sizes, batches, dropout, loss and clipping."""

import random
import sys
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from regard.bench.turns import Player, Row, measured, rows_of, steps_by_turns, take_turns
from regard.bench.updates import CLIP, updates
from regard.config import TrainSettings, TransformerModel
from regard.data.batches import Batch, Batches
from regard.nn.build import build
from regard.text import Tokenizer
from regard.training.objective import PairObjective
from regard.training.process import training_process

VOCABULARY = 8000
TOKENS = 2048
DROPOUT, SMOOTHING = 0.1, 0.1
SIZES = {"tiny": "4+4 layers, 128/256", "small": "3+3 layers, 256/1024", "base": "6+6 layers, 512/2048"}
TURN = {"tiny": 4, "small": 2, "base": 1}
"""Batches in one turn: a second or so."""
PEERS = {"marian": "Hugging Face MarianMT", "joeynmt": "JoeyNMT"}


def captions(count: int = 4000, vocabulary: int = VOCABULARY) -> list[Batch]:
    """Batches of made-up sentences as long as Multi30k's captions, sorted by length as in training."""
    chance = random.Random(1)

    def sentence(length: float) -> list[int]:
        return [chance.randrange(4, vocabulary) for _ in range(max(4, min(45, round(length))))]

    pairs = []
    for _ in range(count):
        length = chance.gauss(13.5, 4)
        pairs.append((sentence(length + chance.gauss(0, 2.2)), sentence(length)))
    batches = list(Batches.of_pairs(pairs, TOKENS, 256))
    chance.shuffle(batches)
    return batches


def operations(model: TransformerModel, vocabulary: int = VOCABULARY) -> float:
    """Floating-point operations a target token that products need, there and back; the source is as long."""
    width, inner = model.d_model, model.d_ff
    encoder = model.encoder_layers * (4 * width**2 + 2 * width * inner)
    decoder = model.decoder_layers * (8 * width**2 + 2 * width * inner)
    return 6.0 * (encoder + decoder + vocabulary * width)


def ours(size: str) -> Callable[[Batch], object]:
    torch.manual_seed(0)
    config = TransformerModel(size=size, dropout=DROPOUT)  # type: ignore[arg-type]
    model = build(config, VOCABULARY, VOCABULARY, Tokenizer.padding).train()
    objective = PairObjective(model, Tokenizer.padding, SMOOTHING)
    return updates(model, objective, config.width, TrainSettings(steps=1, clip=CLIP, average="none"))


def marian(size: str) -> Callable[[Batch], object]:
    """Hugging Face's model in the loop its documentation shows, with AdamW as it comes."""
    from transformers import MarianConfig, MarianMTModel

    sizes = TransformerModel(size=size)  # type: ignore[arg-type]
    config = MarianConfig(
        vocab_size=VOCABULARY,
        d_model=sizes.d_model,
        encoder_layers=sizes.encoder_layers,
        decoder_layers=sizes.decoder_layers,
        encoder_attention_heads=sizes.heads,
        decoder_attention_heads=sizes.heads,
        encoder_ffn_dim=sizes.d_ff,
        decoder_ffn_dim=sizes.d_ff,
        activation_function="relu",
        dropout=DROPOUT,
        activation_dropout=DROPOUT,
        attention_dropout=0.0,
        scale_embedding=True,
        max_position_embeddings=256,
        pad_token_id=Tokenizer.padding,
        eos_token_id=Tokenizer.end,
        decoder_start_token_id=Tokenizer.begin,
    )
    model = MarianMTModel(config).train()
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-4)

    def step(batch: Batch) -> None:
        seen = (batch.source != Tokenizer.padding).long()
        scores = model(
            input_ids=batch.source, attention_mask=seen, decoder_input_ids=batch.target, use_cache=False
        ).logits
        update(model, optimiser, cross_entropy(scores, batch))

    return step


def joeynmt(size: str) -> Callable[[Batch], object]:
    """JoeyNMT's own model and loss, built from its configuration, with Adam."""
    from joeynmt.loss import XentLoss
    from joeynmt.model import build_model
    from joeynmt.vocabulary import Vocabulary

    sizes = TransformerModel(size=size)  # type: ignore[arg-type]
    tokens = {"unk": Tokenizer.unknown, "pad": Tokenizer.padding, "bos": Tokenizer.begin, "eos": Tokenizer.end}
    special: dict[str, Any] = {f"{name}_token": f"<{name}>" for name in tokens}
    special |= {f"{name}_id": number for number, name in enumerate(tokens)}
    words = Vocabulary(
        [f"w{number}" for number in range(VOCABULARY - len(tokens))],
        SimpleNamespace(**special, sep_token=None, sep_id=None, lang_tags=[]),
    )
    theirs = torch.arange(VOCABULARY)  # it insists on its own ids for the special symbols
    theirs[list(tokens.values())] = torch.arange(len(tokens))

    def side(layers: int) -> dict[str, Any]:
        return {
            "type": "transformer",
            "num_layers": layers,
            "num_heads": sizes.heads,
            "embeddings": {"embedding_dim": sizes.d_model, "scale": True, "dropout": DROPOUT},
            "hidden_size": sizes.d_model,
            "ff_size": sizes.d_ff,
            "dropout": DROPOUT,
            "layer_norm": "pre",
        }

    config = {
        "encoder": side(sizes.encoder_layers),
        "decoder": side(sizes.decoder_layers),
        "tied_embeddings": True,
        "tied_softmax": True,
    }
    model: Any = build_model(config, words, words).train()
    model.loss_function = ("crossentropy", SMOOTHING)
    assert isinstance(model.loss_function, XentLoss)
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-4)

    def step(batch: Batch) -> None:
        seen = (batch.source != Tokenizer.padding).unsqueeze(1)
        loss, *_ = model(
            return_type="loss",
            src=theirs[batch.source],
            trg_input=theirs[batch.target],
            trg=theirs[batch.gold],
            src_mask=seen,
            src_length=seen.sum((1, 2)),
            trg_mask=(batch.gold != Tokenizer.padding).unsqueeze(1),
        )
        update(model, optimiser, loss / batch.tokens)

    return step


def cross_entropy(scores: torch.Tensor, batch: Batch) -> torch.Tensor:
    return functional.cross_entropy(
        scores.flatten(0, 1),
        batch.gold.flatten(),
        ignore_index=Tokenizer.padding,
        label_smoothing=SMOOTHING,
    )


def update(model: nn.Module, optimiser: torch.optim.Optimizer, loss: torch.Tensor) -> None:
    optimiser.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    nn.utils.clip_grad_norm_(model.parameters(), CLIP)
    optimiser.step()


def peak() -> Callable[[], float]:
    """GFLOP/s of a large product of matrices: what the machine can do."""
    square = torch.randn(1024, 1024)

    def turn() -> float:
        times = []
        for _ in range(10):
            start = time.perf_counter()
            square @ square
            times.append(time.perf_counter() - start)
        return float(2 * 1024**3 / sorted(times)[5] / 1e9)

    return turn


def speeds(size: str, rounds: int, peers: bool = True) -> tuple[list[Row], float]:
    """Rows of ours beside each peer that is installed, and the share of the peak that ours uses."""
    with Player(__name__, "ours", size) as mine, Player(__name__, "peak") as best:
        players = {"ours": mine, "peak": best}
        others = {PEERS[name]: Player(__name__, name, size) for name in PEERS} if peers else {}
        try:
            found = measured({**players, **others}, rounds)
        finally:
            for other in others.values():
                other.__exit__()
    used = operations(TransformerModel(size=size)) * found["ours"] / 1e9  # type: ignore[arg-type]
    share = used / found.pop("peak")
    return rows_of(f"training {SIZES[size]}", found), share


def main() -> None:
    name, *rest = sys.argv[1:]
    if name == "peak":
        take_turns(peak)
        return
    size = rest[0]
    if name == "ours":
        with training_process():
            take_turns(lambda: steps_by_turns(ours(size), captions(), TURN[size]))
    else:
        peer = {"marian": marian, "joeynmt": joeynmt}[name]
        take_turns(lambda: steps_by_turns(peer(size), captions(), TURN[size]))


if __name__ == "__main__":
    main()
