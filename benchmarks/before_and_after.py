"""This checkout against another one, by turns: updates of training, and translations.

    python benchmarks/before_and_after.py ../before [--only training decoding ...] [--quick] [--rounds N] [--json]

Each checkout has a worker process of its own, which waits while the other one works; their order alternates.
The ratio is the median over the rounds of (other's seconds / this one's seconds): above 1 this checkout is faster.
Each pair of processes is started again several times, since the addresses of a process's memory matter, too.
The other checkout may be an old one: names that it lacks are replaced, and what it cannot measure is said.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from harness.rounds import in_alternating_order

# ruff: noqa: E501
WORKER = r"""
import contextlib, json, sys, time
from types import SimpleNamespace
import torch
from regard.data.batches import Batches
from regard.data.examples import TextBatch

try:
    from regard.config.models import BertConfig, GptConfig, RnnConfig, TransformerConfig, VitConfig
except ImportError:  # before model sections were called Config
    from regard.config import (BertModel as BertConfig, GptModel as GptConfig, RnnModel as RnnConfig,
                               TransformerModel as TransformerConfig, VitModel as VitConfig)
try:
    from regard.training.objectives import Seq2SeqObjective
except ImportError:
    from regard.training.objective import PairObjective as Seq2SeqObjective

try:
    from regard.decoding import BeamSearchConfig, TranslationPipeline
except ImportError:  # before loaded models had field names
    from regard.decoding import Options as BeamSearchConfig, Translator as TranslationPipeline
try:
    from regard.tokenization import Tokenizer
    from regard.training.objectives import ClassObjective, ImageObjective, LanguageObjective
except ImportError:  # before text became tokenization
    from regard.text import Tokenizer
    from regard.training.heads import ClassObjective, ImageObjective, LanguageObjective
try:
    from regard.nn.build import build, build_bert, build_gpt, build_vit
except ImportError:  # before models, layers and attention became nn
    from regard.models.build import build, build_bert, build_gpt, build_vit
try:
    from regard.nn import Packed
except ImportError:  # before batches were packed
    Packed = None
try:
    from regard.engine import attach
except ImportError:  # before and after the engine was attached to models
    attach = lambda model: model
process = contextlib.nullcontext()
try:
    from regard.training.process import training_process as process
    process = process()
except ImportError:
    try:
        from regard.engine.allocator import tuned_allocator
        process = tuned_allocator()
    except ImportError:
        from regard.training import memory
        memory.keep_blocks()
    torch.set_flush_denormal(True)
process.__enter__()
torch.manual_seed(0)
MAX_LENGTH = "max_length" if hasattr(GptConfig, "max_length") else "longest"  # the recipe key's name


def pairs(config, tokens=4096, words=8000):
    model = attach(build(config, words, words, 2)).train()
    generator = torch.Generator().manual_seed(1)
    made = [[torch.randint(4, words, (int(torch.randint(6, 22, (), generator=generator)),), generator=generator).tolist()
             for _ in range(2)] for _ in range(3000)]
    batches = list(Batches.of_pairs(made, tokens, 256))[:4]
    objective = Seq2SeqObjective(model, 2, 0.1)
    return stepper(model, lambda number: objective(batches[number % len(batches)]))


def stepper(model, loss_of):
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, fused=True)
    state = {"number": 0}

    def step():
        state["number"] += 1
        torch.manual_seed(state["number"])
        optimizer.zero_grad(set_to_none=True)
        loss_of(state["number"]).backward()
        optimizer.step()

    return step


def gpt(layers, d_model, heads, d_ff, window, words, batch, dropout=0.1):
    config = GptConfig(layers=layers, d_model=d_model, heads=heads, d_ff=d_ff, dropout=dropout, **{MAX_LENGTH: window},
                      attention_dropout=dropout)
    model = attach(build_gpt(config, "language", words)).train()
    ids, marks = torch.randint(words, (2, batch, window))
    tokens = batch * window
    if Packed is not None:
        ids, marks = Packed(ids.flatten(), torch.full((batch,), window)), marks.flatten()
    segments = torch.zeros_like(marks)
    batch = TextBatch(ids, segments, segments.view(batch, -1)[:, :0], marks, tokens, tokens, 1, ())
    objective = LanguageObjective(model)
    return stepper(model, lambda _: objective(batch))


def batch_of(**tensors):
    batch = SimpleNamespace(**tensors)
    batch.to = lambda _: batch
    return batch


def bert():
    config = BertConfig(layers=4, d_model=256, heads=4, d_ff=1024, **{MAX_LENGTH: 128})
    model = attach(build_bert(config, "classes", 8000, 0, 3)).train()
    ids = torch.randint(1, 8000, (32, 48)).masked_fill(torch.arange(48) >= torch.randint(12, 49, (32, 1)), 0)
    labels = torch.randint(3, (32, 1))
    if Packed is not None:
        ids = Packed.from_padded(ids, ids != 0)
    segments = torch.zeros_like(ids if Packed is None else ids.values)
    batch = batch_of(ids=ids, segments=segments, gold=labels, labels=labels)
    objective = ClassObjective(model)
    return stepper(model, lambda _: objective(batch))


def vit():
    config = VitConfig(height=28, width=28, channels=1, patch=4, layers=6, d_model=128, heads=4, d_ff=512)
    model = attach(build_vit(config, 10)).train()
    labels = torch.randint(10, (64,))
    batch = batch_of(pixels=torch.rand(64, 1, 28, 28), gold=labels, labels=labels)
    objective = ImageObjective(model)
    return stepper(model, lambda _: objective(batch))


class IdsOnly:
    begin, end, padding, unknown = Tokenizer.begin, Tokenizer.end, Tokenizer.padding, Tokenizer.unknown


def searching(batch, beam, frozen=True, **changes):
    model = build(TransformerConfig(size="tiny", **changes), 8000, 8000, Tokenizer.padding).eval()
    with torch.no_grad():
        model.output_bias[Tokenizer.end] = -1e4
    translator = TranslationPipeline(model, IdsOnly(), IdsOnly())
    if frozen and hasattr(translator, "freeze"):
        translator.freeze()
    generator = torch.Generator().manual_seed(1)
    sentences = torch.randint(4, 8000, (256, 14), generator=generator).tolist()
    options = BeamSearchConfig(beam=beam, **{MAX_LENGTH: 16})

    def turn():
        if batch == 1:
            for sentence in sentences[:24]:
                translator.search_ids([sentence], options, batch_size=64)
        else:
            translator.search_ids(sentences, options, batch_size=64)

    return turn


SIZES = {"128/256": dict(encoder_layers=4, decoder_layers=4, d_model=128, d_ff=256, heads=4),
         "256/1024": dict(encoder_layers=3, decoder_layers=3, d_model=256, d_ff=1024, heads=8),
         "base": dict(encoder_layers=6, decoder_layers=6, d_model=512, d_ff=2048, heads=8)}
WORKS = {
    "training 128/256": lambda: pairs(TransformerConfig(dropout=0.1, **SIZES["128/256"])),
    "training 256/1024": lambda: pairs(TransformerConfig(dropout=0.1, **SIZES["256/1024"])),
    "training base": lambda: pairs(TransformerConfig(dropout=0.1, **SIZES["base"]), tokens=1024),
    "training 128/256, post-norm": lambda: pairs(TransformerConfig(dropout=0.1, norm="post", **SIZES["128/256"])),
    "training 128/256, gelu": lambda: pairs(TransformerConfig(dropout=0.1, activation="gelu", **SIZES["128/256"])),
    "training 128/256, rotary": lambda: pairs(TransformerConfig(dropout=0.1, position="rotary", **SIZES["128/256"])),
    "training 128/256, swiglu": lambda: pairs(TransformerConfig(dropout=0.1, activation="swiglu", **SIZES["128/256"])),
    "training 128/256, alibi": lambda: pairs(TransformerConfig(dropout=0.1, position="alibi", **SIZES["128/256"])),
    "training RNN, Luong": lambda: pairs(RnnConfig("rnn", hidden=128, embedding=128, attention="luong", dropout=0.1), 2048),
    "training GPT letters 4x128": lambda: gpt(4, 128, 4, 512, 64, 69, 12, 0.0),
    "training GPT mini 6x192": lambda: gpt(6, 192, 6, 768, 256, 8000, 8),
    "training GPT small 6x384": lambda: gpt(6, 384, 6, 1536, 256, 8000, 4),
    "training BERT 4x256": bert, "training ViT 6x128": vit,
    "decoding batch 1 beam 1": lambda: searching(1, 1), "decoding batch 1 beam 5": lambda: searching(1, 5),
    "decoding batch 1 beam 1, checked": lambda: searching(1, 1, False),
    "decoding batch 64 beam 1, checked": lambda: searching(64, 1, False),
    "decoding batch 64 beam 1": lambda: searching(64, 1), "decoding batch 64 beam 5": lambda: searching(64, 5),
    "decoding batch 64 beam 5, rotary, swiglu": lambda: searching(64, 5, position="rotary", activation="swiglu"),
}
print(json.dumps(list(WORKS)), flush=True)
works = {}
for line in sys.stdin:
    name = line.strip()
    try:
        if name not in works:
            works[name] = WORKS[name]()
            works[name](), works[name]()
        start = time.perf_counter()
        count = 0
        while time.perf_counter() - start < 0.5:
            works[name]()
            count += 1
        print(json.dumps({"seconds": (time.perf_counter() - start) / count}), flush=True)
    except Exception as problem:
        print(json.dumps({"problem": f"{type(problem).__name__}: {problem}".splitlines()[0]}), flush=True)
"""


class UnmeasurableError(RuntimeError):
    """A checkout cannot measure a work."""


class Checkout:
    """A process that measures works of one checkout."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.process = subprocess.Popen(
            [sys.executable, "-c", WORKER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(path.resolve() / "src")},
        )
        first = self.line()
        if not first:
            raise SystemExit(f"{path}: its worker process ended before its first turn")
        self.works: list[str] = json.loads(first)

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def seconds(self, work: str) -> float:
        """Seconds of one repetition.

        Raises:
            UnmeasurableError: it fails in this checkout.
        """
        assert self.process.stdin is not None
        print(work, file=self.process.stdin, flush=True)
        answer = json.loads(self.line() or '{"problem": "its worker process ended"}')
        if "problem" in answer:
            raise UnmeasurableError(f"{self.path}: {answer['problem']}")
        return float(answer["seconds"])

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()


@dataclass(frozen=True)
class Change:
    """A work in both checkouts: median seconds, and the median of the rounds' ratios."""

    work: str
    before: float
    now: float
    ratio: float
    low: float
    """First quartile of the ratios."""
    high: float
    """Third quartile of the ratios."""
    rounds: int

    def as_text(self) -> str:
        quartiles = f"{self.low:.2f} - {self.high:.2f}"
        return (
            f"{self.work:42} {self.ratio:6.3f} {quartiles:>13} {1e3 * self.before:11.1f} {1e3 * self.now:9.1f}"
        )


def change_of(work: str, pairs: list[tuple[float, float]]) -> Change:
    """The comparison of (seconds now, seconds before) in each round."""
    ratios = [before / now for now, before in pairs]
    low, ratio, high = statistics.quantiles(ratios, n=4, method="inclusive") if len(ratios) > 1 else ratios * 3
    now, before = (statistics.median(seconds) for seconds in zip(*pairs, strict=True))
    return Change(work, before, now, ratio, low, high, len(pairs))


def compare(work: str, other: Path, this: Path, rounds: int, restarts: int) -> Change:
    """Raises UnmeasurableError if the work fails in one of the checkouts."""
    pairs = []
    for _ in range(restarts):
        before, now = Checkout(other), Checkout(this)
        try:
            before.seconds(work), now.seconds(work)
            pairs += in_alternating_order(lambda: now.seconds(work), lambda: before.seconds(work), rounds)  # noqa: B023
        finally:
            now.stop()
            before.stop()
    return change_of(work, pairs)


def works_of(checkout: Path) -> list[str]:
    process = Checkout(checkout)
    process.stop()
    return process.works


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("other", type=Path, help="a checkout of another commit")
    parser.add_argument("--rounds", type=int, help="turns of each pair of processes: 5, with --quick 2")
    parser.add_argument("--restarts", type=int, help="pairs of processes: 5, with --quick 1")
    parser.add_argument("--only", nargs="*", default=[], help="works whose name begins with one of these")
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    this = Path(__file__).parents[1]
    rounds, restarts = (
        options.rounds or (2 if options.quick else 5),
        options.restarts or (1 if options.quick else 5),
    )
    if not options.json:
        print(f"{'':42} {'ratio':>6} {'quartiles':>13} {'before, ms':>11} {'now, ms':>9}")
    changes = []
    for work in works_of(this):
        if options.only and not work.startswith(tuple(options.only)):
            continue
        try:
            change = compare(work, options.other, this, rounds, restarts)
        except UnmeasurableError as problem:
            print(f"{work}: not measured: {problem}", file=sys.stderr, flush=True)
            continue
        changes.append(change)
        if not options.json:
            print(change.as_text(), flush=True)
    if options.json:
        print(json.dumps([asdict(change) for change in changes]))


if __name__ == "__main__":
    main()
