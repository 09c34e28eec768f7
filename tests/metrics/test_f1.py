"""F1 of labels, named entity_spans (conlleval) and answers (SQuAD)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.metrics import entity_spans, score_answers, score_entities, score_labels


def test_accuracy_and_macro_f1() -> None:
    scores = score_labels(["a", "a", "a", "b", "b", "c"], ["a", "a", "b", "b", "c", "b"])
    assert scores.accuracy == pytest.approx(3 / 6)
    # a: precision 2/2, recall 2/3; b: 1/3 and 1/2; c: 0.
    assert scores.f1 == pytest.approx((0.8 + 0.4 + 0.0) / 3)
    assert [(score.label, score.examples) for score in scores.by_label] == [("a", 3), ("b", 2), ("c", 1)]


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("abcd")), min_size=1))
def test_macro_f1_is_the_mean_of_harmonic_means(pairs: list[tuple[str, str]]) -> None:
    references, predictions = zip(*pairs, strict=True)
    scores = score_labels(references, predictions)
    assert 0 <= scores.f1 <= 1
    for label in scores.by_label:
        if label.precision + label.recall:
            harmonic_mean = 2 * label.precision * label.recall / (label.precision + label.recall)
            assert label.f1 == pytest.approx(harmonic_mean)
    assert (scores.f1 == 1) == (scores.accuracy == 1)


@pytest.mark.parametrize(
    ("tags", "spans"),
    [
        ("B-x I-x O", [(0, 2, "x")]),
        ("O I-x I-x", [(1, 3, "x")]),  # I- after O begins an entity
        ("B-x I-y", [(0, 1, "x"), (1, 2, "y")]),  # another type begins another entity
        ("I-x I-y I-x", [(0, 1, "x"), (1, 2, "y"), (2, 3, "x")]),
        ("B-x B-x I-x", [(0, 1, "x"), (1, 3, "x")]),
        ("I-x B-x", [(0, 1, "x"), (1, 2, "x")]),
        ("O O", []),
        ("", []),
    ],
)
def test_entity_spans_of_tags(tags: str, spans: list) -> None:
    assert entity_spans(tags.split()) == spans


TAGS = st.lists(st.sampled_from(["O", "B-x", "I-x", "B-y", "I-y"]), max_size=8)


def chunks_by_conlleval(tags: list[str]) -> set[tuple[int, int, str]]:
    """conlleval's rules: whether an entity ends between two tags, and whether one begins."""
    spans, start = set(), None
    previous, previous_kind = "O", ""
    for position, tag in enumerate([*tags, "O"]):
        current, kind = (tag, "") if tag == "O" else (tag[0], tag[2:])
        ends = (previous in "BI" and current in "BO") or (previous != "O" and kind != previous_kind)
        begins = (
            current == "B" or (previous == "O" and current == "I") or (current != "O" and kind != previous_kind)
        )
        if ends and start is not None:
            spans.add((start, position, previous_kind))
            start = None
        if begins:
            start = position
        previous, previous_kind = current, kind
    return spans


@given(TAGS)
def test_entity_spans_equal_conlleval(tags: list[str]) -> None:
    assert set(entity_spans(tags)) == chunks_by_conlleval(tags)


@given(st.lists(TAGS, min_size=1, max_size=4))
def test_the_reference_tags_score_perfectly(sentences: list[list[str]]) -> None:
    scores = score_entities(sentences, sentences)
    any_entity = any(entity_spans(tags) for tags in sentences)
    assert (scores.precision, scores.recall, scores.f1) == ((1, 1, 1) if any_entity else (0, 0, 0))


def test_only_exact_spans_of_the_right_type_count() -> None:
    references = [["B-x", "I-x", "O", "B-y"], ["B-x"]]
    predictions = [["B-x", "O", "O", "B-y"], ["B-y"]]
    scores = score_entities(references, predictions)
    assert (scores.precision, scores.recall) == (pytest.approx(1 / 3), pytest.approx(1 / 3))
    assert scores.accuracy == pytest.approx(3 / 5)
    assert [(score.label, score.examples) for score in scores.by_type] == [("x", 2), ("y", 1)]


@pytest.mark.parametrize(
    ("answers", "prediction", "exact", "f1"),
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
def test_answers_are_scored_as_in_squad(answers: list[str], prediction: str, exact: float, f1: float) -> None:
    scores = score_answers([answers], [prediction])
    assert (scores.exact, scores.f1) == (exact, pytest.approx(f1))


@given(st.lists(st.text(max_size=20), min_size=1, max_size=5))
def test_an_answer_against_itself_is_exact(answers: list[str]) -> None:
    scores = score_answers([[answer] for answer in answers], answers)
    assert scores.exact == 1
    assert scores.f1 <= 1
