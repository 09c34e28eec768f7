"""Where words stand in a text, whatever the text holds."""

from hypothesis import given
from hypothesis import strategies as st

from regard.server.alignment import Aligned, joined, places

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)


def test_words_are_found_one_after_another() -> None:
    text = "Der Mann, der Hund."
    found = places(text, ["der", "mann", ",", "der", "hund", "."])
    assert [text[begin:end] for begin, end in found] == ["Der", "Mann", ",", "der", "Hund", "."]


def test_an_unknown_word_is_what_lies_between_its_neighbours() -> None:
    text = "eins 🙂🙂  zwei xyz"
    assert places(text, ["eins", "<unk>", "zwei", "<unk>"]) == [(0, 4), (5, 7), (9, 13), (14, 17)]
    assert places("", ["<unk>"]) == [(0, 0)]


@given(TEXTS, st.lists(TEXTS, max_size=6))
def test_places_are_in_order_and_inside(text: str, words: list[str]) -> None:
    last = 0
    for begin, end in places(text, words):
        assert last <= begin <= end <= len(text)
        last = end


def test_parts_stand_one_after_another() -> None:
    parts = [Aligned(["a"], ["A"], [(0, 0, 0.5)]), Aligned(["b", "c"], ["B"], [(0, 1, 0.9)])]
    assert joined(parts) == Aligned(["a", "b", "c"], ["A", "B"], [(0, 0, 0.5), (1, 2, 0.9)])
