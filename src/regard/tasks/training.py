"""Any training as a story: a folder is taken, the task prepared, the loop run, the best weights measured."""

from collections.abc import Callable
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
from regard.tasks.signals import asked_to_stop
from regard.training import checkpoint
from regard.training.devices import choose_device, choose_precision
from regard.training.distributed import World, is_restart, process_group
from regard.training.loop import training_loop
from regard.training.process import training_process
from regard.training.sharding import is_sharded, local_tensor, shard
from regard.training.state import Batches, Objective, Training, Validate
from regard.training.update import seed_generators

Result = TypeVar("Result", covariant=True)


class Task(Protocol[Result]):
    """What a task brings to its training; asked in this order."""

    @property
    def recipe(self) -> Recipe: ...

    @property
    def settings(self) -> TrainConfig: ...

    @property
    def width(self) -> int:
        """Size of a token's vector, which the noam schedule asks for."""

    def prepare(self, folder: RunFolder, listener: ProgressListener, world: World) -> nn.Module:
        """Read the data and the vocabulary, and give the model to train, with the weights it starts from."""

    def batches(self, world: World) -> Batches: ...

    def objective(self, model: nn.Module, precision: torch.dtype) -> Objective: ...

    def validation(self, logger: MetricsLogger) -> Validate: ...

    def finish(self, folder: RunFolder, model: nn.Module, training: Training) -> Result:
        """Measure the best weights, which the model has, and complete the folder."""


def train(
    task: Task[Result], out: Path, listener: ProgressListener | None = None, *, resume: bool = False
) -> Result | None:
    """Train into the folder `out` and measure; with `resume`, go on from its checkpoint.

    Under torchrun the first process writes and measures; the others return nothing.
    """
    choose_device(task.settings.device)  # refused before a folder is made
    with process_group(task.settings.device) as world, training_process():
        resume = resume or (is_restart() and (out / "recipe.toml").is_file())
        listener = listener if listener and world.is_first else NullListener()
        if not world.is_first:
            world.barrier()
            return train_into(RunFolder(out), task, listener, resume=resume, world=world)
        folder = RunFolder.to_resume(out, task.recipe) if resume else RunFolder.create(out)
        with folder.alone():
            return train_into(folder, task, listener, resume=resume, world=world)


def train_into(
    folder: RunFolder, task: Task[Result], listener: ProgressListener, *, resume: bool, world: World
) -> Result | None:
    """`train` in a folder that no other training writes into."""
    settings = task.settings
    device = choose_device(settings.device)
    seed_generators(device, settings.seed)
    model = task.prepare(folder, listener, world)
    told = f"model: {count_parameters(model):,} parameters on {device}"
    if settings.shard and world.size == 1:
        listener.log("train.shard: this process is alone and holds all; torchrun starts several")
    kept = shard(model, world, device) if settings.shard and world.size > 1 else None
    here = sum(local_tensor(each).numel() for each in model.parameters())
    listener.log(told + (f", {here:,} of them in this process" if is_sharded(model) else ""))
    model.to(device)
    training = Training(model, settings, task.batches(world), task.width, world=world, full_model=kept)
    checkpoints = Checkpoints(training, folder, listener)
    if resume and not checkpoint.resume(training, checkpoints.place, listener.log):
        listener.log("there is no checkpoint yet; training begins from the start")
    logger = MetricsLogger(folder.path, listener, settings, training.step) if world.is_first else NullLogger()
    precision = choose_precision(settings.precision, device, listener.log)
    model.train()
    training.engine = (
        describe_training(model)
        if precision == torch.float32
        else f"PyTorch (train.precision is {str(precision).removeprefix('torch.')})"
    )
    listener.log(f"engine: {training.engine}")
    with asked_to_stop() as asked:
        training_loop(
            training,
            task.objective(model, precision),
            task.validation(logger),
            logger,
            keep_best=checkpoints.keep_best,
            checkpoint=checkpoints.save,
            stop_signal=asked,
        )
    if not world.is_first:
        return None
    best = kept or model
    folder.load_weights(best)
    best.eval()
    return task.finish(folder, best, training)


class Checkpoints:
    """Writes what a training must not lose; what cannot be written ends it, or is told, as set."""

    def __init__(self, training: Training, folder: RunFolder, listener: ProgressListener) -> None:
        self.training, self.folder, self.listener = training, folder, listener
        self.place = folder.path / "checkpoints"

    def save(self) -> None:
        self.attempt(lambda: checkpoint.save(self.training, self.place, self.training.settings.keep))

    def keep_best(self, model: nn.Module) -> None:
        self.attempt(lambda: self.folder.write_weights(model))

    def attempt(self, write: Callable[[], object]) -> None:
        try:
            write()
        except DiskError as problem:
            steps = checkpoint.saved_steps(self.place)
            kept = f"the checkpoint of step {steps[-1]} is kept" if steps else "there is no checkpoint yet"
            if self.training.settings.unwritable == "stop":
                raise DiskError(f"{problem}; {kept}") from None
            self.listener.log(f"{problem}; {kept}, training goes on")


def count_parameters(model: nn.Module) -> int:
    return sum(each.numel() for each in model.parameters())
