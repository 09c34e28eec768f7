"""The loop: accumulation equals a large batch, runs repeat to the bit, resumed ones too, averages are averages."""

from itertools import islice
from pathlib import Path

import pytest
import torch

from regard.config import TrainSettings, TransformerModel
from regard.data.batches import Batches
from regard.data.store import TokenStore, open_or_build
from regard.errors import RegardError
from regard.models.transformer import Transformer
from regard.training import checkpoint
from regard.training.average import copy_of
from regard.training.loop import Training, one_update, run
from regard.training.objective import PairObjective

PAD = 2


def encode(texts: list[str]) -> list[list[int]]:
    return [[4 + ord(letter) - ord("a") for letter in text] for text in texts]


@pytest.fixture
def store(tmp_path: Path) -> TokenStore:
    chance = torch.Generator().manual_seed(0)
    words = [
        "".join(chr(97 + int(c)) for c in torch.randint(0, 20, (int(n),), generator=chance))
        for n in torch.randint(2, 9, (120,), generator=chance)
    ]
    return open_or_build(tmp_path / "store", lambda: [(word, word[::-1]) for word in words], encode, encode)


def training(store: TokenStore, dropout: float = 0.1, resample=None, **settings) -> Training:
    torch.manual_seed(1)
    model = Transformer(
        TransformerModel(encoder_layers=1, decoder_layers=1, d_model=16, heads=2, d_ff=32, dropout=dropout),
        30,
        30,
        PAD,
    )
    train = TrainSettings(
        **{
            "steps": 12,
            "batch_tokens": 60,
            "warmup": 4,
            "rate": 0.01,
            "validate_every": 4,
            "log_every": 1,
            **settings,
        }
    )
    batches = Batches(
        store,
        tokens=train.batch_tokens,
        sentences=train.batch_sentences,
        seed=train.seed,
        pool=50,
        resample=resample,
    )
    return Training(model, train, batches, 16)


class Notes:
    def __init__(self) -> None:
        self.steps: list[tuple[int, float]] = []
        self.checks: list[tuple[int, bool]] = []

    def progress(self, progress) -> None:
        self.steps.append((progress.step, progress.loss))

    def validated(self, step, minutes, scores, best) -> None:
        self.checks.append((step, best))


def go(made: Training, folder: Path | None = None, r_drop: float = 0.0) -> Notes:
    notes = Notes()
    made.model.train()
    objective = PairObjective(made.model, PAD, 0.1, r_drop)

    def validate(model, step):
        batch = next(iter(made.batches.stream()))[0]
        with torch.no_grad():
            return {"loss": float(objective(batch)) / batch.tokens, "bleu": float(step % 8)}

    run(
        made, objective, validate, notes, keep_best=lambda: None,
        checkpoint=lambda: checkpoint.save(made, folder, made.settings.keep) if folder else None,
    )  # fmt: skip
    return notes


def same(one: Training, other: Training) -> bool:
    return all(torch.equal(a, b) for a, b in zip(one.model.parameters(), other.model.parameters(), strict=True))


def test_accumulating_four_batches_equals_one_large_batch(store: TokenStore) -> None:
    small = training(store, dropout=0.0, batch_sentences=5, accumulate=4)
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
        one_update(small, objectives[0], parts, whole.tokens, 0.001)
        one_update(large, objectives[1], [whole], whole.tokens, 0.001)
    gaps = [
        (a - b).abs().max().item()
        for a, b in zip(small.model.parameters(), large.model.parameters(), strict=True)
    ]
    assert max(gaps) < 1e-6


@pytest.mark.parametrize(
    "settings", [{}, {"average": "last"}, {"accumulate": 2}, {"optimiser": "adamw", "weight_decay": 0.1}]
)
def test_the_same_seed_gives_the_same_weights_to_the_bit(store: TokenStore, settings: dict) -> None:
    one = training(store, **settings)
    notes = go(one)
    other = training(store, **settings)
    assert notes.steps == go(other).steps
    assert same(one, other)
    assert [step for step, _ in notes.steps] == list(range(1, 13))
    third = training(store, seed=2, **settings)
    go(third)
    assert not same(one, third)


@pytest.mark.parametrize(
    ("settings", "r_drop"),
    [
        ({}, 0.0),
        ({"average": "last", "average_last": 2}, 0.0),
        ({"accumulate": 2}, 0.0),
        ({}, 1.0),
        ({"patience": 9}, 0.0),
    ],
)
def test_a_resumed_run_is_the_uninterrupted_one_to_the_bit(
    store: TokenStore, tmp_path: Path, settings: dict, r_drop: float
) -> None:
    whole = training(store, **settings)
    go(whole, r_drop=r_drop)
    first = training(store, **{**settings, "steps": 8})
    go(first, tmp_path / "checkpoints", r_drop)
    torch.manual_seed(77)  # whatever chance the new process begins with
    resumed = training(store, **settings)
    assert checkpoint.resume(resumed, tmp_path / "checkpoints")
    assert resumed.step == 8
    go(resumed, r_drop=r_drop)
    assert same(whole, resumed)
    assert all(torch.equal(a, resumed.average.weights()[name]) for name, a in whole.average.weights().items())
    assert (whole.cursor, whole.best, whole.stale) == (resumed.cursor, resumed.best, resumed.stale)


def test_checkpoints_are_kept_and_damage_is_named(store: TokenStore, tmp_path: Path) -> None:
    made = training(store, checkpoint_every=2, keep=3)
    go(made, tmp_path)
    assert checkpoint.steps_in(tmp_path) == [8, 10, 12]
    (tmp_path / "12" / "tensors.safetensors").write_bytes(b"torn")
    with pytest.raises(RegardError, match="12 is damaged"):
        checkpoint.resume(training(store), tmp_path)
    assert not checkpoint.resume(training(store), tmp_path / "nowhere")


def test_patience_ends_a_run_that_no_longer_improves(store: TokenStore) -> None:
    made = training(store, steps=100, validate_every=2, patience=3)
    notes = go(made)  # BLEU is the step modulo 8: 2 4 6 0 2 4 -> best at 6
    assert [best for _, best in notes.checks] == [True, True, True, False, False, False]
    assert made.step == 12


def test_epochs_end_where_the_corpus_does(store: TokenStore) -> None:
    made = training(store, steps=None, epochs=2)
    go(made)
    assert made.cursor.epoch == 2
    assert (made.cursor.pool, made.cursor.batch) == (0, 0)


def test_a_falling_schedule_reaches_its_end_with_the_budget(store: TokenStore) -> None:
    made = training(store, schedule="linear", steps=40, warmup=4)
    made.step = 39
    assert made.rate() == pytest.approx(0.0, abs=1e-3)
    made.step = 3
    assert made.rate() == pytest.approx(0.01, rel=0.1)


def test_the_exponential_average_is_the_formula(store: TokenStore) -> None:
    made = training(store, decay=0.5)
    objective = PairObjective(made.model, PAD, 0.1)
    expected = copy_of(made.model)
    for number, (batch, _) in enumerate(islice(made.batches.stream(), 4), start=1):
        one_update(made, objective, [batch], batch.tokens, 0.01)
        decay = min(0.5, (1 + number) / (10 + number))
        expected = {
            name: decay * old + (1 - decay) * new
            for (name, old), new in zip(expected.items(), made.model.parameters(), strict=True)
        }
    assert all(torch.allclose(expected[name], each, atol=1e-6) for name, each in made.average.weights().items())


def test_r_drop_is_the_formula(store: TokenStore) -> None:
    made = training(store, dropout=0.0)
    batch = next(made.batches.stream())[0]
    made.model.train()
    without = PairObjective(made.model, PAD, 0.1)(batch)
    # Without dropout both passes agree, so the divergence adds nothing.
    assert float(PairObjective(made.model, PAD, 0.1, r_drop=5.0)(batch)) == pytest.approx(
        float(without), rel=1e-5
    )
    objective = PairObjective(made.model, PAD, 0.1, r_drop=1.0)
    one, other = torch.randn(3, 16), torch.randn(3, 16)
    weight, bias = made.model.output
    p, q = ((each @ weight.T + bias).softmax(-1) for each in (one, other))
    expected = ((p * (p / q).log()).sum() + (q * (q / p).log()).sum()) / 2
    assert float(objective.disagreement(one, other)) == pytest.approx(float(expected), rel=1e-4)


def test_it_learns(store: TokenStore) -> None:
    made = training(store, dropout=0.0, steps=250, rate=0.01, warmup=20, validate_every=250)
    notes = go(made)
    assert notes.steps[-1][1] < notes.steps[0][1] / 2
