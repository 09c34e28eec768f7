"""Time to quality: BLEU on Multi30k, English to German (tok, test_2016, beam 5), within the minutes given.

    python benchmarks/quality.py FOLDER [--minutes 15 60 120] [--diversified] [--out runs/quality] [--json]

Each budget is a training of its own by the recipe `multi30k`, with the settings that stand below for it. With
--diversified a quarter of the budget trains two models, there and back; their translations of the training
sentences are then learned beside the originals (Nguyen et al. 2020). All of that is counted. Prints a row for
each budget and draws BLEU on the validation pairs against minutes into OUT/quality.png.
"""

import argparse
import json
import time
from pathlib import Path

import regard
from regard.data import catalog
from regard.jobs.journal import read_journal
from regard.jobs.translation import TranslationRun
from regard.look.figure import canvas, label, legend, save_as

LONGER = {"model__dropout": 0.15, "text__dropout": 0.1, "train__weight_decay": 0.1}
"""From half an hour on, the same sentences come so often that they are better cut differently each time."""
SIDES = ("en", "de")
AUXILIARY = 1 / 8
"""Of the budget, for each of the two models that only make sentences."""


def trained(out: Path, folder: Path, minutes: float, **more: object) -> TranslationRun:
    settings = {**(LONGER if minutes >= 30 else {}), **more}
    run = regard.train("multi30k", out, data__path=str(folder), train__minutes=minutes, **settings)
    assert isinstance(run, TranslationRun)
    return run


def diversified(out: Path, folder: Path, minutes: float) -> TranslationRun:
    """Both models, their sentences, and a training on all of them, in what is left of the minutes."""
    began = time.monotonic()
    there = trained(out / "there", folder, minutes * AUXILIARY)
    back = trained(
        out / "back", folder, minutes * AUXILIARY, data__source_language="de", data__target_language="en"
    )
    splits = {
        split: list(catalog.pairs("multi30k", split, source="en", target="de", path=str(folder), form="tok"))
        for split in ("train", "valid", "test")
    }
    english, german = map(list, zip(*splits["train"], strict=True))
    splits["train"] += zip(english, regard.load(there.folder).translate(english), strict=True)  # type: ignore[union-attr]
    splits["train"] += zip(regard.load(back.folder).translate(german), german, strict=True)  # type: ignore[union-attr]
    files = {}
    for split, pairs in splits.items():
        for place, language in enumerate(SIDES):
            path = out / f"{split}.{language}"
            path.write_text("".join(f"{pair[place]}\n" for pair in pairs), "utf-8")
            files[split, language] = str(path)
    return trained(
        out / "all", Path(), minutes - (time.monotonic() - began) / 60,
        data__corpus="files", data__source=files["train", "en"], data__target=files["train", "de"],
        data__valid_source=files["valid", "en"], data__valid_target=files["valid", "de"],
        data__test_source=files["test", "en"], data__test_target=files["test", "de"],
    )  # fmt: skip


def draw(runs: dict[float, TranslationRun], into: Path) -> None:
    figure, [axes] = canvas()
    for minutes, run in runs.items():
        rows = [row for row in read_journal(run.folder / "metrics.jsonl") if row["kind"] == "valid"]
        before = minutes - run.minutes  # spent on what it learned from
        axes.plot(
            [before + row["minutes"] for row in rows],
            [row["bleu"] for row in rows],
            label=f"{minutes:g} minutes",
        )
    axes.grid(True)
    label(axes, "BLEU in training, on validation pairs", "minutes", "BLEU, greedy")
    legend(axes)
    save_as(figure, into)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="Multi30k, with tok/ in it")
    parser.add_argument("--minutes", type=float, nargs="+", default=[15.0, 60.0, 120.0])
    parser.add_argument("--diversified", action="store_true", help="learn from translations of its own, too")
    parser.add_argument("--out", type=Path, default=Path("runs/quality"))
    parser.add_argument("--json", action="store_true", help="print rows as JSON")
    options = parser.parse_args()
    runs = {}
    for minutes in options.minutes:
        place = options.out / f"{minutes:g}"
        make = diversified if options.diversified else trained
        runs[minutes] = make(place, options.folder.resolve(), minutes)
        row = {"minutes": minutes, "bleu": runs[minutes].quality.bleu, "run": str(runs[minutes].folder)}
        print(
            json.dumps(row) if options.json else f"{minutes:g} minutes: BLEU {row['bleu']:.2f}   {row['run']}",
            flush=True,
        )
    draw(runs, options.out / "quality.png")


if __name__ == "__main__":
    main()
