"""Progress of a training run: the live display of a terminal, with a clock set by the test, and plain lines."""

import io
import json
import time
from pathlib import Path

import pytest
from rich.console import Console
from support.console import Command
from support.small_text_tasks import write_labelled
from support.small_translation import SMALL, train, write_corpus

from regard.cli.terminal import Terminal, duration
from regard.config.training import TrainConfig
from regard.tasks.metrics_log import MetricsLogger, TrainingStatus
from regard.training.state import Progress

PARTS = (
    "710/1,690 steps",
    "epoch 2",
    "loss 0.610",
    "best BLEU 90.60 at step 566",
    "13,215 tokens/s",
    "lr 3.1e-03",
)


class Clock:
    """A clock that stands still until it is set."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


class Screen(Terminal):
    """A terminal in memory, which keeps every frame that a change makes."""

    def __init__(self, width: int = 200) -> None:
        self.file, self.time, self.frames = io.StringIO(), Clock(), list[str]()
        console = Console(file=self.file, force_terminal=True, width=width, highlight=False, color_system=None)
        super().__init__(console, self.time)

    def shown(self) -> str:
        return self.render().plain

    def update(self, status: TrainingStatus | None) -> None:
        super().update(status)
        self.frames.append(self.shown())


def plain_terminal() -> tuple[Terminal, io.StringIO]:
    file = io.StringIO()
    return Terminal(Console(file=file, force_terminal=False, width=200), Clock(), patience=0), file


def test_the_training_line_has_bar_position_scores_and_time() -> None:
    screen = Screen()
    screen.update(TrainingStatus(0.42, 104.0, PARTS))
    line = screen.shown()
    assert line.startswith(
        "train  ━━━━━━━━━━━━╸─────────────────   42%  710/1,690 steps · epoch 2 · loss 0.610 · best"
    )
    assert "best BLEU 90.60 at step 566 · 13,215 tokens/s · lr 3.1e-03 · " in line
    assert line.endswith(" GB · 1:44 / ETA 2:23")


def test_elapsed_time_advances_between_updates() -> None:
    """Also while a step or a validation takes long."""
    screen = Screen()
    screen.update(TrainingStatus(0.5, 60.0, ("step 5",)))
    screen.time.seconds += 20
    assert screen.shown().endswith("1:20 / ETA 0:40")
    screen.time.seconds += 100
    assert screen.shown().endswith("3:00 / ETA 0:00")


@pytest.mark.parametrize("width", [40, 80, 120])
def test_lines_fit_the_width(width: int) -> None:
    screen = Screen(width)
    screen.update(TrainingStatus(0.42, 104.0, PARTS))
    lines = screen.shown().splitlines()
    assert len(lines) > 1
    assert all(len(line) <= width for line in lines)
    assert " · ".join(line.split("%  ")[-1].strip() for line in lines).startswith(" · ".join(PARTS))


def test_a_phase_counts_its_examples_below_the_training_line() -> None:
    screen = Screen()
    screen.update(TrainingStatus(0.5, 60.0, ("step 5",)))
    with screen.phase("valid", "greedy", total=200, unit="sentences", announce=False) as progress:
        progress.add(50)
        screen.time.seconds += 3
        training, phase = screen.shown().splitlines()
        assert training.startswith("train ")
        assert phase == f"valid  {'━' * 7}╸{'─' * 22}  50/200 sentences · greedy · 0:03"
    assert screen.shown().startswith("train ")
    assert "\n" not in screen.shown()


def test_a_phase_without_a_count_shows_how_long_it_takes() -> None:
    screen = Screen()
    with screen.phase("reading"):
        screen.time.seconds += 61.4
        assert screen.shown() == "reading 1:01"
        with screen.phase("test") as progress:
            progress.expect(10, "images")
            assert "0/10 images · 0:00" in screen.shown()
        assert screen.shown().startswith("reading")
    assert screen.shown() == ""


def test_a_live_terminal_draws_and_erases() -> None:
    screen = Screen()
    with screen:
        with screen.phase("reading"):
            screen.display.refresh()
        screen.progress("step 50", 0.5)
        screen.log("pairs: 40")
    assert "reading 0:00" in screen.file.getvalue()
    assert "pairs: 40\n" in screen.file.getvalue()
    assert "step 50" not in screen.file.getvalue()
    assert "..." not in screen.file.getvalue()


def test_a_short_phase_is_not_announced_in_a_log_file() -> None:
    file = io.StringIO()
    terminal = Terminal(Console(file=file), patience=0.05)
    with terminal.phase("reading"):
        pass
    time.sleep(0.1)
    assert file.getvalue() == ""
    with terminal.phase("vocabulary"):
        time.sleep(0.3)
    assert file.getvalue() == "vocabulary ...\n"


def test_a_log_file_gets_lines() -> None:
    terminal, file = plain_terminal()
    with terminal:
        with terminal.phase("reading"):
            pass
        terminal.update(TrainingStatus(0.5, 60.0, PARTS))
        terminal.progress("step     50  loss 1.000", 0.25)
        with terminal.phase("valid", total=5, unit="sentences", announce=False):
            pass
        with terminal.phase("test", "beam 5", total=1000, unit="sentences"):
            pass
    first, second, third = file.getvalue().splitlines()
    assert (first, third) == ("reading ...", "test: 1,000 sentences, beam 5 ...")
    assert second.startswith("step     50  loss 1.000  ")
    assert second.endswith(" GB  25% done")


def test_an_encoding_without_the_symbols_gets_ascii() -> None:
    file = io.TextIOWrapper(io.BytesIO(), "ascii")
    Terminal(Console(file=file)).log("valid  loss 1.000  ★ best so far")
    file.seek(0)
    assert file.read() == "valid  loss 1.000  * best so far\n"


def test_durations() -> None:
    assert [duration(seconds) for seconds in (0.9, 104, 7390)] == ["0:00", "1:44", "2:03:10"]


def status_parts(folder: Path, progress: Progress, **settings) -> tuple[str, ...]:
    logger = MetricsLogger(folder, Screen(), TrainConfig(**settings), progress.step)
    return logger.status(progress).parts


def test_the_position_is_in_the_unit_of_the_budget(tmp_path: Path) -> None:
    progress = Progress(710, 2, 0.61, 3.1e-3, 13215, 1.72, 0.42)
    assert status_parts(tmp_path, progress, steps=1690) == (
        "710/1,690 steps", "epoch 2", "loss 0.610", "13,215 tokens/s", "lr 3.1e-03",
    )  # fmt: skip
    assert status_parts(tmp_path, progress, minutes=4.0)[:3] == ("1.7/4 minutes", "step 710", "epoch 2")
    assert status_parts(tmp_path, progress, epochs=5)[:2] == ("step 710", "epoch 2/5")
    report = status_parts(tmp_path, progress, steps=1690, log_style="report")
    assert [part.split(":")[0] for part in report] == [
        "Epoch", "Batch", "Update", "Loss", "Tokens/s", "Learning rate",
    ]  # fmt: skip


def test_the_best_validation_is_shown_also_after_a_resume(tmp_path: Path) -> None:
    progress, settings = Progress(710, 2, 0.61, 3.1e-3, 13215, 1.72, 0.42), TrainConfig(steps=1690)
    screen = Screen()
    logger = MetricsLogger(tmp_path, screen, settings)
    logger.validated(283, 0.5, {"loss": 0.2, "bleu": 80.123, "chrf": 90.0}, True)
    logger.validated(566, 1.0, {"loss": 0.3, "bleu": 79.0, "chrf": 90.0}, False)
    assert "valid  step    283  loss 0.200  BLEU 80.12  chrF 90.00  ★ best so far\n" in screen.file.getvalue()
    assert "valid  step    566  loss 0.300  BLEU 79.00  chrF 90.00\n" in screen.file.getvalue()
    start, *rows = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert list(start) == ["kind", "step", "environment"]
    assert [list(row) for row in rows] == [
        ["kind", "step", "minutes", "loss", "bleu", "chrf", "best", "samples"]
    ] * 2
    resumed = MetricsLogger(tmp_path, Screen(), settings, 710)
    for log in (logger, resumed):
        assert "best BLEU 80.12 at step 283" in log.status(progress).parts


def test_a_training_run_shows_every_phase(tmp_path: Path) -> None:
    write_corpus(tmp_path)

    class Phases(Screen):
        def phase(self, name: str, *arguments, **options):
            phases.append(name)
            return super().phase(name, *arguments, **options)

    phases: list[str] = []
    screen = Phases()
    with screen:
        train(tmp_path, tmp_path / "run", "train.steps=20", "train.validate_every=10", listener=screen)
    assert phases == [
        "reading", "vocabulary", "encoding", "first batch", "valid", "valid", "valid", "valid", "saving", "test", "test",
    ]  # fmt: skip
    assert screen.frames[-1] == ""
    assert "20/20 steps" in screen.frames[-2]
    assert "best BLEU" in screen.frames[-2]
    assert "100%" in screen.frames[-2]


def test_the_command_logs_phases_and_names_the_next_commands(command: Command, tmp_path: Path) -> None:
    write_corpus(tmp_path)
    ended = command(
        "train", "translation", *SMALL, "train.steps=20", "train.validate_every=10", "train.log_every=10"
    )
    lines = ended.err.splitlines()
    names = [line.split(":")[0].removesuffix(" ...") for line in lines if line.endswith("...")]
    assert set(names) <= {
        "reading",
        "vocabulary",
        "encoding",
        "first batch",
        "test",
    }  # if longer than 5 seconds
    assert [line.split()[1] for line in lines if line.startswith("step ")] == ["10", "20"]
    assert [line.split()[2] for line in lines if line.startswith("valid ")] == ["10", "20"]
    assert lines[-1] == (
        'next   regard translate runs/translation FILE · regard look runs/translation "TEXT" -o attention.html'
        " · regard serve runs/translation"
    )
    scores, signature, done = ended.out.splitlines()
    assert scores.startswith("BLEU ")
    assert signature.startswith("signature: ")
    bleu = scores.split("   ")[0]
    assert done == f"done   {bleu} · run saved in runs/translation"


def test_json_is_all_that_a_program_reads(command: Command, tmp_path: Path) -> None:
    write_labelled(tmp_path)
    small = "model.layers=1 model.d_model=16 model.heads=2 model.d_ff=16 tokenizer.vocab_size=120 train.steps=2"
    arguments = ("train", "sentiment", "data.train=train.tsv", "data.valid=dev.tsv", *small.split())
    ended = command(*arguments, "--json", "--out", "first")
    assert json.loads(ended.out)["run"] == "first"
    assert "next " not in ended.err
    ended = command(*arguments, "--out", "my runs/second")
    assert ended.out.splitlines()[-1].startswith("done   accuracy 0.")
    assert ended.err.splitlines()[-1].startswith("next   regard classify 'my runs/second' FILE · regard look ")
