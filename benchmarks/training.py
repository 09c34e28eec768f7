"""Training speed of the encoder-decoder compared with its peers, in target tokens per second.

    pip install -c constraints.txt -e '.[bench]'
    python benchmarks/training.py [--quick] [--rounds N] [--sizes tiny small base] [--peers NAME ...] [--json]

Peers: Hugging Face MarianMT, JoeyNMT, torch.nn.Transformer, and torch.compile of the latter. Sizes, batches,
dropout, loss and clipping are the same. harness/rounds.py describes rounds, ratios and allocator settings.
Rows: case, ours, peer, value (the peer's), ratio, low and high (its quartiles), settings, rounds, note.
"""

import math
import random
import time
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import torch
from harness.rounds import (
    PLAIN,
    Contender,
    Ready,
    Row,
    argument_parser,
    as_json,
    compare_with_peers,
    format_table,
    round_count,
    selected_peers,
    start,
    training_turns,
)
from harness.updates import CLIP, peer_update, updates
from torch import Tensor, nn
from torch.nn import functional

from regard.config.models import TransformerConfig
from regard.data.batches import Batch, Batches
from regard.nn.build import build
from regard.tasks.translation.config import TranslationTrainConfig
from regard.tokenization import Tokenizer
from regard.training.objectives import Seq2SeqObjective
from regard.training.process import training_process

VOCABULARY = 8000
TOKENS = 2048
DROPOUT, SMOOTHING, MAX_LENGTH = 0.1, 0.1, 256
SIZES = {"tiny": "4+4 layers, 128/256", "small": "3+3 layers, 256/1024", "base": "6+6 layers, 512/2048"}
TURN = {"tiny": 4, "small": 2, "base": 1}
"""Batches per turn: about a second."""
PEERS = {
    "marian": "Hugging Face MarianMT",
    "joeynmt": "JoeyNMT",
    "torch": "torch.nn.Transformer",
    "compiled": "torch.compile of torch.nn.Transformer",
}
PEAK = "peak"


def captions(count: int = 4000, vocabulary: int = VOCABULARY) -> list[Batch]:
    """Batches of random sentences as long as Multi30k's captions, sorted by length as in training."""
    generator = random.Random(1)

    def sentence(length: float) -> list[int]:
        return [generator.randrange(4, vocabulary) for _ in range(max(4, min(45, round(length))))]

    pairs = []
    for _ in range(count):
        length = generator.gauss(13.5, 4)
        pairs.append((sentence(length + generator.gauss(0, 2.2)), sentence(length)))
    batches = list(Batches.of_pairs(pairs, TOKENS, MAX_LENGTH))
    generator.shuffle(batches)
    return batches


def operations(model: TransformerConfig, vocabulary: int = VOCABULARY) -> float:
    """Floating-point operations of matrix products per target token, forward and backward,

    for a source as long as the target.
    """
    width, inner = model.d_model, model.d_ff
    encoder = model.encoder_layers * (4 * width**2 + 2 * width * inner)
    decoder = model.decoder_layers * (8 * width**2 + 2 * width * inner)
    return 6.0 * (encoder + decoder + vocabulary * width)


def config_of(size: str, **changes: Any) -> TransformerConfig:
    return TransformerConfig(size=size, dropout=DROPOUT, **changes)  # type: ignore[arg-type]


def ours(size: str) -> Ready:
    return training_turns(our_step(config_of(size)), captions(), TURN[size])


def our_step(config: TransformerConfig) -> Callable[[Batch], object]:
    torch.manual_seed(0)
    model = build(config, VOCABULARY, VOCABULARY, Tokenizer.padding).train()
    objective = Seq2SeqObjective(model, Tokenizer.padding, SMOOTHING)
    return updates(
        model, objective, config.width, TranslationTrainConfig(steps=1, clip_norm=CLIP, averaging="none")
    )


def marian(size: str) -> Ready:
    """Hugging Face's model in the training loop of its documentation, with the default AdamW."""
    from transformers import MarianConfig, MarianMTModel

    sizes = config_of(size)
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
        max_position_embeddings=MAX_LENGTH,
        pad_token_id=Tokenizer.padding,
        eos_token_id=Tokenizer.end,
        decoder_start_token_id=Tokenizer.begin,
    )
    model = MarianMTModel(config).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

    def step(batch: Batch) -> None:
        source, target = batch.source.padded(Tokenizer.padding), batch.target.padded(Tokenizer.padding)
        nonpad = batch.source.nonpad.long()
        logits = model(
            input_ids=source, attention_mask=nonpad, decoder_input_ids=target, use_cache=False
        ).logits
        peer_update(model, optimizer, cross_entropy(logits, batch.labels.padded(Tokenizer.padding)))

    return training_turns(step, captions(), TURN[size])


def joeynmt(size: str) -> Ready:
    """JoeyNMT's own model and loss, built from its configuration, with Adam."""
    from joeynmt.loss import XentLoss
    from joeynmt.model import build_model
    from joeynmt.vocabulary import Vocabulary

    sizes = config_of(size)
    tokens = {"unk": Tokenizer.unknown, "pad": Tokenizer.padding, "bos": Tokenizer.begin, "eos": Tokenizer.end}
    special: dict[str, Any] = {f"{name}_token": f"<{name}>" for name in tokens}
    special |= {f"{name}_id": number for number, name in enumerate(tokens)}
    words = Vocabulary(
        [f"w{number}" for number in range(VOCABULARY - len(tokens))],
        SimpleNamespace(**special, sep_token=None, sep_id=None, lang_tags=[]),
    )
    theirs = torch.arange(VOCABULARY)  # JoeyNMT has fixed ids for special symbols
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
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)

    def step(batch: Batch) -> None:
        sides = batch.source, batch.target, batch.labels
        source, target, labels = (side.padded(Tokenizer.padding) for side in sides)
        nonpad = batch.source.nonpad.unsqueeze(1)
        loss, *_ = model(
            return_type="loss",
            src=theirs[source],
            trg_input=theirs[target],
            trg=theirs[labels],
            src_mask=nonpad,
            src_length=nonpad.sum((1, 2)),
            trg_mask=batch.labels.nonpad.unsqueeze(1),
        )
        peer_update(model, optimizer, loss / batch.tokens)

    return training_turns(step, captions(), TURN[size])


class PlainTransformer(nn.Module):
    """torch.nn.Transformer with the missing parts: scaled embeddings, sinusoidal positions, tied output, loss.

    Padding is at the end, so the causal mask keeps real target positions from attending to it, and the loss
    ignores what padding computes. With `is_causal` and no padding mask, PyTorch uses its fused kernel.
    """

    def __init__(self, config: TransformerConfig, vocabulary: int = VOCABULARY) -> None:
        super().__init__()
        width = config.d_model
        self.scale = math.sqrt(width)
        self.embedding = nn.Embedding(vocabulary, width, padding_idx=Tokenizer.padding)
        nn.init.normal_(self.embedding.weight, std=width**-0.5)
        self.body = nn.Transformer(
            width,
            config.heads,
            config.encoder_layers,
            config.decoder_layers,
            config.d_ff,
            config.dropout,
            activation=config.activation,
            batch_first=True,
            norm_first=config.norm == "pre",
        )
        self.dropout = nn.Dropout(config.dropout)
        self.output = nn.Linear(width, vocabulary)
        self.output.weight = self.embedding.weight
        angles = torch.arange(MAX_LENGTH)[:, None] * 10000 ** (-torch.arange(0, width, 2) / width)
        self.positions: Tensor
        self.register_buffer("positions", torch.stack((angles.sin(), angles.cos()), 2).flatten(1))
        self.causal: Tensor
        self.register_buffer("causal", torch.ones(MAX_LENGTH, MAX_LENGTH, dtype=torch.bool).triu(1))

    def embed(self, ids: Tensor) -> Tensor:
        return self.dropout(self.embedding(ids) * self.scale + self.positions[: ids.size(1)])

    def forward(self, source: Tensor, target: Tensor, labels: Tensor) -> Tensor:
        """Mean loss per token; ids are (batch, length)."""
        padding, length = source == Tokenizer.padding, target.size(1)
        hidden = self.body(
            self.embed(source),
            self.embed(target),
            tgt_mask=self.causal[:length, :length],
            tgt_is_causal=True,
            src_key_padding_mask=padding,
            memory_key_padding_mask=padding,
        )
        return cross_entropy(self.output(hidden), labels)


def plain_torch(size: str, *, compiling: bool = False) -> Ready:
    """torch.nn.Transformer in a plain loop with fused AdamW."""
    torch.manual_seed(0)
    model = PlainTransformer(config_of(size)).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    loss_of = torch.compile(model, dynamic=True) if compiling else model

    def step(batch: Batch) -> None:
        sides = batch.source, batch.target, batch.labels
        peer_update(model, optimizer, loss_of(*(side.padded(Tokenizer.padding) for side in sides)))

    return training_turns(step, captions(), TURN[size], compiling=compiling)


def compiled(size: str) -> Ready:
    return plain_torch(size, compiling=True)


def cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    return functional.cross_entropy(
        logits.flatten(0, 1), labels.flatten(), ignore_index=Tokenizer.padding, label_smoothing=SMOOTHING
    )


def peak(_: str = "") -> Ready:
    """GFLOP/s of PyTorch's product of large matrices: the practical peak of the machine."""
    square = torch.randn(1024, 1024)

    def turn() -> float:
        times = []
        for _ in range(10):
            start_time = time.perf_counter()
            square @ square
            times.append(time.perf_counter() - start_time)
        return float(2 * 1024**3 / sorted(times)[5] / 1e9)

    turn()
    return Ready(turn)


def speeds(size: str, rounds: int, contenders: Sequence[Contender] = ()) -> tuple[list[Row], float]:
    """Rows of regard compared with each peer, and the fraction of the peak that regard's training reaches."""
    rows = compare_with_peers(
        f"training {SIZES[size]}", __file__, [size], [*contenders, Contender(PEAK, PEAK, [PLAIN])], rounds
    )
    *rows, best = rows
    share = operations(config_of(size)) * (best.ratio or 0.0) / 1e9
    return rows or [Row(best.case, best.ours, rounds=rounds)], share


WORKERS = {
    "ours": ours,
    "marian": marian,
    "joeynmt": joeynmt,
    "torch": plain_torch,
    "compiled": compiled,
    PEAK: peak,
}


def main() -> None:
    parser = argument_parser(__doc__, 9, peers=PEERS)
    parser.add_argument("--sizes", nargs="+", choices=SIZES, help="all; with --quick tiny and small")
    options = parser.parse_args()
    sizes = options.sizes or (("tiny", "small") if options.quick else tuple(SIZES))
    rows, shares = [], []
    for size in sizes:
        size_rows, share = speeds(size, round_count(options), selected_peers(PEERS, options))
        rows += size_rows
        shares.append(f"{SIZES[size]}: {share:.0%}")
    print(as_json(rows) if options.json else format_table(rows, "target tokens per second"))
    if not options.json:
        print("fraction of the matrix-product peak (model operations): " + "; ".join(shares))


if __name__ == "__main__":
    start(main, WORKERS, training_process)
