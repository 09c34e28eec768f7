"""The loop: accumulation equals a large batch, runs repeat to the bit, resumed ones too, averages are averages."""

import itertools
import signal
from itertools import islice
from pathlib import Path

import pytest
import torch
from support.small_training import PAD, RecordingListener, run_training, same_weights, training

from regard.data.batches import Batches
from regard.data.store import TokenStore
from regard.errors import Stopped, TrainingError
from regard.training import checkpoint
from regard.training.ema import copy_of
from regard.training.objective import PairObjective
from regard.training.update import one_update


def test_accumulating_four_batches_equals_one_large_batch(store: TokenStore) -> None:
    small = training(store, dropout=0.0, batch_sentences=5, grad_accum=4)
    large = training(store, dropout=0.0, batch_sentences=20)
    objectives = [PairObjective(each.model, PAD, 0.1) for each in (small, large)]
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
        one_update(small, objectives[0], parts, 0.001, RecordingListener())
        one_update(large, objectives[1], [whole], 0.001, RecordingListener())
    gaps = [
        (a - b).abs().max().item()
        for a, b in zip(small.model.parameters(), large.model.parameters(), strict=True)
    ]
    assert max(gaps) < 1e-6


@pytest.mark.parametrize(
    "settings", [{}, {"average": "last"}, {"grad_accum": 2}, {"optimizer": "adamw", "weight_decay": 0.1}]
)
def test_the_same_seed_gives_the_same_weights_to_the_bit(store: TokenStore, settings: dict) -> None:
    one = training(store, **settings)
    notes = run_training(one)
    other = training(store, **settings)
    assert notes.steps == run_training(other).steps
    assert same_weights(one, other)
    assert [step for step, _ in notes.steps] == list(range(1, 13))
    third = training(store, seed=2, **settings)
    run_training(third)
    assert not same_weights(one, third)


@pytest.mark.parametrize(
    ("settings", "r_drop"),
    [
        ({}, 0.0),
        ({"average": "last", "average_last": 2}, 0.0),
        ({"grad_accum": 2}, 0.0),
        ({}, 1.0),
        ({"patience": 9}, 0.0),
        ({"optimizer": "lion", "lr": 0.002, "weight_decay": 0.1}, 0.0),
    ],
)
def test_a_resumed_run_is_the_uninterrupted_one_to_the_bit(
    store: TokenStore, tmp_path: Path, settings: dict, r_drop: float
) -> None:
    whole = training(store, **settings)
    run_training(whole, r_drop=r_drop)
    first = training(store, **{**settings, "steps": 8})
    run_training(first, tmp_path / "checkpoints", r_drop)
    torch.manual_seed(77)  # whatever chance the new process begins with
    resumed = training(store, **settings)
    assert checkpoint.resume(resumed, tmp_path / "checkpoints", pytest.fail)
    assert resumed.step == 8
    run_training(resumed, r_drop=r_drop)
    assert same_weights(whole, resumed)
    assert all(torch.equal(a, resumed.average.weights()[name]) for name, a in whole.average.weights().items())
    assert (whole.cursor, whole.best, whole.stale) == (resumed.cursor, resumed.best, resumed.stale)


def test_the_newest_checkpoints_are_kept(store: TokenStore, tmp_path: Path) -> None:
    made = training(store, checkpoint_every=2, keep=3)
    run_training(made, tmp_path)
    assert checkpoint.steps_in(tmp_path) == [8, 10, 12]
    assert not checkpoint.resume(training(store), tmp_path / "nowhere", pytest.fail)


def test_a_row_begun_before_an_interruption_is_finished_after_it(store: TokenStore, tmp_path: Path) -> None:
    whole = run_training(training(store, log_every=5))
    first = training(store, log_every=5, steps=12)
    with pytest.raises(Stopped):
        run_training(first, tmp_path, stop=lambda: signal.SIGTERM if first.step == 7 else None)
    resumed = training(store, log_every=5)
    assert checkpoint.resume(resumed, tmp_path, pytest.fail)
    assert run_training(resumed).steps == [row for row in whole.steps if row[0] > 7]


def test_a_stop_that_is_asked_for_saves_first(store: TokenStore, tmp_path: Path) -> None:
    made = training(store)
    with pytest.raises(Stopped, match="stopped after step 3, and saved; go on with --resume") as stopped:
        run_training(made, tmp_path, stop=lambda: signal.SIGTERM if made.step == 3 else None)
    assert stopped.value.code == 143
    assert checkpoint.steps_in(tmp_path) == [3]


def poisoned(objective: PairObjective, bad: set[int], value: float):
    """The objective with a loss that is not finite at some of its calls."""
    calls = itertools.count(1)
    return lambda batch: objective(batch) * (value if next(calls) in bad else 1.0)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_batch_without_a_finite_loss_is_named_and_left_out(store: TokenStore, value: float) -> None:
    made, clean = training(store, dropout=0.0, not_finite="skip"), training(store, dropout=0.0)
    notes = RecordingListener()
    batches = [batch for batch, _ in islice(made.batches.stream(), 3)]
    objective = poisoned(PairObjective(made.model, PAD, 0.1), {2}, value)
    for batch in batches:
        one_update(made, objective, [batch], 0.01, notes)
    plain = PairObjective(clean.model, PAD, 0.1)
    for batch in (batches[0], batches[2]):
        one_update(clean, plain, [batch], 0.01, notes)
    assert same_weights(made, clean)  # as if the batch had never been
    [(_, why)] = notes.skipped_steps
    assert f"the batch holds the pairs {batches[1].sentences[0]}, {batches[1].sentences[1]}" in why
    assert made.skipped == 0


def test_a_run_is_stopped_by_a_loss_that_is_not_finite(store: TokenStore) -> None:
    made = training(store)
    before = copy_of(made.model)
    batch = next(made.batches.stream())[0]
    objective = poisoned(PairObjective(made.model, PAD, 0.1), {1}, float("nan"))
    with pytest.raises(TrainingError, match=r"step 1: the loss is nan, .* train.not_finite = .skip."):
        one_update(made, objective, [batch], 0.01, RecordingListener())
    assert all(torch.equal(before[name], each) for name, each in made.model.named_parameters())


def test_too_many_in_a_row_stop_it_all_the_same(store: TokenStore) -> None:
    made = training(store, not_finite="skip")
    batch = next(made.batches.stream())[0]
    objective = poisoned(PairObjective(made.model, PAD, 0.1), set(range(1, 50)), float("nan"))
    for _ in range(9):
        one_update(made, objective, [batch], 0.01, RecordingListener())
    with pytest.raises(TrainingError, match="10 updates in a row"):
        one_update(made, objective, [batch], 0.01, RecordingListener())


@pytest.mark.parametrize(
    "problem",
    [
        MemoryError(),
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"),
        RuntimeError("[enforce fail at alloc_cpu.cpp:118] DefaultCPUAllocator: can't allocate memory"),
    ],
    ids=lambda problem: type(problem).__name__,
)
def test_the_batch_that_memory_did_not_suffice_for_is_named(store: TokenStore, problem: Exception) -> None:
    made = training(store)
    batch = next(made.batches.stream())[0]

    def objective(batch):
        raise problem

    sentences, length = batch.rows, batch.source.max_length
    with pytest.raises(
        TrainingError,
        match=f"Out of memory on {sentences} sentences of {length} source.* Lower train.batch_tokens \\(now 60\\)",
    ):
        one_update(made, objective, [batch], 0.01, RecordingListener())


def test_another_error_is_not_taken_for_a_lack_of_memory(store: TokenStore) -> None:
    def objective(batch):
        raise RuntimeError("shapes do not fit")

    with pytest.raises(RuntimeError, match="shapes do not fit"):
        one_update(
            training(store), objective, [next(training(store).batches.stream())[0]], 0.01, RecordingListener()
        )


def test_patience_ends_a_run_that_no_longer_improves(store: TokenStore) -> None:
    made = training(store, steps=100, validate_every=2, patience=3)
    notes = run_training(made)  # BLEU is the step modulo 8: 2 4 6 0 2 4 -> best at 6
    assert [best for _, best in notes.validations] == [True, True, True, False, False, False]
    assert made.step == 12


def test_epochs_end_where_the_corpus_does(store: TokenStore) -> None:
    made = training(store, steps=None, epochs=2)
    run_training(made)
    assert made.cursor.epoch == 2
    assert (made.cursor.pool, made.cursor.batch) == (0, 0)


def test_a_falling_schedule_reaches_its_end_with_the_budget(store: TokenStore) -> None:
    made = training(store, schedule="linear", steps=40, warmup=4)
    made.step = 39
    assert made.lr() == pytest.approx(0.0, abs=1e-3)
    made.step = 3
    assert made.lr() == pytest.approx(0.01, rel=0.1)


def test_the_exponential_average_is_the_formula(store: TokenStore) -> None:
    made = training(store, decay=0.5)
    objective = PairObjective(made.model, PAD, 0.1)
    expected = copy_of(made.model)
    for number, (batch, _) in enumerate(islice(made.batches.stream(), 4), start=1):
        one_update(made, objective, [batch], 0.01, RecordingListener())
        decay = min(0.5, (1 + number) / (10 + number))
        expected = {
            name: decay * old + (1 - decay) * new
            for (name, old), new in zip(expected.items(), made.model.parameters(), strict=True)
        }
    assert all(torch.allclose(expected[name], each, atol=1e-6) for name, each in made.average.weights().items())


def test_r_drop_adds_nothing_without_dropout(store: TokenStore) -> None:
    made = training(store, dropout=0.0)
    batch = next(made.batches.stream())[0]
    made.model.train()
    without = PairObjective(made.model, PAD, 0.1)(batch).detach()
    # Without dropout both passes agree, so the divergence adds nothing.
    assert float(PairObjective(made.model, PAD, 0.1, r_drop=5.0)(batch).detach()) == pytest.approx(
        float(without), rel=1e-5
    )


def test_it_learns(store: TokenStore) -> None:
    made = training(store, dropout=0.0, steps=250, lr=0.01, warmup=20, validate_every=250)
    notes = run_training(made)
    assert notes.steps[-1][1] < notes.steps[0][1] / 2
