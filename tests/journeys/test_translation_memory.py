"""kNN translation memory of a run: its own sentences or other files, removing it, and damaged files."""

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from regard.tasks.translation.datastore import tune

Command = Callable[..., subprocess.CompletedProcess[str]]
SENTENCES = "drei\nzwei vier\nsieben eins sechs\n"


@pytest.fixture
def run(story: Path) -> Path:
    """A copy of the run, next to its training data."""
    shutil.rmtree(story / "mine", ignore_errors=True)
    shutil.copytree(story / "run", story / "mine")
    return story / "mine"


def test_build_use_and_remove_the_memory(story: Path, run: Path, here: Command) -> None:
    def scores() -> list[float]:
        lines = here("translate", "mine", "--json", cwd=story, input=SENTENCES).stdout.splitlines()
        return [json.loads(line)["score"] for line in lines]

    without_memory = scores()
    done = here("remember", "mine", cwd=story)
    assert (done.returncode, done.stdout.count("\n")) == (0, 3)
    assert done.stdout.startswith("datastore: ")
    assert "with the datastore" in done.stdout
    with_memory = scores()
    assert with_memory != without_memory
    assert here("translate", "mine", cwd=story, input="drei\n").stdout == "three\n"
    again = json.loads(here("remember", "mine", "--json", cwd=story).stdout)
    assert again["loss_with"] < again["loss"]
    assert again["places"] > again["pairs"] > 1000
    assert scores() == with_memory
    together = here("evaluate", "mine", "--with", "run", "--json", cwd=story)
    assert json.loads(together.stdout)["bleu"] > 60
    moved = shutil.move(run, story / "moved")
    assert here("translate", "moved", cwd=story, input="drei\n").stdout == "three\n"
    shutil.move(moved, run)
    assert here("remember", "mine", "--forget", cwd=story).stdout == "mine: translation memory deleted\n"
    assert scores() == without_memory
    assert here("remember", "mine", "--forget", cwd=story).stdout == "mine: there was no translation memory\n"


def test_a_memory_of_other_files_changes_translations(story: Path, run: Path, here: Command) -> None:
    """In these files "drei" is translated as "four", and so on."""
    english = {"three": "four", "four": "five", "five": "six", "six": "seven"}
    pairs = [
        (source, " ".join(english.get(word, word) for word in target.split()))
        for source, target in zip(
            (story / "n.de").read_text("utf-8").splitlines(),
            (story / "n.en").read_text("utf-8").splitlines(),
            strict=True,
        )
    ]
    for column, name in enumerate(("other.de", "other.en")):
        (story / name).write_text("".join(f"{pair[column]}\n" for pair in pairs), "utf-8")
    assert here("translate", "mine", cwd=story, input="drei\n").stdout == "three\n"
    done = here("remember", "mine", "--source", "other.de", "--target", "other.en", "--json", cwd=story)
    report = json.loads(done.stdout)
    assert report["loss_with"] < 0.7 * report["loss"]
    assert here("translate", "mine", cwd=story, input="drei\n").stdout == "four\n"


def test_a_run_with_a_memory_cannot_be_exported(story: Path, run: Path, here: Command) -> None:
    here("remember", "mine", cwd=story)
    refused = here("export", "mine", "--to", "onnx", "out", cwd=story)
    assert refused.returncode == 2
    assert "mine has a kNN datastore, which no other tool reads" in refused.stderr
    assert not (story / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--target", "n.en"], "--target needs --source: give the sentences and their translations"),
        (
            ["--forget", "--source", "n.de"],
            "--forget deletes the whole translation memory; use it without --source and --target",
        ),
        (["--source", "nowhere.de", "--target", "n.en"], "nowhere.de"),
    ],
)
def test_mistakes_in_building_a_memory_are_refused(
    story: Path, run: Path, here: Command, arguments: list[str], sentence: str
) -> None:
    done = here("remember", "mine", *arguments, cwd=story)
    assert (done.returncode, done.stdout) == (2, "")
    assert sentence in done.stderr
    assert done.stderr.startswith("regard: ")
    assert not (run / "neighbours.safetensors").exists()


def test_only_translation_runs_have_a_memory(story: Path, here: Command) -> None:
    here("train", "kernel", "--out", "curve", cwd=story)
    done = here("remember", "curve", cwd=story)
    assert done.returncode == 2
    assert "only translation runs can have a datastore" in done.stderr


def damaged(name: str, tensor: torch.Tensor) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        save_file({**load_file(path), name: tensor}, path)

    return damage


def symlink_out(path: Path) -> None:
    path.rename(path.parent.parent / "elsewhere")
    path.symlink_to("../elsewhere")


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (lambda path: path.write_bytes(path.read_bytes()[:5000]), "is damaged"),
        (damaged("words", torch.full((7,), 99_999, dtype=torch.int32)), "with one int32 token each"),
        (damaged("keys", torch.zeros(3, 16, dtype=torch.float16)), "keys of width 32"),
        (damaged("numbers", torch.tensor([8.0, 1.5, 1.0])), "its weight 1.5 is not between 0 and 1"),
        (damaged("numbers", torch.tensor([9e9, 0.5, 1.0])), "cannot return"),
        (damaged("numbers", torch.tensor([float("inf"), 0.5, 1.0])), "is damaged"),
        (damaged("words", torch.zeros(7, 2, dtype=torch.int32)), "with one int32 token each"),
        (damaged("made_with", torch.zeros(32, dtype=torch.uint8)), "it was built with another model"),
        (symlink_out, "leads out of"),
    ],
    ids=range(9),
)
def test_a_damaged_memory_is_refused_and_can_be_rebuilt(
    story: Path, run: Path, here: Command, damage: Callable[[Path], None], sentence: str
) -> None:
    here("remember", "mine", cwd=story)
    damage(run / "neighbours.safetensors")
    done = here("translate", "mine", cwd=story, input="drei\n")
    assert (done.returncode, done.stdout) == (2, "")
    assert sentence in done.stderr
    assert here("remember", "mine", cwd=story).returncode == 0
    assert here("translate", "mine", cwd=story, input="drei\n").stdout == "three\n"


def test_token_ids_out_of_range_are_refused(story: Path, run: Path, here: Command) -> None:
    here("remember", "mine", cwd=story)
    path = run / "neighbours.safetensors"
    tensors = load_file(path)
    for wrong in (-1, 1 << 20):
        words = tensors["words"].clone()
        words[5] = wrong
        save_file({**tensors, "words": words}, path)
        done = here("translate", "mine", cwd=story, input="drei\n")
        assert (done.returncode, "token ids outside the vocabulary" in done.stderr) == (2, True)


def test_tuned_weight_follows_the_accuracy_of_the_neighbours() -> None:
    torch.manual_seed(0)
    distances = torch.rand(200, 32).sort(-1).values + 1
    probability = torch.full((200,), 0.5)
    always, never = torch.ones(200, 32, dtype=torch.bool), torch.zeros(200, 32, dtype=torch.bool)
    loss, _, weight, _ = tune(distances, always, probability)
    assert (weight, round(loss, 2)) == (0.7, 0.16)  # -ln(0.3 * 0.5 + 0.7)
    loss, _, weight, _ = tune(distances, never, probability)
    assert (weight, loss > 0.6932) == (0.05, True)
    nearest_only = torch.arange(32).expand(200, -1) == 0
    _, count, _, sharpness = tune(distances, nearest_only, probability)
    assert count == 4
    assert sharpness > tune(distances, always, probability)[3]
