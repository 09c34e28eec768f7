"""Images for tests that train in seconds: a bright horizontal or vertical bar on a dark background."""

import gzip
from pathlib import Path

import numpy as np
from PIL import Image

SMALL = [
    "model.layers=2", "model.d_model=32", "model.heads=2", "model.d_ff=64", "model.patch=4", "train.lr=0.003",
    "train.optimizer=adamw", "train.warmup=10", "train.batch_sentences=32", "train.log_every=20", "train.averaging=none",
    "data.held_out=0.2",
]  # fmt: skip


def bars(count: int, seed: int, size: int = 12) -> tuple[np.ndarray, np.ndarray]:
    """uint8 images (count, size, size), and labels: 1 for a vertical bar."""
    generator = np.random.default_rng(seed)
    pixels = generator.integers(0, 60, (count, size, size)).astype(np.uint8)
    labels = np.arange(count) % 2
    for image, upright in zip(pixels, labels, strict=True):
        line, first = generator.integers(1, size - 1), generator.integers(0, size - 7)
        bar = (slice(first, first + 7), line) if upright else (line, slice(first, first + 7))
        image[bar] = 250
    return pixels, labels


def idx(content: np.ndarray) -> bytes:
    """An array in MNIST's IDX format."""
    return bytes((0, 0, 8, content.ndim)) + np.array(content.shape, ">u4").tobytes() + content.tobytes()


def write_idx(folder: Path, train: int = 300, test: int = 60, *, packed: bool = True) -> Path:
    for name, count, seed in (("train", train, 0), ("t10k", test, 1)):
        pixels, labels = bars(count, seed)
        for part, content in (("images-idx3", pixels), ("labels-idx1", labels.astype(np.uint8))):
            path = folder / f"{name}-{part}-ubyte{'.gz' if packed else ''}"
            path.write_bytes(gzip.compress(idx(content)) if packed else idx(content))
    return folder


def write_folders(folder: Path, count: int = 120, *, colour: bool = False) -> Path:
    """lying/ and standing/ with PNG and JPEG files."""
    pixels, labels = bars(count, 2)
    for number, (image, upright) in enumerate(zip(pixels, labels, strict=True)):
        label_folder = folder / ("standing" if upright else "lying")
        label_folder.mkdir(parents=True, exist_ok=True)
        picture = Image.fromarray(image)
        picture = picture.convert("RGB") if colour else picture
        picture.save(label_folder / f"{number:04}.{'jpg' if number % 3 == 0 else 'png'}")
    return folder
