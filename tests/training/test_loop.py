"""The training loop: gradient accumulation, bit-identical repetition and resumption, averages, failures."""

import itertools
import signal
from itertools import islice
from pathlib import Path

import pytest
import torch
from support.small_training import PAD, RecordingListener, run_training, same_weights, training

from regard.data.batches import Batches
from regard.data.token_store import TokenStore
from regard.errors import Stopped, TrainingError
from regard.training import checkpoint
from regard.training.objectives import Seq2SeqObjective
from regard.training.update import train_step
from regard.training.weight_averaging import clone_weights


def test_accumulating_four_batches_equals_one_large_batch(store: TokenStore) -> None:
    small = training(store, dropout=0.0, batch_sentences=5, grad_accum=4)
    large = training(store, dropout=0.0, batch_sentences=20)
    objectives = [Seq2SeqObjective(state.model, PAD, 0.1) for state in (small, large)]
    stream = [batch for batch, _ in islice(small.batches.stream(), 20)]
    for update in range(5):
        parts = stream[4 * update : 4 * update + 4]
        pairs = [
            (store.source.sentence(m).tolist(), store.target.sentence(m).tolist())
            for part in parts
            for m in part.sentences
        ]
        [whole] = Batches.of_pairs(pairs, 10**6, 100)
        assert whole.tokens == sum(part.tokens for part in parts)
        train_step(small, objectives[0], parts, 0.001, RecordingListener())
        train_step(large, objectives[1], [whole], 0.001, RecordingListener())
    gaps = [
        (a - b).abs().max().item()
        for a, b in zip(small.model.parameters(), large.model.parameters(), strict=True)
    ]
    assert max(gaps) < 1e-6


@pytest.mark.parametrize(
    "settings", [{}, {"averaging": "last"}, {"grad_accum": 2}, {"optimizer": "adamw", "weight_decay": 0.1}]
)
def test_the_same_seed_gives_bit_identical_weights(store: TokenStore, settings: dict) -> None:
    first = training(store, **settings)
    notes = run_training(first)
    second = training(store, **settings)
    assert notes.steps == run_training(second).steps
    assert same_weights(first, second)
    assert [step for step, _ in notes.steps] == list(range(1, 13))
    other_seed = training(store, seed=2, **settings)
    run_training(other_seed)
    assert not same_weights(first, other_seed)


@pytest.mark.parametrize(
    ("settings", "r_drop"),
    [
        ({}, 0.0),
        ({"averaging": "last", "average_last": 2}, 0.0),
        ({"grad_accum": 2}, 0.0),
        ({}, 1.0),
        ({"patience": 9}, 0.0),
        ({"optimizer": "lion", "lr": 0.002, "weight_decay": 0.1}, 0.0),
    ],
)
def test_a_resumed_run_is_bit_identical_to_an_uninterrupted_one(
    store: TokenStore, tmp_path: Path, settings: dict, r_drop: float
) -> None:
    whole = training(store, **settings)
    run_training(whole, r_drop=r_drop)
    first = training(store, **{**settings, "steps": 8})
    run_training(first, tmp_path / "checkpoints", r_drop)
    torch.manual_seed(77)  # a new process starts with another random state
    resumed = training(store, **settings)
    assert checkpoint.resume(resumed, tmp_path / "checkpoints", pytest.fail)
    assert resumed.step == 8
    run_training(resumed, r_drop=r_drop)
    assert same_weights(whole, resumed)
    assert all(torch.equal(a, resumed.average.weights()[name]) for name, a in whole.average.weights().items())
    assert (whole.cursor, whole.best, whole.stale) == (resumed.cursor, resumed.best, resumed.stale)


def test_the_newest_checkpoints_are_kept(store: TokenStore, tmp_path: Path) -> None:
    state = training(store, checkpoint_every=2, keep_checkpoints=3)
    run_training(state, tmp_path)
    assert checkpoint.saved_steps(tmp_path) == [8, 10, 12]
    assert not checkpoint.resume(training(store), tmp_path / "nowhere", pytest.fail)


def test_a_report_window_continues_after_an_interruption(store: TokenStore, tmp_path: Path) -> None:
    whole = run_training(training(store, log_every=5))
    first = training(store, log_every=5, steps=12)
    with pytest.raises(Stopped):
        run_training(first, tmp_path, stop=lambda: signal.SIGTERM if first.step == 7 else None)
    resumed = training(store, log_every=5)
    assert checkpoint.resume(resumed, tmp_path, pytest.fail)
    assert run_training(resumed).steps == [row for row in whole.steps if row[0] > 7]


def test_progress_between_reports_moves_from_the_last_one_to_the_current_window(store: TokenStore) -> None:
    run = training(store, steps=3)
    window = run.window
    window.add(torch.tensor(8.0), 4, 4)
    assert window.current(run, 0.1).loss == 2.0
    assert window.report(run, 0.1).loss == 2.0
    assert window.current(run, 0.1).loss == 2.0  # the new window is empty
    window.add(torch.tensor(1.0), 1, 1)
    assert window.current(run, 0.1).loss == pytest.approx(0.25 * 1.0 + 0.75 * 2.0)
    window.add(torch.tensor(7.0), 7, 7)
    assert window.current(run, 0.1).loss == window.current(run, 0.1).loss == 1.0
    assert window.report(run, 0.1).loss == 1.0


def test_every_step_is_shown_before_its_report(store: TokenStore) -> None:
    class Events(RecordingListener):
        def stepped(self, training, lr) -> None:
            events.append(("step", training.step))

        def progress(self, progress) -> None:
            events.append(("report", progress.step))

    events: list[tuple[str, int]] = []
    run_training(training(store, steps=4, log_every=2), listener=Events())
    assert events == [("step", 1), ("step", 2), ("report", 2), ("step", 3), ("step", 4), ("report", 4)]


def test_a_stop_signal_saves_the_state_first(store: TokenStore, tmp_path: Path) -> None:
    state = training(store)
    with pytest.raises(
        Stopped, match="stopped after step 3; the training state is saved; continue with --resume"
    ) as stopped:
        run_training(state, tmp_path, stop=lambda: signal.SIGTERM if state.step == 3 else None)
    assert stopped.value.code == 143
    assert checkpoint.saved_steps(tmp_path) == [3]


def with_bad_losses(objective: Seq2SeqObjective, bad: set[int], value: float):
    """The objective with a loss that is not finite at some of its calls."""
    calls = itertools.count(1)
    return lambda batch: objective(batch) * (value if next(calls) in bad else 1.0)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_batch_whose_loss_is_not_finite_is_named_and_skipped(store: TokenStore, value: float) -> None:
    state, clean = training(store, dropout=0.0, not_finite="skip"), training(store, dropout=0.0)
    notes = RecordingListener()
    batches = [batch for batch, _ in islice(state.batches.stream(), 3)]
    objective = with_bad_losses(Seq2SeqObjective(state.model, PAD, 0.1), {2}, value)
    for batch in batches:
        train_step(state, objective, [batch], 0.01, notes)
    plain = Seq2SeqObjective(clean.model, PAD, 0.1)
    for batch in (batches[0], batches[2]):
        train_step(clean, plain, [batch], 0.01, notes)
    assert same_weights(state, clean)  # as without the batch
    [(_, why)] = notes.skipped_steps
    assert f"the batch holds the pairs {batches[1].sentences[0]}, {batches[1].sentences[1]}" in why
    assert state.skipped == 0


def test_a_loss_that_is_not_finite_stops_the_run_by_default(store: TokenStore) -> None:
    state = training(store)
    before = clone_weights(state.model)
    batch = next(state.batches.stream())[0]
    objective = with_bad_losses(Seq2SeqObjective(state.model, PAD, 0.1), {1}, float("nan"))
    with pytest.raises(TrainingError, match=r"step 1: the loss is nan, .* train.not_finite = .skip."):
        train_step(state, objective, [batch], 0.01, RecordingListener())
    assert all(torch.equal(before[name], weight) for name, weight in state.model.named_parameters())


def test_too_many_consecutive_skipped_updates_stop_the_run(store: TokenStore) -> None:
    state = training(store, not_finite="skip")
    batch = next(state.batches.stream())[0]
    objective = with_bad_losses(Seq2SeqObjective(state.model, PAD, 0.1), set(range(1, 50)), float("nan"))
    for _ in range(9):
        train_step(state, objective, [batch], 0.01, RecordingListener())
    with pytest.raises(TrainingError, match="10 consecutive updates"):
        train_step(state, objective, [batch], 0.01, RecordingListener())


@pytest.mark.parametrize(
    "problem",
    [
        MemoryError(),
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"),
        RuntimeError("[enforce fail at alloc_cpu.cpp:118] DefaultCPUAllocator: can't allocate memory"),
    ],
    ids=lambda problem: type(problem).__name__,
)
def test_an_out_of_memory_error_names_the_batch(store: TokenStore, problem: Exception) -> None:
    state = training(store)
    batch = next(state.batches.stream())[0]

    def objective(batch):
        raise problem

    sentences, length = batch.rows, batch.source.max_length
    with pytest.raises(
        TrainingError,
        match=f"out of memory on {sentences} sentences of {length} source.*; lower train.batch_tokens \\(now 60\\)",
    ):
        train_step(state, objective, [batch], 0.01, RecordingListener())


def test_other_errors_are_not_reported_as_out_of_memory(store: TokenStore) -> None:
    def objective(batch):
        raise RuntimeError("shapes do not fit")

    with pytest.raises(RuntimeError, match="shapes do not fit"):
        train_step(
            training(store), objective, [next(training(store).batches.stream())[0]], 0.01, RecordingListener()
        )


def test_patience_ends_a_run_that_no_longer_improves(store: TokenStore) -> None:
    state = training(store, steps=100, validate_every=2, patience=3)
    notes = run_training(state)  # BLEU is the step modulo 8: 2 4 6 0 2 4 -> best at 6
    assert [best for _, best in notes.validations] == [True, True, True, False, False, False]
    assert state.step == 12


def test_epochs_end_with_the_corpus(store: TokenStore) -> None:
    state = training(store, steps=None, epochs=2)
    run_training(state)
    assert state.cursor.epoch == 2
    assert (state.cursor.pool, state.cursor.batch) == (0, 0)


def test_a_decaying_schedule_ends_with_the_budget(store: TokenStore) -> None:
    state = training(store, schedule="linear", steps=40, warmup=4)
    state.step = 39
    assert state.lr() == pytest.approx(0.0, abs=1e-3)
    state.step = 3
    assert state.lr() == pytest.approx(0.01, rel=0.1)


def test_the_exponential_average_is_the_formula(store: TokenStore) -> None:
    state = training(store, ema_decay=0.5)
    objective = Seq2SeqObjective(state.model, PAD, 0.1)
    expected = clone_weights(state.model)
    for number, (batch, _) in enumerate(islice(state.batches.stream(), 4), start=1):
        train_step(state, objective, [batch], 0.01, RecordingListener())
        decay = min(0.5, (1 + number) / (10 + number))
        expected = {
            name: decay * old + (1 - decay) * new
            for (name, old), new in zip(expected.items(), state.model.parameters(), strict=True)
        }
    assert all(
        torch.allclose(expected[name], weight, atol=1e-6) for name, weight in state.average.weights().items()
    )


def test_r_drop_adds_nothing_without_dropout(store: TokenStore) -> None:
    state = training(store, dropout=0.0)
    batch = next(state.batches.stream())[0]
    state.model.train()
    without = Seq2SeqObjective(state.model, PAD, 0.1)(batch).detach()
    # Without dropout both passes agree, so the divergence adds nothing.
    assert float(Seq2SeqObjective(state.model, PAD, 0.1, r_drop=5.0)(batch).detach()) == pytest.approx(
        float(without), rel=1e-5
    )


def test_the_loss_falls(store: TokenStore) -> None:
    state = training(store, dropout=0.0, steps=250, lr=0.01, warmup=20, validate_every=250)
    notes = run_training(state)
    assert notes.steps[-1][1] < notes.steps[0][1] / 2
