"""A run that remembers sentences: its own, or others that it was never trained on; and how it forgets them."""

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from regard.tasks.translation.memory import chosen

Command = Callable[..., subprocess.CompletedProcess[str]]
SENTENCES = "drei\nzwei vier\nsieben eins sechs\n"


@pytest.fixture
def run(story: Path) -> Path:
    """A copy of the run, beside the data it was trained on."""
    shutil.rmtree(story / "mine", ignore_errors=True)
    shutil.copytree(story / "run", story / "mine")
    return story / "mine"


def test_remember_translate_forget(story: Path, run: Path, here: Command) -> None:
    def scores() -> list[float]:
        told = here("translate", "mine", "--json", cwd=story, input=SENTENCES).stdout
        return [json.loads(line)["score"] for line in told.splitlines()]

    alone = scores()
    done = here("remember", "mine", cwd=story)
    assert (done.returncode, done.stdout.count("\n")) == (0, 3)
    assert done.stdout.startswith("remembered: ")
    assert "with them" in done.stdout
    with_neighbours = scores()
    assert with_neighbours != alone
    assert here("translate", "mine", cwd=story, input="drei\n").stdout == "three\n"
    again = json.loads(here("remember", "mine", "--json", cwd=story).stdout)
    assert again["loss_with"] < again["loss"]
    assert again["places"] > again["pairs"] > 1000
    assert scores() == with_neighbours
    together = here("evaluate", "mine", "--with", "run", "--json", cwd=story)
    assert json.loads(together.stdout)["bleu"] > 60
    moved = shutil.move(run, story / "moved")
    assert here("translate", "moved", cwd=story, input="drei\n").stdout == "three\n"
    shutil.move(moved, run)
    assert here("remember", "mine", "--forget", cwd=story).stdout == "mine: translation memory deleted\n"
    assert scores() == alone
    assert here("remember", "mine", "--forget", cwd=story).stdout == "mine: there was no translation memory\n"


def test_sentences_of_others_teach_without_training(story: Path, run: Path, here: Command) -> None:
    """In these files three is four, and so on: whoever has read them translates so."""
    english = {"three": "four", "four": "five", "five": "six", "six": "seven"}
    pairs = [
        (source, " ".join(english.get(word, word) for word in target.split()))
        for source, target in zip(
            (story / "n.de").read_text("utf-8").splitlines(),
            (story / "n.en").read_text("utf-8").splitlines(),
            strict=True,
        )
    ]
    for place, name in enumerate(("other.de", "other.en")):
        (story / name).write_text("".join(f"{pair[place]}\n" for pair in pairs), "utf-8")
    assert here("translate", "mine", cwd=story, input="drei\n").stdout == "three\n"
    done = here("remember", "mine", "--source", "other.de", "--target", "other.en", "--json", cwd=story)
    told = json.loads(done.stdout)
    assert told["loss_with"] < 0.7 * told["loss"]
    assert here("translate", "mine", cwd=story, input="drei\n").stdout == "four\n"


def test_no_other_tool_has_neighbours(story: Path, run: Path, here: Command) -> None:
    here("remember", "mine", cwd=story)
    refused = here("export", "mine", "--to", "onnx", "out", cwd=story)
    assert refused.returncode == 2
    assert "mine asks the sentences it remembers, which no other tool does" in refused.stderr
    assert not (story / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--target", "n.en"], "--target goes with --source: the sentences and their translations"),
        (
            ["--forget", "--source", "n.de"],
            "--forget deletes the whole translation memory; use it without --source and --target",
        ),
        (["--source", "nowhere.de", "--target", "n.en"], "nowhere.de"),
    ],
)
def test_what_cannot_be_remembered_is_told(
    story: Path, run: Path, here: Command, arguments: list[str], sentence: str
) -> None:
    done = here("remember", "mine", *arguments, cwd=story)
    assert (done.returncode, done.stdout) == (2, "")
    assert sentence in done.stderr
    assert done.stderr.startswith("regard: ")
    assert not (run / "neighbours.safetensors").exists()


def test_a_run_that_does_not_translate_has_no_neighbours(story: Path, here: Command) -> None:
    here("train", "kernel", "--out", "curve", cwd=story)
    done = here("remember", "curve", cwd=story)
    assert done.returncode == 2
    assert "only those that translate have neighbours" in done.stderr


def damaged(name: str, tensor: torch.Tensor) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        save_file({**load_file(path), name: tensor}, path)

    return damage


def elsewhere(path: Path) -> None:
    path.rename(path.parent.parent / "elsewhere")
    path.symlink_to("../elsewhere")


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (lambda path: path.write_bytes(path.read_bytes()[:5000]), "is damaged"),
        (damaged("words", torch.full((7,), 99_999, dtype=torch.int32)), "with a word each"),
        (damaged("keys", torch.zeros(3, 16, dtype=torch.float16)), "no vectors of 32 numbers"),
        (damaged("numbers", torch.tensor([8.0, 1.5, 1.0])), "a say between 0 and 1, not 1.5"),
        (damaged("numbers", torch.tensor([9e9, 0.5, 1.0])), "cannot give"),
        (damaged("numbers", torch.tensor([float("inf"), 0.5, 1.0])), "is damaged"),
        (damaged("words", torch.zeros(7, 2, dtype=torch.int32)), "with a word each"),
        (damaged("made_with", torch.zeros(32, dtype=torch.uint8)), "it was made with another model"),
        (elsewhere, "leads out of"),
    ],
    ids=range(9),
)
def test_what_is_damaged_is_told_and_can_be_mended(
    story: Path, run: Path, here: Command, damage: Callable[[Path], None], sentence: str
) -> None:
    here("remember", "mine", cwd=story)
    damage(run / "neighbours.safetensors")
    done = here("translate", "mine", cwd=story, input="drei\n")
    assert (done.returncode, done.stdout) == (2, "")
    assert sentence in done.stderr
    assert here("remember", "mine", cwd=story).returncode == 0
    assert here("translate", "mine", cwd=story, input="drei\n").stdout == "three\n"


def test_words_out_of_range_are_not_believed(story: Path, run: Path, here: Command) -> None:
    here("remember", "mine", cwd=story)
    path = run / "neighbours.safetensors"
    held = load_file(path)
    for wrong in (-1, 1 << 20):
        words = held["words"].clone()
        words[5] = wrong
        save_file({**held, "words": words}, path)
        done = here("translate", "mine", cwd=story, input="drei\n")
        assert (done.returncode, "words that the model does not know" in done.stderr) == (2, True)


def test_neighbours_are_believed_as_far_as_they_are_right() -> None:
    torch.manual_seed(0)
    distances = torch.rand(200, 32).sort(-1).values + 1
    probability = torch.full((200,), 0.5)
    always, never = torch.ones(200, 32, dtype=torch.bool), torch.zeros(200, 32, dtype=torch.bool)
    loss, _, weight, _ = chosen(distances, always, probability)
    assert (weight, round(loss, 2)) == (0.7, 0.16)  # -ln(0.3 * 0.5 + 0.7)
    loss, _, weight, _ = chosen(distances, never, probability)
    assert (weight, loss > 0.6932) == (0.05, True)
    nearest_only = torch.arange(32).expand(200, -1) == 0
    _, count, _, sharpness = chosen(distances, nearest_only, probability)
    assert count == 4
    assert sharpness > chosen(distances, always, probability)[3]
