"""Images small enough to learn in seconds: a bright bar that lies or stands, somewhere on a dim ground."""

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
    """Bytes (count, size, size), and 1 where the bar stands."""
    chance = np.random.default_rng(seed)
    pixels = chance.integers(0, 60, (count, size, size)).astype(np.uint8)
    stands = np.arange(count) % 2
    for image, upright in zip(pixels, stands, strict=True):
        place, first = chance.integers(1, size - 1), chance.integers(0, size - 7)
        bar = (slice(first, first + 7), place) if upright else (place, slice(first, first + 7))
        image[bar] = 250
    return pixels, stands


def idx(content: np.ndarray) -> bytes:
    """As MNIST's files have it."""
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
    pixels, stands = bars(count, 2)
    for number, (image, upright) in enumerate(zip(pixels, stands, strict=True)):
        place = folder / ("standing" if upright else "lying")
        place.mkdir(parents=True, exist_ok=True)
        picture = Image.fromarray(image)
        picture = picture.convert("RGB") if colour else picture
        picture.save(place / f"{number:04}.{'jpg' if number % 3 == 0 else 'png'}")
    return folder
