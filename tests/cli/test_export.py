"""`regard export`, `translate --engine` and `import`, as a user runs them."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from support.console import Command
from support.small_models import SENTENCES, rewrite, rnn, transformer, write_run


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """The folder of the commands, with a run in it, and sentences."""
    write_run(tmp_path / "run", transformer())
    (tmp_path / "some.de").write_text("".join(f"{each}\n" for each in SENTENCES[:3]), "utf-8")
    return tmp_path


def test_to_ctranslate2_and_translated_there(place: Path, command: Command) -> None:
    pytest.importorskip("ctranslate2", reason="CTranslate2 is not installed")
    made = command("export", "run", "--to", "ctranslate2", "out", "--source", "some.de")
    assert (made.code, made.err) == (0, "")
    assert made.out.startswith("check:   CTranslate2")
    assert "3 examples: the same for 3 (greedy)" in made.out
    assert made.out.endswith("folder:  out\n")
    ours = command("translate", "run", "some.de", "--beam", "1")
    theirs = command("translate", "out", "some.de", "--beam", "1")
    again = command("translate", "run", "some.de", "--beam", "1", "--engine", "ctranslate2")
    assert ours.out
    assert theirs.out == again.out == ours.out
    asked = command("translate", "out", "some.de", "--engine", "ctranslate2", "--nbest", "2", "--json")
    rows = [json.loads(line) for line in asked.out.splitlines()]
    assert [(row["source"], len(row["others"])) for row in rows] == [(each, 1) for each in SENTENCES[:3]]


def test_to_hugging_face_and_back(place: Path, command: Command) -> None:
    made = command("export", "run", "--to", "huggingface", "out/there", "--json")
    assert made.code == 0, made.err
    found = json.loads(made.out)
    assert (found["folder"], found["sentences"], found["same"]["greedy"]) == ("out/there", 6, 6)
    assert found["difference"] < 1e-4
    back = command("import", "out/there", "--out", "again")
    assert back.code == 0, back.err
    assert back.out.startswith("translation: transformer, 1 + 2 layers, 16 / 32, 2 heads")
    weights = [(place / name / "model.safetensors").read_bytes() for name in ("run", "again")]
    assert weights[0] == weights[1]


def test_another_process_says_nothing_beside_the_result(place: Path) -> None:
    pytest.importorskip("onnxscript", reason="onnxscript is not installed")
    write_run(place / "rnn", rnn())
    ended = subprocess.run(
        [sys.executable, "-m", "regard", "export", "rnn", "--to", "onnx", "out", "--source", "some.de"],
        cwd=place,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.startswith("check:   onnxruntime")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["export", "rnn", "--to", "ctranslate2", "out"], "CTranslate2 runs Transformers only"),
        (["export", "run", "--to", "onnx", "out", "--quantize", "int8"], "--quantize is for ctranslate2"),
        (["export", "run", "--to", "onnx", "rnn"], "rnn exists and is not empty"),
        (["export", "quiet", "--to", "huggingface", "out"], "has no sentences to check the export with"),
        (
            ["import", "rnn", "--out", "new"],
            "rnn is a run folder of regard's; expected was a Hugging Face folder",
        ),
        (
            ["import", "t5", "--out", "new"],
            "its model_type is 't5'; 'bert', 'gpt2', 'vit', 'marian' and 'pegasus' can be imported",
        ),
        (["translate", "t5", "--engine", "onnx"], "t5 is a Hugging Face folder; expected was an ONNX export"),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
def test_a_mistake_is_one_sentence_and_exit_code_2(
    place: Path, command: Command, arguments: list[str], sentence: str
) -> None:
    write_run(place / "rnn", rnn())
    write_run(place / "quiet", transformer())
    (place / "quiet" / "metrics.jsonl").unlink()
    (place / "t5").mkdir()
    (place / "t5" / "config.json").write_text("{}", "utf-8")
    rewrite(place / "t5" / "config.json", model_type="t5")
    ended = command(*arguments)
    assert ended.code == 2
    assert ended.err.startswith("regard: ")
    assert ended.err.count("\n") == 1
    assert sentence in ended.err
    assert not (place / "out").exists()
    assert not (place / "new").exists()
