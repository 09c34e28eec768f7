"""Why the decoder looks back: copying a line of symbols through one vector, and with attention.

Without attention all that was read must fit into the encoder's last state; the longer the line, the more of
it is lost. A decoder that looks back copies long lines as well as short ones. Reading the source
from its end (Sutskever et al. 2014) helps, for the first symbols to be written are then the freshest, but it
only moves the bottleneck. The task `reverse` asks for the line backwards: there the roles are swapped.
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
from regard.lessons.lesson import Progress, Table
from regard.nn import Packed, Recorder
from regard.nn.build import build
from regard.nn.seq2seq import Seq2SeqModel
from regard.training.objectives import Seq2SeqObjective
from regard.training.process import preserved_rng
from regard.training.schedules import linear
from regard.training.update import fit
from regard.viz.figure import canvas, heat, label

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
RATE = 0.005
TOKENS = 1280
"""Symbols a batch, in lines of one length."""


@dataclass(frozen=True)
class Learned:
    """One model after its training."""

    name: str
    parameters: int
    exact: tuple[float, ...]
    """The share of lines written without a mistake, at each length."""
    alignment: Tensor | None
    """Where it looked while it wrote one of the longest lines (written, read); None without attention."""


@dataclass(frozen=True)
class Bottleneck:
    """Every model at every length, after the same number of steps on the same lines."""

    task: Task
    lengths: tuple[int, ...]
    steps: int
    lines: int
    models: tuple[Learned, ...]

    def tables(self) -> list[Table]:
        return [
            Table(
                f"Task {self.task}: lines written without a mistake, of {self.lines} at each length, "
                f"after {self.steps:,} steps",
                ("model", "parameters", *(f"length {length}" for length in self.lengths)),
                tuple(
                    (each.name, f"{each.parameters:,}", *(f"{share:.1%}" for share in each.exact))
                    for each in self.models
                ),
            )
        ]

    def finding(self) -> str:
        blind = max(each.exact[-1] for each in self.models if each.alignment is None)
        seeing = min(each.exact[-1] for each in self.models if each.alignment is not None)
        return (
            f"At length {self.lengths[-1]} the best model without attention gets {blind:.1%} of the lines, the "
            f"worst with attention {seeing:.1%}: one vector is a bottleneck, looking back is not."
        )

    def as_json(self) -> dict[str, Any]:
        return {
            "task": self.task,
            "lengths": list(self.lengths),
            "steps": self.steps,
            "lines": self.lines,
            "models": [
                {
                    "name": each.name,
                    "parameters": each.parameters,
                    "exact": list(each.exact),
                    "alignment": None if each.alignment is None else each.alignment.tolist(),
                }
                for each in self.models
            ],
        }


@preserved_rng()
def measure(
    task: Task = "copy",
    *,
    longest: int = 20,
    size: int = 64,
    steps: int = 2500,
    lines: int = 500,
    seed: int = 0,
    progress: Progress = lambda line: None,
) -> Bottleneck:
    """Train each model on lines of 1 to `max_length` symbols, then count what it writes without a mistake."""
    lengths = tuple(sorted({max(1, longest * quarter // 4) for quarter in (1, 2, 3, 4)}))
    chance = torch.Generator().manual_seed(seed + 1_000_003)
    tests = [batch_of(task, lines, length, chance) for length in lengths]
    learned = []
    for name, choices in MODELS.items():
        torch.manual_seed(seed)
        shape = RnnConfig("rnn", embedding=size, hidden=size, dropout=0.0, **choices)
        model = build(shape, SPECIAL + SYMBOLS, SPECIAL + SYMBOLS, PADDING)
        for step, loss in learn(model, practice(task, longest, steps, seed), steps):
            progress(f"{name}: step {step} of {steps}, loss {loss:.4f}")
        learned.append(
            Learned(
                name,
                sum(each.numel() for each in model.parameters()),
                tuple(share_exact(model, test) for test in tests),
                alignment(model, tests[-1]),
            )
        )
    return Bottleneck(task, lengths, steps, lines, tuple(learned))


def learn(model: nn.Module, batches: Iterator[Batch], steps: int) -> Iterator[tuple[int, float]]:
    """Train the model; yields step and loss now and then."""
    model.train()
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE, betas=(0.9, 0.98))
    objective = Seq2SeqObjective(model, PADDING, smoothing=0.0)
    rate = linear(RATE, min(50, steps), steps)
    for step in fit(optimizer, rate, batches, lambda batch: objective(batch) / batch.tokens):
        if step.number % 250 == 0 or step.number == steps:
            yield step.number, step.loss
    model.eval()


def practice(task: Task, longest: int, steps: int, seed: int) -> Iterator[Batch]:
    """Batches of random lines, each of one length; the same for every model."""
    chance = torch.Generator().manual_seed(seed)
    for _ in range(steps):
        length = int(torch.randint(1, longest + 1, (), generator=chance))
        yield batch_of(task, max(8, TOKENS // length), length, chance)


def batch_of(task: Task, lines: int, length: int, chance: torch.Generator) -> Batch:
    """Lines of random symbols and what is to be written."""
    read = torch.randint(SPECIAL, SPECIAL + SYMBOLS, (lines, length), generator=chance)
    written = read if task == "copy" else read.flip(1)
    begin, end = torch.full((lines, 1), BEGIN), torch.full((lines, 1), END)
    lengths = torch.full((lines,), length + 1)
    return Batch(
        source=Packed(torch.cat([read, end], 1).flatten(), lengths),
        target=Packed(torch.cat([begin, written], 1).flatten(), lengths),
        labels=Packed(torch.cat([written, end], 1).flatten(), lengths),
        tokens=lines * (length + 1),
        sentences=tuple(range(lines)),
    )


def share_exact(model: nn.Module, test: Batch) -> float:
    """The share of lines that greedy search writes without a mistake."""
    limits = DecodingConstraints(BEGIN, END, (BEGIN, PADDING, UNKNOWN))
    found = search(model, test.source.padded(PADDING), limits, BeamSearchConfig(beam=1))  # type: ignore[arg-type]  # `start` and `step` by its class
    wanted: Sequence[Sequence[int]] = test.labels.padded(PADDING)[:, :-1].tolist()
    right = [bool(best) and list(best[0].ids) == line for best, line in zip(found, wanted, strict=True)]
    return sum(right) / len(right)


@torch.no_grad()
def alignment(model: Seq2SeqModel, test: Batch) -> Tensor | None:
    """Where the model looks while it writes the first line of the test."""
    record = Recorder()
    model.hidden(test.source.padded(PADDING)[:1], test.target.padded(PADDING)[:1], record)
    return record["decoder.cross"][0, 0] if "decoder.cross" in record else None


def draw(result: Bottleneck) -> Figure:
    """Mistakes by length for every model, and where each attentive one looked."""
    seeing = [each for each in result.models if each.alignment is not None]
    figure, (shares, *maps) = canvas(1 + len(seeing), width=4.8, height=4.2)
    label(shares, f"Task {result.task}: lines without a mistake", "symbols in the line", "share of lines")
    for each in result.models:
        shares.plot(result.lengths, each.exact, "o-", markersize=4, label=each.name)
    shares.set_ylim(-0.03, 1.03)
    shares.set_xticks(result.lengths)
    shares.grid(True)
    shares.legend(frameon=False, ncols=2, loc="upper center", bbox_to_anchor=(0.5, -0.17))
    for axes, each in zip(maps, seeing, strict=True):
        assert each.alignment is not None
        heat(axes, each.alignment.numpy(), high=1.0)
        axes.locator_params(integer=True)
        label(axes, f"{each.name}: who looked where", "symbol read", "symbol written")
    return figure
