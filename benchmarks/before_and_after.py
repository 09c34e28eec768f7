"""This checkout against another one, by turns: steps of training and translations per second.

    python benchmarks/before_and_after.py ../before [--only training decoding ...]

Each checkout has a worker process of its own, which waits while the other one works; the figure is the median
over the rounds of (other's seconds / this one's seconds), so above 1 means that this checkout is faster.
"""

import argparse
import os
import statistics
import subprocess
import sys
from pathlib import Path

# ruff: noqa: E501
WORKER = r"""
import sys, time, torch
from regard.config import BertModel, GptModel, RnnModel, TransformerModel, VitModel
from regard.data.batches import Batches
from regard.data.examples import TextBatch
try:
    from regard.nn.build import build, build_bert, build_gpt, build_vit
except ImportError:  # of a commit before it moved
    from regard.models.build import build, build_bert, build_gpt, build_vit
from regard.training.objective import PairObjective
from regard.training.heads import ClassObjective, ImageObjective, LanguageObjective
from regard.bench import decoding

try:
    from regard.engine import attach
except ImportError:
    attach = lambda model: model
try:
    from regard.engine.allocator import tuned_allocator
    allocator = tuned_allocator()
    allocator.__enter__()
except ImportError:  # of a commit before it moved
    from regard.training import memory
    memory.keep_blocks()
torch.set_flush_denormal(True)
torch.manual_seed(0)


def pairs(config, tokens=4096, words=8000):
    model = build(config, words, words, 2).train()
    chance = torch.Generator().manual_seed(1)
    made = [[torch.randint(4, words, (int(torch.randint(6, 22, (), generator=chance)),), generator=chance).tolist()
             for _ in range(2)] for _ in range(3000)]
    batches = list(Batches.of_pairs(made, tokens, 256))[:4]
    objective = PairObjective(model, 2, 0.1)
    return stepper(model, lambda number: objective(batches[number % len(batches)]))


def stepper(model, loss_of):
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-4, fused=True)
    state = {"number": 0}

    def step():
        state["number"] += 1
        torch.manual_seed(state["number"])
        optimiser.zero_grad(set_to_none=True)
        loss_of(state["number"]).backward()
        optimiser.step()

    return step


def gpt():
    model = attach(build_gpt(GptModel(layers=6, d_model=192, heads=6, d_ff=768, longest=256), "language", 4000)).train()
    ids = torch.randint(4000, (8, 256))
    gold, marks = torch.zeros(8, 1, dtype=torch.long), torch.randint(4000, (8, 256))
    batch = TextBatch(ids, torch.zeros_like(ids), gold, marks, 2048, 2048, 8, ())
    objective = LanguageObjective(model)
    return stepper(model, lambda _: objective(batch))


def bert():
    config = BertModel(layers=4, d_model=256, heads=4, d_ff=1024, longest=128)
    model = attach(build_bert(config, "classes", 8000, 0, 3)).train()
    ids = torch.randint(1, 8000, (32, 48)).masked_fill(torch.arange(48) >= torch.randint(12, 49, (32, 1)), 0)
    gold = torch.randint(3, (32, 1))

    class Given:
        pass

    batch = Given()
    batch.ids, batch.segments, batch.gold = ids, torch.zeros_like(ids), gold
    batch.to = lambda _: batch
    objective = ClassObjective(model)
    return stepper(model, lambda _: objective(batch))


def vit():
    config = VitModel(height=28, width=28, channels=1, patch=4, layers=6, d_model=128, heads=4, d_ff=512)
    model = attach(build_vit(config, 10)).train()

    class Given:
        pass

    batch = Given()
    batch.pixels, batch.gold = torch.rand(64, 1, 28, 28), torch.randint(10, (64,))
    batch.to = lambda _: batch
    objective = ImageObjective(model)
    return stepper(model, lambda _: objective(batch))


def searching(batch, beam, **options):
    subject = decoding.subject("", "")
    try:
        translate = decoding.ours(subject, **options)
    except TypeError:
        translate = decoding.ours(subject)
    sentences = subject.sentences

    def turn():
        if batch == 1:
            for each in sentences[:24]:
                translate([each], beam)
        else:
            translate(sentences[:256], beam)

    return turn


SIZES = {"128/256": dict(encoder_layers=4, decoder_layers=4, d_model=128, d_ff=256, heads=4),
         "256/1024": dict(encoder_layers=3, decoder_layers=3, d_model=256, d_ff=1024, heads=8),
         "base": dict(encoder_layers=6, decoder_layers=6, d_model=512, d_ff=2048, heads=8)}
WORKS = {
    "training 128/256": lambda: pairs(TransformerModel(dropout=0.1, **SIZES["128/256"])),
    "training 256/1024": lambda: pairs(TransformerModel(dropout=0.1, **SIZES["256/1024"])),
    "training base": lambda: pairs(TransformerModel(dropout=0.1, **SIZES["base"]), tokens=1024),
    "training 128/256, post-norm": lambda: pairs(TransformerModel(dropout=0.1, norm="post", **SIZES["128/256"])),
    "training 128/256, gelu": lambda: pairs(TransformerModel(dropout=0.1, activation="gelu", **SIZES["128/256"])),
    "training 128/256, rotary": lambda: pairs(TransformerModel(dropout=0.1, position="rotary", **SIZES["128/256"])),
    "training 128/256, swiglu": lambda: pairs(TransformerModel(dropout=0.1, activation="swiglu", **SIZES["128/256"])),
    "training 128/256, alibi": lambda: pairs(TransformerModel(dropout=0.1, position="alibi", **SIZES["128/256"])),
    "training RNN, Luong": lambda: pairs(RnnModel("rnn", hidden=128, embedding=128, attention="luong", dropout=0.1), 2048),
    "training GPT 6x192": gpt, "training BERT 4x256": bert, "training ViT 6x128": vit,
    "decoding batch 1 beam 1": lambda: searching(1, 1), "decoding batch 1 beam 5": lambda: searching(1, 5),
    "decoding batch 1 beam 1, checked": lambda: searching(1, 1, frozen=False),
    "decoding batch 64 beam 1, checked": lambda: searching(64, 1, frozen=False),
    "decoding batch 64 beam 1": lambda: searching(64, 1), "decoding batch 64 beam 5": lambda: searching(64, 5),
}
print("\n".join(WORKS), flush=True)
print("", flush=True)
works = {}
for line in sys.stdin:
    name = line.strip()
    if name not in works:
        works[name] = WORKS[name]()
        works[name](), works[name]()
    start = time.perf_counter()
    count = 0
    while time.perf_counter() - start < 0.5:
        works[name]()
        count += 1
    print((time.perf_counter() - start) / count, flush=True)
"""


class Worker:
    """A process that measures one checkout whenever it is asked."""

    def __init__(self, checkout: Path) -> None:
        environment = {**os.environ, "PYTHONPATH": str(checkout.resolve() / "src")}
        self.process = subprocess.Popen(
            [sys.executable, "-c", WORKER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        self.works = []
        while name := self.line():
            self.works.append(name)

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def seconds(self, work: str) -> float:
        assert self.process.stdin is not None
        print(work, file=self.process.stdin, flush=True)
        return float(self.line())

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("other", type=Path, help="a checkout of another commit")
    parser.add_argument("--rounds", type=int, default=5, help="turns of each pair of processes")
    parser.add_argument("--restarts", type=int, default=5, help="pairs of processes")
    parser.add_argument("--only", nargs="*", default=[], help="works whose name begins with one of these")
    given = parser.parse_args()
    checkouts = given.other, Path(__file__).parents[1]
    print(f"{'':32} {'ratio':>6} {'quartiles':>13} {'before, ms':>11} {'now, ms':>9}")
    for work in Worker(checkouts[1]).works:
        if given.only and not work.startswith(tuple(given.only)):
            continue
        rounds = []
        for _ in range(given.restarts):  # where a process's memory lies is luck, too
            other, this = (Worker(each) for each in checkouts)
            for number in range(given.rounds):
                order = (this, other) if number % 2 else (other, this)
                found = {worker: worker.seconds(work) for worker in order}
                rounds.append((found[other], found[this]))
            this.stop(), other.stop()
        ratios = sorted(before / now for before, now in rounds)
        low, _, high = statistics.quantiles(ratios, n=4)
        before, now = (1000 * statistics.median(each) for each in zip(*rounds, strict=True))
        quartiles = f"{low:.2f} - {high:.2f}"
        print(
            f"{work:32} {statistics.median(ratios):6.3f} {quartiles:>13} {before:11.1f} {now:9.1f}", flush=True
        )


if __name__ == "__main__":
    main()
