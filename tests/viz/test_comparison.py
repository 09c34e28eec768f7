"""The picture of a comparison: every run in every panel, always with the same look."""

from typing import Any

import pytest
from matplotlib.colors import to_hex

from regard.viz.comparison import draw_comparison, look, shortened


def a_run(number: int) -> dict[str, Any]:
    return {
        "name": f"run {number}",
        "bleu": 30.0 + number,
        "half_width": 1.0,
        "by_length": [{"words": "1-5", "sentences": 1200, "bleu": 40.0}, {"words": "6+", "sentences": 3, "bleu": 20.0}],
        "validations": [{"minutes": 1.0, "bleu": 10.0}, {"minutes": 2.0, "bleu": 20.0 + number}],
    }  # fmt: skip


@pytest.mark.parametrize("count", [2, 8])
def test_every_panel_shows_every_run(count: int) -> None:
    scores, lengths, training = draw_comparison({"runs": [a_run(number) for number in range(count)]}).axes
    assert [name.get_text() for name in scores.get_yticklabels()] == [
        f"run {number}" for number in range(count)
    ]
    assert [name.get_text() for name in lengths.get_xticklabels()] == ["1-5\n(1,200)", "6+\n(3)"]
    colours = [to_hex(name.get_color()) for name in scores.get_yticklabels()]
    assert len(set(colours)) == count
    for panel in (lengths, training):
        assert [to_hex(line.get_color()) for line in panel.lines] == colours
    places = [list(line.get_xdata()) for line in lengths.lines]
    assert all(-0.5 < first < 0.5 < second < 1.5 for first, second in places)
    assert list(training.lines[1].get_ydata()) == [10.0, 21.0]


def test_a_run_without_history_is_left_out_of_one_panel() -> None:
    runs = [a_run(0), a_run(1) | {"validations": None}]
    *_, training = draw_comparison({"runs": runs}).axes
    assert [len(line.get_xdata()) for line in training.lines] == [2, 0]
    *_, training = draw_comparison({"runs": [run | {"validations": None} for run in runs]}).axes
    assert [text.get_text() for text in training.texts] == ["no metrics.jsonl tells"]


def test_many_runs_can_be_told_apart() -> None:
    looks = [look(place) for place in range(40)]
    assert len({(each["color"], each["marker"]) for each in looks}) == 40


def test_a_long_name_keeps_its_ends() -> None:
    assert shortened("runs/demo") == "runs/demo"
    short = shortened("runs/experiments/words/seed-1")
    assert len(short) == 26
    assert (short[:12], short[-13:]) == ("runs/experim", "/words/seed-1")
