"""Why labels are smoothed: the loss is minimal when the model is right but not overconfident.

The target gives 1 - e to the right word and divides e among the others, with nothing for padding. For a model
that gives the right word the probability p and divides the rest evenly, the loss is
(1 - e) log((1 - e) / p) + e log(e / (1 - p)), for any size of the vocabulary, with its minimum at p = 1 - e
(Szegedy et al. 2016, section 7; Vaswani et al. 2017, section 5.4).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from regard.lessons import Table
from regard.training.objectives import SmoothedKL, smoothed_targets
from regard.viz.figure import GREY, INK, canvas, heat, label, line_style

VOCABULARY = ("<blank>", "<s>", "</s>", "a", "dog", "ate", "the", "food")
SENTENCE = ("a", "dog", "ate", "the", "food", "</s>", "<blank>")
"""The words to predict; the last position is padding."""

PADDING = 0
PROBABILITIES = torch.arange(1, 1000, dtype=torch.float64) / 1000
"""Probabilities of the right word: 0.001 ... 0.999."""


@dataclass(frozen=True)
class Curve:
    """The loss at every probability of the right word, for one smoothing."""

    smoothing: float
    loss: tuple[float, ...]

    @property
    def best(self) -> float:
        """The probability at which the loss is smallest, to a thousandth."""
        return PROBABILITIES[self._lowest].item()

    @property
    def least(self) -> float:
        """The smallest loss."""
        return max(0.0, self.loss[self._lowest])  # a divergence; rounding may leave -1e-17

    @property
    def turns(self) -> bool:
        """Whether the loss has its minimum before the last probability."""
        return self._lowest < len(self.loss) - 1

    @property
    def _lowest(self) -> int:
        return min(range(len(self.loss)), key=self.loss.__getitem__)

    def at(self, probability: float) -> float:
        """The loss at a probability, a multiple of 0.001."""
        return self.loss[round(probability * 1000) - 1]


@dataclass(frozen=True)
class Smoothing:
    """The smoothed target of a sentence, and loss curves for several smoothings."""

    target_smoothing: float
    """The smoothing of `target`."""
    target: Tensor  # (positions, vocabulary)
    curves: tuple[Curve, ...]

    def tables(self) -> list[Table]:
        return [
            Table(
                "Loss by the probability p of the right word",
                ("smoothing e", "least at p", "1 - e", "there", "p = 0.5", "p = 0.99", "p = 0.999"),
                tuple(cells(curve) for curve in self.curves),
            ),
            Table(
                f"The target at e = {self.target_smoothing:g} (rows: the word to predict)",
                ("", *VOCABULARY),
                tuple(
                    (word, *(share_text(share) for share in row))
                    for word, row in zip(SENTENCE, self.target.tolist(), strict=True)
                ),
            ),
        ]

    def finding(self) -> str:
        turning = [curve for curve in self.curves if curve.turns]
        if not turning:
            return "Without smoothing the loss falls to the end: more confidence is always better."
        curve = turning[0]
        return (
            f"With smoothing {curve.smoothing:g} the loss is minimal ({curve.least:.3f}) at "
            f"p = {curve.best:.3f} and rises again to {curve.at(0.999):.3f} at p = 0.999: overconfidence is "
            "penalized; without smoothing the loss falls to the end."
        )

    def as_json(self) -> dict[str, Any]:
        return {
            "vocabulary": list(VOCABULARY),
            "sentence": list(SENTENCE),
            "target": {"smoothing": self.target_smoothing, "rows": self.target.tolist()},
            "probability": PROBABILITIES.tolist(),
            "curves": [
                {
                    "smoothing": curve.smoothing,
                    "best": curve.best,
                    "theory": 1 - curve.smoothing,
                    "least": curve.least,
                    "loss": list(curve.loss),
                }
                for curve in self.curves
            ],
        }


def compute(smoothings: Sequence[float] = (0.0, 0.1, 0.2, 0.4), *, target_smoothing: float = 0.1) -> Smoothing:
    """The target at smoothing `shown`, and the loss by the right word's probability for each smoothing."""
    label_id = torch.tensor([VOCABULARY.index(word) for word in SENTENCE])
    target = smoothed_targets(label_id, len(VOCABULARY), target_smoothing, PADDING)
    return Smoothing(target_smoothing, target, tuple(Curve(e, loss_curve(e)) for e in smoothings))


def loss_curve(smoothing: float) -> tuple[float, ...]:
    """The training loss of a model that gives the right word p and all other words equal probabilities."""
    loss = SmoothedKL(len(VOCABULARY), PADDING, smoothing)
    label_id = torch.tensor([VOCABULARY.index("dog")])
    return tuple(loss(logits.unsqueeze(0), label_id).item() for logits in logits_of(int(label_id)).unbind())


def logits_of(label_id: int) -> Tensor:
    """Logits (probability, vocabulary): p for the target, equal ones for other words, none for padding."""
    others = (1 - PROBABILITIES) / (len(VOCABULARY) - 2)
    logits = others.log().unsqueeze(1).repeat(1, len(VOCABULARY))
    logits[:, label_id] = PROBABILITIES.log()
    logits[:, PADDING] = -1e9  # finite: a target of 0 times a log of -inf would be NaN
    return logits


def cells(curve: Curve) -> tuple[str, ...]:
    return (
        f"{curve.smoothing:g}",
        f"{curve.best:.3f}" if curve.turns else "the end",
        f"{1 - curve.smoothing:.3f}",
        f"{curve.least:.3f}",
        f"{curve.at(0.5):.3f}",
        f"{curve.at(0.99):.3f}",
        f"{curve.at(0.999):.3f}",
    )


def share_text(share: float) -> str:
    """A probability in two digits."""
    return f"{share:.2g}"


def draw(result: Smoothing) -> Figure:
    """The target as a heat map with its numbers, and the loss curves with their lowest points."""
    figure, (target, loss) = canvas(2, width=5.4, height=4.2)
    label(target, f"Target distribution, e = {result.target_smoothing:g}", "vocabulary", "word to predict")
    heat(target, result.target.numpy(), rows=SENTENCE, columns=VOCABULARY, high=1.0, bar=False)
    write_shares(target, result.target)
    label(loss, "Loss by confidence", "probability of the right word", "KL divergence")
    note = (
        "<s> is a word of the vocabulary: it gets the same share\nas every other wrong word; padding gets none"
    )
    below: Any = {"xycoords": "axes fraction", "textcoords": "offset points", "va": "top"}
    target.annotate(note, (0, 0), (0, -62), **below, fontsize=8.5, color=GREY)
    for number, curve in enumerate(result.curves):
        style = line_style(number, marker=False)
        loss.plot(PROBABILITIES.numpy(), curve.loss, label=legend(curve), **style)
        if curve.turns:
            loss.plot(curve.best, curve.least, "o", color=style["color"], markersize=5)
    loss.set_ylim(-0.05, 2.0)
    loss.legend(loc="upper right", bbox_to_anchor=(0.95, 1.0), frameon=False, handlelength=3)
    loss.grid(True)
    return figure


def write_shares(axes: Axes, target: Tensor) -> None:
    """Write each probability into its cell: pale colours are hard to distinguish."""
    for row, shares in enumerate(target.tolist()):
        for column, share in enumerate(shares):
            colour = "white" if share > 0.5 else INK
            axes.text(column, row, share_text(share), ha="center", va="center", fontsize=8, color=colour)


def legend(curve: Curve) -> str:
    where = f"least at p = {curve.best:.3f}" if curve.turns else "falls to the end"
    return f"e = {curve.smoothing:g}: {where}"
