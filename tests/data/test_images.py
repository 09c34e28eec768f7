"""Images from idx files and folders: reading, augmentation and errors."""

import gzip
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from support.small_images import bars, idx, write_folders, write_idx

from regard.config.data import ImageDataConfig
from regard.config.models import VitConfig
from regard.data.batch_order import Cursor
from regard.data.image_batches import ImageBatches, augmentation_maps, pixels_to_float, warp
from regard.data.images import distinct_labels, open_images, open_test_images, read_idx
from regard.data.text_files import CorpusError

ANY = VitConfig(size="digits")


@pytest.mark.parametrize("packed", [True, False])
def test_idx_files_are_read(packed: bool, tmp_path: Path) -> None:
    splits = open_images(write_idx(tmp_path, 20, 10, packed=packed), ANY)
    assert list(splits) == ["train", "test"]
    train = splits["train"]
    assert (train.height, train.width, train.channels, len(train.labels)) == (12, 12, 1, 20)
    assert np.array_equal(train.load([3, 0])[:, 0], bars(20, 0)[0][[3, 0]])
    assert distinct_labels(train, tmp_path) == ["0", "1"]


def test_real_mnist_is_read() -> None:
    folder = Path(os.environ.get("REGARD_DATA", Path(__file__).parents[3] / "shared" / "data")) / "mnist"
    if not folder.is_dir():
        pytest.skip(f"there is no {folder}")
    splits = open_images(folder, ANY)
    assert [len(each.labels) for each in splits.values()] == [60_000, 10_000]
    assert splits["train"].labels[:5] == ["5", "0", "4", "1", "9"]
    assert distinct_labels(splits["train"], folder) == [str(each) for each in range(10)]


def test_folders_are_labels_and_files_keep_their_pixels(tmp_path: Path) -> None:
    splits = open_images(write_folders(tmp_path, 12), ANY)
    assert list(splits) == ["train"]
    train = splits["train"]
    assert (train.height, train.width, train.channels) == (12, 12, 1)
    assert sorted(set(train.labels)) == ["lying", "standing"]
    number = next(place for place in range(12) if train.name(place).endswith("0001.png"))
    assert np.array_equal(train.load([number])[0, 0], bars(12, 2)[0][1])


def test_splits_are_folders_and_colour_is_kept(tmp_path: Path) -> None:
    write_folders(tmp_path / "train", 12, colour=True)
    write_folders(tmp_path / "test", 6)
    splits = open_images(tmp_path, ANY)
    assert [(split, each.channels) for split, each in splits.items()] == [("train", 3), ("test", 3)]
    assert splits["test"].load([0]).shape == (1, 3, 12, 12)


def test_images_become_the_size_the_recipe_says(tmp_path: Path) -> None:
    write_folders(tmp_path, 6)
    Image.new("L", (30, 20)).save(tmp_path / "lying" / "large.png")
    found = open_images(tmp_path, VitConfig(size="digits", height=8, width=16))["train"]
    assert found.load(range(7)).shape == (7, 1, 8, 16)


def refused(act) -> str:
    with pytest.raises(CorpusError) as caught:
        act()
    return str(caught.value)


def test_mixed_sizes_are_refused_in_a_sentence(tmp_path: Path) -> None:
    write_folders(tmp_path, 6)
    Image.new("L", (30, 20)).save(tmp_path / "lying" / "large.png")
    told = refused(lambda: open_images(tmp_path, ANY))
    assert told == (
        f"{tmp_path}: images differ in size, such as 12 x 12 (0000.jpg) and 20 x 30 (large.png); "
        "set the size to scale to: model.height=... model.width=..."
    )
    write_folders(tmp_path / "a" / "train", 6)
    (tmp_path / "a" / "test" / "lying").mkdir(parents=True)
    Image.new("L", (30, 20)).save(tmp_path / "a" / "test" / "lying" / "large.png")
    assert refused(lambda: open_images(tmp_path / "a", ANY)).endswith(
        "20 x 30, but those of the training split 12 x 12"
    )


def test_a_broken_image_is_named(tmp_path: Path) -> None:
    write_folders(tmp_path, 6)
    path = tmp_path / "lying" / "0002.png"
    whole = path.read_bytes()
    path.write_bytes(b"no image at all")
    assert refused(lambda: open_images(tmp_path, ANY)) == f"{path} is not an image: it is neither PNG nor JPEG"
    path.write_bytes(whole[:70])  # the header is whole, the pixels are not
    train = open_images(tmp_path, ANY)["train"]
    told = refused(lambda: train.load(range(6)))
    assert told.startswith(f"{path} is a broken image: ")
    assert "\n" not in told


def test_folders_without_two_labels_are_refused(tmp_path: Path) -> None:
    assert refused(lambda: open_images(tmp_path / "none", ANY)).startswith("no such folder")
    (tmp_path / "empty").mkdir()
    assert "has no folders with images" in refused(lambda: open_images(tmp_path / "empty", ANY))
    write_folders(tmp_path, 6)
    for path in (tmp_path / "standing").iterdir():
        path.unlink()
    found = open_images(tmp_path, ANY)["train"]
    told = refused(lambda: distinct_labels(found, tmp_path))
    assert told == f"{tmp_path}: all images have the label 'lying'; at least two labels are needed"


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "is not an idx file of bytes with 3 axes"),
        (b"\x00\x00\x0d\x03" + bytes(12), "is not an idx file of bytes with 3 axes"),
        (b"\x00\x00\x08\x03\x00", "is truncated"),
        (idx(np.zeros((2, 3, 3), np.uint8))[:-1], "its header promises 2 x 3 x 3 bytes, it has 17"),
        (b"\x00\x00\x08\x03" + b"\xff" * 12, "its header promises"),
    ],
)
def test_damaged_idx_files(content: bytes, told: str, tmp_path: Path) -> None:
    path = tmp_path / "train-images-idx3-ubyte"
    path.write_bytes(content)
    assert told in refused(lambda: read_idx(path, 3))
    packed = tmp_path / "t.gz"
    packed.write_bytes(gzip.compress(content)[:-6])
    assert "cannot be read" in refused(lambda: read_idx(packed, 3))


def test_evaluation_uses_the_test_images(tmp_path: Path) -> None:
    assert len(open_test_images(write_idx(tmp_path, 20, 10), ANY).labels) == 10


def batches(folder: Path, **options) -> ImageBatches:
    train = open_images(folder, ANY)["train"]
    return ImageBatches(train, np.array([int(each) for each in train.labels]), 10, 8, **options)


def test_batches_hold_every_image_once_per_epoch_and_resume_at_any_cursor(tmp_path: Path) -> None:
    made = batches(
        write_idx(tmp_path, 30, 5), augmentation=ImageDataConfig(shift=0.2, rotate=20.0, crop=0.2, flip=True)
    )
    stream = made.stream()
    first = [next(stream) for _ in range(made.batches_per_epoch())]
    assert sorted(number for batch, _ in first for number in batch.sentences) == list(range(30))
    batch, cursor = next(stream)
    again, _ = next(made.stream(first[-1][1]))
    assert torch.equal(batch.pixels, again.pixels)
    assert cursor == Cursor(1, 0, 1)
    assert (batch.tokens, batch.num_targets, batch.rows) == (80, 8, 8)
    assert not torch.equal(batch.pixels, pixels_to_float(made.images.load(batch.sentences)))  # they are changed


def test_processes_get_shards_of_one_augmented_batch(tmp_path: Path) -> None:
    folder, augmentation = write_idx(tmp_path, 30, 5), ImageDataConfig(shift=0.2)
    whole, _ = next(batches(folder, augmentation=augmentation).stream())
    parts = [next(batches(folder, augmentation=augmentation, shard=(rank, 2)).stream())[0] for rank in (0, 1)]
    assert torch.equal(whole.pixels[0::2], parts[0].pixels)
    assert torch.equal(whole.pixels[1::2], parts[1].pixels)
    assert parts[0].num_targets == 8


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (ImageDataConfig(flip=True), [[[1, 2], [3, 4]], [[2, 1], [4, 3]]]),
        (ImageDataConfig(rotate=0.0), None),
    ],
)
def test_augmentation(data: ImageDataConfig, expected) -> None:
    maps = augmentation_maps(data, 40, (1, 2))
    if expected is None:
        assert maps is None
        return
    image = torch.tensor([[1.0, 2], [3, 4]]).expand(40, 1, 2, 2)
    found = {tuple(each.flatten().tolist()) for each in warp(image, maps).round(decimals=4)}
    assert found == {tuple(np.array(each, float).flatten().tolist()) for each in expected}


def test_a_shift_moves_by_at_most_its_fraction() -> None:
    image = torch.zeros(200, 1, 20, 20)
    image[:, :, 10, 10] = 1
    places = warp(image, augmentation_maps(ImageDataConfig(shift=0.1), 200, (3,))).flatten(1).argmax(1)
    rows, columns = places // 20, places % 20
    assert {int(each) for each in rows} == {8, 9, 10, 11, 12}
    assert {int(each) for each in columns} == {8, 9, 10, 11, 12}
