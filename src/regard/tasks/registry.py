"""The tasks, one line each."""

from typing import Any

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


def spec_of(recipe: Any) -> TaskSpec[Any, Any]:
    """The task of a recipe."""
    return BY_NAME[recipe.task]
