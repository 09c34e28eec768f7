"""Tasks: each folder declares one `TaskSpec`; `train` trains a recipe into a run folder, `load` opens one."""

from pathlib import Path
from typing import TYPE_CHECKING

from regard.errors import RegardError
from regard.tasks.registry import load_recipe, spec_of
from regard.tasks.run_folder import RunFolder
from regard.training.distributed import world_size
from regard.training.process import preserved_rng

if TYPE_CHECKING:
    from collections.abc import Mapping

    from regard.tasks.loaded_model import LoadedModel
    from regard.tasks.metrics_log import ProgressListener
    from regard.tasks.results import TrainedRun


def train(
    recipe: str | Path,
    out: str | Path | None = None,
    *,
    overrides: "Mapping[str, object] | None" = None,
    resume: bool = False,
    listener: "ProgressListener | None" = None,
) -> "TrainedRun | None":
    """Train a recipe into a run folder: `train("kernel", overrides={"train.steps": 50})`.

    Random states, allocator, flags and signal handlers of the process are restored at the end.

    Args:
        recipe: The name of a shipped recipe, or the path of a TOML file.
        out: The run folder to make; default: `runs/` and the recipe's name.
        overrides: Values that replace the recipe's, by key.
        resume: Continue from the checkpoint in `out`.
        listener: Receives the progress.

    Returns:
        The result of the run; None in all processes but the first under torchrun.

    Raises:
        RecipeError: A key or value of the recipe is not allowed.
        RegardError: The run cannot start or resume.
    """
    recipe = str(recipe)
    resolved = load_recipe(recipe, overrides)
    if resume and out is None:
        raise RegardError("to resume a run, name its folder with --out")
    if out is None and world_size() > 1:
        raise RegardError("several processes train together; name their run folder with --out")
    folder = Path(out) if out is not None else free_folder(recipe)
    run: TrainedRun | None = spec_of(resolved).train(resolved, folder, listener, resume=resume)
    return run


@preserved_rng()  # a model is built with random weights before those of the run are loaded
def load(run: str | Path, *others: str | Path) -> "LoadedModel":
    """Open a run folder; nothing outside the folder is needed.

    Args:
        run: The run folder.
        others: Further translation runs, which translate together with the first as an ensemble.

    Raises:
        RegardError: The folder holds no finished run, or it is damaged.
    """
    folder = RunFolder.open(Path(run))
    recipe = folder.read_recipe()
    spec = spec_of(recipe)
    loaded: LoadedModel = spec.load_ensemble(folder, recipe, others) if others else spec.load(folder, recipe)
    return loaded


def free_folder(recipe: str) -> Path:
    """runs/NAME, or the first of runs/NAME-2, runs/NAME-3 ... that does not hold a run yet."""
    name = Path(recipe).stem
    candidate, number = Path("runs") / name, 2
    while (candidate / "recipe.toml").exists():
        candidate, number = Path("runs") / f"{name}-{number}", number + 1
    return candidate
