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

LINES = [f"line {number} of a text, größer towards its end\n" * (number % 3 + 1) for number in range(60)]
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
        lambda texts: [[] for _ in texts],
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
    assert len({text.fingerprint for text in (running, kept, out)}) == 3


@pytest.mark.parametrize("part", [1, 1_000_000])
def test_windows_are_adjacent_and_labels_are_shifted_by_one(file: Path, tmp_path: Path, part: int) -> None:
    examples = windows(TextRange.of_file(file), tmp_path / "store", 32, part)
    assert examples.tokens == len(WHOLE)
    assert len(examples.parts()) == len(examples.rows) == (1 if part > 1 else len(examples.rows))
    for window in examples.load(np.arange(len(examples)), np.random.default_rng(3)):
        assert len(window.ids) == 32
        assert window.token_labels is not None
        assert np.array_equal(window.ids[1:], window.token_labels[:-1])
    predicted = sum(len(window.ids) for window in examples.non_overlapping())
    assert predicted == len(WHOLE) - len(examples.rows)


def test_an_epoch_covers_the_text_and_the_next_one_starts_at_another_offset(file: Path, tmp_path: Path) -> None:
    examples = windows(TextRange.of_file(file), tmp_path / "store", 16)
    batches = TextBatches(examples, sentences=4, seed=1)
    first = [
        batch
        for batch, cursor in one_epoch(batches, Cursor())
        if cursor.epoch == 0 or cursor == Cursor(1, 0, 0)
    ]
    assert sum(batch.rows for batch in first) == len(examples)
    numbers = sorted(number for batch in first for number in batch.sentences)
    assert numbers == list(range(len(examples)))
    again = next(iter(batches.stream(Cursor())))[0]
    assert np.array_equal(again.ids.values, first[0].ids.values)
    row = examples.rows[0].tolist()
    begins = {(begin_of(row, batch.ids.split()[0].tolist())) % 16 for batch in first}
    other = next(iter(batches.stream(Cursor(1, 0, 0))))[0]
    assert begins != {begin_of(row, other.ids.split()[0].tolist()) % 16}


def one_epoch(batches: TextBatches, cursor: Cursor) -> list:
    stream = batches.stream(cursor)
    return [next(stream) for _ in range(batches.batches_per_epoch())]


def begin_of(row: list[int], ids: list[int]) -> int:
    return next(index for index in range(len(row)) if row[index : index + len(ids)] == ids)


@pytest.mark.parametrize(
    ("content", "sentence"), [("", "is empty"), ("\n \n", "holds no text"), ("\ufeff", "is empty")]
)
def test_a_file_without_text_is_refused(tmp_path: Path, content: str, sentence: str) -> None:
    (tmp_path / "text.txt").write_text(content, encoding="utf-8")
    with pytest.raises(CorpusError, match=sentence):
        TextRange.of_file(tmp_path / "text.txt")


def test_a_text_too_short_to_split_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("a")
    with pytest.raises(CorpusError, match="too short to hold some out"):
        TextRange.of_file(tmp_path / "text.txt").split(0.6)
