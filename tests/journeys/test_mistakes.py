"""Mistakes in what is typed: one line on standard error that says the way out, exit code 2, no traceback."""

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Command = Callable[..., subprocess.CompletedProcess[str]]

MISTAKES = [
    # recipes and their keys
    ("train pictureboook", "there is no recipe 'pictureboook'; did you mean 'picturebook'?"),
    ("train picturebok", "(all: regard recipes)"),
    ("recipes pictureboook", "did you mean 'picturebook'?"),
    ("train train.steps=5", "the recipe comes before its settings: regard train RECIPE train.steps=5"),
    ("train picturebook --steps 10", "--steps: settings are written KEY=VALUE: train.steps=10"),
    ("train picturebook --steps=10", "settings are written KEY=VALUE: train.steps=10"),
    ("train --lr 0.1 picturebook", "settings are written KEY=VALUE: train.lr=0.1"),
    ("train picturebook --learning-rate 0.1", "settings are written KEY=VALUE: train.lr=0.1"),
    ("train picturebook --lerning-rate 0.1", "settings are written KEY=VALUE: train.lr=0.1"),
    ("train picturebook --batch-size 32", "train.batch_tokens=32 or train.batch_sentences=32"),
    ("train kernel --epochs 3", "there is no such option"),
    ("train picturebook --resme", "--resme: there is no such option; did you mean --resume?"),
    ("train picturebook train.rate=0.1", "train.rate: there is no such key; did you mean 'lr'?"),
    ("train picturebook train.learning_rate=0.1", "did you mean 'lr'?"),
    ("train picturebook train.batch_size=32", "did you mean 'batch_tokens' or 'batch_sentences'?"),
    ("train picturebook train.max_steps=10", "did you mean 'steps'?"),
    ("train picturebook train.optimiser=adam", "did you mean 'optimizer'?"),
    ("train picturebook train.optimizer=adamm", "did you mean 'adam'? allowed: adam, adamw, muon, lion"),
    ("train picturebook train.wombat=1", "(all: regard recipes NAME)"),
    ("train picturebook steps=10", "did you mean 'train.steps'?"),
    ("train picturebook epochs=3", "did you mean 'train.epochs'?"),
    ("train picturebook train.lr=fast", '"fast" is not a number, above 0'),
    ("train picturebook train.steps=0", "0 is out of range; allowed is a whole number, at least 1"),
    ("train picturebook decode.beam=1000", "allowed is a whole number from 1 to 256"),
    ("train picturebook train.steps", "'train.steps': settings are written KEY=VALUE, such as train.steps=500"),
    ("train picturebook model.size=huge", "allowed: tiny, small, base, big"),
    ("train missing.toml", "recipe 'missing.toml' cannot be read: "),
    # data
    ("train translation", "data.source: this key is missing"),
    ("train translation data.source=nowhere.de data.target=n.en", "no such file: nowhere.de"),
    ("train translation data.source=n.de", "give the target file too, or one .tsv, .csv or .jsonl"),
    ("train translation data.source=n.de data.target=empty.en", "empty.en is empty; it must have at least one line"),
    ("train gpt data.train=nowhere.txt", "data.train: no such file: nowhere.txt; data.path names its folder"),
    ("train vit data.path=nowhere", "no such folder: nowhere; data.path must name the folder with the images"),
    ("data get multi31k", "unknown data set 'multi31k'; allowed: picturebook, multi30k, tatoeba-eng-fra; did you mean multi30k"),
    ("data show picturebook --split tset", "unknown split 'tset'; allowed: train, valid, test; did you mean test"),
    ("data show picturebook -n0", "--number: 0 is out of range; allowed is a whole number, at least 1"),
    # arguments
    ("translate", "RUN is missing: a run folder, or an export made by `regard export`; see regard translate --help"),
    ("look run", "TEXT is missing: input text, or an image file for a ViT; see regard look --help"),
    ("look run Der Hund", "too many arguments: Hund; text with spaces is written in quotes; see regard look --help"),
    ("doctor run", "too many arguments: run; see regard doctor --help"),
    ("import nowhere", "--out is missing: output run folder; see regard import --help"),
    ("import nowhere --out x", "there is no folder nowhere"),
    ("translate nowhere", "there is no run folder nowhere"),
    ("translate run missing.txt", "no such file: missing.txt"),
    ("evaluate run --source n.de", "--target"),
    ("compare run", "a comparison needs at least two runs, not 1"),
    ("generate run eins", "run"),
    ("classify run n.de", "run"),
    ("look run eins -o out.gif", "attention is written as .html, .json, .png or .svg"),
    ("look run eins --layer decoder.0.crss", "did you mean decoder.0.cross"),
    ("serve nowhere", "there is no run folder nowhere"),
    ("bench speed run", "--source is missing: file with one sentence per line, to translate"),
    ("bench speed run --source nowhere.de", "nowhere.de: there is no such file"),
    # options
    ("translate run --beam 0", "--beam: 0 is out of range; allowed is a whole number from 1 to 256; see regard translate --help"),
    ("translate run --beam many", '--beam: "many" is not a whole number from 1 to 256; see regard translate --help'),
    ("translate run --beam=1.5", "--beam: 1.5 is not a whole number from 1 to 256"),
    ("translate run --nbest 9999", "--nbest: 9999 is out of range; allowed is a whole number from 1 to 256"),
    ("translate run --temperature 0", "--temperature: 0 is out of range; allowed is a number, at least 0.01"),
    ("translate run --engine tensorrt", '--engine: "tensorrt" is not a choice; allowed: regard, ctranslate2, onnx; see'),
    ("translate run --bean 5", "--bean: there is no such option; did you mean --beam? see regard translate --help"),
    ("translate run --beam", "--beam: its value is missing; allowed is a whole number from 1 to 256; see"),
    ("translate run --json=yes", "--json: this option takes no value; see regard translate --help"),
    ("export run --to tflite out", '--to: "tflite" is not a choice; allowed: ctranslate2, onnx, huggingface; see'),
    ("serve run --port 99999", "--port: 99999 is out of range; allowed is a whole number from 0 to 65535; see regard serve --help"),
    ("serve run --port x\x1by", "--port: "),
    ("show smoothing --smoothing 0.1 --smoothing 2", "--smoothing: 2 is out of range; allowed is a number from 0 to 0.9"),
    # commands
    ("trian picturebook", "there is no command 'regard trian'; did you mean 'regard train'? see regard --help"),
    ("picturebook", "there is no command 'picturebook', but a recipe: regard train picturebook; see regard --help"),
    ("show scalling", "there is no command 'regard show scalling'; did you mean 'regard show scaling'? see regard show --help"),
    ("bench runs/mine", "there is no command 'regard bench runs/mine'; see regard bench --help"),
    ("--vresion", "--vresion: there is no such option; did you mean --version? see regard --help"),
]  # fmt: skip


@pytest.mark.parametrize(("line", "way_out"), MISTAKES, ids=[line for line, _ in MISTAKES])
def test_a_mistake_is_one_line(here: Command, story: Path, line: str, way_out: str) -> None:
    (story / "empty.en").touch()
    process = here(*line.split(), cwd=story)
    assert (process.returncode, process.stdout) == (2, "")
    check_message(process.stderr)
    assert way_out in process.stderr


def check_message(err: str) -> None:
    """One line in the style of every message."""
    assert err.startswith("regard: ")
    assert err.count("\n") == 1
    assert err.rstrip("\n").isprintable()
    message = err.removeprefix("regard: ").rstrip()
    assert not message.endswith((".", "!"))
    assert "Traceback" not in message
    first = re.split(r"[\s:;]", message)[0]
    assert first[0].islower() or not first.isalpha() or first.isupper(), f"{first} begins in upper case"


def test_train_without_a_recipe_lists_them(here: Command, tmp_path: Path) -> None:
    process = here("train", cwd=tmp_path)
    assert process.returncode == 2
    check_message(process.stderr)
    assert "regard train picturebook" in process.stderr
    assert "Transformer on the bundled corpus" in process.stdout


@pytest.mark.parametrize("command", ["", "show", "data", "bench"])
def test_a_bare_group_prints_its_help(here: Command, tmp_path: Path, command: str) -> None:
    process = here(*command.split(), cwd=tmp_path)
    assert (process.returncode, process.stderr) == (2, "")
    assert "Usage: regard" in process.stdout


def test_a_mistake_in_a_process_of_its_own(regard: Command, tmp_path: Path) -> None:
    process = regard("serve", "run", "--port", "99999", cwd=tmp_path)
    assert (process.returncode, process.stdout) == (2, "")
    check_message(process.stderr)
