"""A training run of any task: lock the folder, prepare the task, run the loop, measure the best weights."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Protocol, TypeVar

import torch
from torch import nn

from regard.config.recipes import Recipe
from regard.config.training import TrainConfig
from regard.engine.plan import describe_training
from regard.errors import DiskError
from regard.tasks.metrics_log import MetricsLogger, NullListener, NullLogger, ProgressListener
from regard.tasks.run_folder import RunFolder
from regard.tasks.signals import stop_on_signals
from regard.training import checkpoint
from regard.training.devices import choose_device, choose_precision
from regard.training.distributed import World, is_restart, process_group, world_size
from regard.training.loop import training_loop
from regard.training.process import training_process
from regard.training.sharding import is_sharded, local_tensor, shard
from regard.training.state import Batches, Objective, Training, Validate
from regard.training.update import seed_generators

Result = TypeVar("Result", covariant=True)


class TrainingTask(Protocol[Result]):
    """What a task provides for its training; the methods are called in this order."""

    @property
    def recipe(self) -> Recipe: ...

    @property
    def settings(self) -> TrainConfig: ...

    @property
    def width(self) -> int:
        """Size of a token's vector, for the noam schedule."""

    def prepare(self, folder: RunFolder, listener: ProgressListener, world: World) -> nn.Module:
        """Read the data, make the vocabulary, and return the model with its initial weights."""

    def batches(self, world: World) -> Batches: ...

    def objective(self, model: nn.Module, precision: torch.dtype) -> Objective: ...

    def validation(self, logger: MetricsLogger) -> Validate: ...

    def finish(
        self, folder: RunFolder, model: nn.Module, training: Training, listener: ProgressListener
    ) -> Result:
        """Measure the model, which has the best weights, and complete the folder."""


def train(
    task: TrainingTask[Result], out: Path, listener: ProgressListener | None = None, *, resume: bool = False
) -> Result | None:
    """Train into a folder and measure.

    Args:
        task: The task.
        out: The run folder.
        listener: Receives the progress.
        resume: Continue from the checkpoint in `out`.

    Returns:
        The task's result. Under torchrun only the first process writes and measures; the others return None.
    """
    choose_device(task.settings.device)  # refused before a folder is made
    with process_group(task.settings.device) as world, training_process():
        resume = resume or (is_restart() and (out / "recipe.toml").is_file())
        listener = listener if listener and world.is_first else NullListener()
        if not world.is_first:
            world.barrier()
            return train_into(RunFolder(out), task, listener, resume=resume, world=world)
        folder = RunFolder.to_resume(out, task.recipe) if resume else RunFolder.create(out)
        with folder.locked():
            return train_into(folder, task, listener, resume=resume, world=world)


def reading_phase(listener: ProgressListener | None) -> AbstractContextManager[object]:
    """The phase of reading data before `train`; several processes do not know yet which of them logs."""
    return listener.phase("reading") if listener and world_size() == 1 else nullcontext()


def train_into(
    folder: RunFolder, task: TrainingTask[Result], listener: ProgressListener, *, resume: bool, world: World
) -> Result | None:
    """`train` in a locked folder."""
    settings = task.settings
    device = choose_device(settings.device)
    seed_generators(device, settings.seed)
    model = task.prepare(folder, listener, world)
    size = f"model: {count_parameters(model):,} parameters on {device}"
    if settings.shard and world.size == 1:
        listener.log("train.shard has no effect with one process; torchrun starts several")
    kept = shard(model, world, device) if settings.shard and world.size > 1 else None
    own_parameters = sum(local_tensor(parameter).numel() for parameter in model.parameters())
    listener.log(size + (f", {own_parameters:,} of them in this process" if is_sharded(model) else ""))
    model.to(device)
    training = Training(model, settings, task.batches(world), task.width, world=world, full_model=kept)
    checkpoints = Checkpoints(training, folder, listener)
    if resume and not checkpoint.resume(training, checkpoints.path, listener.log):
        listener.log("there is no checkpoint yet; training starts from the beginning")
    precision = choose_precision(settings.precision, device, listener.log)
    model.train()
    training.engine = (
        describe_training(model)
        if precision == torch.float32
        else f"PyTorch (train.precision is {str(precision).removeprefix('torch.')})"
    )
    listener.log(f"engine: {training.engine}")
    with stop_on_signals() as stop_request:
        logger = (
            MetricsLogger(folder.path, listener, settings, training.step) if world.is_first else NullLogger()
        )
        with logger.training_phase():
            training_loop(
                training,
                task.objective(model, precision),
                task.validation(logger),
                logger,
                keep_best=checkpoints.keep_best,
                checkpoint=checkpoints.save,
                stop_signal=stop_request,
            )
    if not world.is_first:
        return None
    best = kept or model
    folder.load_weights(best)
    best.eval()
    with listener.phase("saving", announce=False):  # shown after the phases of the test
        return task.finish(folder, best, training, listener)


class Checkpoints:
    """Writes checkpoints and the best weights; `train.unwritable` says what a write error does."""

    def __init__(self, training: Training, folder: RunFolder, listener: ProgressListener) -> None:
        self.training, self.folder, self.listener = training, folder, listener
        self.path = folder.path / "checkpoints"

    def save(self) -> None:
        self.attempt(lambda: checkpoint.save(self.training, self.path, self.training.settings.keep_checkpoints))

    def keep_best(self, model: nn.Module) -> None:
        self.attempt(lambda: self.folder.write_weights(model))

    def attempt(self, write: Callable[[], object]) -> None:
        try:
            write()
        except DiskError as problem:
            steps = checkpoint.saved_steps(self.path)
            kept = f"the checkpoint of step {steps[-1]} is kept" if steps else "there is no checkpoint yet"
            if self.training.settings.unwritable == "stop":
                raise DiskError(f"{problem}; {kept}") from None
            self.listener.log(f"{problem}; {kept}, training continues")


def count_parameters(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())
