"""The spooled copy of a corpus: repeated reads return the same pairs, in constant memory."""

import errno
import tracemalloc
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.data import spool
from regard.data.spool import PairSpool
from regard.data.text_files import CorpusError
from regard.errors import DiskError

PAIRS = [(f"Satz {number} \u2028 ä\r", f"sentence\t{number} 漢字" * (number % 7)) for number in range(2500)]

sentences = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n"), max_size=20)


@given(pairs=st.lists(st.tuples(sentences, sentences)), block=st.integers(1, 40), chunk=st.integers(1, 4))
def test_what_is_read_is_what_was_written(pairs: list[tuple[str, str]], block: int, chunk: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spool, "BLOCK", block)
        patch.setattr(spool, "CHUNK", chunk)
        copy = PairSpool(lambda: pairs, Path("nowhere"))
        assert list(copy) == list(copy) == pairs
        assert copy.count() == len(pairs)


@pytest.mark.parametrize("in_memory", [0, 1000, 1 << 30])
def test_in_memory_or_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_memory: int) -> None:
    monkeypatch.setattr(spool, "IN_MEMORY", in_memory)
    monkeypatch.setattr(spool, "BLOCK", 1000)
    monkeypatch.setattr(spool, "CHUNK", 10)
    copy = PairSpool(lambda: PAIRS, tmp_path / "made" / "here")
    first, second = iter(copy), iter(copy)
    together = list(zip(islice(first, 300), islice(second, 300), strict=True))  # side by side
    assert together == [(pair, pair) for pair in PAIRS[:300]]
    assert list(first) == PAIRS[300:]
    assert list(copy) == PAIRS
    assert (tmp_path / "made" / "here").is_dir() == (in_memory < 1 << 30)
    copy.close()
    assert not list(tmp_path.rglob("*.*"))


def test_memory_stays_flat(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool, "IN_MEMORY", 1 << 16)
    monkeypatch.setattr(spool, "BLOCK", 1 << 16)
    monkeypatch.setattr(spool, "CHUNK", 500)

    def many() -> Iterator[tuple[str, str]]:
        for number in range(100_000):
            yield f"{number} " * 10, f"sentence {number}" * 5

    tracemalloc.start()
    try:
        copy = PairSpool(many, tmp_path)
        assert sum(1 for _ in copy) == copy.count() == 100_000
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert copy.bytes > 10_000_000
    assert peak < 2_000_000


def test_no_more_is_read_than_is_asked_for_and_nothing_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spool, "CHUNK", 10)
    read: list[int] = []

    def numbers() -> Iterator[tuple[str, str]]:
        for number in range(100):
            read.append(number)
            yield str(number), str(-number)

    copy = PairSpool(numbers, tmp_path)
    assert not read
    assert next(iter(copy)) == ("0", "0")
    assert len(read) == 10
    assert len(list(islice(copy, 15))) == 15
    assert len(read) == 20
    assert copy.count() == len(list(copy)) == 100
    assert read == list(range(100))


def test_a_corpus_with_a_fault_does_not_pass_for_a_shorter_one(tmp_path: Path) -> None:
    def faulty() -> Iterator[tuple[str, str]]:
        yield from PAIRS
        raise CorpusError("line 2501 is damaged")

    copy = PairSpool(faulty, tmp_path)
    with pytest.raises(CorpusError):
        list(copy)
    with pytest.raises(ValueError, match="is closed"):
        list(copy)


def test_a_line_end_inside_a_side_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="has a line end in it"):
        PairSpool(lambda: [("a\nb", "c")], tmp_path).count()


def test_a_full_disk_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(**options: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(spool, "IN_MEMORY", 10)
    monkeypatch.setattr(spool, "TemporaryFile", full)
    with pytest.raises(DiskError, match=r"a copy of the corpus cannot be written to .*: the disk is full"):
        PairSpool(lambda: PAIRS, tmp_path).count()
