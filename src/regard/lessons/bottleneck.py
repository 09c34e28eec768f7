"""Why the decoder attends to the source: copying a line of symbols through one vector, and with attention.

Without attention, the whole source must fit into the encoder's last state: the longer the line, the more is
lost. A decoder with attention copies long lines as well as short ones. Reversing the source (Sutskever et al.
2014) helps, since the first target symbols are then the most recent source symbols, but only moves the
bottleneck. In the task `reverse` the target is the reversed line, which swaps the roles.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from matplotlib.figure import Figure
from torch import Tensor, nn

from regard.config.models import RnnConfig
from regard.data.batches import Batch
from regard.decoding import BeamSearchConfig, DecodingConstraints, search
from regard.lessons import Progress, Table
from regard.nn import Packed, Recorder
from regard.nn.build import build
from regard.nn.seq2seq import Seq2SeqModel
from regard.training.objectives import Seq2SeqObjective
from regard.training.process import preserved_rng
from regard.training.schedules import linear
from regard.training.update import fit
from regard.viz.figure import canvas, heat, label, legend, line_style

Task = Literal["copy", "reverse"]

MODELS: dict[str, dict[str, Any]] = {
    "no attention": {},
    "no attention, source reversed": {"reverse": True},
    "Bahdanau": {"bidirectional": True, "attention": "bahdanau"},
    "Luong, general": {"bidirectional": True, "attention": "luong"},
}
BEGIN, END, PADDING, UNKNOWN = range(4)
SPECIAL = 4
SYMBOLS = 20
LEARNING_RATE = 0.005
TOKENS = 1280
"""Symbols per batch, in lines of one length."""


@dataclass(frozen=True)
class TrainedModel:
    """Results of one trained model."""

    name: str
    parameters: int
    exact: tuple[float, ...]
    """Exact-match accuracy at each length."""
    alignment: Tensor | None
    """Attention weights for one of the longest lines (target, source); None without attention."""


@dataclass(frozen=True)
class Bottleneck:
    """All models at all lengths, after the same number of steps on the same lines."""

    task: Task
    lengths: tuple[int, ...]
    steps: int
    lines: int
    models: tuple[TrainedModel, ...]

    def tables(self) -> list[Table]:
        return [
            Table(
                f"Task {self.task}: exact matches of {self.lines} lines at each length, "
                f"after {self.steps:,} steps",
                ("model", "parameters", *(f"length {length}" for length in self.lengths)),
                tuple(
                    (model.name, f"{model.parameters:,}", *(f"{accuracy:.1%}" for accuracy in model.exact))
                    for model in self.models
                ),
            )
        ]

    def finding(self) -> str:
        without = max(model.exact[-1] for model in self.models if model.alignment is None)
        attentive = min(model.exact[-1] for model in self.models if model.alignment is not None)
        return (
            f"At length {self.lengths[-1]} the best model without attention copies {without:.1%} of the lines "
            f"exactly, the worst with attention {attentive:.1%}: one vector is a bottleneck, attention is not."
        )

    def as_json(self) -> dict[str, Any]:
        return {
            "task": self.task,
            "lengths": list(self.lengths),
            "steps": self.steps,
            "lines": self.lines,
            "models": [
                {
                    "name": model.name,
                    "parameters": model.parameters,
                    "exact": list(model.exact),
                    "alignment": None if model.alignment is None else model.alignment.tolist(),
                }
                for model in self.models
            ],
        }


@preserved_rng()
def measure(
    task: Task = "copy",
    *,
    max_length: int = 20,
    size: int = 64,
    steps: int = 2500,
    lines: int = 500,
    seed: int = 0,
    progress: Progress = lambda line: None,
) -> Bottleneck:
    """Train each model on lines of 1 to `max_length` symbols, then measure its exact-match accuracy."""
    lengths = tuple(sorted({max(1, max_length * quarter // 4) for quarter in (1, 2, 3, 4)}))
    generator = torch.Generator().manual_seed(seed + 1_000_003)
    tests = [batch_of(task, lines, length, generator) for length in lengths]
    trained = []
    for name, choices in MODELS.items():
        torch.manual_seed(seed)
        shape = RnnConfig("rnn", embedding=size, hidden=size, dropout=0.0, **choices)
        model = build(shape, SPECIAL + SYMBOLS, SPECIAL + SYMBOLS, PADDING)
        for step, loss in train(model, training_batches(task, max_length, steps, seed), steps):
            progress(f"{name}: step {step} of {steps}, loss {loss:.4f}")
        trained.append(
            TrainedModel(
                name,
                sum(parameter.numel() for parameter in model.parameters()),
                tuple(exact_accuracy(model, test) for test in tests),
                alignment(model, tests[-1]),
            )
        )
    return Bottleneck(task, lengths, steps, lines, tuple(trained))


def train(model: nn.Module, batches: Iterator[Batch], steps: int) -> Iterator[tuple[int, float]]:
    """Train the model; yields step and loss every 250 steps."""
    model.train()
    optimizer = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE, betas=(0.9, 0.98))
    objective = Seq2SeqObjective(model, PADDING, smoothing=0.0)
    schedule = linear(LEARNING_RATE, min(50, steps), steps)
    for step in fit(optimizer, schedule, batches, lambda batch: objective(batch) / batch.tokens):
        if step.number % 250 == 0 or step.number == steps:
            yield step.number, step.loss
    model.eval()


def training_batches(task: Task, max_length: int, steps: int, seed: int) -> Iterator[Batch]:
    """Batches of random lines, each of one length; the same for every model."""
    generator = torch.Generator().manual_seed(seed)
    for _ in range(steps):
        length = int(torch.randint(1, max_length + 1, (), generator=generator))
        yield batch_of(task, max(8, TOKENS // length), length, generator)


def batch_of(task: Task, lines: int, length: int, generator: torch.Generator) -> Batch:
    """A batch of random lines as sources, with their targets."""
    source = torch.randint(SPECIAL, SPECIAL + SYMBOLS, (lines, length), generator=generator)
    target = source if task == "copy" else source.flip(1)
    begin, end = torch.full((lines, 1), BEGIN), torch.full((lines, 1), END)
    lengths = torch.full((lines,), length + 1)
    return Batch(
        source=Packed(torch.cat([source, end], 1).flatten(), lengths),
        target=Packed(torch.cat([begin, target], 1).flatten(), lengths),
        labels=Packed(torch.cat([target, end], 1).flatten(), lengths),
        tokens=lines * (length + 1),
        sentences=tuple(range(lines)),
    )


def exact_accuracy(model: nn.Module, test: Batch) -> float:
    """Exact-match accuracy of greedy search."""
    limits = DecodingConstraints(BEGIN, END, (BEGIN, PADDING, UNKNOWN))
    hypotheses = search(model, test.source.padded(PADDING), limits, BeamSearchConfig(beam=1))  # type: ignore[arg-type]  # `start` and `step` by its class
    targets: Sequence[Sequence[int]] = test.labels.padded(PADDING)[:, :-1].tolist()
    matches = [
        bool(best) and list(best[0].ids) == target for best, target in zip(hypotheses, targets, strict=True)
    ]
    return sum(matches) / len(matches)


@torch.no_grad()
def alignment(model: Seq2SeqModel, test: Batch) -> Tensor | None:
    """The attention weights for the first test line (target, source), or None."""
    record = Recorder()
    model.hidden(test.source.padded(PADDING)[:1], test.target.padded(PADDING)[:1], record)
    return record["decoder.cross"][0, 0] if "decoder.cross" in record else None


def draw(result: Bottleneck) -> Figure:
    """Accuracy by length for every model, and the attention maps."""
    attentive = [model for model in result.models if model.alignment is not None]
    figure, (accuracy, *maps) = canvas(1 + len(attentive), width=4.8, height=4.2)
    label(accuracy, f"Task {result.task}: exact matches", "symbols per line", "accuracy")
    spacing = 0.015 * (result.lengths[-1] - result.lengths[0])
    for number, model in enumerate(result.models):
        # shifted sideways, so that equal accuracies do not hide each other
        shift = (number - (len(result.models) - 1) / 2) * spacing
        lengths = [length + shift for length in result.lengths]
        accuracy.plot(lengths, model.exact, label=model.name, **line_style(number))
    accuracy.set_ylim(-0.03, 1.03)
    accuracy.set_xticks(result.lengths)
    accuracy.grid(True)
    legend(accuracy, below=True)
    for axes, model in zip(maps, attentive, strict=True):
        assert model.alignment is not None
        heat(axes, model.alignment.numpy(), high=1.0)
        axes.locator_params(integer=True)
        label(axes, f"{model.name}: attention", "source symbol", "target symbol")
    return figure
