"""Whole stories: from a recipe to a run folder, and from a run folder to something that answers.

`train` and `load` are what `import regard` offers; each task has a file of its own.
"""

from collections.abc import Iterable
from pathlib import Path

from regard.config import KernelRecipe, TranslationRecipe, load_recipe
from regard.config.schema import toml_value
from regard.errors import RegardError
from regard.jobs import kernel, translation
from regard.jobs.folder import RunFolder
from regard.jobs.journal import Audience
from regard.jobs.kernel import KernelRun, LoadedKernel
from regard.jobs.loaded import LoadedTranslator
from regard.jobs.translation import TranslationRun
from regard.training.distributed import processes


def train(
    recipe: str,
    out: str | Path | None = None,
    assignments: Iterable[str] = (),
    *,
    resume: bool = False,
    audience: Audience | None = None,
    **overrides: object,
) -> KernelRun | TranslationRun | None:
    """Train a recipe, shipped or a TOML file, into a run folder.

    `train("kernel", out="runs/mine", assignments=["train.steps=50"])`; keyword overrides name a key with two
    underscores for each dot: `train__steps=50`. Under torchrun, all processes but the first return nothing.
    """
    given = [f"{key.replace('__', '.')}={toml_value(value)}" for key, value in overrides.items()]
    resolved = load_recipe(recipe, [*assignments, *given])
    if resume and out is None:
        raise RegardError("to resume, name the run folder with --out")
    if out is None and processes() > 1:
        raise RegardError("several processes train together: name their run folder with --out")
    folder = Path(out) if out is not None else free_folder(recipe)
    match resolved:
        case KernelRecipe():
            if resume:
                raise RegardError("kernel regression takes a second; there is nothing to resume")
            return kernel.train(resolved, folder)
        case TranslationRecipe():
            return translation.train(resolved, folder, audience, resume=resume)


def load(run: str | Path) -> LoadedKernel | LoadedTranslator:
    """Open a run folder; it needs nothing but what is in it."""
    folder = RunFolder.open(Path(run))
    recipe = folder.read_recipe()
    match recipe:
        case KernelRecipe():
            return LoadedKernel(folder, recipe)
        case TranslationRecipe():
            return LoadedTranslator(folder, recipe)


def load_translator(run: str | Path) -> LoadedTranslator:
    """Open a run folder that must hold a translation model."""
    loaded = load(run)
    if not isinstance(loaded, LoadedTranslator):
        raise RegardError(f"{run} holds a {loaded.recipe.task} model, not one that translates")
    return loaded


def free_folder(recipe: str) -> Path:
    """runs/NAME, or the first of runs/NAME-2, runs/NAME-3 ... in which no training was begun yet."""
    name = Path(recipe).stem
    candidate, number = Path("runs") / name, 2
    while (candidate / "recipe.toml").exists():
        candidate, number = Path("runs") / f"{name}-{number}", number + 1
    return candidate
