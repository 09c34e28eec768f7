"""Why labels are smoothed: the loss is smallest when the model is right but not too sure.

The target gives 1 - e to the right word and shares e among the others, nothing to padding. A model that
gives the right word the probability p and shares the rest evenly loses
(1 - e) log((1 - e) / p) + e log(e / (1 - p)), whatever the size of the vocabulary: least at p = 1 - e
(Szegedy et al. 2016, section 7; Vaswani et al. 2017, section 5.4).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from regard.lessons.lesson import Table
from regard.training.objectives import SmoothedKL, smoothed_targets
from regard.viz.figure import INK, canvas, heat, label

VOCABULARY = ("<blank>", "<s>", "</s>", "a", "dog", "ate", "the", "food")
SENTENCE = ("a", "dog", "ate", "the", "food", "</s>", "<blank>")
"""What is to be predicted, ending in a place of padding."""

PADDING = 0
PROBABILITIES = torch.arange(1, 1000, dtype=torch.float64) / 1000
"""0.001 ... 0.999: what the model gives to the right word."""


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
        """Whether the loss rises again before the right word has everything."""
        return self._lowest < len(self.loss) - 1

    @property
    def _lowest(self) -> int:
        return min(range(len(self.loss)), key=self.loss.__getitem__)

    def at(self, probability: float) -> float:
        """The loss at a probability, given in thousandths."""
        return self.loss[round(probability * 1000) - 1]


@dataclass(frozen=True)
class Smoothing:
    """The smoothed target of a sentence, and loss curves for several smoothings."""

    shown: float
    """The smoothing of the target below."""
    target: Tensor  # (place, vocabulary)
    curves: tuple[Curve, ...]

    def tables(self) -> list[Table]:
        return [
            Table(
                "Loss against the probability p given to the right word",
                ("smoothing e", "least at p", "1 - e", "there", "p = 0.5", "p = 0.99", "p = 0.999"),
                tuple(cells(curve) for curve in self.curves),
            ),
            Table(
                f"The target at e = {self.shown:g} (rows: the word to predict)",
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
            return "Without smoothing the loss falls to the end: it always pays to be surer."
        curve = turning[0]
        return (
            f"With smoothing {curve.smoothing:g} the loss is least ({curve.least:.3f}) at p = {curve.best:.3f} "
            f"and rises again to {curve.at(0.999):.3f} at p = 0.999: being too sure is punished; without "
            "smoothing the loss falls to the end."
        )

    def as_json(self) -> dict[str, Any]:
        return {
            "vocabulary": list(VOCABULARY),
            "sentence": list(SENTENCE),
            "target": {"smoothing": self.shown, "rows": self.target.tolist()},
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


def compute(smoothings: Sequence[float] = (0.0, 0.1, 0.2, 0.4), *, shown: float = 0.1) -> Smoothing:
    """The target at smoothing `shown`, and the loss against the right word's probability for each smoothing."""
    gold = torch.tensor([VOCABULARY.index(word) for word in SENTENCE])
    target = smoothed_targets(gold, len(VOCABULARY), shown, PADDING)
    return Smoothing(shown, target, tuple(Curve(e, loss_curve(e)) for e in smoothings))


def loss_curve(smoothing: float) -> tuple[float, ...]:
    """The training loss of a model that gives the right word p and every other word the same share."""
    loss = SmoothedKL(len(VOCABULARY), PADDING, smoothing)
    gold = torch.tensor([VOCABULARY.index("dog")])
    return tuple(loss(logits.unsqueeze(0), gold).item() for logits in belief(int(gold)).unbind())


def belief(gold: int) -> Tensor:
    """Logits (probability, vocabulary): p on the gold token, the rest shared, next to nothing on padding."""
    others = (1 - PROBABILITIES) / (len(VOCABULARY) - 2)
    logits = others.log().unsqueeze(1).repeat(1, len(VOCABULARY))
    logits[:, gold] = PROBABILITIES.log()
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
    """A probability in few letters."""
    return f"{share:.2g}"


def draw(result: Smoothing) -> Figure:
    """The target as a heat map with its numbers, and the loss curves with their lowest points."""
    figure, (target, loss) = canvas(2, width=5.4, height=4.2)
    label(target, f"Target distribution, e = {result.shown:g}", "vocabulary", "word to predict")
    heat(target, result.target.numpy(), rows=SENTENCE, columns=VOCABULARY, high=1.0, bar=False)
    write_shares(target, result.target)
    label(loss, "Loss against certainty", "probability given to the right word", "KL divergence")
    for curve in result.curves:
        (line,) = loss.plot(PROBABILITIES.numpy(), curve.loss, label=legend(curve))
        if curve.turns:
            loss.plot(curve.best, curve.least, "o", color=line.get_color(), markersize=5)
    loss.set_ylim(-0.05, 2.0)
    loss.legend(loc="upper right", bbox_to_anchor=(0.95, 1.0), frameon=False)
    loss.grid(True)
    return figure


def write_shares(axes: Axes, target: Tensor) -> None:
    """Write each share into its cell: pale colours are hard to tell apart."""
    for row, shares in enumerate(target.tolist()):
        for column, share in enumerate(shares):
            colour = "white" if share > 0.5 else INK
            axes.text(column, row, share_text(share), ha="center", va="center", fontsize=8, color=colour)


def legend(curve: Curve) -> str:
    where = f"least at p = {curve.best:.3f}" if curve.turns else "falls to the end"
    return f"e = {curve.smoothing:g}: {where}"
