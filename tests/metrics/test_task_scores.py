"""Labels, names and answers are counted as the field counts them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.metrics import entities, score_answers, score_entities, score_labels


def test_accuracy_and_macro_f1() -> None:
    found = score_labels(["a", "a", "a", "b", "b", "c"], ["a", "a", "b", "b", "c", "b"])
    assert found.accuracy == pytest.approx(3 / 6)
    # a: 2 of 2 said, 2 of 3 given; b: 1 of 3 and 1 of 2; c: none.
    assert found.f1 == pytest.approx((0.8 + 0.4 + 0.0) / 3)
    assert [(each.label, each.examples) for each in found.by_label] == [("a", 3), ("b", 2), ("c", 1)]


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("abcd")), min_size=1))
def test_macro_f1_is_the_mean_of_harmonic_means(pairs: list[tuple[str, str]]) -> None:
    gold, said = zip(*pairs, strict=True)
    found = score_labels(gold, said)
    assert 0 <= found.f1 <= 1
    for each in found.by_label:
        if each.precision + each.recall:
            assert each.f1 == pytest.approx(2 * each.precision * each.recall / (each.precision + each.recall))
    assert (found.f1 == 1) == (found.accuracy == 1)


@pytest.mark.parametrize(
    ("tags", "names"),
    [
        ("B-x I-x O", [(0, 2, "x")]),
        ("O I-x I-x", [(1, 3, "x")]),  # I- after O begins a name
        ("B-x I-y", [(0, 1, "x"), (1, 2, "y")]),  # another kind begins another name
        ("I-x I-y I-x", [(0, 1, "x"), (1, 2, "y"), (2, 3, "x")]),
        ("B-x B-x I-x", [(0, 1, "x"), (1, 3, "x")]),
        ("I-x B-x", [(0, 1, "x"), (1, 2, "x")]),
        ("O O", []),
        ("", []),
    ],
)
def test_names_in_tags(tags: str, names: list) -> None:
    assert entities(tags.split()) == names


TAGS = st.lists(st.sampled_from(["O", "B-x", "I-x", "B-y", "I-y"]), max_size=8)


def chunks_by_conlleval(tags: list[str]) -> set[tuple[int, int, str]]:
    """conlleval's own rules: whether a name ends between two tags, and whether one begins."""
    found, begun = set(), None
    before, kind_before = "O", ""
    for place, tag in enumerate([*tags, "O"]):
        now, kind = (tag, "") if tag == "O" else (tag[0], tag[2:])
        ends = (before in "BI" and now in "BO") or (before != "O" and kind != kind_before)
        begins = now == "B" or (before == "O" and now == "I") or (now != "O" and kind != kind_before)
        if ends and begun is not None:
            found.add((begun, place, kind_before))
            begun = None
        if begins:
            begun = place
        before, kind_before = now, kind
    return found


@given(TAGS)
def test_names_are_conllevals(tags: list[str]) -> None:
    assert set(entities(tags)) == chunks_by_conlleval(tags)


@given(st.lists(TAGS, min_size=1, max_size=4))
def test_the_gold_tags_themselves_are_perfect(sentences: list[list[str]]) -> None:
    found = score_entities(sentences, sentences)
    any_name = any(entities(tags) for tags in sentences)
    assert (found.precision, found.recall, found.f1) == ((1, 1, 1) if any_name else (0, 0, 0))


def test_only_whole_names_of_the_right_kind_count() -> None:
    gold = [["B-x", "I-x", "O", "B-y"], ["B-x"]]
    said = [["B-x", "O", "O", "B-y"], ["B-y"]]
    found = score_entities(gold, said)
    assert (found.precision, found.recall) == (pytest.approx(1 / 3), pytest.approx(1 / 3))
    assert found.accuracy == pytest.approx(3 / 5)
    assert [(each.label, each.examples) for each in found.by_name] == [("x", 2), ("y", 1)]


@pytest.mark.parametrize(
    ("given", "said", "exact", "f1"),
    [
        (["the Eiffel Tower"], "Eiffel tower.", 1, 1),
        (["a cat"], "the cat", 1, 1),
        (["in 1990"], "1990", 0, 2 / 3),
        (["Paris", "the city of Paris"], "city of Paris!", 1, 1),
        (["x y"], "", 0, 0),
        (["the the cat"], "cat cat", 0, 2 / 3),
        (["theory"], "ory", 0, 0),
    ],
)
def test_answers_are_counted_as_squad_does(given: list[str], said: str, exact: float, f1: float) -> None:
    found = score_answers([given], [said])
    assert (found.exact, found.f1) == (exact, pytest.approx(f1))


@given(st.lists(st.text(max_size=20), min_size=1, max_size=5))
def test_an_answer_against_itself_is_exact(answers: list[str]) -> None:
    found = score_answers([[each] for each in answers], answers)
    assert found.exact == 1
    assert found.f1 <= 1
