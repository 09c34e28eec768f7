"""Spans of words in arbitrary texts."""

from hypothesis import given
from hypothesis import strategies as st

from regard.server.alignment import Alignment, concatenate, word_spans

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)


def test_spans_of_repeated_words_are_consecutive() -> None:
    text = "Der Mann, der Hund."
    spans = word_spans(text, ["der", "mann", ",", "der", "hund", "."])
    assert [text[start:end] for start, end in spans] == ["Der", "Mann", ",", "der", "Hund", "."]


def test_an_unknown_word_gets_the_gap_between_its_neighbours() -> None:
    text = "eins 🙂🙂  zwei xyz"
    assert word_spans(text, ["eins", "<unk>", "zwei", "<unk>"]) == [(0, 4), (5, 7), (9, 13), (14, 17)]
    assert word_spans("", ["<unk>"]) == [(0, 0)]


@given(TEXTS, st.lists(TEXTS, max_size=6))
def test_spans_are_in_order_and_inside_the_text(text: str, words: list[str]) -> None:
    last = 0
    for start, end in word_spans(text, words):
        assert last <= start <= end <= len(text)
        last = end


def test_alignments_of_parts_are_concatenated() -> None:
    parts = [Alignment(["a"], ["A"], [(0, 0, 0.5)]), Alignment(["b", "c"], ["B"], [(0, 1, 0.9)])]
    assert concatenate(parts) == Alignment(["a", "b", "c"], ["A", "B"], [(0, 0, 0.5), (1, 2, 0.9)])
