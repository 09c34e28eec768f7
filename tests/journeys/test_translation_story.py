"""Translation through the command line: train, translate, evaluate, compare, look; mistakes."""

import gzip
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from regard.tokenization import load as load_tokenizer

Command = Callable[..., subprocess.CompletedProcess[str]]


def test_training_logs_progress_and_prints_the_result(story: Path) -> None:
    log, output = (story / "train.err").read_text(), (story / "train.out").read_text()
    assert re.search(r"pairs: 1,\d\d\d read, 1,\d\d\d kept; \d+ for validation, \d+ for the test", log)
    assert "valid  step    400  loss " in log
    assert "tokens/s" in log
    assert output.startswith("BLEU ")
    assert "signature: nrefs:1" in output


def test_translate_a_file_line_for_line(story: Path, regard: Command) -> None:
    (story / "input.de").write_text("drei\n\nzwei vier\n", "utf-8")
    with gzip.open(story / "more.de.gz", "wt", encoding="utf-8") as file:
        file.write("sieben\n")
    done = regard("translate", "run", "input.de", "more.de.gz", "-o", "out.en", cwd=story)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert (story / "out.en").read_text() == "three\n\ntwo four\nseven\n"


def test_translate_standard_input_and_json(story: Path, regard: Command) -> None:
    done = regard("translate", "run", "--json", "--nbest", "3", cwd=story, input="fünf\n")
    row = json.loads(done.stdout)
    assert (row["source"], row["text"], len(row["others"])) == ("fünf", "five", 2)
    plain = regard("translate", "run", "--nbest", "2", "--beam", "4", cwd=story, input="fünf\n").stdout
    assert plain.startswith("1\t")
    assert plain.splitlines()[0].endswith("\tfive")


def test_unknown_words_are_reported_and_displayed(story: Path, regard: Command) -> None:
    size = load_tokenizer(story / "run" / "tokenizer.json").size
    done = regard("translate", "run", cwd=story, input="drei Trump 🙂\nvier\nDonald zwei\n")
    assert done.stderr == (
        f"regard: line 1: 2 of 3 words are not in the model's vocabulary ({size} words): Trump, 🙂\n"
        f"regard: line 3: 1 of 2 words is not in the model's vocabulary ({size} words): Donald\n"
    )
    many = regard("translate", "run", "--json", cwd=story, input="Trump eins\n" * 7 + "eins\n")
    assert json.loads(many.stdout.splitlines()[0])["unknown_words"] == [{"text": "Trump", "start": 0, "end": 5}]
    *lines, summary = many.stderr.splitlines()
    assert len(lines) == 5
    assert summary == (
        "regard: 7 of 8 lines have words that are not in the model's vocabulary; the first 5 are listed above"
    )
    look = regard("look", "run", "drei Trump", "--target", "three", cwd=story)
    assert look.stderr == (f"regard: 1 of 2 words is not in the model's vocabulary ({size} words): Trump\n")
    columns = "".join(line[-8:] for line in look.stdout.splitlines())
    assert "<unk>" not in look.stdout
    assert "T" in columns
    regard("look", "run", "drei Trump", "--target", "three", "-o", "trump.json", cwd=story)
    side = json.loads((story / "trump.json").read_text("utf-8"))["sides"][0]
    assert (side["tokens"], side["words"]) == (["drei", "<unk>", "</s>"], ["drei", "Trump", "</s>"])
    assert side["unknown"] == [[1, "Trump"]]


def test_evaluate_on_the_test_split_and_on_files(story: Path, regard: Command) -> None:
    done = regard("evaluate", "run", "--json", cwd=story)
    scores = json.loads(done.stdout)
    assert scores["bleu"] > 60
    assert {"bleu", "chrf", "ter", "loss", "perplexity", "signature", "sentences", "by_length"} <= scores.keys()
    (story / "t.de").write_text("drei vier\neins\n", "utf-8")
    (story / "t.en").write_text("three four\none\n", "utf-8")
    files = regard("evaluate", "run", "--source", "t.de", "--target", "t.en", cwd=story)
    assert files.stdout.startswith("BLEU ")


def test_an_ensemble_translates(story: Path, regard: Command, here: Command) -> None:
    """An ensemble of a run and its copy translates and scores like the run alone."""
    shutil.copytree(story / "run", story / "twin")
    alone = regard("translate", "run", "--json", cwd=story, input="fünf acht\nzwei\n").stdout
    twins = regard("translate", "run", "--with", "twin", "--json", cwd=story, input="fünf acht\nzwei\n").stdout
    rows = [[json.loads(row) for row in output.splitlines()] for output in (alone, twins)]
    assert [row["text"] for row in rows[0]] == [row["text"] for row in rows[1]]
    assert [row["score"] for row in rows[0]] == pytest.approx([row["score"] for row in rows[1]], abs=1e-5)
    measured = json.loads(here("evaluate", "run", "--with", "twin", "--json", cwd=story).stdout)
    expected = json.loads(here("evaluate", "run", "--json", cwd=story).stdout)
    assert measured["bleu"] == expected["bleu"]
    assert measured["loss"] == pytest.approx(expected["loss"])


def test_runs_with_different_vocabularies_form_no_ensemble(story: Path, here: Command) -> None:
    shutil.copytree(story / "run", story / "foreign")
    words = (story / "foreign" / "tokenizer.json").read_text("utf-8")
    (story / "foreign" / "tokenizer.json").write_text(words.replace("seven", "sevin"), "utf-8")
    refused = here("translate", "run", "--with", "foreign", cwd=story, input="zwei\n")
    assert refused.returncode == 2
    assert "regard: foreign has another vocabulary than run;" in refused.stderr
    missing = here("evaluate", "run", "--with", "nowhere", cwd=story)
    assert (missing.returncode, missing.stderr.count("\n")) == (2, 1)
    engine = here("translate", "run", "--with", "run", "--engine", "onnx", cwd=story, input="zwei\n")
    assert (engine.returncode, engine.stderr) == (
        2, "regard: --with combines runs that regard executes itself, not --engine onnx\n",
    )  # fmt: skip


def test_compare_a_run_with_its_own_copy(story: Path, regard: Command) -> None:
    shutil.copytree(story / "run", story / "copy")
    done = regard(
        "compare", "run", "copy", "--json", "-o", "both/report.md", "-o", "both/report.svg", cwd=story
    )
    first, second = json.loads(done.stdout)["runs"]
    assert (first["bleu"], first["by_length"]) == (second["bleu"], second["by_length"])
    assert (first["p_value"], second["p_value"]) == (None, 1.0)
    assert re.match(r"translating \d+ sentences with run ...\n", done.stderr)
    assert "(report.svg)" in (story / "both" / "report.md").read_text("utf-8")
    assert (story / "both" / "report.svg").exists()


@pytest.mark.parametrize("ending", ["png", "svg"])
def test_look_draws_the_alignment(story: Path, regard: Command, ending: str) -> None:
    done = regard("look", "run", "drei vier", "-o", f"alignment.{ending}", cwd=story)
    assert done.stdout == f"three four\npicture: alignment.{ending}\n"
    head = (story / f"alignment.{ending}").read_bytes()[:200]
    assert head.startswith(b"\x89PNG") or b"<?xml" in head


def test_a_long_line_is_split_cut_or_refused(story: Path, regard: Command) -> None:
    line = "eins zwei drei vier. " * 10
    split = regard("translate", "run", cwd=story, input=line + "\n")
    assert split.stdout.count("\n") == 1
    assert "line 1 has 51 tokens, the model allows 24: translated in parts" in split.stderr
    cut = regard("translate", "run", "--long", "cut", cwd=story, input=line + "\n")
    assert "the rest is left out" in cut.stderr
    assert len(split.stdout) > len(cut.stdout)
    refused = regard("translate", "run", "--long", "refuse", cwd=story, input=line + "\n")
    assert refused.returncode == 2
    assert (
        refused.stderr
        == "regard: line 1 has 51 tokens, the model allows 24; choose split or cut to translate it\n"
    )


def wrong_files(folder: Path) -> None:
    (folder / "short.en").write_text("one\ntwo\n")
    (folder / "three.de").write_text("eins\nzwei\ndrei\n")
    (folder / "latin.de").write_bytes("eins\nfünf\n".encode("latin-1"))
    (folder / "empty.de").write_text("")
    (folder / "table.tsv").write_text("german\tenglish\neins\tone\n")
    shutil.copytree(folder / "run", folder / "torn", dirs_exist_ok=True)
    (folder / "torn" / "model.safetensors").unlink(missing_ok=True)
    (folder / "file").write_text("")


TRAIN = ("train", "translation", "train.steps=1", "--out", "never")

MISTAKES = [
    ((*TRAIN, "data.source=three.de", "data.target=short.en"), ["three.de", "3", "short.en", "2"]),
    ((*TRAIN, "data.source=latin.de", "data.target=short.en"), ["latin.de", "line 2", "UTF-8"]),
    ((*TRAIN, "data.source=empty.de", "data.target=short.en"), ["empty.de", "empty"]),
    ((*TRAIN, "data.source=nowhere.de", "data.target=short.en"), ["nowhere.de", "no such file"]),
    ((*TRAIN, "data.source=table.tsv", "data.source_column=germn", "data.target_column=english"), ["table.tsv", "germn", "german"]),
    ((*TRAIN, "data.source=three.de"), ["three.de", "target"]),
    ((*TRAIN, "data.corpus=multi30k", "data.path=nowhere"), ["nowhere"]),
    (("train", "translation"), ["data.source: this key is missing"]),
    (("translate", "torn"), ["torn", "model.safetensors"]),
    (("translate", "nowhere"), ["there is no run folder nowhere"]),
    (("translate", "file"), ["there is no run folder file"]),
    (("translate", "run", "latin.de"), ["latin.de", "line 2", "UTF-8"]),
    (("translate", "run", "nowhere.de"), ["nowhere.de", "no such file"]),
    (("translate", "run", "three.de", "-o", "file/out"), ["file/out", "not a directory"]),
    (("evaluate", "run", "--source", "three.de"), ["--source and --target belong together"]),
    (("evaluate", "run", "--source", "three.de", "--target", "short.en"), ["three.de", "3", "short.en", "2"]),
    (("compare", "run"), ["at least two runs, not 1"]),
    (("look", "run", "eins", "-o", "picture.gif"), ["picture.gif", ".png or .svg"]),
    (("look", "run", " "), ["the text is empty"]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "words"), MISTAKES, ids=[" ".join(arguments)[-60:] for arguments, _ in MISTAKES]
)
def test_a_mistake_is_one_line_and_exit_code_2(
    story: Path, here: Command, arguments: tuple[str, ...], words: list[str]
) -> None:
    wrong_files(story)
    done = here(*arguments, cwd=story)
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    last = done.stderr.splitlines()[-1]
    assert last.startswith("regard: ")
    assert "Traceback" not in done.stderr
    for word in words:
        assert word.lower() in last.lower()


def test_invalid_utf8_on_standard_input(story: Path, regard: Command) -> None:
    done = regard("translate", "run", cwd=story, input=b"eins\n\xff\xfe\n", text=False, encoding=None)
    assert done.returncode == 2
    assert done.stderr == b"regard: standard input, line 2: not UTF-8 text\n"


def test_out_of_disk_while_writing(story: Path, regard: Command) -> None:
    if not os.path.exists("/dev/full"):
        pytest.skip("this system has no /dev/full")
    done = regard("translate", "run", "n.de", "-o", "/dev/full", "--beam", "1", cwd=story)
    assert done.returncode == 1
    assert done.stderr == "regard: writing failed: no space left on device\n"


def test_a_closed_pipe_prints_no_error(story: Path) -> None:
    command = f'"{sys.executable}" -c "from regard.cli.main import main; main()" translate run n.de --beam 1 | head -n 1'
    done = subprocess.run(command, shell=True, cwd=story, capture_output=True, text=True, timeout=240)
    assert done.stdout.count("\n") == 1
    assert done.stderr == ""
