"""A GPT beside its peer and its baseline, each with one command.

    pip install -c constraints.txt -e '.[bench]'
    python benchmarks/gpt.py training [--quick] [--json]            tokens a second beside Hugging Face
    python benchmarks/gpt.py generation [--quick] [--json]          200 tokens, batch 1 and 32, beside generate
    python benchmarks/gpt.py parity                                 logits of a random GPT-2, in and out
    python benchmarks/gpt.py shakespeare FOLDER [--quick] [--json]  loss: a public setting, ours, counts
    python benchmarks/gpt.py labels FOLDER [--quick] [--json]       SST-2, SICK with and without pre-training

FOLDER holds sst2, sick, wikitext2, multi30k and tinyshakespeare. Every engine is a process of its own; they
take turns in one run, and the median of a row's turns is printed. Rows: case, ours, peer, value, ratio.
"""

import argparse
import gzip
import json
import tempfile
from pathlib import Path
from typing import Any

import torch

import regard
from regard import text
from regard.app.terminal import Terminal
from regard.bench import gpt
from regard.bench.turns import as_json, show
from regard.exchange import gpt2


def training(options: argparse.Namespace) -> None:
    sizes = ["letters"] if options.quick else list(gpt.SIZES)
    rows = [row for size in sizes for row in gpt.training_speeds(size, 3 if options.quick else 9)]
    print(as_json(rows) if options.json else show(rows, "tokens a second"))


def generation(options: argparse.Namespace) -> None:
    sizes = ["letters"] if options.quick else ["letters", "small"]
    cases = [(size, batch) for size in sizes for batch in (1, 32)]
    rows = [row for case in cases for row in gpt.generation_speeds(*case, 3 if options.quick else 7)]
    print(as_json(rows) if options.json else show(rows, "tokens a second"))
    if not options.json:
        for size, batch in cases:
            times = gpt.flatness(size, batch)
            print(f"{size}, batch {batch}: the last 50 tokens cost {times:.2f} times the first 50")


def parity(options: argparse.Namespace) -> None:
    """Hugging Face's GPT-2 saved, read, written and read there again: the largest difference of logits."""
    from transformers import AutoTokenizer, GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    lines = Path(__file__).read_text().splitlines()
    tokenizer = text.train("gpt", lines, size=500)
    shape = {"n_layer": 4, "n_embd": 128, "n_head": 4, "n_positions": 128}
    theirs = GPT2LMHeadModel(
        GPT2Config(vocab_size=tokenizer.size, bos_token_id=0, eos_token_id=0, **shape)
    ).eval()
    ids = torch.randint(tokenizer.size, (4, 100))
    with tempfile.TemporaryDirectory() as place, torch.no_grad():
        for name, each in theirs.named_parameters():
            if name.endswith("bias") or "ln_" in name:  # fresh ones are 0 and 1
                each.add_(torch.randn_like(each) * 0.3)
        theirs.save_pretrained(Path(place) / "theirs")
        tokenizer.save(Path(place) / "theirs" / "tokenizer.json")
        found = gpt2.read(Path(place) / "theirs")
        gpt2.write(Path(place) / "ours", found.model.eval(), found.config, found.tokenizer)
        again = GPT2LMHeadModel.from_pretrained(Path(place) / "ours").eval()
        reader = AutoTokenizer.from_pretrained(Path(place) / "ours")
        wanted = theirs(ids).logits
        told = {
            "imported": float((found.model(ids) - wanted).abs().max()),
            "exported": float((again(ids).logits - wanted).abs().max()),
            "same_tokens": all(
                reader.encode(line) == tokenizer.encode(line) for line in lines if "<|" not in line
            ),
        }
    print(json.dumps(told) if options.json else told)


def shakespeare(options: argparse.Namespace) -> None:
    """The public setting, our recipe for as many minutes, and counts of letters."""
    data = [f"data.path={Path(options.folder) / 'tinyshakespeare'}"]
    with tempfile.TemporaryDirectory() as place:
        steps = ["train.steps=40"] if options.quick else []
        public = trained("shakespeare", Path(place) / "public", [*data, *steps])
        minutes = f"train.minutes={max(public['minutes'], 0.01)}"
        best = trained("shakespeare-best", Path(place) / "best", [*data, minutes])
        counts = ["data.train=input.txt.gz", "text.kind=characters", "model.order=6"]
        counted = trained("ngram", Path(place) / "counts", [*data, *counts])
    rows = {"public setting, 2,000 steps": public, "our recipe, as long": best, "counts of 6 letters": counted}
    tell(rows, options, ("loss", "bits_per_byte", "minutes"))


def labels(options: argparse.Namespace) -> None:
    """A small GPT pre-trained here, fine-tuned for labels; and the same not pre-trained."""
    folder = Path(options.folder)
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch)
        write_text(folder, place / "text.txt")
        minutes = 0.1 if options.quick else 8
        words = [
            f"data.train={place / 'text.txt'}",
            "model.size=micro",
            "model.longest=128",
            f"train.minutes={minutes}",
        ]
        pretrained = trained("gpt", place / "gpt", words)
        rows: dict[str, dict[str, Any]] = {"pre-training": pretrained}
        for task, recipe in (("sst2", "gpt-sentiment"), ("sick", "gpt-inference")):
            data = [
                f"data.train={folder / task / 'train.tsv.gz'}",
                f"data.valid={folder / task / 'dev.tsv.gz'}",
            ]
            short = ["train.steps=5"] if options.quick else []
            same = ["train.rate=5e-4", "train.epochs=6", *short]
            start = [f"model.start={place / 'gpt'}"]
            fresh = ["model.size=micro", "model.longest=128"]
            rows[f"{task}, pre-trained"] = trained(recipe, place / task, [*data, *start, *same])
            rows[f"{task}, not pre-trained"] = trained(recipe, place / f"{task}-fresh", [*data, *fresh, *same])
    tell(rows, options, ("accuracy", "loss", "minutes"))


def write_text(folder: Path, out: Path) -> None:
    """Plain English: articles, captions, and the reviews and sentences of the training files."""
    lines = gzip.decompress((folder / "wikitext2" / "valid.txt.gz").read_bytes()).decode().splitlines()
    lines += gzip.decompress((folder / "multi30k" / "train.en.gz").read_bytes()).decode().splitlines()
    for task, columns in (("sst2", (0,)), ("sick", (1, 2))):
        rows = gzip.decompress((folder / task / "train.tsv.gz").read_bytes()).decode().splitlines()
        lines += [row.split("\t")[column] for row in rows for column in columns if row.count("\t") >= column]
    torch.manual_seed(0)
    order = torch.randperm(len(lines)).tolist()  # what is held out for validation is then a bit of all
    out.write_text("\n".join(lines[place] for place in order) + "\n")


def trained(recipe: str, out: Path, assignments: list[str]) -> dict[str, Any]:
    with Terminal() as terminal:
        run = regard.train(recipe, out, assignments, audience=terminal)
    told = run.as_json()
    return {
        **told["scores"],
        "minutes": told["minutes"],
        "steps": told["steps"],
        "parameters": told["parameters"],
    }


def tell(rows: dict[str, dict[str, Any]], options: argparse.Namespace, columns: tuple[str, ...]) -> None:
    if options.json:
        print(json.dumps(rows))
        return
    print(f"{'':30}" + "".join(f"{column.replace('_', ' '):>16}" for column in columns))
    for name, row in rows.items():
        print(f"{name:30}" + "".join(f"{row.get(column, float('nan')):>16.4f}" for column in columns))


MEASURES = {
    "training": training,
    "generation": generation,
    "parity": parity,
    "shakespeare": shakespeare,
    "labels": labels,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("measure", choices=MEASURES)
    parser.add_argument("folder", nargs="?", help="where the data are")
    parser.add_argument("--quick", action="store_true", help="fewer cases, rounds or steps")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    options = parser.parse_args()
    if options.measure in ("shakespeare", "labels") and options.folder is None:
        parser.error(f"{options.measure} needs the folder of the data")
    MEASURES[options.measure](options)


if __name__ == "__main__":
    main()
