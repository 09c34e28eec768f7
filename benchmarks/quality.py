"""Time to quality: BLEU on Multi30k, English to German (tok, test_2016, beam 5), within a time budget.

    python benchmarks/quality.py FOLDER [--minutes 15 60 120] [--models N] [--out OUT] [--json]

A budget is spent on one model of the recipe `multi30k` with the settings below, or shared by the models of an
ensemble, trained one after another: two from two hours on. In the last minute of its share, each model builds a
kNN translation memory of its training sentences (`regard remember`). A model of the same share that is in OUT
already is reused: the one-hour model is the first of the two-hour ensemble. Prints a row per budget and draws
BLEU against minutes into OUT/quality.png.
"""

import argparse
import json
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from regard.config.schema import toml_value
from regard.mkl import enable_reproducible_mkl
from regard.tasks.metrics_log import read_metrics
from regard.tasks.run_folder import RunFolder
from regard.tasks.translation.datastore_file import FILE
from regard.tasks.translation.model import Translator
from regard.viz.figure import GREY, canvas, label, line_style, save_as

SETTINGS: dict[str, object] = {"train.r_drop": 1, "train.weight_decay": 0.1}
"""R-Drop and weight decay, since the same sentences are repeated often."""
MEMORY_MINUTES = 1.0
"""Minutes of each model's share for building its translation memory."""


@dataclass(frozen=True)
class BudgetResult:
    """BLEU within a budget: of the ensemble, of each model, and of each without its translation memory."""

    minutes: float
    bleu: float
    alone: list[float]
    trained: list[float]
    runs: list[str]

    def __str__(self) -> str:
        models = " and ".join(
            f"{alone:.2f} alone, {trained:.2f} as trained"
            for alone, trained in zip(self.alone, self.trained, strict=True)
        )
        return f"{self.minutes:g} minutes: BLEU {self.bleu:.2f} ({models})   {' '.join(self.runs)}"


def train_model(run: Path, folder: Path, share: float, seed: int) -> None:
    """Trains a model and builds its translation memory within its share of the minutes; logs go to a file."""
    run.parent.mkdir(parents=True, exist_ok=True)
    settings = {
        "data.path": str(folder),
        "train.minutes": share - MEMORY_MINUTES,
        "train.seed": seed,
        **SETTINGS,
    }
    assignments = [f"{key}={toml_value(value)}" for key, value in settings.items()]
    if not RunFolder(run).holds_run():
        run_regard("train", "multi30k", "--out", str(run), *assignments, into=run.with_suffix(".log"))
    if not (run / FILE).exists():
        run_regard("remember", str(run), into=run.with_suffix(".remembered.log"))


def run_regard(*command: str, into: Path) -> None:
    with into.open("w") as log:
        process = subprocess.run(
            [sys.executable, "-m", "regard", *command], stdout=log, stderr=log, check=False
        )
    if process.returncode:
        sys.exit(into.read_text()[-500:])


def spend_budget(out: Path, folder: Path, minutes: float, models: int) -> BudgetResult:
    """Trains the models of a budget and evaluates them."""
    share = minutes / models
    runs = [out / f"{share:g}" / f"{seed}" for seed in range(1, models + 1)]
    for seed, run in enumerate(runs, start=1):
        train_model(run, folder, share, seed)
    ensemble = Translator.load(*runs)
    pairs = ensemble.test_pairs()
    opened = [Translator.load(run) for run in runs]
    trained = [Translator(model.folder, model.recipe, use_datastore=False) for model in opened]
    alone, without_memory = (
        [model.evaluate(pairs).quality.bleu for model in group] for group in (opened, trained)
    )
    bleu = ensemble.evaluate(pairs).quality.bleu if models > 1 else alone[0]
    return BudgetResult(minutes, bleu, alone, without_memory, list(map(str, runs)))


def draw(results: list[BudgetResult], into: Path) -> None:
    """Validation BLEU of each model during training, and test BLEU at the end of each budget."""
    figure, [axes] = canvas(width=6.4, height=4.2)
    drawn: dict[str, str] = {}
    for result in results:
        several = len(result.runs) > 1
        for index, run in enumerate(result.runs):
            if run in drawn:
                continue
            rows = [row for row in read_metrics(Path(run) / "metrics.jsonl") if row["kind"] == "valid"]
            start = index * result.minutes / len(result.runs)
            style = line_style(len(drawn), marker=False)
            model = (
                f"model {index + 1} of the {result.minutes:g}-minute budget"
                if several
                else f"{result.minutes:g} minutes"
            )
            axes.plot(
                [start + row["minutes"] for row in rows],
                [row["bleu"] for row in rows],
                label=f"{model}: validation, greedy, without kNN memory",
                **style,
            )
            drawn[run] = style["color"]
        color, end = drawn[result.runs[-1]], (result.minutes, result.bleu)
        axes.plot(*end, "o", color=color)
        system = f"ensemble of {len(result.runs)} + kNN" if several else "one model + kNN"
        axes.annotate(
            f"{result.bleu:.2f}\n{system}",
            end,
            (0, 8),
            textcoords="offset points",
            ha="center",
            color=color,
            fontsize=8.5,
        )
    axes.plot([], [], "o", color=GREY, label="test, beam search, with kNN memory")
    axes.set_ylim(top=max(result.bleu for result in results) + 6)
    axes.set_xlim(right=1.16 * max(result.minutes for result in results))
    axes.grid(True)
    label(axes, "BLEU on Multi30k by training time", "minutes", "BLEU")
    axes.legend(
        fontsize=8.5, frameon=False, handlelength=3, loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=1
    )
    save_as(figure, into)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="Multi30k, with tok/ in it")
    parser.add_argument("--minutes", type=float, nargs="+", default=[15.0, 60.0, 120.0])
    parser.add_argument("--models", type=int, help="models per budget; default: one, and two from two hours on")
    parser.add_argument("--out", type=Path, default=Path("runs/quality"))
    parser.add_argument("--json", action="store_true", help="print rows as JSON")
    options = parser.parse_args()
    enable_reproducible_mkl()  # as the command line does
    if options.models is not None and options.models < 1:
        parser.error("--models: at least one must be trained")
    results = []
    for minutes in options.minutes:
        models = options.models or (2 if minutes >= 120 else 1)
        if minutes / models <= MEMORY_MINUTES:
            parser.error(f"--minutes: {minutes:g} leave no time for training")
        results.append(spend_budget(options.out, options.folder.resolve(), minutes, models))
        print(json.dumps(asdict(results[-1])) if options.json else results[-1], flush=True)
    draw(results, options.out / "quality.png")


if __name__ == "__main__":
    main()
