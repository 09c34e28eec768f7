"""Training speed of a Vision Transformer compared with its peers, in images per second.

    pip install -c constraints.txt -e '.[bench]'
    python benchmarks/vit.py [--quick] [--rounds N] [--sizes grey colour] [--peers NAME ...] [--json]

Peers: Hugging Face's ViTForImageClassification in the loop of its documentation (AdamW, gradients clipped), and
torch.compile of it. harness/rounds.py describes rounds, ratios and allocator settings.
Rows: case, ours, peer, value (the peer's), ratio, low and high (its quartiles), settings, rounds, note.
"""

import torch
from harness.rounds import (
    Ready,
    argument_parser,
    as_json,
    compare_with_peers,
    format_table,
    round_count,
    selected_peers,
    start,
    training_turns,
)
from harness.updates import LR, peer_update, updates

from regard.config.models import VitConfig
from regard.data.image_batches import ImageBatch
from regard.nn.build import build_vit
from regard.tasks.image_classification.config import ImageTrainConfig
from regard.training.objectives import ImageObjective
from regard.training.process import training_process

LABELS, IMAGES = 10, 64
SIZES = {
    "grey": {"height": 28, "width": 28, "channels": 1, "d_model": 128, "heads": 4, "d_ff": 512},
    "colour": {"height": 32, "width": 32, "channels": 3, "d_model": 192, "heads": 6, "d_ff": 768},
}
TURN = {"grey": 4, "colour": 2}
"""Batches per turn: about a second."""
PEERS = {"huggingface": "Hugging Face ViT", "compiled": "torch.compile of Hugging Face ViT"}


def config_of(size: str) -> VitConfig:
    return VitConfig(layers=6, patch=4, **SIZES[size])


def batches(config: VitConfig) -> list[ImageBatch]:
    """Random images, brightness from 0 to 1."""
    generator = torch.Generator().manual_seed(1)
    shape = IMAGES, config.channels, config.height, config.width
    return [
        ImageBatch(
            torch.rand(shape, generator=generator),
            torch.randint(LABELS, (IMAGES,), generator=generator),
            config.tokens,
            IMAGES,
            tuple(range(IMAGES)),
        )
        for _ in range(8)
    ]


def images(batch: ImageBatch) -> int:
    return len(batch.pixels)


def ours(size: str) -> Ready:
    torch.manual_seed(0)
    config = config_of(size)
    model = build_vit(config, LABELS).train()
    step = updates(model, ImageObjective(model), config.d_model, ImageTrainConfig(steps=1))
    return training_turns(step, batches(config), TURN[size], size=images)


def huggingface(size: str, *, compiling: bool = False) -> Ready:
    from transformers import ViTConfig, ViTForImageClassification

    config = config_of(size)
    model = ViTForImageClassification(
        ViTConfig(
            hidden_size=config.d_model,
            num_hidden_layers=config.layers,
            num_attention_heads=config.heads,
            intermediate_size=config.d_ff,
            hidden_dropout_prob=config.dropout,
            attention_probs_dropout_prob=config.attention_dropout,
            image_size=config.height,
            patch_size=config.patch,
            num_channels=config.channels,
            num_labels=LABELS,
        )
    ).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=LR)
    forward = torch.compile(model) if compiling else model

    def step(batch: ImageBatch) -> None:
        normalized = (batch.pixels - 0.5) / 0.5  # as in its image processor and in our model
        peer_update(model, optimizer, forward(pixel_values=normalized, labels=batch.labels).loss)

    return training_turns(step, batches(config), TURN[size], compiling=compiling, size=images)


def compiled(size: str) -> Ready:
    return huggingface(size, compiling=True)


def main() -> None:
    parser = argument_parser(__doc__, 9, peers=PEERS)
    parser.add_argument("--sizes", nargs="+", choices=SIZES, default=list(SIZES), help="all")
    options = parser.parse_args()
    rows = []
    for size in options.sizes:
        config = config_of(size)
        case = f"training ViT {config.height}x{config.width}x{config.channels}, 6 x {config.d_model}"
        rows += compare_with_peers(case, __file__, [size], selected_peers(PEERS, options), round_count(options))
    print(as_json(rows) if options.json else format_table(rows, "images per second"))


if __name__ == "__main__":
    start(main, {"ours": ours, "huggingface": huggingface, "compiled": compiled}, training_process)
