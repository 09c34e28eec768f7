"""A U-Net small enough for a test, and two toy pictures it can learn to paint: a ring is a zero, a bar a one."""

from pathlib import Path

import numpy as np
import torch

from regard.config.models import UnetConfig
from regard.nn.unet import Unet
from support.small_images import idx

SIDE, PADDING, END = 8, 2, 1
SMALL = [
    f"model.side={SIDE}", "model.channels=16", "model.widths=[1,2]", "model.attend_at=[4]", "model.heads=2",
    "model.prompt_size=16", "model.prompt_layers=1", "model.noise_steps=100", "data.held_out=8",
    "train.batch_sentences=32", "train.warmup=10", "train.lr=0.004", "train.log_every=50", "paint.steps=20",
]  # fmt: skip


def small_unet(**changed) -> Unet:
    """With weights of chance everywhere: as it starts, a U-Net says nothing."""
    shape = {
        "side": SIDE,
        "channels": 8,
        "widths": (1, 2),
        "attend_at": (8, 4),
        "heads": 2,
        "prompt_size": 8,
        "prompt_layers": 1,
        "noise_steps": 20,
    }
    torch.manual_seed(0)
    model = Unet(UnetConfig(**{**shape, **changed}), 12, PADDING).eval()
    for each in model.parameters():
        torch.nn.init.normal_(each, std=0.2)
    return model


def toys() -> np.ndarray:
    """(2, side, side) bytes: a ring and a bar."""
    row, column = np.mgrid[:SIDE, :SIDE] - (SIDE - 1) / 2
    ring = np.abs(np.hypot(row, column) - 2.6) < 0.8
    bar = np.abs(column) < 1
    return np.stack([ring, bar]).astype(np.uint8) * 255


def write_toys(folder: Path, train: int = 256, test: int = 32, labels: int = 2) -> None:
    """The toys as MNIST's files, each a little brighter or darker; with more labels, even ones are rings."""
    chance = np.random.default_rng(0)
    for name, count in (("train", train), ("t10k", test)):
        numbers = np.arange(count, dtype=np.uint8) % labels
        pixels = (toys()[numbers % 2] * chance.uniform(0.8, 1, (count, 1, 1))).astype(np.uint8)
        (folder / f"{name}-images-idx3-ubyte").write_bytes(idx(pixels))
        (folder / f"{name}-labels-idx1-ubyte").write_bytes(idx(numbers))
