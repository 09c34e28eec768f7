"""Train, run and inspect attention models on your own machine.

>>> import regard
>>> run = regard.train("kernel")        # a shipped recipe or a TOML file -> a run folder
>>> model = regard.load(run.folder)     # a run folder -> a model, of a class below

To load a model of a known class, use the class: `regard.Translator.load(run.folder).translate([...])`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from regard.errors import RecipeError, RegardError
from regard.mkl import enable_reproducible_mkl

if TYPE_CHECKING:
    from regard.config.recipes import Recipe
    from regard.decoding import BeamSearchConfig, SamplingConfig, Translation
    from regard.decoding.diffusion import DiffusionConfig
    from regard.decoding.generator import Completion, GenerationConfig
    from regard.metrics import Quality
    from regard.tasks import load, train
    from regard.tasks.classification.model import Classifier
    from regard.tasks.classification.task import LabelPrediction
    from regard.tasks.diffusion.model import ImageGenerator
    from regard.tasks.encoder.model import Encoder
    from regard.tasks.image_classification.model import ImageClassifier
    from regard.tasks.kernel_regression.task import KernelRegressor, KernelRun
    from regard.tasks.language_modeling.model import LanguageModel
    from regard.tasks.loaded_model import LoadedModel
    from regard.tasks.masked_lm.model import MaskedLanguageModel
    from regard.tasks.question_answering.model import QuestionAnswerer
    from regard.tasks.question_answering.task import AnswerSpan
    from regard.tasks.registry import load_recipe
    from regard.tasks.results import TaskRun, TaskScores, TrainedRun
    from regard.tasks.tagging.model import Tagger
    from regard.tasks.tagging.task import NamedEntity, TaggedSentence
    from regard.tasks.translation.model import Evaluation, Translator
    from regard.tasks.translation.task import TranslationRun
    from regard.viz.attention_maps import AttentionMaps
    from regard.viz.generated_images import GeneratedImages
    from regard.viz.image_attention import ImageAttention

__version__ = "0.1.0"

MODULES = {
    "load": "tasks",
    "load_recipe": "tasks.registry",
    "Recipe": "config.recipes",
    "train": "tasks",
    # models
    "LoadedModel": "tasks.loaded_model",
    "Translator": "tasks.translation.model",
    "Encoder": "tasks.encoder.model",
    "MaskedLanguageModel": "tasks.masked_lm.model",
    "Classifier": "tasks.classification.model",
    "Tagger": "tasks.tagging.model",
    "QuestionAnswerer": "tasks.question_answering.model",
    "LanguageModel": "tasks.language_modeling.model",
    "ImageClassifier": "tasks.image_classification.model",
    "ImageGenerator": "tasks.diffusion.model",
    "KernelRegressor": "tasks.kernel_regression.task",
    # their options
    "BeamSearchConfig": "decoding",
    "SamplingConfig": "decoding",
    "GenerationConfig": "decoding.generator",
    "DiffusionConfig": "decoding.diffusion",
    # their results
    "Translation": "decoding",
    "LabelPrediction": "tasks.classification.task",
    "TaggedSentence": "tasks.tagging.task",
    "NamedEntity": "tasks.tagging.task",
    "AnswerSpan": "tasks.question_answering.task",
    "Completion": "decoding.generator",
    "GeneratedImages": "viz.generated_images",
    "AttentionMaps": "viz.attention_maps",
    "ImageAttention": "viz.image_attention",
    "Evaluation": "tasks.translation.model",
    "Quality": "metrics",
    "TaskScores": "tasks.results",
    # results of `train`
    "TrainedRun": "tasks.results",
    "TranslationRun": "tasks.translation.task",
    "TaskRun": "tasks.results",
    "KernelRun": "tasks.kernel_regression.task",
}
"""The module of each name that is imported on first use."""

__all__ = [
    "AnswerSpan",
    "AttentionMaps",
    "BeamSearchConfig",
    "Classifier",
    "Completion",
    "DiffusionConfig",
    "Encoder",
    "Evaluation",
    "GeneratedImages",
    "GenerationConfig",
    "ImageAttention",
    "ImageClassifier",
    "ImageGenerator",
    "KernelRegressor",
    "KernelRun",
    "LabelPrediction",
    "LanguageModel",
    "LoadedModel",
    "MaskedLanguageModel",
    "NamedEntity",
    "Quality",
    "QuestionAnswerer",
    "Recipe",
    "RecipeError",
    "RegardError",
    "SamplingConfig",
    "TaggedSentence",
    "Tagger",
    "TaskRun",
    "TaskScores",
    "TrainedRun",
    "Translation",
    "TranslationRun",
    "Translator",
    "__version__",
    "enable_reproducible_mkl",
    "load",
    "load_recipe",
    "train",
]


def __getattr__(name: str) -> Any:
    # Importing PyTorch takes a second; it is imported on first use.
    if name in MODULES:
        return getattr(import_module(f"regard.{MODULES[name]}"), name)
    raise AttributeError(f"module 'regard' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
