"""`regard doctor` as a user runs it; its checks are tested in tests/tasks/test_doctor.py."""

import json

import pytest
import torch
from support.console import Command

from regard.tasks import doctor


def test_the_exit_code_is_1_if_a_check_fails(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "CHECKS", {"versions": doctor.versions, "threads": doctor.threads})
    code, out, _ = command("doctor", "--json")
    assert (code, json.loads(out)["well"]) == (0, True)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 4096)
    code, out, _ = command("doctor")
    assert code == 1
    assert "not well: threads" in out
