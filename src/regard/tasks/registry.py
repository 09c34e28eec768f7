"""The list of tasks; recipes are parsed as their task defines them."""

from collections.abc import Mapping
from typing import Any

from regard.config.recipes import Recipe, read_table
from regard.config.schema import coerce_union, override
from regard.tasks.classification.spec import ClassificationSpec
from regard.tasks.diffusion.spec import DiffusionSpec
from regard.tasks.encoder.spec import EncoderSpec
from regard.tasks.image_classification.spec import ImageClassificationSpec
from regard.tasks.kernel_regression.spec import KernelRegressionSpec
from regard.tasks.language_modeling.spec import LanguageModelingSpec
from regard.tasks.masked_lm.spec import MaskedLanguageModelingSpec
from regard.tasks.question_answering.spec import QuestionAnsweringSpec
from regard.tasks.spec import TaskSpec
from regard.tasks.tagging.spec import TaggingSpec
from regard.tasks.translation.spec import TranslationSpec

SPECS: tuple[TaskSpec[Any, Any], ...] = (
    KernelRegressionSpec(),
    TranslationSpec(),
    MaskedLanguageModelingSpec(),
    ClassificationSpec(),
    TaggingSpec(),
    QuestionAnsweringSpec(),
    EncoderSpec(),
    LanguageModelingSpec(),
    ImageClassificationSpec(),
    DiffusionSpec(),
)
BY_NAME = {spec.name: spec for spec in SPECS}


def spec_of(recipe: Recipe) -> TaskSpec[Any, Any]:
    """The task of a recipe."""
    return BY_NAME[recipe.task]


def load_recipe(name: str, overrides: Mapping[str, Any] | None = None) -> Recipe:
    """Read a recipe and override some of its values.

    Args:
        name: The name of a shipped recipe, or the path of a TOML file.
        overrides: Values by key: `{"train.steps": 500}`.

    Raises:
        RecipeError: A key or value is not allowed, or the file cannot be read.
    """
    return read_recipe(override(read_table(name), overrides or {}))


def read_recipe(table: Mapping[str, Any]) -> Recipe:
    """A recipe from a parsed TOML table, which names its task."""
    recipe: Recipe = coerce_union(tuple(spec.recipe for spec in SPECS), table, "")
    return recipe
