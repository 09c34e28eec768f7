"""Is all well on this machine? Each check runs the real parts on something small and compares."""

import os
import platform
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import sacrebleu
import torch
from torch import Tensor, nn

from regard.config.models import RnnConfig, TransformerConfig
from regard.data.batches import Batch, Batches
from regard.data.token_store import TokenStore, open_or_build
from regard.decoding import BeamSearchConfig, DecodingConstraints, search
from regard.engine import describe, find_library
from regard.metrics import measure
from regard.nn import Packed, Residual
from regard.nn.build import build
from regard.nn.seq2seq import Seq2SeqModel
from regard.storage import cache_folder
from regard.tasks.run_folder import RunFolder
from regard.tasks.translation.config import TranslationTrainConfig
from regard.training import checkpoint
from regard.training.devices import accelerator_name
from regard.training.loss import SmoothedKL
from regard.training.objective import PairObjective
from regard.training.precision import trouble_with_bfloat16
from regard.training.state import Progress, Scores, Training
from regard.training.update import one_update

BEGIN, END, PADDING, UNKNOWN = range(4)
VOCABULARY = 60
PACKAGES = ("torch", "numpy", "tokenizers", "safetensors", "sacrebleu", "matplotlib", "typer", "rich")
SPACE = 1 << 30
"""Bytes that ought to be free."""


class Ill(Exception):
    """What a check found wrong, in a few words."""


@dataclass(frozen=True)
class Finding:
    """The outcome of one check."""

    check: str
    well: bool
    told: str
    seconds: float


def examine() -> Iterator[Finding]:
    """Every check in turn; a check that breaks is a finding like any other."""
    for name, check in CHECKS.items():
        begun = time.perf_counter()
        try:
            with own_chance():
                told, well = check(), True
        except Ill as problem:
            told, well = str(problem), False
        except Exception as problem:
            told, well = f"it broke: {type(problem).__name__}: {problem}", False
        yield Finding(name, well, told, time.perf_counter() - begun)


def as_json(findings: list[Finding]) -> dict[str, Any]:
    return {"well": all(each.well for each in findings), "checks": [asdict(each) for each in findings]}


@contextmanager
def own_chance() -> Iterator[None]:
    """The same random numbers for every check, and the caller's untouched."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield


def versions() -> str:
    found = [f"Python {platform.python_version()}"]
    for package in ("regard", *PACKAGES):
        try:
            found.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            raise Ill(f"{package} is not installed") from None
    return ", ".join(found)


def threads() -> str:
    used, cores = torch.get_num_threads(), os.cpu_count() or 1
    if used > cores:
        raise Ill(f"PyTorch uses {used} threads on {cores} cores: they wait for each other")
    return f"PyTorch uses {used} threads, the machine has {cores} cores"


def instructions() -> str:
    capability = torch.backends.cpu.get_cpu_capability()
    accelerator = accelerator_name() or "no GPU"
    trouble = trouble_with_bfloat16()
    bfloat16 = "bfloat16 runs" if trouble is None else f"{trouble}, so float32 is used"
    return f"{capability}; {bfloat16}; {accelerator}"


def native_engine() -> str:
    """Without a library everything works, only slower; with one, a small model must be planned for it."""
    model, found = small_model(), find_library()
    told = describe(model, ("token loss", "beam search"))
    if found[0] is not None and "PyTorch" in told:
        raise Ill(f"{found[1]}, but a plain Transformer is not planned for it: {told}")
    return found[1] if found[0] is None else f"{found[1]}; a Transformer: {told}"


def free_disk() -> str:
    told = []
    for name, folder in (("here", Path.cwd()), ("in the cache", cache_folder())):
        while not folder.exists():
            folder = folder.parent
        free = shutil.disk_usage(folder).free
        if free < SPACE:
            raise Ill(f"only {free / 2**20:,.0f} MB are free {name} ({folder})")
        told.append(f"{free / 2**30:,.0f} GB free {name}")
    return ", ".join(told)


def accumulation_equals_large_batch() -> str:
    """Gradients of two halves added up, against those of the whole, sentences of different lengths."""
    model = small_model()
    pairs = some_pairs([4, 4, 4, 7, 7, 7, 7, 7])
    halves = [batch_of(pairs[:3]), batch_of(pairs[3:])]
    whole = gradient(model, [batch_of(pairs)])
    worst = max(
        float((one - other).abs().max()) for one, other in zip(whole, gradient(model, halves), strict=True)
    )
    return within(worst, 1e-6, "the largest difference of a gradient")


def cached_equals_full_decoding() -> str:
    """One step after another against one pass over all, for the Transformer and the RNNs."""
    worst = 0.0
    for config in (
        TransformerConfig(size="tiny", encoder_layers=2, decoder_layers=2),
        RnnConfig("rnn", hidden=32, embedding=32, attention="bahdanau", bidirectional=True),
        RnnConfig("rnn", hidden=32, embedding=32, attention="luong", input_feeding=True),
    ):
        model = build(config, VOCABULARY, VOCABULARY, PADDING).eval()
        batch = batch_of(some_pairs([9] * 4))
        source, target = batch.source.padded(PADDING), batch.target.padded(PADDING)
        with torch.inference_mode():
            full, state = model(source, target), model.start(source)
            for place in range(target.size(1)):
                scores, state = model.step(target[:, place], state)
                worst = max(worst, float((scores - full[:, place]).abs().max()))
    return within(worst, 1e-4, "the largest difference of a score")


def text_independent_of_the_batch() -> str:
    model = small_model()
    source = batch_of(some_pairs([8] * 13)).source.padded(PADDING)
    limits, options = (
        DecodingConstraints(BEGIN, END, (BEGIN, PADDING, UNKNOWN)),
        BeamSearchConfig(beam=4, nbest=4, max_length=20),
    )
    whole = search(model, source, limits, options)
    alone = [search(model, source[row : row + 1], limits, options)[0] for row in range(13)]
    texts = [[[each.ids for each in found] for found in way] for way in (whole, alone)]
    if texts[0] != texts[1]:
        different = sum(one != other for one, other in zip(*texts, strict=True))
        raise Ill(f"{different} of 13 sentences are translated otherwise alone than together")
    worst = max(
        abs(one.score - other.score)
        for together, single in zip(whole, alone, strict=True)
        for one, other in zip(together, single, strict=True)
    )
    told = within(worst, 1e-4, "the largest difference of a score")
    return f"13 sentences alone and together: the same four translations of each; {told}"


def norms_placed_as_labelled() -> str:
    """Pre: x + f(norm(x)); post: norm(x + f(x))."""
    x, inner, norm = torch.randn(5, 16), nn.Linear(16, 16), nn.LayerNorm(16)
    pre, post = (Residual(inner, norm, placement).eval() for placement in ("pre", "post"))
    with torch.no_grad():
        worst = max(
            float((pre(x) - (x + inner(norm(x)))).abs().max()),
            float((post(x) - norm(x + inner(x))).abs().max()),
        )
    return within(worst, 1e-6, "the largest difference from the formulas")


def label_smoothing_finite() -> str:
    """The loss over blocks against the plain one, with padding and with scores that are very sure."""
    model = small_model()
    with torch.no_grad():
        model.output_bias[7], model.output_bias[PADDING] = 80.0, 30.0
    batch = batch_of(some_pairs([3, 6, 6, 6]))
    source, target, labels = (each.padded(PADDING) for each in (batch.source, batch.target, batch.labels))
    found = float(PairObjective(model, PADDING, 0.1)(batch).detach())
    with torch.no_grad():
        plain = SmoothedKL(VOCABULARY, PADDING, 0.1)(model(source, target).flatten(0, 1), labels.flatten())
    if not torch.isfinite(torch.tensor(found)):
        raise Ill(f"the loss is {found}")
    return within(abs(found - float(plain)) / abs(float(plain)), 1e-4, "the relative difference of the losses")


def bleu_equals_sacrebleu() -> str:
    translations = ["A dog sleeps in the grass.", "Two men are playing chess .", "the sun"]
    references = ["A dog is sleeping in the grass.", "Two men play chess.", "The sun shines."]
    ours = measure(translations, references).bleu
    theirs = sacrebleu.corpus_bleu(translations, [references]).score
    if ours != theirs:
        raise Ill(f"{ours} here, {theirs} by sacreBLEU")
    return f"{ours:.4f} both ways"


def save_and_load_equal() -> str:
    """A model and a training written to disk and read again, to the bit."""
    with tempfile.TemporaryDirectory() as place:
        folder, model = RunFolder(Path(place)), small_model()
        with torch.no_grad():
            for parameter in model.parameters():  # nothing may be right by having stayed at zero
                parameter.add_(torch.randn_like(parameter) * 0.1)
        folder.write_weights(model)
        torch.manual_seed(1)
        other = small_model()
        folder.load_weights(other)
        if not equal(model, other):
            raise Ill("a model read back is not the one that was written")
        training, copy = small_training(model, folder.path), small_training(small_model(), folder.path)
        objective = PairObjective(model, PADDING, 0.1)
        one_update(training, objective, [batch_of(some_pairs([5] * 4))], 1e-3, Silent())
        checkpoint.save(training, folder.path / "checkpoints", 1)
        checkpoint.resume(copy, folder.path / "checkpoints", lambda _: None)
        one_update(training, objective, [batch_of(some_pairs([5] * 4))], 1e-3, Silent())
        one_update(
            copy, PairObjective(copy.model, PADDING, 0.1), [batch_of(some_pairs([5] * 4))], 1e-3, Silent()
        )
        if not equal(training.model, copy.model):
            raise Ill("a training read back goes on otherwise than the one that was written")
    return "weights, optimizer and average are the same to the bit"


CHECKS: dict[str, Callable[[], str]] = {
    "versions": versions,
    "threads": threads,
    "instruction sets": instructions,
    "native engine": native_engine,
    "free disk": free_disk,
    "accumulation equals large batch": accumulation_equals_large_batch,
    "cached equals full decoding": cached_equals_full_decoding,
    "text independent of the batch": text_independent_of_the_batch,
    "norms placed as labelled": norms_placed_as_labelled,
    "label smoothing finite": label_smoothing_finite,
    "BLEU equal to sacreBLEU's": bleu_equals_sacrebleu,
    "save and load equal": save_and_load_equal,
}


def within(worst: float, allowed: float, what: str) -> str:
    if not worst <= allowed:  # NaN is not within anything
        raise Ill(f"{what} is {worst:.1e}, allowed is {allowed:.0e}")
    return f"{what} is {worst:.1e}"


def small_model() -> Seq2SeqModel:
    config = TransformerConfig(size="tiny", encoder_layers=2, decoder_layers=2, dropout=0.0)
    return build(config, VOCABULARY, VOCABULARY, PADDING).eval()


def small_training(model: Seq2SeqModel, folder: Path) -> Training:
    settings = TranslationTrainConfig(steps=2)
    return Training(model, settings, Batches(small_store(folder)), width=16)


def small_store(folder: Path) -> TokenStore:
    def spelled(texts: list[str]) -> list[list[int]]:
        return [[ord(letter) % VOCABULARY for letter in text] for text in texts]

    return open_or_build(
        folder / "store", lambda: [("ab", "cd"), ("a", "c")], spelled, spelled, (VOCABULARY, VOCABULARY)
    )


def some_pairs(lengths: list[int]) -> list[tuple[list[int], list[int]]]:
    """Pairs of random source and target ids, both of so many tokens."""
    drawn = [torch.randint(UNKNOWN + 1, VOCABULARY, (2, length)).tolist() for length in lengths]
    return [(source, target) for source, target in drawn]


def batch_of(pairs: list[tuple[list[int], list[int]]]) -> Batch:
    """The pairs as one batch; targets end with a token like any other."""
    labels = Packed.from_rows([target for _, target in pairs])
    return Batch(
        source=Packed.from_rows([source for source, _ in pairs]),
        target=Packed.from_rows([[BEGIN, *target[:-1]] for _, target in pairs]),
        labels=labels,
        tokens=len(labels.values),
        sentences=tuple(range(len(pairs))),
    )


def gradient(model: Seq2SeqModel, batches: list[Batch]) -> list[Tensor]:
    """Through the loop's own update, before the optimizer touches anything."""
    with tempfile.TemporaryDirectory() as place:
        training = small_training(model, Path(place))
        objective = PairObjective(model, PADDING, 0.1)
        before = [each.detach().clone() for each in model.parameters()]
        one_update(training, objective, batches, 0.0, Silent())
        found = [each.grad.clone() for each in model.parameters() if each.grad is not None]
        for parameter, old in zip(model.parameters(), before, strict=True):
            parameter.data.copy_(old)
    return found


def equal(one: nn.Module, other: nn.Module) -> bool:
    pairs = zip(one.state_dict().values(), other.state_dict().values(), strict=True)
    return all(torch.equal(mine, its) for mine, its in pairs)


class Silent:
    """Watches and says nothing."""

    def progress(self, progress: Progress) -> None:
        pass

    def validated(self, step: int, minutes: float, scores: Scores, best: bool) -> None:
        pass

    def skipped(self, step: int, why: str) -> None:
        raise Ill(why)
