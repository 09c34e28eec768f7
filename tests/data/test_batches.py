"""Store and batches: every pair once per epoch, in an order that is reproducible and can be resumed."""

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from itertools import islice
from pathlib import Path

import pytest
import torch
from support.subprocess_functions import PAIRS, SIZES, build_store_slowly, lengths

from regard.data.batch_order import Cursor
from regard.data.batches import Batch, Batches
from regard.data.token_store import TokenStore, open_or_build, store_key
from regard.errors import RegardError
from regard.nn import Packed
from regard.tokenization import Tokenizer


@pytest.fixture
def store(tmp_path: Path) -> TokenStore:
    return open_or_build(tmp_path / "store", lambda: PAIRS, lengths, lengths, SIZES)


def test_what_is_stored_is_what_was_encoded(store: TokenStore) -> None:
    assert len(store) == 103
    assert store.source.sentence(8).tolist() == lengths([PAIRS[8][0]])[0]
    assert store.target.text(99) == PAIRS[99][1]
    assert store.source.text(0) == PAIRS[0][0]


def test_it_is_built_once(tmp_path: Path, store: TokenStore) -> None:
    def never() -> list[tuple[str, str]]:
        raise AssertionError("the store was there")

    assert len(open_or_build(tmp_path / "store", never, lengths, lengths, SIZES)) == 103
    assert store_key("a", "bc") != store_key("ab", "c")


def test_a_damaged_store_is_named(tmp_path: Path, store: TokenStore) -> None:
    (tmp_path / "store" / "store.json").write_text("{")
    with pytest.raises(RegardError, match=r"store.json is damaged: .*; delete .*store and start again"):
        TokenStore(tmp_path / "store", SIZES)


@pytest.fixture
def parts(tmp_path: Path) -> TokenStore:
    return open_or_build(tmp_path / "parts", lambda: PAIRS, lengths, lengths, SIZES, part=10)


def test_parts_hold_what_one_piece_holds(store: TokenStore, parts: TokenStore) -> None:
    assert [len(each) for each in parts.parts()] == [10] * 10 + [3]
    assert len(parts) == 103
    for number in range(103):
        for one, other in ((store.source, parts.source), (store.target, parts.target)):
            assert one.sentence(number).tolist() == other.sentence(number).tolist()
            assert one.text(number) == other.text(number)


def test_pools_of_several_parts_are_mixed(parts: TokenStore) -> None:
    batches = Batches(parts, tokens=40, pool=5)
    first, again, second = (
        [member for batch in epoch(batches, number) for member in batch.sentences] for number in (0, 0, 1)
    )
    assert sorted(first) == sorted(second) == list(range(103))
    assert first == again != second
    assert len({member // 10 for member in first[:20]}) > 2  # not one part after the other


def test_a_building_that_was_interrupted_goes_on(tmp_path: Path) -> None:
    encoded: list[str] = []

    def until(most: int):
        def encode(texts: list[str]) -> list[list[int]]:
            encoded.extend(texts)
            if len(encoded) > most:
                raise KeyboardInterrupt
            return lengths(texts)

        return encode

    with pytest.raises(KeyboardInterrupt):
        open_or_build(tmp_path / "parts", lambda: PAIRS, until(45), lengths, SIZES, part=10)
    encoded.clear()
    found = open_or_build(tmp_path / "parts", lambda: PAIRS, until(1000), lengths, SIZES, part=10)
    assert encoded == [source for source, _ in PAIRS[40:]]
    assert found.source.text(7) == PAIRS[7][0]


def test_a_part_that_was_cut_short_is_mended_alone(tmp_path: Path, parts: TokenStore) -> None:
    with (tmp_path / "parts" / "00003" / "target.ids").open("r+b") as file:
        file.truncate(4)
    encoded: list[str] = []

    def encode(texts: list[str]) -> list[list[int]]:
        encoded.extend(texts)
        return lengths(texts)

    found = open_or_build(tmp_path / "parts", lambda: PAIRS, encode, lengths, SIZES, part=10)
    assert encoded == [source for source, _ in PAIRS[30:40]]
    assert found.target.sentence(33).tolist() == lengths([PAIRS[33][1]])[0]


def test_two_processes_share_the_building(tmp_path: Path) -> None:
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as workers:
        both = list(workers.map(build_store_slowly, [tmp_path / "parts"] * 2))
    assert sum(both) == 103  # nothing twice
    assert min(both) > 0 or max(both) == 103  # where one came late there was nothing left for it


def epoch(batches: Batches, number: int = 0):
    return [batch for batch, after in stream(batches, Cursor(number)) if batch is not None]


def stream(batches: Batches, cursor: Cursor):
    for batch, after in batches.stream(cursor):
        yield batch, after
        if after.epoch > cursor.epoch:
            return


def max_length(batch: Batch) -> int:
    return max(batch.source.max_length, batch.target.max_length)


@pytest.mark.parametrize("pool", [10, 50, 1000])
def test_every_pair_once_within_the_budget(store: TokenStore, pool: int) -> None:
    batches = Batches(store, tokens=40, pool=pool)
    found = epoch(batches)
    assert sorted(member for batch in found for member in batch.sentences) == list(range(103))
    assert all(len(batch.sentences) * max_length(batch) <= 40 for batch in found)
    assert len(found) == pytest.approx(batches.batches_per_epoch(), abs=8)
    if pool == 1000:
        assert len(found) == batches.batches_per_epoch()


def test_targets_are_shifted(store: TokenStore) -> None:
    for batch in epoch(Batches(store, sentences=7)):
        assert len(batch.sentences) <= 7
        sources, targets, labels = (rows_of(each) for each in (batch.source, batch.target, batch.labels))
        for row, member in enumerate(batch.sentences):
            ids = lengths([PAIRS[member][1]])[0]
            assert targets[row] == [Tokenizer.begin, *ids]
            assert labels[row] == [*ids, Tokenizer.end]
            assert sources[row] == [*lengths([PAIRS[member][0]])[0], Tokenizer.end]
        assert batch.tokens == batch.num_targets == sum(map(len, labels))


def rows_of(packed: Packed) -> list[list[int]]:
    return [each.tolist() for each in packed.split()]


def test_a_share_of_a_batch_has_every_other_row_and_the_counts_of_the_whole(store: TokenStore) -> None:
    whole = epoch(Batches(store, tokens=40))
    parts = [epoch(Batches(store, tokens=40, shard=(rank, 2))) for rank in range(2)]
    for batch, *shares in zip(whole, *parts, strict=True):
        for rank, share in enumerate(shares):
            assert rows_of(share.labels) == rows_of(batch.labels)[rank::2]
            assert (share.tokens, share.rows) == (batch.tokens, len(range(rank, batch.rows, 2)))
    nothing = next(
        share for _, share in zip(whole, epoch(Batches(store, tokens=40, shard=(50, 51))), strict=True)
    )
    assert (nothing.rows, nothing.source.sequences, nothing.placeholder().rows) == (0, 0, 1)


def test_a_label_for_each_target_token() -> None:
    one, two = Packed.from_rows([[5]]), Packed.from_rows([[5, 6]])
    with pytest.raises(ValueError, match="each target token a label"):
        Batch(one, two, one, 1, (0,))


def test_order_depends_on_seed_and_epoch_alone(store: TokenStore) -> None:
    def order(seed: int, number: int) -> list[tuple[int, ...]]:
        return [batch.sentences for batch in epoch(Batches(store, tokens=40, seed=seed, pool=30), number)]

    assert order(1, 0) == order(1, 0)
    assert order(1, 0) != order(1, 1)
    assert order(1, 0) != order(2, 0)


@pytest.mark.parametrize("stop", [1, 5, 17, 40])
def test_a_cursor_continues_exactly(store: TokenStore, stop: int) -> None:
    batches = Batches(store, tokens=40, pool=30, seed=3)
    whole = list(islice(batches.stream(), 60))
    rest = list(islice(batches.stream(whole[stop - 1][1]), 60 - stop))
    assert [batch.sentences for batch, _ in rest] == [batch.sentences for batch, _ in whole[stop:]]
    assert rest[-1][1] == whole[-1][1]


def test_long_sentences_are_cut_to_the_models_places(store: TokenStore) -> None:
    assert max(batch.source.max_length for batch in epoch(Batches(store, tokens=40, max_length=4))) == 4


def test_resampled_ids_are_drawn_from_the_text_by_seed(store: TokenStore) -> None:
    asked: list[int] = []

    def resample(texts: list[str], seed: int) -> list[list[int]]:
        asked.append(seed)
        return [[seed % 1000] * len(text.split()) for text in texts]

    batches = Batches(store, tokens=40, resample=(resample, resample))
    first = epoch(batches)
    seeds, asked[:] = list(asked), []
    again = epoch(batches)
    assert asked == seeds
    assert len(set(seeds)) == 2
    assert all(
        torch.equal(one.source.values, other.source.values) for one, other in zip(first, again, strict=True)
    )


def test_batches_of_pairs_hold_every_pair(store: TokenStore) -> None:
    pairs = [
        (one, other)
        for one, other in zip(lengths([p[0] for p in PAIRS]), lengths([p[1] for p in PAIRS]), strict=True)
    ]
    found = list(Batches.of_pairs(pairs, 40, 100))
    assert sorted(member for batch in found for member in batch.sentences) == list(range(103))


def test_a_large_store_is_counted_by_some_of_its_pools(store: TokenStore) -> None:
    batches = Batches(store, tokens=64, pool=max(1, len(store) // 30))
    assert batches.batches_per_epoch() == pytest.approx(len(list(epoch(batches))), rel=0.3)
