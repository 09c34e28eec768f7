"""A small U-Net, and two toy images that it can learn to generate: a ring for zero, a bar for one."""

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


def small_unet(**settings) -> Unet:
    """A U-Net with random weights everywhere: the default initialisation predicts zero."""
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
    model = Unet(UnetConfig(**{**shape, **settings}), 12, PADDING).eval()
    for weight in model.parameters():
        torch.nn.init.normal_(weight, std=0.2)
    return model


def toys() -> np.ndarray:
    """uint8 images (2, side, side): a ring and a bar."""
    row, column = np.mgrid[:SIDE, :SIDE] - (SIDE - 1) / 2
    ring = np.abs(np.hypot(row, column) - 2.6) < 0.8
    bar = np.abs(column) < 1
    return np.stack([ring, bar]).astype(np.uint8) * 255


def write_toys(folder: Path, train: int = 256, test: int = 32, labels: int = 2) -> None:
    """The toy images of varying brightness in MNIST's files; even labels are rings, odd ones bars."""
    generator = np.random.default_rng(0)
    for name, count in (("train", train), ("t10k", test)):
        numbers = np.arange(count, dtype=np.uint8) % labels
        pixels = (toys()[numbers % 2] * generator.uniform(0.8, 1, (count, 1, 1))).astype(np.uint8)
        (folder / f"{name}-images-idx3-ubyte").write_bytes(idx(pixels))
        (folder / f"{name}-labels-idx1-ubyte").write_bytes(idx(numbers))
