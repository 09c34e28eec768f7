"""The training section: budget, batches, optimizer, schedule, averaging, checkpoints and logging."""

from dataclasses import dataclass
from typing import Literal

from regard.config.schema import Count, NotNegative, Positive, Share, Whole, defaults


@dataclass(frozen=True)
class TrainConfig:
    """Training settings that all tasks share."""

    minutes: Positive | None = None
    """Budget in minutes; training ends at the first of `minutes`, `steps` and `epochs`."""
    steps: Count | None = None
    """Budget in optimizer updates."""
    epochs: Count | None = None
    """Budget in passes over the training data."""
    seed: Whole = 1
    """Random seed of initialisation, shuffling, dropout and augmentation."""
    batch_tokens: Count = 4096
    """Tokens per batch on the longer side, padding included; for images patches, for diffusion pixels."""
    batch_sentences: Whole = 0
    """Examples per batch; 0: `batch_tokens` decides."""
    grad_accum: Count = 1
    """Gradient accumulation: batches per optimizer update."""
    optimizer: Literal["adam", "adamw", "muon", "lion"] = "adam"
    """lion (Chen et al. 2023): use a learning rate 3 to 10 times lower than AdamW's, a weight decay larger by
    the same factor, and beta2 = 0.99; it has no epsilon."""
    beta1: Share = 0.9
    """Decay rate of the first moment."""
    beta2: Share = 0.98
    """Decay rate of the second moment."""
    epsilon: Positive = 1e-9
    """Added to the denominator of Adam's update."""
    weight_decay: NotNegative = 0.0
    """Weight decay; norms, biases and embeddings have none."""
    schedule: Literal["noam", "inverse-sqrt", "cosine", "linear", "constant"] = "inverse-sqrt"
    """Learning rate schedule after the warm-up."""
    lr: Positive = 0.001
    """Peak learning rate; with the noam schedule, its factor."""
    warmup: Whole = 1000
    """Steps of linear learning rate warm-up."""
    lr_by: Literal["updates", "batches"] = "updates"
    """What the schedule counts; they differ with gradient accumulation."""
    clip_norm: NotNegative = 1.0
    """Gradient clipping: maximum norm; 0: no clipping."""
    averaging: Literal["none", "exponential", "last"] = "exponential"
    """Weight averaging: exponential moving average (EMA), or the mean over the last validations."""
    ema_decay: Share = 0.999
    """EMA decay per update."""
    average_last: Count = 5
    """`averaging = "last"`: number of validations whose weights are averaged."""
    validate_every: Whole = 0
    """Updates between validations; 0: once per epoch."""
    checkpoint_every: Whole = 0
    """Updates between checkpoints; 0: at every validation."""
    keep_checkpoints: Count = 2
    """Number of most recent checkpoints to keep."""
    patience: Whole = 0
    """Early stopping: validations without improvement before training ends; 0: off."""
    best_by: str = "loss"
    """Validation metric that selects the best weights."""
    not_finite: Literal["stop", "skip"] = "stop"
    """On a non-finite loss or gradient: end training, or skip the batch."""
    unwritable: Literal["stop", "go-on"] = "stop"
    """If a checkpoint cannot be written: end training, or continue without it."""
    device: str = "auto"
    """auto (an accelerator if present), cpu, cuda, cuda:1, mps, ..."""
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    """Data type of matrix products; auto: bfloat16 on accelerators that support it, else float32."""
    log_every: Count = 50
    """Updates between log lines."""
    log_style: Literal["short", "report"] = "short"
    """Format of log lines: regard's own, or that of the report on re-implementing the paper."""
    shard: bool = False
    """Under torchrun, shard weights and optimizer state over the processes (FSDP)."""
    tensorboard: bool = False
    """Also write metrics for TensorBoard into the run folder."""

    def __post_init__(self) -> None:
        if self.minutes is None and self.steps is None and self.epochs is None:
            raise ValueError("minutes: a budget is missing; give minutes, steps or epochs")
        if self.schedule == "noam" and not self.warmup:
            raise ValueError("warmup: the noam schedule rises over at least 1 step, not 0")


@dataclass(frozen=True)
class SmoothedTrainConfig(TrainConfig):
    """Training with a cross-entropy loss over labels or tokens."""

    smoothing: Share = 0.0
    """Label smoothing: probability mass spread over the other labels."""


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
    averaging="none",
)
class TextTrainConfig(SmoothedTrainConfig):
    """Training of a BERT; the defaults suit fine-tuning."""

    best_by: Literal["accuracy", "f1", "exact", "loss"] = "loss"
