"""What a training's picture tells: two losses, its scores by their names, and the rate."""

from regard.viz.curves import draw_training

ROWS = [
    {"kind": "train", "minutes": 1.0, "loss": 3.0, "lr": 0.1},
    {"kind": "valid", "minutes": 1.5, "loss": 2.5, "bleu": 12.0, "accuracy": 0.2, "next_accuracy": 0.6},
    {"kind": "train", "minutes": 2.0, "loss": 2.0, "lr": 0.2},
    {"kind": "valid", "minutes": 2.5, "loss": 1.5, "bleu": 24.0, "accuracy": 0.4},
]


def test_a_translation_has_its_bleu() -> None:
    loss, quality, rate = draw_training(ROWS).axes
    assert [each.get_title(loc="left") for each in (loss, quality, rate)] == [
        "Loss a token", "BLEU, validation, greedy", "Learning rate",
    ]  # fmt: skip
    assert [line.get_xydata().tolist() for line in loss.lines] == [
        [[1.0, 3.0], [2.0, 2.0]],
        [[1.5, 2.5], [2.5, 1.5]],
    ]
    assert quality.lines[0].get_ydata().tolist() == [12.0, 24.0]
    assert quality.get_legend() is None
    assert rate.lines[0].get_ydata().tolist() == [0.1, 0.2]


def test_several_scores_have_their_names() -> None:
    quality = draw_training(ROWS, "accuracy", "next_accuracy").axes[1]
    assert [text.get_text() for text in quality.get_legend().get_texts()] == ["hidden words", "what follows"]
    assert [len(line.get_xydata()) for line in quality.lines] == [2, 1]  # one validation had only one of them
