"""Time to quality: BLEU on Multi30k, English to German (tok, test_2016, beam 5), within the minutes given.

    python benchmarks/quality.py FOLDER [--minutes 15 60 120] [--models N] [--out OUT] [--json]

A budget is spent on one model by the recipe `multi30k` with the settings that stand below, or shared by
several that are trained one after another and translate as one: two, where there are two hours. Each remembers
the sentences it was trained on in the last minute of its share (`regard remember`). A model of the same share
that lies in OUT already is taken as it is: the hour's is the first of the two hours'. Prints a row for each
budget and draws BLEU against minutes into OUT/quality.png.
"""

import argparse
import json
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from regard.arithmetic import enable_reproducible_mkl
from regard.config.schema import toml_value
from regard.tasks.metrics_log import read_metrics
from regard.tasks.run_folder import RunFolder
from regard.tasks.translation.datastore_file import FILE
from regard.tasks.translation.model import Translator
from regard.viz.figure import canvas, label, save_as

SETTINGS: dict[str, object] = {"train.r_drop": 1, "train.weight_decay": 0.1}
"""The same sentences come so often that two passes through them are kept close."""
TO_REMEMBER = 1.0
"""Minutes of each model's share in which it does not learn any more."""


@dataclass(frozen=True)
class Reached:
    """What a budget brought: BLEU of its runs as one, of each alone, and of each without what it remembers."""

    minutes: float
    bleu: float
    alone: list[float]
    trained: list[float]
    runs: list[str]

    def __str__(self) -> str:
        each = " and ".join(
            f"{alone:.2f} alone, {trained:.2f} as trained"
            for alone, trained in zip(self.alone, self.trained, strict=True)
        )
        return f"{self.minutes:g} minutes: BLEU {self.bleu:.2f} ({each})   {' '.join(self.runs)}"


def made(run: Path, folder: Path, share: float, seed: int) -> None:
    """Train a model within its share of the minutes, remembering included; what is told goes to a file."""
    run.parent.mkdir(parents=True, exist_ok=True)
    settings = {
        "data.path": str(folder),
        "train.minutes": share - TO_REMEMBER,
        "train.seed": seed,
        **SETTINGS,
    }
    given = [f"{key}={toml_value(value)}" for key, value in settings.items()]
    if not RunFolder(run).holds_run():
        told("train", "multi30k", "--out", str(run), *given, into=run.with_suffix(".log"))
    if not (run / FILE).exists():
        told("remember", str(run), into=run.with_suffix(".remembered.log"))


def told(*command: str, into: Path) -> None:
    with into.open("w") as log:
        ended = subprocess.run([sys.executable, "-m", "regard", *command], stdout=log, stderr=log, check=False)
    if ended.returncode:
        sys.exit(into.read_text()[-500:])


def reached(out: Path, folder: Path, minutes: float, models: int) -> Reached:
    """Spend the minutes, and measure."""
    share = minutes / models
    runs = [out / f"{share:g}" / f"{seed}" for seed in range(1, models + 1)]
    for seed, run in enumerate(runs, start=1):
        made(run, folder, share, seed)
    together = Translator.load(*runs)
    pairs = together.test_pairs()
    opened = [Translator.load(run) for run in runs]
    trained = [Translator(each.folder, each.recipe, use_datastore=False) for each in opened]
    alone, before = ([each.evaluate(pairs).quality.bleu for each in some] for some in (opened, trained))
    bleu = together.evaluate(pairs).quality.bleu if models > 1 else alone[0]
    return Reached(minutes, bleu, alone, before, list(map(str, runs)))


def draw(found: list[Reached], into: Path) -> None:
    """Validation while each model learned, once where it serves two budgets, and the test at each end."""
    figure, [axes] = canvas()
    drawn: dict[str, str] = {}
    for each in found:
        for place, run in enumerate(each.runs):
            if run in drawn:
                continue
            rows = [row for row in read_metrics(Path(run) / "metrics.jsonl") if row["kind"] == "valid"]
            before = place * each.minutes / len(each.runs)
            [line] = axes.plot([before + row["minutes"] for row in rows], [row["bleu"] for row in rows])
            drawn[run] = line.get_color()
        color, end = drawn[each.runs[-1]], (each.minutes, each.bleu)
        axes.plot(*end, "o", color=color)
        axes.annotate(f"{each.bleu:.2f}", end, (0, 8), textcoords="offset points", ha="center", color=color)
    axes.set_ylim(top=max(each.bleu for each in found) + 3)
    axes.grid(True)
    label(axes, "Multi30k: validation (lines), test (dots)", "minutes", "BLEU")
    save_as(figure, into)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="Multi30k, with tok/ in it")
    parser.add_argument("--minutes", type=float, nargs="+", default=[15.0, 60.0, 120.0])
    parser.add_argument("--models", type=int, help="so many share a budget; else two from two hours on, or one")
    parser.add_argument("--out", type=Path, default=Path("runs/quality"))
    parser.add_argument("--json", action="store_true", help="print rows as JSON")
    options = parser.parse_args()
    enable_reproducible_mkl()  # as the command line does
    if options.models is not None and options.models < 1:
        parser.error("--models: at least one must be trained")
    found = []
    for minutes in options.minutes:
        models = options.models or (2 if minutes >= 120 else 1)
        if minutes / models <= TO_REMEMBER:
            parser.error(f"--minutes: {minutes:g} leave no time to learn")
        found.append(reached(options.out, options.folder.resolve(), minutes, models))
        print(json.dumps(asdict(found[-1])) if options.json else found[-1], flush=True)
    draw(found, options.out / "quality.png")


if __name__ == "__main__":
    main()
