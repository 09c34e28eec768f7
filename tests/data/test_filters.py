"""Pairs are dropped as a whole, and the reasons are counted."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.data.filters import FilterLimits, FilterReport, filter_pairs
from regard.errors import RegardError

PAIRS = [
    ("ein Hund", "a dog"),
    ("", "nothing"),
    ("nichts", " \u00a0\t"),
    ("ein Hund", "a dog"),
    ("ja", "yes of course I do"),
    ("eins zwei drei vier fünf sechs", "one two three four five six"),
    ("ja", "yes"),
]


@pytest.mark.parametrize(
    ("limits", "kept", "line"),
    [
        (FilterLimits(), [0, 3, 4, 5, 6], "7 read, 5 kept; dropped: 2 empty"),
        (FilterLimits(max_length=5), [0, 3, 4, 6], "7 read, 4 kept; dropped: 2 empty, 1 longer than 5"),
        (FilterLimits(shortest=2), [0, 3, 5], "7 read, 3 kept; dropped: 2 empty, 2 shorter than 2"),
        (FilterLimits(ratio=2), [0, 3, 5, 6], "7 read, 4 kept; dropped: 2 empty, 1 with a length ratio over 2"),
        (FilterLimits(ratio=5), [0, 3, 4, 5, 6], "7 read, 5 kept; dropped: 2 empty"),
        (FilterLimits(unique=True), [0, 4, 5, 6], "7 read, 4 kept; dropped: 2 empty, 1 duplicate"),
        (
            FilterLimits(max_length=8, unit="characters"),
            [0, 3, 6],
            "7 read, 3 kept; dropped: 2 empty, 2 longer than 8",
        ),
    ],
)
def test_each_limit_drops_what_it_says(limits, kept, line):
    report = FilterReport()
    assert list(filter_pairs(PAIRS, limits, report)) == [PAIRS[index] for index in kept]
    assert str(report) == line


def test_the_line_groups_thousands():
    report = FilterReport(FilterLimits(max_length=256), read=29_000, kept=28_990, empty=3, long=7)
    assert str(report) == "29,000 read, 28,990 kept; dropped: 3 empty, 7 longer than 256"
    assert str(FilterReport(read=5, kept=5)) == "5 read, 5 kept"


@given(st.lists(st.tuples(st.text(max_size=5), st.text(max_size=5))), st.booleans())
def test_every_pair_is_kept_or_counted_once(pairs, unique):
    report = FilterReport()
    kept = list(filter_pairs(pairs, FilterLimits(max_length=2, ratio=1.5, unique=unique), report))
    counted = report.empty + report.short + report.long + report.ratio + report.duplicate
    assert report.read == len(pairs)
    assert report.kept == len(kept)
    assert report.dropped == counted
    assert not unique or len(set(kept)) == len(kept)


def test_pairs_that_join_to_the_same_text_are_not_duplicates():
    pairs = [("ab", "c"), ("a", "bc")]
    assert list(filter_pairs(pairs, FilterLimits(unique=True), FilterReport())) == pairs


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"shortest": 0}, "the shortest length is 0; it must be at least 1"),
        ({"shortest": 5, "max_length": 4}, "the longest length is 4; it must be at least 5"),
        ({"ratio": 0.5}, "the length ratio is 0.5; it must be at least 1"),
        ({"ratio": float("nan")}, "the length ratio is nan; it must be at least 1"),
        ({"unit": "bytes"}, "length unit 'bytes' is unknown; allowed: words, characters"),
    ],
)
def test_impossible_limits_are_refused(wrong, sentence):
    with pytest.raises(RegardError) as caught:
        FilterLimits(**wrong)
    assert str(caught.value) == sentence
