"""`regard export`, `translate --engine` and `import`, as a user runs them."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from support.console import Command
from support.small_models import SENTENCES, rewrite, rnn, transformer, write_run


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The working folder of the commands, with a run and sentences."""
    write_run(tmp_path / "run", transformer())
    (tmp_path / "some.de").write_text("".join(f"{sentence}\n" for sentence in SENTENCES[:3]), "utf-8")
    return tmp_path


def test_export_to_ctranslate2_and_translate_with_it(folder: Path, command: Command) -> None:
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
    nbest = command("translate", "out", "some.de", "--engine", "ctranslate2", "--nbest", "2", "--json")
    rows = [json.loads(line) for line in nbest.out.splitlines()]
    assert [(row["source"], len(row["others"])) for row in rows] == [
        (sentence, 1) for sentence in SENTENCES[:3]
    ]


def test_export_to_hugging_face_and_import_again(folder: Path, command: Command) -> None:
    made = command("export", "run", "--to", "huggingface", "out/there", "--json")
    assert made.code == 0, made.err
    result = json.loads(made.out)
    assert (result["folder"], result["sentences"], result["same"]["greedy"]) == ("out/there", 6, 6)
    assert result["difference"] < 1e-4
    back = command("import", "out/there", "--out", "again")
    assert back.code == 0, back.err
    assert back.out.startswith("translation: transformer, 1 + 2 layers, 16 / 32, 2 heads")
    weights = [(folder / name / "model.safetensors").read_bytes() for name in ("run", "again")]
    assert weights[0] == weights[1]


def test_a_separate_process_prints_only_the_result(folder: Path) -> None:
    pytest.importorskip("onnxscript", reason="onnxscript is not installed")
    write_run(folder / "rnn", rnn())
    ended = subprocess.run(
        [sys.executable, "-m", "regard", "export", "rnn", "--to", "onnx", "out", "--source", "some.de"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.startswith("check:   onnxruntime")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["export", "rnn", "--to", "ctranslate2", "out"], "CTranslate2 supports Transformers only"),
        (["export", "run", "--to", "onnx", "out", "--quantize", "int8"], "--quantize is for ctranslate2"),
        (["export", "run", "--to", "onnx", "rnn"], "rnn exists and is not empty"),
        (["export", "no_metrics", "--to", "huggingface", "out"], "has no sentences to check the export with"),
        (
            ["import", "rnn", "--out", "new"],
            "rnn is a run folder of regard; expected was a Hugging Face folder",
        ),
        (
            ["import", "t5", "--out", "new"],
            "its model_type is 't5'; 'bert', 'gpt2', 'vit', 'marian' and 'pegasus' can be imported",
        ),
        (["translate", "t5", "--engine", "onnx"], "t5 is a Hugging Face folder; expected was an ONNX export"),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
def test_errors_are_one_line_with_exit_code_2(
    folder: Path, command: Command, arguments: list[str], message: str
) -> None:
    write_run(folder / "rnn", rnn())
    write_run(folder / "no_metrics", transformer())
    (folder / "no_metrics" / "metrics.jsonl").unlink()
    (folder / "t5").mkdir()
    (folder / "t5" / "config.json").write_text("{}", "utf-8")
    rewrite(folder / "t5" / "config.json", model_type="t5")
    ended = command(*arguments)
    assert ended.code == 2
    assert ended.err.startswith("regard: ")
    assert ended.err.count("\n") == 1
    assert message in ended.err
    assert not (folder / "out").exists()
    assert not (folder / "new").exists()
