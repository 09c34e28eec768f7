"""What every training depends on: its budget, its steps, what it keeps and what it tells."""

from dataclasses import dataclass
from typing import Literal

from regard.config.schema import Count, NotNegative, Positive, Share, Whole, defaults


@dataclass(frozen=True)
class TrainConfig:
    """How a model learns, whatever it learns."""

    minutes: Positive | None = None
    steps: Count | None = None
    epochs: Count | None = None
    """The budget: training ends when the first of these is used up."""
    seed: Whole = 1
    batch_tokens: Count = 4096
    """Tokens a batch on the longer side, padding counted; of images patches, in diffusion pixels."""
    batch_sentences: Whole = 0
    """Sentences a batch instead; 0 means that batch_tokens decides."""
    grad_accum: Count = 1
    """Batches whose gradients are added up before an update."""
    optimizer: Literal["adam", "adamw", "muon", "lion"] = "adam"
    """lion (Chen et al. 2023): take a rate 3 to 10 times lower than AdamW's, and a weight decay as many times
    larger; beta2 = 0.99; it has no epsilon."""
    beta1: Share = 0.9
    beta2: Share = 0.98
    epsilon: Positive = 1e-9
    weight_decay: NotNegative = 0.0
    schedule: Literal["noam", "inverse-sqrt", "cosine", "linear", "constant"] = "inverse-sqrt"
    lr: Positive = 0.001
    """The highest rate; with the noam schedule, the factor."""
    warmup: Whole = 1000
    lr_by: Literal["updates", "batches"] = "updates"
    """What the schedule counts; they differ where gradients are accumulated."""
    clip: NotNegative = 1.0
    """The largest norm of the gradient; 0 means any."""
    average: Literal["none", "exponential", "last"] = "exponential"
    decay: Share = 0.999
    """Exponential average: how much of the old stays at each step."""
    average_last: Count = 5
    """Average of the last so many validations' weights."""
    validate_every: Whole = 0
    """Steps between validations; 0 means once an epoch."""
    checkpoint_every: Whole = 0
    """Steps between checkpoints; 0 means at each validation."""
    keep: Count = 2
    """Checkpoints kept."""
    patience: Whole = 0
    """Validations without a better score before training ends; 0 means never."""
    best_by: str = "loss"
    """The score of a validation that says which weights are kept."""
    not_finite: Literal["stop", "skip"] = "stop"
    """What to do when a loss or a gradient is not finite: end the training, or leave the batch out."""
    unwritable: Literal["stop", "go-on"] = "stop"
    """What to do when a checkpoint cannot be written: end the training, or go on without it."""
    device: str = "auto"
    """Where to compute: auto takes the accelerator if there is one; or cpu, cuda, cuda:1, mps, ..."""
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    """Numbers in matrix products; auto: bfloat16 on an accelerator that has it, float32 otherwise."""
    log_every: Count = 50
    log_style: Literal["short", "report"] = "short"
    """Log lines as regard writes them, or in the wording of the report on re-implementing the paper."""
    shard: bool = False
    """For a model that does not fit: under torchrun each process holds a part of weights and optimizer."""
    tensorboard: bool = False
    """Write the same numbers for TensorBoard, into the run folder."""

    def __post_init__(self) -> None:
        if self.minutes is None and self.steps is None and self.epochs is None:
            raise ValueError("minutes: a budget is missing; give minutes, steps or epochs")
        if self.schedule == "noam" and not self.warmup:
            raise ValueError("warmup: the noam schedule rises over at least 1 step, not 0")


@dataclass(frozen=True)
class SmoothedTrainConfig(TrainConfig):
    """How a model learns to predict labels or tokens by cross-entropy."""

    smoothing: Share = 0.0
    """Label smoothing: share of the target probability that is spread over the wrong labels."""


@dataclass(frozen=True)
@defaults(
    batch_tokens=2048,
    optimizer="adamw",
    beta2=0.999,
    epsilon=1e-8,
    weight_decay=0.01,
    schedule="linear",
    lr=5e-5,
    warmup=50,
    average="none",
)
class TextTrainConfig(SmoothedTrainConfig):
    """How a BERT learns a task; the defaults are those of fine-tuning."""

    best_by: Literal["accuracy", "f1", "exact", "loss"] = "loss"
