"""Images with labels: idx files as MNIST's, or a folder with a folder for each label."""

import gzip
import math
import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from regard.config.models import VitConfig
from regard.data.lines import CorpusError
from regard.data.pictures import KINDS, Picture, pictures_in, read_picture

IDX = {
    "train": ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"),
    "test": ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"),
}
"""Files of MNIST and of those that took its names, plain or .gz."""
SPLITS = ("train", "valid", "test")


Members = Sequence[int] | np.ndarray


class Images(Protocol):
    """Images by number, with their labels."""

    @property
    def labels(self) -> list[str]:
        """Of each image."""

    @property
    def height(self) -> int: ...

    @property
    def width(self) -> int: ...

    @property
    def channels(self) -> int: ...

    def load(self, members: Members) -> np.ndarray:
        """Bytes (images, channels, height, width)."""

    def name(self, member: int) -> str:
        """Which image it is, for a sentence."""


@dataclass(frozen=True)
class Stored:
    """Images of an idx file, all in memory: a byte a pixel."""

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

    def load(self, members: Members) -> np.ndarray:
        return self.pixels[np.asarray(members, np.int64)][:, None]

    def name(self, member: int) -> str:
        return f"image {member} of {self.path}"


@dataclass(frozen=True)
class InFolders:
    """Image files, opened when they are needed; labels are the names of their folders."""

    path: Path
    pictures: list[Picture]
    labels: list[str]
    height: int
    width: int
    channels: int

    def load(self, members: Members) -> np.ndarray:
        read = [
            read_picture(self.pictures[each].path, self.height, self.width, self.channels) for each in members
        ]
        return np.stack(read)

    def name(self, member: int) -> str:
        return str(self.pictures[member].path)


@dataclass(frozen=True)
class Part:
    """Some of other images, such as those held out."""

    whole: Images
    members: np.ndarray

    @property
    def labels(self) -> list[str]:
        return [self.whole.labels[member] for member in self.members]

    @property
    def height(self) -> int:
        return self.whole.height

    @property
    def width(self) -> int:
        return self.whole.width

    @property
    def channels(self) -> int:
        return self.whole.channels

    def load(self, members: Members) -> np.ndarray:
        return self.whole.load(self.members[np.asarray(members, np.int64)])

    def name(self, member: int) -> str:
        return self.whole.name(int(self.members[member]))


def open_images(folder: Path, model: VitConfig) -> dict[str, Images]:
    """The splits of a folder: train, and valid and test where it has them."""
    if not folder.is_dir():
        raise CorpusError(f"there is no folder {folder}; data.path names the one with the images")
    if any((folder / f"{IDX['train'][0]}{ending}").exists() for ending in ("", ".gz")):
        return {split: open_idx(folder, *names) for split, names in IDX.items() if idx_file(folder, names[0])}
    found = {split: folder / split for split in SPLITS if (folder / split).is_dir()}
    if found and "train" not in found:
        raise CorpusError(f"{folder} has the folder {next(iter(found))}, and no folder train beside it")
    splits: dict[str, Images] = {}
    for split, place in (found or {"train": folder}).items():
        splits[split] = open_folder(place, model, splits.get("train"))
    return splits


def open_set(folder: Path, model: VitConfig) -> Images:
    """Images to measure on: a folder of labels, or idx files of a test or a training."""
    if not folder.is_dir():
        raise CorpusError(f"there is no folder {folder}")
    for names in (IDX["test"], IDX["train"]):
        if idx_file(folder, names[0]):
            return open_idx(folder, *names)
    return open_folder(folder, model)


def open_folder(folder: Path, model: VitConfig, like: Images | None = None) -> InFolders:
    """Image files in a folder for each label; all of one size, unless the recipe says what they become."""
    by_label = {
        each.name: pictures_in(each)
        for each in sorted(folder.iterdir())
        if each.is_dir() and each.name[0] != "."
    }
    by_label = {label: found for label, found in by_label.items() if found}
    if not by_label:
        raise CorpusError(
            f"{folder} has no folders with images in them ({', '.join(KINDS)}); each label has one"
        )
    pictures = [each for found in by_label.values() for each in found]
    labels = [label for label, found in by_label.items() for _ in found]
    height, width = model.height, model.width
    if not height or not width:
        height, width = one_size(folder, pictures)
        if like and (height, width) != (like.height, like.width):
            raise CorpusError(
                f"{folder}: images are {height} x {width}, and those for training {like.height} x {like.width}"
            )
    grey = all(each.grey for each in pictures)
    channels = model.channels or (like.channels if like else 1 if grey else 3)
    return InFolders(folder, pictures, labels, height, width, channels)


def one_size(folder: Path, pictures: Sequence[Picture]) -> tuple[int, int]:
    first = pictures[0]
    for each in pictures:
        if (each.height, each.width) != (first.height, first.width):
            raise CorpusError(
                f"{folder}: images are of several sizes, such as {first.size} ({first.path.name}) and "
                f"{each.size} ({each.path.name}); say what they become: model.height=... model.width=..."
            )
    return first.height, first.width


def idx_file(folder: Path, name: str) -> Path | None:
    found = (folder / f"{name}{ending}" for ending in ("", ".gz"))
    return next((each for each in found if each.is_file()), None)


def open_idx(folder: Path, images: str, labels: str) -> Stored:
    paths = [idx_file(folder, name) for name in (images, labels)]
    for path, name in zip(paths, (images, labels), strict=True):
        if path is None:
            raise CorpusError(f"there is no file {folder / name}, plain or .gz")
    pixels, numbers = (read_idx(path, axes) for path, axes in zip(paths, (3, 1), strict=True) if path)
    if len(pixels) != len(numbers):
        raise CorpusError(f"{paths[0]} has {len(pixels):,} images, and {paths[1]} {len(numbers):,} labels")
    if not len(pixels):
        raise CorpusError(f"{paths[0]} has no images")
    assert paths[0] is not None
    return Stored(paths[0], pixels, [str(each) for each in numbers])


def read_idx(path: Path, axes: int) -> np.ndarray:
    """An idx file of bytes: two zeros, 8, the number of axes, their lengths as 32 bits each, the bytes."""
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
        raise CorpusError(f"{path} is cut off: it ends within its header")
    shape = tuple(int(each) for each in np.frombuffer(content, ">u4", axes, 4))
    if len(content) - head != math.prod(shape):
        told = " x ".join(f"{each:,}" for each in shape)
        raise CorpusError(f"{path} is damaged: it promises {told} bytes and has {len(content) - head:,}")
    return np.frombuffer(content, np.uint8, offset=head).reshape(shape)


def labels_of(images: Images, folder: Path) -> list[str]:
    """The labels in order, numbers by their value; one alone leaves nothing to learn."""
    found = sorted(
        set(images.labels), key=lambda each: (not each.isdecimal(), each.zfill(9) if each.isdecimal() else each)
    )
    if len(found) == 1:
        raise CorpusError(
            f"{folder}: all images have the label {found[0]!r}; telling them apart needs two labels"
        )
    return found


def check_labels(images: Images, labels: Sequence[str], folder: Path) -> None:
    """Refuse a label that the model does not know."""
    for label in sorted(set(images.labels) - set(labels)):
        raise CorpusError(
            f"{folder}: the label {label!r} was not among those of the training images, which are "
            f"{', '.join(labels)}"
        )


def balance(images: Images) -> str:
    counted = Counter(images.labels).most_common()
    told = ", ".join(f"{count:,} x {label}" for label, count in counted[:12])
    return told + (f" and {len(counted) - 12} more labels" if len(counted) > 12 else "")
