"""GPT compared with Hugging Face GPT-2 and with n-gram baselines, one command each.

    pip install -c constraints.txt -e '.[bench]'
    python benchmarks/gpt.py training [--quick] [--rounds N] [--sizes letters mini small] [--json]
    python benchmarks/gpt.py generation [--quick] [--json]          200 tokens, batch 1 and 32, and its generate
    python benchmarks/gpt.py flatness [--bound] [--quick] [--json]  cost of the last 50 tokens over the first 50
    python benchmarks/gpt.py parity                                 logits of a random GPT-2, there and back
    python benchmarks/gpt.py shakespeare FOLDER [--quick] [--json]  loss: a public setting, ours, n-grams
    python benchmarks/gpt.py labels FOLDER [--quick] [--json]       SST-2, SICK with and without pre-training

training: tokens per second compared with Hugging Face GPT-2 and torch.compile of it. flatness: 32 prompts; with
--bound also the lower bound of a step: its matrix products, and one read of the KV cache at the measured memory
bandwidth. FOLDER holds sst2, sick, wikitext2, multi30k and tinyshakespeare. harness/rounds.py describes rounds,
ratios and allocator settings.
Rows: case, ours, peer, value (the peer's), ratio, low and high (its quartiles), settings, rounds, note.
"""

import argparse
import gzip
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, cast

import torch
from harness.rounds import (
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
)
from harness.updates import LR, peer_update, updates
from torch import Tensor, nn

import regard
from regard import tokenization
from regard.cli.terminal import Terminal
from regard.config.models import GptConfig
from regard.config.schema import parse_assignments
from regard.data.examples import TextBatch
from regard.decoding import SamplingConfig
from regard.decoding.constraints import DecodingConstraints
from regard.decoding.generator import GenerationConfig, Generator
from regard.decoding.sampling import Sampler
from regard.engine.generate import native_gpt
from regard.interop import huggingface_gpt2
from regard.nn import Packed
from regard.nn.build import build_gpt
from regard.nn.seq2seq import Decodable
from regard.training.objectives import LanguageObjective
from regard.training.process import training_process

PEERS = {"huggingface": "Hugging Face GPT-2", "compiled": "torch.compile of Hugging Face GPT-2"}
SIZES: dict[str, dict[str, Any]] = {
    "letters": {"layers": 4, "d_model": 128, "heads": 4, "d_ff": 512, "max_length": 64, "dropout": 0.0},
    "mini": {"layers": 6, "d_model": 192, "heads": 6, "d_ff": 768, "max_length": 256, "dropout": 0.1},
    "small": {"layers": 6, "d_model": 384, "heads": 6, "d_ff": 1536, "max_length": 256, "dropout": 0.1},
}
WORDS = {"letters": 69, "mini": 8000, "small": 8000}
WINDOWS = {"letters": 12, "mini": 16, "small": 8}
"""Windows per batch."""
TURN = {"letters": 20, "mini": 2, "small": 1}
"""Batches per turn: a few seconds at most."""
LENGTH = 200
"""Tokens generated per prompt."""
PROMPT = 8
EDGE = 50
"""Tokens at the start and at the end whose costs are compared."""


def config_of(size: str, max_length: int = 0) -> GptConfig:
    shape = SIZES[size]
    return GptConfig(
        **{**shape, "attention_dropout": shape["dropout"], "max_length": max_length or shape["max_length"]}
    )


def windows(size: str, generator: torch.Generator) -> TextBatch:
    """A batch of random tokens, with the next token of each position as target."""
    shape = (WINDOWS[size], SIZES[size]["max_length"] + 1)
    row = torch.randint(WORDS[size], shape, generator=generator)
    ids = Packed(row[:, :-1].flatten(), torch.full((len(row),), row.size(1) - 1))
    marks, count = row[:, 1:].flatten(), len(ids.values)
    return TextBatch(ids, ids.values * 0, row[:, :0], marks, count, count, 1, tuple(range(len(row))))


def batches(size: str) -> list[TextBatch]:
    generator = torch.Generator().manual_seed(1)
    return [windows(size, generator) for _ in range(10 * TURN[size])]


def ours(size: str) -> Ready:
    torch.manual_seed(0)
    config = config_of(size)
    model = build_gpt(config, "language", WORDS[size]).train()
    step = updates(model, LanguageObjective(model), config.width)
    return training_turns(step, batches(size), TURN[size])


def huggingface_model(config: GptConfig, words: int) -> Any:
    from transformers import GPT2Config, GPT2LMHeadModel

    make: Any = GPT2LMHeadModel  # transformers may lack type annotations
    return make(
        GPT2Config(
            vocab_size=words,
            n_layer=config.layers,
            n_embd=config.d_model,
            n_head=config.heads,
            n_inner=config.d_ff,
            n_positions=config.max_length,
            resid_pdrop=config.dropout,
            embd_pdrop=config.dropout,
            attn_pdrop=config.attention_dropout,
            bos_token_id=0,
            eos_token_id=0,
        )
    )


def huggingface(size: str, *, compiling: bool = False) -> Ready:
    """Hugging Face's model in the training loop of its documentation, with the default AdamW."""
    model = huggingface_model(config_of(size), WORDS[size]).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=LR)
    forward = torch.compile(model) if compiling else model

    def step(batch: TextBatch) -> None:
        logits = forward(input_ids=batch.ids.padded(0), use_cache=False).logits
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), batch.token_labels.flatten())
        peer_update(model, optimizer, loss)

    return training_turns(step, batches(size), TURN[size], compiling=compiling)


def compiled(size: str) -> Ready:
    return huggingface(size, compiling=True)


def prompts(size: str, batch: int) -> Tensor:
    return torch.randint(4, WORDS[size], (batch, PROMPT), generator=torch.Generator().manual_seed(2))


def our_generation(size: str, count: str) -> Ready:
    """A worker that samples; its turn returns tokens per second."""
    batch = int(count)
    torch.manual_seed(0)
    model = build_gpt(config_of(size, 256), "language", WORDS[size]).eval()
    tokenizer = tokenization.train("bytes", ["a"])  # only ids are used
    text_generator = Generator(model, tokenizer, 256, torch.device("cpu"))
    source, config = prompts(size, batch), GenerationConfig(tokens=LENGTH, sampling=SamplingConfig(1))

    def turn() -> float:
        start = time.perf_counter()
        sample_tokens(text_generator, source, config)
        return batch * LENGTH / (time.perf_counter() - start)

    turn()
    return Ready(turn)


@torch.inference_mode()
def sample_tokens(text_generator: Generator, source: Tensor, config: GenerationConfig) -> list[float]:
    """Samples tokens; returns the seconds of each step."""
    limits = DecodingConstraints(None, 0, (0,), max_length=config.tokens)
    model = native_gpt(text_generator.module) or text_generator.module
    sampler = Sampler(
        cast(Decodable, model), source, limits, config.sampling, [config.sampling.seed] * len(source)
    )
    seconds = []
    for _ in range(config.tokens):
        start = time.perf_counter()
        sampler.step()
        seconds.append(time.perf_counter() - start)
    return seconds


@dataclass(frozen=True)
class Flatness:
    """Cost of early and late generated tokens, and the lower bound of a step."""

    size: str
    batch: int
    ratio: float
    """Median over the repetitions of (cost of the last 50 tokens / cost of the first 50)."""
    low: float
    high: float
    """Quartiles."""
    first_us: float
    last_us: float
    """Microseconds of a step among the first and the last 50."""
    products_us: float | None = None
    """Microseconds of a step's matrix products."""
    first_cache_mb: float | None = None
    last_cache_mb: float | None = None
    """Megabytes of the KV cache that a step reads, mean of the first and the last 50."""
    first_bandwidth: float | None = None
    last_bandwidth: float | None = None
    """Measured memory bandwidth, GB/s, for reading a buffer of that size."""

    @property
    def bound_us(self) -> tuple[float, float] | None:
        """Microseconds of a step with only matrix products and one read of the cache: first, last."""
        if self.products_us is None or not self.first_bandwidth or not self.last_bandwidth:
            return None
        assert self.first_cache_mb is not None
        assert self.last_cache_mb is not None
        first = self.products_us + 1e3 * self.first_cache_mb / self.first_bandwidth
        return first, self.products_us + 1e3 * self.last_cache_mb / self.last_bandwidth

    def as_text(self) -> str:
        text = (
            f"{self.size}, batch {self.batch}: the last {EDGE} tokens cost {self.ratio:.2f} times the first "
            f"{EDGE} ({self.low:.2f} - {self.high:.2f}); "
            f"{self.first_us:,.0f} and {self.last_us:,.0f} us per step"
        )
        if self.bound_us is None:
            return text
        first, last = self.bound_us
        return (
            f"{text}\n  bound {last / first:.2f}: matrix products {self.products_us:,.0f} us; KV cache "
            f"{self.first_cache_mb:.2f} MB at {self.first_bandwidth:.1f} GB/s, then "
            f"{self.last_cache_mb:.2f} MB at {self.last_bandwidth:.1f} GB/s: "
            f"{first:,.0f} and {last:,.0f} us per step"
        )


def flatness_of(size: str, batch: int, repetitions: int, *, bound: bool) -> Flatness:
    torch.manual_seed(0)
    config = config_of(size, 256)
    model = build_gpt(config, "language", WORDS[size]).eval()
    text_generator = Generator(model, tokenization.train("bytes", ["a"]), 256, torch.device("cpu"))
    runs = [
        sample_tokens(text_generator, prompts(size, batch), GenerationConfig(tokens=LENGTH))
        for _ in range(repetitions + 1)
    ][1:]
    first, last = ([statistics.median(run[part]) for run in runs] for part in (slice(EDGE), slice(-EDGE, None)))
    ratios = [late / early for early, late in zip(first, last, strict=True)]
    low, ratio, high = statistics.quantiles(ratios, n=4, method="inclusive")
    result = Flatness(
        size, batch, ratio, low, high, 1e6 * statistics.median(first), 1e6 * statistics.median(last)
    )
    if not bound:
        return result
    cache = [cache_bytes(config, batch, PROMPT + begin + EDGE / 2) / 1e6 for begin in (0, LENGTH - EDGE)]
    bandwidths = [bandwidth(megabytes) for megabytes in cache]
    return replace(
        result,
        products_us=1e6 * seconds_of_products(config, WORDS[size], batch),
        first_cache_mb=cache[0],
        last_cache_mb=cache[1],
        first_bandwidth=bandwidths[0],
        last_bandwidth=bandwidths[1],
    )


def cache_bytes(config: GptConfig, batch: int, position: float) -> float:
    """Bytes of keys and values, float32, that a step reads at a position."""
    return 2 * config.layers * batch * position * config.d_model * 4


def bandwidth(megabytes: float) -> float:
    """GB/s of reading a buffer of so many MB repeatedly, with all threads."""
    buffer = torch.rand(max(1, int(megabytes * 1e6 / 4)))
    return len(buffer) * 4e-9 / seconds_of(lambda: buffer.sum())


def seconds_of_products(config: GptConfig, words: int, batch: int) -> float:
    """Seconds of one step's matrix products by the engine's kernel: projections, feed-forward, output."""
    from regard.engine.ops import linear_packed, prepack

    d_model, d_ff = config.d_model, config.d_ff
    layer = [(d_model, 3 * d_model), (d_model, d_model), (d_model, d_ff), (d_ff, d_model)]
    shapes = [*(layer * config.layers), (d_model, words)]
    # Separate weight matrices, as in the model: they compete for the CPU cache.
    products = [(torch.randn(batch, size), prepack(torch.randn(out, size)), out) for size, out in shapes]

    def step() -> None:
        for x, weight, out in products:
            linear_packed(x, weight, out)

    return seconds_of(step)


def seconds_of(work: Callable[[], object], repetitions: int = 30) -> float:
    """Median seconds of one call."""
    work()
    times = []
    for _ in range(repetitions):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def generate(size: str, count: str) -> Ready:
    """A worker for the peer's `generate` with its default cache."""
    batch = int(count)
    model = huggingface_model(config_of(size, 256), WORDS[size]).eval()
    source = prompts(size, batch)

    def turn() -> float:
        start = time.perf_counter()
        with torch.inference_mode():
            model.generate(
                source,
                attention_mask=torch.ones_like(source),
                do_sample=True,
                top_k=0,
                max_new_tokens=LENGTH,
                min_new_tokens=LENGTH,
                pad_token_id=0,
            )
        return batch * LENGTH / (time.perf_counter() - start)

    turn()
    return Ready(turn)


def training_speeds(size: str, rounds: int, contenders: Sequence[Contender]) -> list[Row]:
    shape = SIZES[size]
    case = f"training {shape['layers']} x {shape['d_model']}, window {shape['max_length']}"
    return compare_with_peers(case, __file__, [size], contenders, rounds)


def generation_speeds(size: str, batch: int, rounds: int) -> list[Row]:
    case = f"{LENGTH} tokens, {SIZES[size]['layers']} x {SIZES[size]['d_model']}, batch {batch}"
    peers = [Contender(PEERS["huggingface"], "huggingface")]
    return compare_with_peers(case, __file__, [size, str(batch)], peers, rounds)


def training(options: argparse.Namespace) -> None:
    sizes = options.sizes or (["letters"] if options.quick else list(SIZES))
    rows = [
        row
        for size in sizes
        for row in training_speeds(size, round_count(options), selected_peers(PEERS, options))
    ]
    print(as_json(rows) if options.json else format_table(rows, "tokens per second"))


def generation(options: argparse.Namespace) -> None:
    sizes = options.sizes or (["letters"] if options.quick else ["letters", "small"])
    cases = [(size, batch) for size in sizes for batch in (1, 32)]
    rows = [row for case in cases for row in generation_speeds(*case, round_count(options))]
    print(as_json(rows) if options.json else format_table(rows, "tokens per second"))


def flatness(options: argparse.Namespace) -> None:
    sizes = options.sizes or (["letters"] if options.quick else ["letters", "small"])
    results = [flatness_of(size, 32, round_count(options), bound=options.bound) for size in sizes]
    if options.json:
        print(json.dumps([{**asdict(result), "bound_us": result.bound_us} for result in results]))
        return
    print("\n".join(result.as_text() for result in results))


def parity(options: argparse.Namespace) -> None:
    """Largest difference of the logits after import from Hugging Face and after export back."""
    from transformers import AutoTokenizer, GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    lines = Path(__file__).read_text().splitlines()
    tokenizer = tokenization.train("gpt", lines, size=500)
    shape = {"n_layer": 4, "n_embd": 128, "n_head": 4, "n_positions": 128}
    theirs = GPT2LMHeadModel(
        GPT2Config(vocab_size=tokenizer.size, bos_token_id=0, eos_token_id=0, **shape)
    ).eval()
    ids = torch.randint(tokenizer.size, (4, 100))
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        for name, weight in theirs.named_parameters():
            if name.endswith("bias") or "ln_" in name:  # initialised to 0 and 1
                weight.add_(torch.randn_like(weight) * 0.3)
        theirs.save_pretrained(Path(folder) / "theirs")
        tokenizer.save(Path(folder) / "theirs" / "tokenizer.json")
        imported = huggingface_gpt2.read(Path(folder) / "theirs")
        huggingface_gpt2.write(
            Path(folder) / "ours", imported.model.eval(), imported.config, imported.tokenizer
        )
        exported = GPT2LMHeadModel.from_pretrained(Path(folder) / "ours").eval()
        their_tokenizer = AutoTokenizer.from_pretrained(Path(folder) / "ours")
        expected = theirs(ids).logits
        result = {
            "imported": float((imported.model(ids) - expected).abs().max()),
            "exported": float((exported(ids).logits - expected).abs().max()),
            "same_tokens": all(
                their_tokenizer.encode(line) == tokenizer.encode(line) for line in lines if "<|" not in line
            ),
        }
    print(json.dumps(result) if options.json else result)


def shakespeare(options: argparse.Namespace) -> None:
    """The public setting, our recipe for the same minutes, and a character n-gram model."""
    data = [f"data.path={Path(options.folder) / 'tinyshakespeare'}"]
    with tempfile.TemporaryDirectory() as folder:
        steps = ["train.steps=40"] if options.quick else []
        public = train_recipe("shakespeare", Path(folder) / "public", [*data, *steps])
        minutes = f"train.minutes={max(public['minutes'], 0.01)}"
        best = train_recipe("shakespeare-best", Path(folder) / "best", [*data, minutes])
        counts = ["data.train=input.txt.gz", "tokenizer.kind=characters", "model.order=6"]
        counted = train_recipe("ngram", Path(folder) / "counts", [*data, *counts])
    rows = {
        "public setting, 2,000 steps": public,
        "our recipe, same time": best,
        "6-gram of characters": counted,
    }
    print_results(rows, options, ("loss", "bits_per_byte", "minutes"))


def labels(options: argparse.Namespace) -> None:
    """A small GPT fine-tuned for classification, with and without pre-training."""
    folder = Path(options.folder)
    with tempfile.TemporaryDirectory() as name:
        out = Path(name)
        write_text(folder, out / "text.txt")
        minutes = 0.1 if options.quick else 8
        words = [
            f"data.train={out / 'text.txt'}",
            "model.size=micro",
            "model.max_length=128",
            f"train.minutes={minutes}",
        ]
        pretrained = train_recipe("gpt", out / "gpt", words)
        rows: dict[str, dict[str, Any]] = {"pre-training": pretrained}
        for task, recipe in (("sst2", "gpt-sentiment"), ("sick", "gpt-inference")):
            data = [
                f"data.train={folder / task / 'train.tsv.gz'}",
                f"data.valid={folder / task / 'dev.tsv.gz'}",
            ]
            short = ["train.steps=5"] if options.quick else []
            same = ["train.lr=5e-4", "train.epochs=6", *short]
            start = [f"model.start={out / 'gpt'}"]
            fresh = ["model.size=micro", "model.max_length=128"]
            rows[f"{task}, pre-trained"] = train_recipe(recipe, out / task, [*data, *start, *same])
            rows[f"{task}, not pre-trained"] = train_recipe(
                recipe, out / f"{task}-fresh", [*data, *fresh, *same]
            )
    print_results(rows, options, ("accuracy", "loss", "minutes"))


def write_text(folder: Path, out: Path) -> None:
    """Plain English: articles, captions, and the reviews and sentences of the training files."""
    lines = gzip.decompress((folder / "wikitext2" / "valid.txt.gz").read_bytes()).decode().splitlines()
    lines += gzip.decompress((folder / "multi30k" / "train.en.gz").read_bytes()).decode().splitlines()
    for task, columns in (("sst2", (0,)), ("sick", (1, 2))):
        rows = gzip.decompress((folder / task / "train.tsv.gz").read_bytes()).decode().splitlines()
        lines += [row.split("\t")[column] for row in rows for column in columns if row.count("\t") >= column]
    torch.manual_seed(0)
    order = torch.randperm(len(lines)).tolist()  # the validation part then has some of each source
    out.write_text("\n".join(lines[index] for index in order) + "\n")


def train_recipe(recipe: str, out: Path, assignments: list[str]) -> dict[str, Any]:
    with Terminal() as terminal:
        run = regard.train(recipe, out, overrides=parse_assignments(assignments), listener=terminal)
    result = run.as_json()
    return {
        **result["scores"],
        "minutes": result["minutes"],
        "steps": result["steps"],
        "parameters": result["parameters"],
    }


def print_results(
    rows: dict[str, dict[str, Any]], options: argparse.Namespace, columns: tuple[str, ...]
) -> None:
    if options.json:
        print(json.dumps(rows))
        return
    print(f"{'':30}" + "".join(f"{column.replace('_', ' '):>16}" for column in columns))
    for name, row in rows.items():
        print(f"{name:30}" + "".join(f"{row.get(column, float('nan')):>16.4f}" for column in columns))


MEASURES = {
    "training": training,
    "generation": generation,
    "flatness": flatness,
    "parity": parity,
    "shakespeare": shakespeare,
    "labels": labels,
}


WORKERS = {
    "ours": lambda size, *batch: our_generation(size, *batch) if batch else ours(size),
    "huggingface": lambda size, *batch: generate(size, *batch) if batch else huggingface(size),
    "compiled": compiled,
}


def main() -> None:
    parser = argument_parser(__doc__, 9, peers=PEERS)
    parser.add_argument("measure", choices=MEASURES)
    parser.add_argument("folder", nargs="?", help="folder of the data")
    parser.add_argument("--sizes", nargs="+", choices=SIZES, help="of training, generation and flatness")
    parser.add_argument("--bound", action="store_true", help="with flatness: also measure the bound")
    options = parser.parse_args()
    if options.measure in ("shakespeare", "labels") and options.folder is None:
        parser.error(f"{options.measure} needs the folder of the data")
    MEASURES[options.measure](options)


if __name__ == "__main__":
    start(main, WORKERS, training_process)
