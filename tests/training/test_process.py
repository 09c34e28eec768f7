"""Process settings during training, and that they are restored."""

import gc
import random
import signal

import numpy as np
import pytest
import torch

from regard.tasks.signals import stop_on_signals
from regard.training.process import GC_THRESHOLD, flushes_denormals, preserved_rng, training_process


def test_settings_hold_within_the_block_only() -> None:
    tiny, before = torch.tensor(1e-40), (gc.get_threshold(), gc.get_freeze_count())
    with training_process():
        assert gc.get_threshold()[0] == GC_THRESHOLD
        assert gc.get_freeze_count() > 0
        assert flushes_denormals()
        assert tiny * 1.0 == 0
    assert (gc.get_threshold(), gc.get_freeze_count()) == before
    assert not flushes_denormals()
    assert tiny * 1.0 > 0


def test_nested_blocks_restore_at_the_end_of_the_outer_one() -> None:
    before = gc.get_threshold()
    with training_process():
        with training_process():
            pass
        assert gc.get_threshold()[0] == GC_THRESHOLD
        assert flushes_denormals()
        assert gc.get_freeze_count() > 0
    assert (gc.get_threshold(), gc.get_freeze_count(), flushes_denormals()) == (before, 0, False)


def test_an_error_restores_too() -> None:
    before = gc.get_threshold(), torch.get_rng_state().tolist()

    def fail() -> None:
        torch.rand(1)
        raise MemoryError

    with pytest.raises(MemoryError), training_process():
        fail()
    assert (gc.get_threshold(), torch.get_rng_state().tolist()) == before
    assert not flushes_denormals()


def test_the_random_state_continues_where_it_was() -> None:
    def drawn() -> tuple[float, float, float]:
        return random.random(), float(np.random.random()), float(torch.rand(1))  # noqa: NPY002

    torch.manual_seed(3)
    random.seed(3)
    np.random.seed(3)  # noqa: NPY002
    expected = [drawn(), drawn()]
    torch.manual_seed(3)
    random.seed(3)
    np.random.seed(3)  # noqa: NPY002
    first = drawn()
    with preserved_rng():
        drawn()
        torch.manual_seed(99)
    assert [first, drawn()] == expected


def test_lessons_leave_the_random_state() -> None:
    from regard.lessons import bottleneck

    before = torch.get_rng_state().tolist()
    bottleneck.measure(max_length=4, size=8, steps=2, lines=4)
    assert torch.get_rng_state().tolist() == before


def test_a_signal_handler_that_python_did_not_install_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    real = signal.getsignal
    monkeypatch.setattr(signal, "getsignal", lambda number: None if number == signal.SIGTERM else real(number))
    interrupt, terminate = real(signal.SIGINT), real(signal.SIGTERM)
    with stop_on_signals() as stop:
        assert real(signal.SIGINT) == stop.note
        assert real(signal.SIGTERM) is terminate
    assert (real(signal.SIGINT), real(signal.SIGTERM)) == (interrupt, terminate)
