"""Charts: training curves with all scores, and comparisons with every run in every panel in one style."""

from typing import Any

import numpy as np
import pytest
from matplotlib.colors import to_hex

from regard.viz.charts import draw_comparison, draw_reduction, draw_training, shorten_middle

ROWS = [
    {"kind": "train", "minutes": 1.0, "loss": 3.0, "lr": 0.1},
    {"kind": "valid", "minutes": 1.5, "loss": 2.5, "bleu": 12.0, "accuracy": 0.2, "next_accuracy": 0.6},
    {"kind": "train", "minutes": 2.0, "loss": 2.0, "lr": 0.2},
    {"kind": "valid", "minutes": 2.5, "loss": 1.5, "bleu": 24.0, "accuracy": 0.4},
]


def test_translation_shows_bleu() -> None:
    loss, quality, rate = draw_training(ROWS).axes
    assert [axes.get_title(loc="left") for axes in (loss, quality, rate)] == [
        "Loss", "BLEU, validation, greedy", "Learning rate",
    ]  # fmt: skip
    assert [line.get_xydata().tolist() for line in loss.lines] == [
        [[1.0, 3.0], [2.0, 2.0]],
        [[1.5, 2.5], [2.5, 1.5]],
    ]
    assert loss.get_ylabel() == "nats per token"
    assert quality.lines[0].get_ydata().tolist() == [12.0, 24.0]
    assert quality.get_legend() is None
    assert rate.lines[0].get_ydata().tolist() == [0.1, 0.2]


def test_several_scores_are_in_the_legend() -> None:
    quality = draw_training(ROWS, "accuracy", "next_accuracy").axes[1]
    assert [text.get_text() for text in quality.get_legend().get_texts()] == ["masked tokens", "next sentence"]
    assert [len(line.get_xydata()) for line in quality.lines] == [2, 1]  # one validation had only one of them


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
    assert [to_hex(line.get_color()) for line in training.lines] == colours
    assert [to_hex(line.get_color()) for line in lengths.lines[::2]] == colours
    positions = [list(line.get_xdata()) for line in lengths.lines[::2]]
    assert all(-0.5 < first < 0.5 < second < 1.5 for first, second in positions)
    assert list(training.lines[1].get_ydata()) == [10.0, 21.0]


def test_a_bin_of_few_sentences_is_hollow_and_unconnected() -> None:
    _, lengths, _ = draw_comparison({"runs": [a_run(0)]}).axes
    connected, hollow = lengths.lines
    assert np.isnan(connected.get_ydata()).tolist() == [False, True]
    assert hollow.get_ydata().tolist() == [20.0]
    assert (hollow.get_fillstyle(), hollow.get_linestyle()) == ("none", "None")
    assert lengths.get_xlabel() == "source words (sentences); hollow: under 20 sentences"


def test_levels_with_nearly_equal_scores_are_enlarged() -> None:
    levels = [
        {"how": "all", "score": 0.986, "times": 1.0, "tokens": 1.0},
        {"how": "merged layer by layer", "score": 0.985, "times": 1.2, "tokens": 0.7},
        {"how": "merged layer by layer", "score": 0.984, "times": 1.5, "tokens": 0.2},
        {"how": "pruned", "score": 0.7, "times": 2.9, "tokens": 0.1},
    ]
    results = {"score": "accuracy", "levels": levels, "reaches": [{"length": 16, "plain": 1.0, "merged": 2.0}]}
    scores = draw_reduction(results).axes[0]
    [inset] = scores.child_axes
    low, high = inset.get_ylim()
    assert 0.98 < low < 0.984
    assert 0.986 < high < 0.99
    spread = [level | {"score": 0.9 - 0.1 * number} for number, level in enumerate(levels)]
    assert draw_reduction(results | {"levels": spread}).axes[0].child_axes == []


def test_a_run_without_history_is_left_out_of_one_panel() -> None:
    runs = [a_run(0), a_run(1) | {"validations": None}]
    *_, training = draw_comparison({"runs": runs}).axes
    assert [len(line.get_xdata()) for line in training.lines] == [2, 0]
    *_, training = draw_comparison({"runs": [run | {"validations": None} for run in runs]}).axes
    assert [text.get_text() for text in training.texts] == ["no metrics.jsonl"]


def test_a_long_name_keeps_its_ends() -> None:
    assert shorten_middle("runs/demo") == "runs/demo"
    short = shorten_middle("runs/experiments/words/seed-1")
    assert len(short) == 26
    assert (short[:12], short[-13:]) == ("runs/experim", "/words/seed-1")
