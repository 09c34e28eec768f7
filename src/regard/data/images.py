"""LabelledText images: idx files (MNIST's format), or image files in one folder per label."""

import gzip
import math
import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from PIL import Image, UnidentifiedImageError

from regard.config.models import VitConfig
from regard.data.text_files import CorpusError

SUFFIXES = (".png", ".jpg", ".jpeg")
MOST_PIXELS = 1 << 28
"""Largest image file accepted, in pixels: a decompression bomb would exhaust memory."""

IDX = {
    "train": ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"),
    "test": ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"),
}
"""Files of MNIST and of data sets with the same names (Fashion-MNIST, KMNIST), plain or .gz."""
SPLITS = ("train", "valid", "test")


Indices = Sequence[int] | np.ndarray
"""Indices of images."""


@dataclass(frozen=True)
class ImageFile:
    """Path, size and mode of an image file."""

    path: Path
    height: int
    width: int
    grey: bool

    @property
    def size(self) -> str:
        return f"{self.height} x {self.width}"


class Images(Protocol):
    """Images by index, with their labels."""

    @property
    def labels(self) -> list[str]:
        """The label of each image."""

    @property
    def height(self) -> int: ...

    @property
    def width(self) -> int: ...

    @property
    def channels(self) -> int: ...

    def load(self, indices: Indices) -> np.ndarray:
        """Pixels as uint8 (images, channels, height, width)."""

    def name(self, index: int) -> str:
        """The image's name for messages."""


@dataclass(frozen=True)
class IdxImages:
    """Images of an idx file, all in memory: one byte per pixel."""

    path: Path
    pixels: np.ndarray  # (images, height, width)
    labels: list[str]

    @property
    def height(self) -> int:
        return int(self.pixels.shape[1])

    @property
    def width(self) -> int:
        return int(self.pixels.shape[2])

    channels = 1

    def load(self, indices: Indices) -> np.ndarray:
        return self.pixels[np.asarray(indices, np.int64)][:, None]

    def name(self, index: int) -> str:
        return f"image {index} of {self.path}"


@dataclass(frozen=True)
class FolderImages:
    """Image files, read when they are loaded; labels are the names of their folders."""

    path: Path
    files: list[ImageFile]
    labels: list[str]
    height: int
    width: int
    channels: int

    def load(self, indices: Indices) -> np.ndarray:
        read = [read_image(self.files[index].path, self.height, self.width, self.channels) for index in indices]
        return np.stack(read)

    def name(self, index: int) -> str:
        return str(self.files[index].path)


@dataclass(frozen=True)
class ImageSubset:
    """A subset of images, such as those held out."""

    whole: Images
    indices: np.ndarray

    @property
    def labels(self) -> list[str]:
        return [self.whole.labels[index] for index in self.indices]

    @property
    def height(self) -> int:
        return self.whole.height

    @property
    def width(self) -> int:
        return self.whole.width

    @property
    def channels(self) -> int:
        return self.whole.channels

    def load(self, indices: Indices) -> np.ndarray:
        return self.whole.load(self.indices[np.asarray(indices, np.int64)])

    def name(self, index: int) -> str:
        return self.whole.name(int(self.indices[index]))


def open_images(folder: Path, model: VitConfig) -> dict[str, Images]:
    """The splits of a folder: train, and valid and test where it has them."""
    if not folder.is_dir():
        raise CorpusError(f"no such folder: {folder}; data.path must name the folder with the images")
    if any((folder / f"{IDX['train'][0]}{ending}").exists() for ending in ("", ".gz")):
        return {split: open_idx(folder, *names) for split, names in IDX.items() if idx_file(folder, names[0])}
    split_folders = {split: folder / split for split in SPLITS if (folder / split).is_dir()}
    if split_folders and "train" not in split_folders:
        raise CorpusError(f"{folder} has a folder {next(iter(split_folders))}, but no folder train")
    splits: dict[str, Images] = {}
    for split, path in (split_folders or {"train": folder}).items():
        splits[split] = open_folder(path, model, splits.get("train"))
    return splits


def open_test_images(folder: Path, model: VitConfig) -> Images:
    """Images for evaluation: one folder per label, or idx files of the test or the training split."""
    if not folder.is_dir():
        raise CorpusError(f"no such folder: {folder}")
    for names in (IDX["test"], IDX["train"]):
        if idx_file(folder, names[0]):
            return open_idx(folder, *names)
    return open_folder(folder, model)


def open_folder(folder: Path, model: VitConfig, reference: Images | None = None) -> FolderImages:
    """Image files in one folder per label; all of one size unless the recipe sets a size to scale to."""
    by_label = {
        subfolder.name: image_files(subfolder)
        for subfolder in sorted(folder.iterdir())
        if subfolder.is_dir() and subfolder.name[0] != "."
    }
    by_label = {label: files_of_label for label, files_of_label in by_label.items() if files_of_label}
    if not by_label:
        raise CorpusError(f"{folder} has no folders with images ({', '.join(SUFFIXES)}); each label needs one")
    files = [file for files_of_label in by_label.values() for file in files_of_label]
    labels = [label for label, files_of_label in by_label.items() for _ in files_of_label]
    height, width = model.height, model.width
    if not height or not width:
        height, width = one_size(folder, files)
        if reference and (height, width) != (reference.height, reference.width):
            raise CorpusError(
                f"{folder}: images are {height} x {width}, but those of the training split"
                f" {reference.height} x {reference.width}"
            )
    grey = all(file.grey for file in files)
    channels = model.channels or (reference.channels if reference else 1 if grey else 3)
    return FolderImages(folder, files, labels, height, width, channels)


def one_size(folder: Path, files: Sequence[ImageFile]) -> tuple[int, int]:
    """Height and width that all files have in common."""
    first = files[0]
    for file in files:
        if (file.height, file.width) != (first.height, first.width):
            raise CorpusError(
                f"{folder}: images differ in size, such as {first.size} ({first.path.name}) and "
                f"{file.size} ({file.path.name}); set the size to scale to: model.height=... model.width=..."
            )
    return first.height, first.width


def idx_file(folder: Path, name: str) -> Path | None:
    paths = (folder / f"{name}{ending}" for ending in ("", ".gz"))
    return next((path for path in paths if path.is_file()), None)


def open_idx(folder: Path, images: str, labels: str) -> IdxImages:
    """Images and labels from two idx files of a folder."""
    paths = [idx_file(folder, name) for name in (images, labels)]
    for path, name in zip(paths, (images, labels), strict=True):
        if path is None:
            raise CorpusError(f"no such file: {folder / name} (plain or .gz)")
    pixels, numbers = (read_idx(path, axes) for path, axes in zip(paths, (3, 1), strict=True) if path)
    if len(pixels) != len(numbers):
        raise CorpusError(f"{paths[0]} has {len(pixels):,} images, but {paths[1]} has {len(numbers):,} labels")
    if not len(pixels):
        raise CorpusError(f"{paths[0]} has no images")
    assert paths[0] is not None
    return IdxImages(paths[0], pixels, [str(number) for number in numbers])


def read_idx(path: Path, axes: int) -> np.ndarray:
    """Read an idx file of bytes: two zeros, 8, the number of axes, the length of each as 32 bits, the data."""
    try:
        content = path.read_bytes()
        content = gzip.decompress(content) if path.suffix == ".gz" else content
    except (OSError, EOFError, zlib.error) as problem:
        raise CorpusError(f"{path} cannot be read: {getattr(problem, 'strerror', None) or problem}") from None
    if content[:4] != bytes((0, 0, 8, axes)):
        raise CorpusError(
            f"{path} is not an idx file of bytes with {axes} axes: it begins with {content[:4].hex()}"
        )
    head = 4 + 4 * axes
    if len(content) < head:
        raise CorpusError(f"{path} is truncated: it ends within its header")
    shape = tuple(int(length) for length in np.frombuffer(content, ">u4", axes, 4))
    if len(content) - head != math.prod(shape):
        size = " x ".join(f"{length:,}" for length in shape)
        raise CorpusError(
            f"{path} is damaged: its header promises {size} bytes, it has {len(content) - head:,}"
        )
    return np.frombuffer(content, np.uint8, offset=head).reshape(shape)


def distinct_labels(images: Images, folder: Path) -> list[str]:
    """The labels in order, numbers by value.

    Raises:
        CorpusError: There is one label only.
    """
    labels = sorted(
        set(images.labels),
        key=lambda label: (not label.isdecimal(), label.zfill(9) if label.isdecimal() else label),
    )
    if len(labels) == 1:
        raise CorpusError(f"{folder}: all images have the label {labels[0]!r}; at least two labels are needed")
    return labels


def check_labels(images: Images, labels: Sequence[str], folder: Path) -> None:
    """Raise CorpusError for a label that the training images do not have."""
    for label in sorted(set(images.labels) - set(labels)):
        raise CorpusError(
            f"{folder}: the label {label!r} was not among those of the training images, which are "
            f"{', '.join(labels)}"
        )


def label_distribution(images: Images) -> str:
    """Counts of the labels for a log line, the most frequent first."""
    counted = Counter(images.labels).most_common()
    counts = ", ".join(f"{count:,} x {label}" for label, count in counted[:12])
    return counts + (f" and {len(counted) - 12} more labels" if len(counted) > 12 else "")


def image_files(folder: Path) -> list[ImageFile]:
    """The image files of a folder, ordered by name."""
    return [
        read_image_header(path)
        for path in sorted(folder.iterdir())
        if path.suffix.lower() in SUFFIXES and path.name[0] != "."
    ]


def read_image_header(path: Path) -> ImageFile:
    """The header of an image file; its pixels are not read."""
    with open_image(path) as image:
        return ImageFile(path, image.height, image.width, image.mode in ("1", "L", "LA", "I", "I;16"))


def read_image(path: Path, height: int, width: int, channels: int) -> np.ndarray:
    """The image as uint8 (channels, height, width), scaled to that size."""
    with open_image(path) as image:
        try:
            image.load()
        except (OSError, SyntaxError, ValueError) as problem:
            raise broken_image(path, problem) from None
        scaled = image.convert("L" if channels == 1 else "RGB")
        if scaled.size != (width, height):
            scaled = scaled.resize((width, height), Image.Resampling.BILINEAR)
    pixels = np.array(scaled, np.uint8)
    return pixels[None] if channels == 1 else np.ascontiguousarray(pixels.transpose(2, 0, 1))


def open_image(path: Path) -> Image.Image:
    try:
        image = Image.open(path, formats=("PNG", "JPEG"))
    except FileNotFoundError:
        raise CorpusError(f"no such file: {path}") from None
    except IsADirectoryError:
        raise CorpusError(f"{path} is a folder; an image file is needed ({', '.join(SUFFIXES)})") from None
    except PermissionError:
        raise CorpusError(f"{path} cannot be read by this user; change its permissions") from None
    except UnidentifiedImageError:
        raise CorpusError(f"{path} is not an image: it is neither PNG nor JPEG") from None
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as problem:
        raise broken_image(path, problem) from None
    if image.height * image.width > MOST_PIXELS:
        raise CorpusError(
            f"{path} claims {image.height:,} x {image.width:,} pixels; at most {MOST_PIXELS:,} are allowed"
        )
    return image


def broken_image(path: Path, problem: Exception) -> CorpusError:
    return CorpusError(f"{path} is a broken image: {str(problem).lower().rstrip('.')}")
