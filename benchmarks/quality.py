"""Time to quality: BLEU on Multi30k, English to German (tok, test_2016, beam 5), within the minutes given.

    python benchmarks/quality.py FOLDER [--minutes 15 60 120] [--models 2] [--diversified] [--out OUT] [--json]

Each budget is a training of its own by the recipe `multi30k`, with the settings that stand below for it. With
--models several are trained side by side, each with its share of the cores and a seed of its own, and translate
as one. With --diversified a share of the budget trains two models, there and back; their translations of the
training sentences are then learned beside the originals (Nguyen et al. 2020). All of that is counted. Prints a
row for each budget and draws BLEU against minutes into OUT/quality.png.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from regard.config.schema import toml_value
from regard.data import catalog
from regard.jobs import load_translator
from regard.jobs.journal import read_journal
from regard.look.figure import canvas, label, legend, save_as

LONGER: dict[str, object] = {"text.dropout": 0.1, "train.weight_decay": 0.1}
"""From half an hour on, the same sentences come so often that they are better cut differently each time."""
SIDES = ("en", "de")
AUXILIARY = 1 / 4
"""Of the budget, for the two models that only make sentences."""


@dataclass(frozen=True)
class Reached:
    """What a budget brought: the runs that translate as one, what they score, the minutes before they began."""

    minutes: float
    bleu: float
    alone: list[float]
    before: float
    runs: list[Path]

    def as_json(self) -> str:
        return json.dumps(
            {"minutes": self.minutes, "bleu": self.bleu, "alone": self.alone, "runs": list(map(str, self.runs))}
        )

    def __str__(self) -> str:
        alone = " and ".join(f"{each:.2f}" for each in self.alone)
        one_by_one = f" ({alone} one by one)" if len(self.runs) > 1 else ""
        return f"{self.minutes:g} minutes: BLEU {self.bleu:.2f}{one_by_one}   {' '.join(map(str, self.runs))}"


def side_by_side(trainings: dict[Path, dict[str, object]], minutes: float) -> None:
    """Train each in a process of its own, with its share of the cores; what it tells goes to a file."""
    share = max(1, (os.cpu_count() or 1) // len(trainings))
    started = []
    for out, settings in trainings.items():
        out.parent.mkdir(parents=True, exist_ok=True)
        given = {"train.minutes": minutes, **(LONGER if minutes >= 30 else {}), **settings}
        command = [
            *(sys.executable, "-m", "regard", "train", "multi30k", "--out", str(out)),
            *(f"{key}={toml_value(value)}" for key, value in given.items()),
        ]
        with out.with_suffix(".log").open("w") as log:
            surroundings = {**os.environ, "OMP_NUM_THREADS": str(share)}
            started.append(subprocess.Popen(command, env=surroundings, stdout=log, stderr=log))
    for process, out in zip(started, trainings, strict=True):
        if process.wait():
            sys.exit(out.with_suffix(".log").read_text()[-500:])


def diversified(out: Path, folder: Path, minutes: float) -> dict[str, object]:
    """The data of a training on the originals and on translations of both sides by models of our own."""
    there, back = out / "there", out / "back"
    turned = {"data.source_language": "de", "data.target_language": "en"}
    side_by_side({there: {"data.path": str(folder)}, back: {"data.path": str(folder), **turned}}, minutes)
    splits = {
        split: list(catalog.pairs("multi30k", split, source="en", target="de", path=str(folder), form="tok"))
        for split in ("train", "valid", "test")
    }
    english, german = map(list, zip(*splits["train"], strict=True))
    splits["train"] += zip(english, load_translator(there).translate(english), strict=True)
    splits["train"] += zip(load_translator(back).translate(german), german, strict=True)
    data: dict[str, object] = {"data.corpus": "files"}
    for split, pairs in splits.items():
        for place, side in enumerate(("source", "target")):
            path = out / f"{split}.{SIDES[place]}"
            path.write_text("".join(f"{pair[place]}\n" for pair in pairs), "utf-8")
            data[f"data.{side}" if split == "train" else f"data.{split}_{side}"] = str(path.resolve())
    return data


def reached(out: Path, folder: Path, minutes: float, models: int, from_more: bool) -> Reached:
    """Train within the minutes, and measure."""
    began = time.monotonic()
    data = diversified(out, folder, minutes * AUXILIARY) if from_more else {"data.path": str(folder)}
    before = (time.monotonic() - began) / 60
    runs = [out / f"{number}" for number in range(1, models + 1)]
    seeds = {run: {**data, "train.seed": number} for number, run in enumerate(runs, start=1)}
    side_by_side(seeds, minutes - before)
    opened = load_translator(*runs)
    pairs = opened.test_pairs()
    alone = [load_translator(run).evaluate(pairs).quality.bleu for run in runs]
    bleu = opened.evaluate(pairs).quality.bleu if models > 1 else alone[0]
    return Reached(minutes, bleu, alone, before, runs)


def draw(found: list[Reached], into: Path) -> None:
    figure, [axes] = canvas()
    for each in found:
        rows = [row for row in read_journal(each.runs[0] / "metrics.jsonl") if row["kind"] == "valid"]
        [line] = axes.plot(
            [each.before + row["minutes"] for row in rows],
            [row["bleu"] for row in rows],
            label=f"{each.minutes:g} minutes, validation, greedy",
        )
        axes.plot(each.minutes, each.bleu, "o", color=line.get_color(), label=f"test, beam 5: {each.bleu:.2f}")
    axes.grid(True)
    label(axes, "BLEU on Multi30k, English to German", "minutes", "BLEU")
    legend(axes)
    save_as(figure, into)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="Multi30k, with tok/ in it")
    parser.add_argument("--minutes", type=float, nargs="+", default=[15.0, 60.0, 120.0])
    parser.add_argument("--models", type=int, default=1, help="so many side by side, that translate as one")
    parser.add_argument("--diversified", action="store_true", help="learn from translations of its own, too")
    parser.add_argument("--out", type=Path, default=Path("runs/quality"))
    parser.add_argument("--json", action="store_true", help="print rows as JSON")
    options = parser.parse_args()
    if options.models < 1:
        parser.error("--models: at least one must be trained")
    found = []
    for minutes in options.minutes:
        place = options.out / f"{minutes:g}"
        found.append(reached(place, options.folder.resolve(), minutes, options.models, options.diversified))
        print(found[-1].as_json() if options.json else found[-1], flush=True)
    draw(found, options.out / "quality.png")


if __name__ == "__main__":
    main()
