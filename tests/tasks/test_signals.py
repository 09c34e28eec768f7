"""Signal handlers during training."""

import signal

import pytest

from regard.tasks.signals import stop_on_signals


def test_a_signal_handler_not_installed_by_python_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    real = signal.getsignal
    monkeypatch.setattr(signal, "getsignal", lambda number: None if number == signal.SIGTERM else real(number))
    interrupt, terminate = real(signal.SIGINT), real(signal.SIGTERM)
    with stop_on_signals() as request:
        assert real(signal.SIGINT) == request.handle
        assert real(signal.SIGTERM) is terminate
    assert (real(signal.SIGINT), real(signal.SIGTERM)) == (interrupt, terminate)
