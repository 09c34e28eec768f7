"""`regard doctor`: checks of the installation, each of which runs real code on a small example."""

import os
import platform
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
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
from regard.metrics import score_translations
from regard.nn import Packed, Residual
from regard.nn.build import build
from regard.nn.seq2seq import Seq2SeqModel
from regard.storage import cache_folder
from regard.tasks.run_folder import RunFolder
from regard.tasks.translation.config import TranslationTrainConfig
from regard.training import checkpoint
from regard.training.devices import accelerator_name, bfloat16_problem
from regard.training.objectives import Seq2SeqObjective, SmoothedKL
from regard.training.state import Progress, Scores, Training
from regard.training.update import train_step

BEGIN, END, PADDING, UNKNOWN = range(4)
VOCABULARY = 60
PACKAGES = ("torch", "numpy", "tokenizers", "safetensors", "sacrebleu", "matplotlib", "typer", "rich")
MIN_FREE_DISK = 1 << 30
"""Bytes of disk space that should be free."""


class CheckError(Exception):
    """The defect that a check has found."""


@dataclass(frozen=True)
class CheckResult:
    """The result of one check."""

    check: str
    passed: bool
    message: str
    seconds: float

    def as_json(self) -> dict[str, Any]:
        return {"check": self.check, "well": self.passed, "told": self.message, "seconds": self.seconds}


def run_checks() -> Iterator[CheckResult]:
    """Run every check in turn; an unexpected exception in a check is a failure like any other."""
    for name, check in CHECKS.items():
        begun = time.perf_counter()
        try:
            with fixed_seed():
                message, passed = check(), True
        except CheckError as problem:
            message, passed = str(problem), False
        except Exception as problem:
            message, passed = f"the check failed with {type(problem).__name__}: {problem}", False
        yield CheckResult(name, passed, message, time.perf_counter() - begun)


def as_json(results: list[CheckResult]) -> dict[str, Any]:
    return {
        "well": all(result.passed for result in results),
        "checks": [result.as_json() for result in results],
    }


@contextmanager
def fixed_seed() -> Iterator[None]:
    """The same random numbers for every check; the caller's random state is restored."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield


def versions() -> str:
    lines = [f"Python {platform.python_version()}"]
    for package in ("regard", *PACKAGES):
        try:
            lines.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            raise CheckError(f"{package} is not installed") from None
    return ", ".join(lines)


def threads() -> str:
    used, cores = torch.get_num_threads(), os.cpu_count() or 1
    if used > cores:
        raise CheckError(f"PyTorch uses {used} threads on {cores} cores, which slows it down")
    return f"PyTorch uses {used} threads, the machine has {cores} cores"


def instructions() -> str:
    capability = torch.backends.cpu.get_cpu_capability()
    accelerator = accelerator_name() or "no GPU"
    trouble = bfloat16_problem()
    bfloat16 = "bfloat16 runs" if trouble is None else f"{trouble}, so float32 is used"
    return f"{capability}; {bfloat16}; {accelerator}"


def native_engine() -> str:
    """Without the library everything works, only slower; with it, a small Transformer must run natively."""
    model, (library, status) = small_model(), find_library()
    plan = describe(model, ("token loss", "beam search"))
    if library is not None and "PyTorch" in plan:
        raise CheckError(f"{status}, but a plain Transformer does not run on it: {plan}")
    return status if library is None else f"{status}; a Transformer: {plan}"


def free_disk() -> str:
    free_space = []
    for name, folder in (("here", Path.cwd()), ("in the cache", cache_folder())):
        while not folder.exists():
            folder = folder.parent
        free = shutil.disk_usage(folder).free
        if free < MIN_FREE_DISK:
            raise CheckError(f"only {free / 2**20:,.0f} MB are free {name} ({folder})")
        free_space.append(f"{free / 2**30:,.0f} GB free {name}")
    return ", ".join(free_space)


def accumulation_equals_large_batch() -> str:
    """Gradients accumulated over two halves equal those of the whole batch, also with different lengths."""
    model = small_model()
    pairs = random_pairs([4, 4, 4, 7, 7, 7, 7, 7])
    halves = [batch_of(pairs[:3]), batch_of(pairs[3:])]
    whole = gradients(model, [batch_of(pairs)])
    accumulated = gradients(model, halves)
    error = max(
        float((expected - actual).abs().max()) for expected, actual in zip(whole, accumulated, strict=True)
    )
    return check_error(error, 1e-6, "the largest difference of a gradient")


def cached_equals_full_decoding() -> str:
    """Step by step with a KV cache equals one pass over all positions, for the Transformer and the RNNs."""
    error = 0.0
    for config in (
        TransformerConfig(size="tiny", encoder_layers=2, decoder_layers=2),
        RnnConfig("rnn", hidden=32, embedding=32, attention="bahdanau", bidirectional=True),
        RnnConfig("rnn", hidden=32, embedding=32, attention="luong", input_feeding=True),
    ):
        model = build(config, VOCABULARY, VOCABULARY, PADDING).eval()
        batch = batch_of(random_pairs([9] * 4))
        source, target = batch.source.padded(PADDING), batch.target.padded(PADDING)
        with torch.inference_mode():
            full, state = model(source, target), model.start(source)
            for position in range(target.size(1)):
                logits, state = model.step(target[:, position], state)
                error = max(error, float((logits - full[:, position]).abs().max()))
    return check_error(error, 1e-4, "the largest difference of a score")


def text_independent_of_the_batch() -> str:
    """Translations of sentences alone equal those in a batch."""
    model = small_model()
    source = batch_of(random_pairs([8] * 13)).source.padded(PADDING)
    constraints = DecodingConstraints(BEGIN, END, (BEGIN, PADDING, UNKNOWN))
    config = BeamSearchConfig(beam=4, nbest=4, max_length=20)
    together = search(model, source, constraints, config)
    alone = [search(model, source[row : row + 1], constraints, config)[0] for row in range(13)]
    texts = [
        [[hypothesis.ids for hypothesis in nbest] for nbest in hypotheses] for hypotheses in (together, alone)
    ]
    if texts[0] != texts[1]:
        different = sum(batched != single for batched, single in zip(*texts, strict=True))
        raise CheckError(f"{different} of 13 sentences are translated differently alone and in a batch")
    error = max(
        abs(batched.score - single.score)
        for batched_nbest, single_nbest in zip(together, alone, strict=True)
        for batched, single in zip(batched_nbest, single_nbest, strict=True)
    )
    difference = check_error(error, 1e-4, "the largest difference of a score")
    return f"13 sentences alone and in a batch: the same four translations of each; {difference}"


def norms_placed_as_labelled() -> str:
    """Pre-LayerNorm: x + f(norm(x)); post-LayerNorm: norm(x + f(x))."""
    x, inner, norm = torch.randn(5, 16), nn.Linear(16, 16), nn.LayerNorm(16)
    pre, post = (Residual(inner, norm, placement).eval() for placement in ("pre", "post"))
    with torch.no_grad():
        error = max(
            float((pre(x) - (x + inner(norm(x)))).abs().max()),
            float((post(x) - norm(x + inner(x))).abs().max()),
        )
    return check_error(error, 1e-6, "the largest difference from the formulas")


def label_smoothing_finite() -> str:
    """The loss over packed batches equals the plain loss, with padding and with very large logits."""
    model = small_model()
    with torch.no_grad():
        model.output_bias[7], model.output_bias[PADDING] = 80.0, 30.0
    batch = batch_of(random_pairs([3, 6, 6, 6]))
    source, target, labels = (ids.padded(PADDING) for ids in (batch.source, batch.target, batch.labels))
    packed = float(Seq2SeqObjective(model, PADDING, 0.1)(batch).detach())
    with torch.no_grad():
        plain = SmoothedKL(VOCABULARY, PADDING, 0.1)(model(source, target).flatten(0, 1), labels.flatten())
    if not torch.isfinite(torch.tensor(packed)):
        raise CheckError(f"the loss is {packed}")
    error = abs(packed - float(plain)) / abs(float(plain))
    return check_error(error, 1e-4, "the relative difference of the losses")


def bleu_equals_sacrebleu() -> str:
    translations = ["A dog sleeps in the grass.", "Two men are playing chess .", "the sun"]
    references = ["A dog is sleeping in the grass.", "Two men play chess.", "The sun shines."]
    ours = score_translations(translations, references).bleu
    theirs = sacrebleu.corpus_bleu(translations, [references]).score
    if ours != theirs:
        raise CheckError(f"{ours} by regard, {theirs} by sacreBLEU")
    return f"{ours:.4f} by both"


def save_and_load_equal() -> str:
    """Model and training state are bit-identical after saving and loading."""
    with tempfile.TemporaryDirectory() as temporary:
        folder, model = RunFolder(Path(temporary)), small_model()
        with torch.no_grad():
            for parameter in model.parameters():  # no parameter may be right because it stayed at zero
                parameter.add_(torch.randn_like(parameter) * 0.1)
        folder.write_weights(model)
        torch.manual_seed(1)
        loaded = small_model()
        folder.load_weights(loaded)
        if not equal_weights(model, loaded):
            raise CheckError("a model differs after saving and loading")
        training, copy = small_training(model, folder.path), small_training(small_model(), folder.path)
        objective = Seq2SeqObjective(model, PADDING, 0.1)
        copy_objective = Seq2SeqObjective(copy.model, PADDING, 0.1)
        train_step(training, objective, [batch_of(random_pairs([5] * 4))], 1e-3, FailingWatcher())
        checkpoint.save(training, folder.path / "checkpoints", 1)
        checkpoint.resume(copy, folder.path / "checkpoints", lambda _: None)
        train_step(training, objective, [batch_of(random_pairs([5] * 4))], 1e-3, FailingWatcher())
        train_step(copy, copy_objective, [batch_of(random_pairs([5] * 4))], 1e-3, FailingWatcher())
        if not equal_weights(training.model, copy.model):
            raise CheckError("a resumed training run differs from the one that was not interrupted")
    return "weights, optimizer and average are bit-identical"


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


def check_error(error: float, allowed: float, what: str) -> str:
    """Refuse an error above the allowed one, or NaN; `what` describes it."""
    if not error <= allowed:
        raise CheckError(f"{what} is {error:.1e}; at most {allowed:.0e} is allowed")
    return f"{what} is {error:.1e}"


def small_model() -> Seq2SeqModel:
    config = TransformerConfig(size="tiny", encoder_layers=2, decoder_layers=2, dropout=0.0)
    return build(config, VOCABULARY, VOCABULARY, PADDING).eval()


def small_training(model: Seq2SeqModel, folder: Path) -> Training:
    settings = TranslationTrainConfig(steps=2)
    return Training(model, settings, Batches(small_store(folder)), width=16)


def small_store(folder: Path) -> TokenStore:
    def encode(texts: list[str]) -> list[list[int]]:
        return [[ord(letter) % VOCABULARY for letter in text] for text in texts]

    return open_or_build(
        folder / "store", lambda: [("ab", "cd"), ("a", "c")], encode, encode, (VOCABULARY, VOCABULARY)
    )


def random_pairs(lengths: list[int]) -> list[tuple[list[int], list[int]]]:
    """Pairs of random source and target ids of the given lengths."""
    pairs = [torch.randint(UNKNOWN + 1, VOCABULARY, (2, length)).tolist() for length in lengths]
    return [(source, target) for source, target in pairs]


def batch_of(pairs: list[tuple[list[int], list[int]]]) -> Batch:
    """The pairs as one batch; targets have no end-of-sentence token."""
    labels = Packed.from_rows([target for _, target in pairs])
    return Batch(
        source=Packed.from_rows([source for source, _ in pairs]),
        target=Packed.from_rows([[BEGIN, *target[:-1]] for _, target in pairs]),
        labels=labels,
        tokens=len(labels.values),
        sentences=tuple(range(len(pairs))),
    )


def gradients(model: Seq2SeqModel, batches: list[Batch]) -> list[Tensor]:
    """Gradients of one update of the training loop with learning rate 0; the weights are restored."""
    with tempfile.TemporaryDirectory() as temporary:
        training = small_training(model, Path(temporary))
        objective = Seq2SeqObjective(model, PADDING, 0.1)
        before = [parameter.detach().clone() for parameter in model.parameters()]
        train_step(training, objective, batches, 0.0, FailingWatcher())
        result = [parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None]
        for parameter, old in zip(model.parameters(), before, strict=True):
            parameter.data.copy_(old)
    return result


def equal_weights(model: nn.Module, other: nn.Module) -> bool:
    pairs = zip(model.state_dict().values(), other.state_dict().values(), strict=True)
    return all(torch.equal(weight, other_weight) for weight, other_weight in pairs)


class FailingWatcher:
    """Ignores progress; a skipped update is an error."""

    def stepped(self, training: Training, lr: float) -> None:
        pass

    def progress(self, progress: Progress) -> None:
        pass

    def validated(self, step: int, minutes: float, scores: Scores, best: bool) -> None:
        pass

    def skipped(self, step: int, why: str) -> None:
        raise CheckError(why)
