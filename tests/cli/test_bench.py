"""`regard bench` as a user runs it."""

import json
from pathlib import Path

import pytest
from support.console import Command
from support.without_figures import without_figures

import regard
from regard.config.schema import parse_assignments
from regard.tasks.timing import speedup, timed_rounds
from regard.tasks.translation import speed


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["speed", "nowhere"], "--source is missing: file with one sentence per line"),
        (["speed", "nowhere", "--source", "no.txt"], "no.txt: there is no such file"),
        (["speed", "a", "b", "--source", "lines.txt"], "too many arguments: b; see regard bench speed --help"),
        (["speed", "nowhere", "--data", "lines.txt"], "--data: there is no such option"),
        (["paint"], "RUN is missing"),
        (["paint", "a", "--source", "lines.txt"], "--source: there is no such option"),
        (["runs/mine"], "there is no command 'regard bench runs/mine'; see regard bench --help"),
        (["speed", "nowhere", "--source", "lines.txt"], "nowhere"),
    ],
)
def test_invalid_arguments(command: Command, tmp_path: Path, arguments: list[str], message: str) -> None:
    (tmp_path / "lines.txt").write_text("ein Satz\n", "utf-8")
    code, _, err = command("bench", *arguments)
    assert code == 2
    assert message in err
    assert "Traceback" not in err


def test_decoding_speed_on_the_users_sentences(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(speed, "SENTENCES", {1: 1, 64: 2})
    lines = ["ein Hund", "eine Katze", "ein Mann"] * 20
    for side in ("a", "b"):
        (tmp_path / f"train.{side}").write_text("\n".join(lines) + "\n", "utf-8")
    data = [
        f"data.{part}{side}={tmp_path / f'train.{letter}'}"
        for part in ("", "valid_", "test_")
        for side, letter in (("source", "a"), ("target", "b"))
    ]
    small = ["model.size=tiny", "train.steps=1", "tokenizer.kind=words"]
    with without_figures():
        regard.train("translation", tmp_path / "run", overrides=parse_assignments([*data, *small]))
    code, out, err = command(
        "bench", "speed", "run", "--source", "train.a", "--quick", "--json", "-o", "speed.json"
    )
    assert code == 0, err
    measured = json.loads(out)
    assert measured == json.loads((tmp_path / "speed.json").read_text("utf-8"))
    assert measured["sentences"] == 60
    cases = {(case["batch_size"], case["beam"]) for case in measured["cases"]}
    assert cases == {(1, 1), (1, 5), (64, 1), (64, 5)}
    assert all(case["sentences_per_second"] > 0 for case in measured["cases"])


def test_rounds_are_interleaved_and_every_second_one_is_reversed() -> None:
    order: list[str] = []
    times = timed_rounds([lambda: order.append("a"), lambda: order.append("b")], 2)
    assert order == ["a", "b", "a", "b", "b", "a"]
    assert [len(seconds) for seconds in times] == [2, 2]


def test_the_speedup_is_the_median_of_the_ratios() -> None:
    """Of 2, 10/9 and 3; the ratio of the medians would be 3."""
    assert speedup([2.0, 10.0, 9.0], [1.0, 9.0, 3.0]) == 2.0
