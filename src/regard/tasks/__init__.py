"""Whole stories: from a recipe to a run folder, and from a run folder to something that answers.

`train` and `load` are what `import regard` offers; each task has a file of its own.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import TypeVar

from regard.config import (
    AnsweringRecipe,
    ClassificationRecipe,
    EncoderRecipe,
    KernelRecipe,
    LanguageRecipe,
    PaintRecipe,
    PretrainingRecipe,
    TaggingRecipe,
    TranslationRecipe,
    VisionRecipe,
    load_recipe,
)
from regard.config.schema import toml_value
from regard.errors import RegardError
from regard.tasks.classification import task as classification_task
from regard.tasks.diffusion import task as diffusion_task
from regard.tasks.diffusion.model import LoadedPainter
from regard.tasks.encoder.model import LoadedAnswerer, LoadedClassifier, LoadedEncoder, LoadedTagger, loaded_of
from regard.tasks.encoder.run_folder import TextFolder
from regard.tasks.encoder.training import TextRun
from regard.tasks.image_classification import task as image_classification_task
from regard.tasks.image_classification.model import LoadedVision
from regard.tasks.kernel_regression import task as kernel_regression_task
from regard.tasks.kernel_regression.task import KernelRun, LoadedKernel
from regard.tasks.language_modeling import task as language_modeling_task
from regard.tasks.language_modeling.model import LoadedWriter
from regard.tasks.masked_lm import task as masked_lm_task
from regard.tasks.metrics_log import Audience
from regard.tasks.question_answering import task as question_answering_task
from regard.tasks.run_folder import RunFolder
from regard.tasks.tagging import task as tagging_task
from regard.tasks.translation import task as translation_task
from regard.tasks.translation.model import LoadedTranslator
from regard.tasks.translation.task import TranslationRun
from regard.training.distributed import processes
from regard.training.process import preserved_rng

Loaded = TypeVar(
    "Loaded",
    LoadedTranslator,
    LoadedEncoder,
    LoadedClassifier,
    LoadedTagger,
    LoadedAnswerer,
    LoadedWriter,
    LoadedPainter,
)


def train(
    recipe: str,
    out: str | Path | None = None,
    assignments: Iterable[str] = (),
    *,
    resume: bool = False,
    audience: Audience | None = None,
    **overrides: object,
) -> KernelRun | TranslationRun | TextRun | None:
    """Train a recipe, shipped or a TOML file, into a run folder.

    `train("kernel", out="runs/mine", assignments=["train.steps=50"])`; keyword overrides name a key with two
    underscores for each dot: `train__steps=50`. Under torchrun, all processes but the first return nothing.
    Random states, allocator, flags and signal handlers of the process are restored at the end.
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
            return kernel_regression_task.train(resolved, folder)
        case TranslationRecipe():
            return translation_task.train(resolved, folder, audience, resume=resume)
        case ClassificationRecipe():
            return classification_task.train(resolved, folder, audience, resume=resume)
        case TaggingRecipe():
            return tagging_task.train(resolved, folder, audience, resume=resume)
        case AnsweringRecipe():
            return question_answering_task.train(resolved, folder, audience, resume=resume)
        case PretrainingRecipe():
            return masked_lm_task.train(resolved, folder, audience, resume=resume)
        case LanguageRecipe():
            return language_modeling_task.train(resolved, folder, audience, resume=resume)
        case VisionRecipe():
            return image_classification_task.train(resolved, folder, audience, resume=resume)
        case PaintRecipe():
            return diffusion_task.train(resolved, folder, audience, resume=resume)
        case EncoderRecipe():
            raise RegardError(
                "an encoder by itself has nothing to learn; start another task from it: model.start"
            )


@preserved_rng()  # a model is built with random weights before those of the run are loaded
def load(
    run: str | Path, *beside: str | Path
) -> LoadedKernel | LoadedTranslator | LoadedEncoder | LoadedWriter | LoadedVision | LoadedPainter:
    """Open a run folder; it needs nothing but what is in it. Translation runs `beside` it translate with it."""
    folder = RunFolder.open(Path(run))
    recipe = folder.read_recipe()
    if beside and not isinstance(recipe, TranslationRecipe):
        raise RegardError(f"{run} holds a {recipe.task} model; only those that translate do so together")
    match recipe:
        case KernelRecipe():
            return LoadedKernel(folder, recipe)
        case TranslationRecipe():
            return LoadedTranslator(folder, recipe, [load_translator(each) for each in beside])
        case LanguageRecipe():
            return LoadedWriter(folder, recipe)
        case VisionRecipe():
            return LoadedVision(folder, recipe)
        case PaintRecipe():
            return LoadedPainter(folder, recipe)
        case _:
            return loaded_of(TextFolder(folder, recipe))


def load_translator(run: str | Path, *beside: str | Path) -> LoadedTranslator:
    """Open a run folder that must hold a translation model, and others that are to translate with it."""
    return must_be(LoadedTranslator, load(run, *beside), run, "translates")


def load_classifier(run: str | Path) -> LoadedClassifier:
    """Open a run folder whose model must label texts."""
    return load_as(LoadedClassifier, run, "labels texts")


def load_tagger(run: str | Path) -> LoadedTagger:
    """Open a run folder whose model must tag words."""
    return load_as(LoadedTagger, run, "tags words")


def load_answerer(run: str | Path) -> LoadedAnswerer:
    """Open a run folder whose model must find answers."""
    return load_as(LoadedAnswerer, run, "answers questions")


def load_writer(run: str | Path) -> LoadedWriter:
    """Open a run folder whose model must go on with texts."""
    return load_as(LoadedWriter, run, "goes on with a text")


def load_encoder(run: str | Path) -> LoadedEncoder:
    """Open a run folder that must hold a BERT, for whatever task."""
    return load_as(LoadedEncoder, run, "makes vectors of texts")


def load_painter(run: str | Path) -> LoadedPainter:
    """Open a run folder whose model must paint."""
    return load_as(LoadedPainter, run, "paints")


def load_as(kind: type[Loaded], run: str | Path, does: str) -> Loaded:
    """Open a run folder that must hold a model of a kind; `does` says what that kind does."""
    return must_be(kind, load(run), run, does)


def must_be(kind: type[Loaded], loaded: object, run: str | Path, does: str) -> Loaded:
    """What was loaded from a run folder, if it is of that kind."""
    if not isinstance(loaded, kind):
        raise RegardError(f"{run} holds a {loaded.recipe.task} model, not one that {does}")  # type: ignore[attr-defined]
    return loaded


def free_folder(recipe: str) -> Path:
    """runs/NAME, or the first of runs/NAME-2, runs/NAME-3 ... in which no training was begun yet."""
    name = Path(recipe).stem
    candidate, number = Path("runs") / name, 2
    while (candidate / "recipe.toml").exists():
        candidate, number = Path("runs") / f"{name}-{number}", number + 1
    return candidate
