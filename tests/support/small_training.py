"""A training run of about a second on words of letters."""

from pathlib import Path

import torch

from regard.config.models import TransformerConfig
from regard.data.batches import Batches
from regard.data.token_store import TokenStore
from regard.nn.transformer import Transformer
from regard.tasks.translation.config import TranslationTrainConfig
from regard.training import checkpoint
from regard.training.loop import training_loop
from regard.training.objectives import Seq2SeqObjective
from regard.training.state import Training

PAD = 2


def encode(texts: list[str]) -> list[list[int]]:
    return [[4 + ord(letter) - ord("a") for letter in text] for text in texts]


def training(store: TokenStore, dropout: float = 0.1, resample=None, **settings) -> Training:
    torch.manual_seed(1)
    model = Transformer(
        TransformerConfig(encoder_layers=1, decoder_layers=1, d_model=16, heads=2, d_ff=32, dropout=dropout),
        30,
        30,
        PAD,
    )
    train = TranslationTrainConfig(
        **{
            "steps": 12,
            "batch_tokens": 60,
            "warmup": 4,
            "lr": 0.01,
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


class RecordingListener:
    """Records the progress of a training run."""

    def __init__(self) -> None:
        self.steps: list[tuple[int, float]] = []
        self.validations: list[tuple[int, bool]] = []
        self.skipped_steps: list[tuple[int, str]] = []

    def stepped(self, training, lr) -> None:
        pass

    def progress(self, progress) -> None:
        self.steps.append((progress.step, progress.loss))

    def validated(self, step, minutes, scores, best) -> None:
        self.validations.append((step, best))

    def skipped(self, step, reason) -> None:
        self.skipped_steps.append((step, reason))


def run_training(
    training: Training,
    folder: Path | None = None,
    r_drop: float = 0.0,
    stop=lambda: None,
    listener: RecordingListener | None = None,
) -> RecordingListener:
    notes = listener or RecordingListener()
    training.model.train()
    objective = Seq2SeqObjective(training.model, PAD, 0.1, r_drop)

    def validate(model, step):
        batch = next(iter(training.batches.stream()))[0]
        with torch.no_grad():
            return {"loss": float(objective(batch)) / batch.tokens, "bleu": float(step % 8)}

    training_loop(
        training, objective, validate, notes, keep_best=lambda model: None,
        checkpoint=lambda: checkpoint.save(training, folder, training.settings.keep_checkpoints) if folder else None, stop_signal=stop,
    )  # fmt: skip
    return notes


def same_weights(first: Training, second: Training) -> bool:
    return all(
        torch.equal(a, b) for a, b in zip(first.model.parameters(), second.model.parameters(), strict=True)
    )
