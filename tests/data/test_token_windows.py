"""Token windows: exact, without padding, at another offset in each epoch, every token once in evaluation."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from regard import tokenization
from regard.data.batch_order import Cursor
from regard.data.examples import TextBatches
from regard.data.language_modeling import TextRange, TokenWindows
from regard.data.text_files import CorpusError
from regard.data.token_store import open_or_build

LINES = [f"line {number} of a text, größer as it goes on\n" * (number % 3 + 1) for number in range(60)]
WHOLE = "".join(LINES)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt.gz"
    path.write_bytes(gzip.compress(WHOLE.encode()))
    return path


def windows(running: TextRange, folder: Path, length: int, part: int = 1_000_000) -> TokenWindows:
    tokenizer = tokenization.train("characters", running)
    store = open_or_build(
        folder,
        running.pairs,
        tokenizer.encode_batch,
        lambda nothing: [[] for _ in nothing],
        (tokenizer.size, 0),
        part,
    )
    return TokenWindows(store, length)


def test_a_text_and_its_parts_are_exact(file: Path) -> None:
    running = TextRange.of_file(file)
    assert "".join(running) == WHOLE
    assert (len(running), running.bytes) == (len(WHOLE), len(WHOLE.encode()))
    kept, out = running.split(0.1)
    assert ("".join(kept), "".join(out)) == (WHOLE[: int(len(WHOLE) * 0.9)], WHOLE[int(len(WHOLE) * 0.9) :])
    assert kept.bytes + out.bytes == running.bytes
    assert len({each.fingerprint for each in (running, kept, out)}) == 3


@pytest.mark.parametrize("part", [1, 1_000_000])
def test_windows_are_neighbours_and_ask_for_what_follows(file: Path, tmp_path: Path, part: int) -> None:
    found = windows(TextRange.of_file(file), tmp_path / "store", 32, part)
    assert found.tokens == len(WHOLE)
    assert len(found.parts()) == len(found.rows) == (1 if part > 1 else len(found.rows))
    for each in found.load(np.arange(len(found)), np.random.default_rng(3)):
        assert len(each.ids) == 32
        assert each.token_labels is not None
        assert np.array_equal(each.ids[1:], each.token_labels[:-1])
    asked = sum(len(each.ids) for each in found.non_overlapping())
    assert asked == len(WHOLE) - len(found.rows)


def test_an_epoch_goes_through_the_text_and_the_next_one_begins_elsewhere(file: Path, tmp_path: Path) -> None:
    found = windows(TextRange.of_file(file), tmp_path / "store", 16)
    batches = TextBatches(found, sentences=4, seed=1)
    first = [
        batch for batch, cursor in some(batches, Cursor()) if cursor.epoch == 0 or cursor == Cursor(1, 0, 0)
    ]
    assert sum(batch.rows for batch in first) == len(found)
    numbers = sorted(number for batch in first for number in batch.sentences)
    assert numbers == list(range(len(found)))
    again = next(iter(batches.stream(Cursor())))[0]
    assert np.array_equal(again.ids.values, first[0].ids.values)
    row = found.rows[0].tolist()
    begins = {(begin_of(row, batch.ids.split()[0].tolist())) % 16 for batch in first}
    other = next(iter(batches.stream(Cursor(1, 0, 0))))[0]
    assert begins != {begin_of(row, other.ids.split()[0].tolist()) % 16}


def some(batches: TextBatches, cursor: Cursor) -> list:
    stream = batches.stream(cursor)
    return [next(stream) for _ in range(batches.batches_per_epoch())]


def begin_of(row: list[int], ids: list[int]) -> int:
    return next(place for place in range(len(row)) if row[place : place + len(ids)] == ids)


@pytest.mark.parametrize(
    ("content", "sentence"), [("", "is empty"), ("\n \n", "holds no text"), ("\ufeff", "is empty")]
)
def test_a_file_without_text_is_told(tmp_path: Path, content: str, sentence: str) -> None:
    (tmp_path / "text.txt").write_text(content, encoding="utf-8")
    with pytest.raises(CorpusError, match=sentence):
        TextRange.of_file(tmp_path / "text.txt")


def test_a_text_too_short_to_hold_some_out_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("a")
    with pytest.raises(CorpusError, match="too short to hold some out"):
        TextRange.of_file(tmp_path / "text.txt").split(0.6)
