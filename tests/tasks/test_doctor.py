"""`regard doctor` passes on a working installation and finds each planted defect."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch

from regard.metrics import bleu
from regard.nn import KvCacheStep, Residual
from regard.tasks import doctor
from regard.tasks import run_folder as folder
from regard.training import checkpoint, objectives
from regard.training.state import Training


def failed_checks() -> list[str]:
    return [result.check for result in doctor.run_checks() if not result.passed]


def test_all_checks_pass() -> None:
    results = list(doctor.run_checks())
    assert [result.message for result in results if not result.passed] == []
    assert sum(result.seconds for result in results) < 60
    assert len(results) == 12


def no_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "PACKAGES", ("no-such-package-anywhere",))


def too_many_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: 4096)


def broken_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks() -> None:
        raise OSError("no more processes")

    monkeypatch.setattr(doctor, "bfloat16_problem", breaks)


def full_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    class Usage:
        free = 5 << 20

    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda _: Usage)


def gradients_over_each_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mean of every batch by itself, then added up: the mistake accumulation is known for."""
    honest = objectives.Seq2SeqObjective.__call__
    monkeypatch.setattr(
        objectives.Seq2SeqObjective, "__call__", lambda self, batch: honest(self, batch) * (10 / batch.tokens)
    )


def forgetful_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    extend = KvCacheStep.extend

    def forgets(self, new):
        memory = extend(self, new)
        return type(memory)(memory.keys[..., -3:, :], memory.values[..., -3:, :], memory.positions[-3:])

    monkeypatch.setattr(KvCacheStep, "extend", forgets)


def rows_that_see_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    from regard.nn.transformer import Transformer

    honest = Transformer.step

    def leaks(self, tokens, state, record=None):
        scores, state = honest(self, tokens, state, record)
        return scores + scores.mean(0) * 0.1 * (len(scores) > 16), state

    monkeypatch.setattr(Transformer, "step", leaks)


def norm_in_the_wrong_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        Residual, "forward", lambda self, x, *args, **options: self.norm(x + self.sublayer(x, *args, **options))
    )


def smoothing_without_padding_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("translation_loss", "linear_cross_entropy"):
        honest = getattr(objectives, name)
        monkeypatch.setattr(objectives, name, partial(with_padding_5, honest))


def with_padding_5(honest: Any, *args: Any, padding: int, **options: Any) -> Any:
    return honest(*args, padding=5, **options)


def other_tokens_for_bleu(monkeypatch: pytest.MonkeyPatch) -> None:
    from sacrebleu.metrics.bleu import BLEU

    monkeypatch.setattr(bleu, "bleu_metric", lambda tokenized: BLEU(tokenize="char"))


def a_weight_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = folder.unique_weights
    monkeypatch.setattr(
        folder,
        "unique_weights",
        lambda model: {
            name: weight * 0 if "bias" in name else weight for name, weight in honest(model).items()
        },
    )


def an_optimiser_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = checkpoint.restore

    def forgets(training: Training, tensors, numbers) -> None:
        honest(training, {k: v * 0 if k.endswith("exp_avg") else v for k, v in tensors.items()}, numbers)

    monkeypatch.setattr(checkpoint, "restore", forgets)


PLANTED: list[tuple[Callable[[pytest.MonkeyPatch], None], str]] = [
    (no_package, "versions"),
    (too_many_threads, "threads"),
    (broken_probe, "instruction sets"),
    (full_disk, "free disk"),
    (gradients_over_each_batch, "accumulation equals large batch"),
    (forgetful_cache, "cached equals full decoding"),
    (rows_that_see_each_other, "text independent of the batch"),
    (norm_in_the_wrong_place, "norms placed as labelled"),
    (smoothing_without_padding_rule, "label smoothing finite"),
    (other_tokens_for_bleu, "BLEU equal to sacreBLEU's"),
    (a_weight_lost, "save and load equal"),
    (an_optimiser_forgotten, "save and load equal"),
]


@pytest.mark.parametrize(("plant", "check"), PLANTED, ids=lambda value: getattr(value, "__name__", ""))
def test_a_planted_defect_is_found(plant, check: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "CHECKS", {check: doctor.CHECKS[check]})
    assert failed_checks() == []
    plant(monkeypatch)
    assert failed_checks() == [check]
