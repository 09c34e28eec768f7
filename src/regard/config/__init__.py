"""Recipes: everything a run depends on, as frozen dataclasses read from TOML.

`load_recipe("kernel", {"train.steps": 500})` reads a shipped recipe or a file and overrides values of it;
`to_toml(recipe)` writes the resolved copy that goes into the run folder.
"""

from collections.abc import Mapping
from typing import Any

from regard.config.bert import BertModel
from regard.config.diffusion import PaintRecipe, PaintSettings, PaintTrain, PictureData, UnetModel
from regard.config.gpt import GptModel, NgramModel
from regard.config.kernel import CurveData, KernelModel, KernelRecipe, KernelTrain
from regard.config.language import LanguageData, LanguageRecipe, LanguageText
from regard.config.recipe_files import read_table, shipped_recipes
from regard.config.reduction import Reduction
from regard.config.schema import one_of, override, parse_assignments, to_toml
from regard.config.texts import (
    AnsweringRecipe,
    ClassificationRecipe,
    DocumentData,
    EmbedSettings,
    EncoderRecipe,
    Files,
    LabelledData,
    LabelTrain,
    PieceSettings,
    Pooling,
    PretrainingRecipe,
    QuestionData,
    TaggedData,
    TaggingRecipe,
    TextRecipe,
    TextTrain,
)
from regard.config.training import LoopSettings
from regard.config.translation import (
    DecodeSettings,
    PairData,
    RnnModel,
    TextSettings,
    TrainSettings,
    TransformerModel,
    TranslationRecipe,
)
from regard.config.vision import ImageData, VisionRecipe, VisionTrain, VitModel

__all__ = [
    "AnsweringRecipe",
    "BertModel",
    "ClassificationRecipe",
    "CurveData",
    "DecodeSettings",
    "DocumentData",
    "EmbedSettings",
    "EncoderRecipe",
    "Files",
    "GptModel",
    "ImageData",
    "KernelModel",
    "KernelRecipe",
    "KernelTrain",
    "LabelTrain",
    "LabelledData",
    "LanguageData",
    "LanguageRecipe",
    "LanguageText",
    "LoopSettings",
    "NgramModel",
    "PaintRecipe",
    "PaintSettings",
    "PaintTrain",
    "PairData",
    "PictureData",
    "PieceSettings",
    "Pooling",
    "PretrainingRecipe",
    "QuestionData",
    "Recipe",
    "Reduction",
    "RnnModel",
    "TaggedData",
    "TaggingRecipe",
    "TextRecipe",
    "TextSettings",
    "TextTrain",
    "TrainSettings",
    "TransformerModel",
    "TranslationRecipe",
    "UnetModel",
    "VisionRecipe",
    "VisionTrain",
    "VitModel",
    "load_recipe",
    "parse_assignments",
    "read_recipe",
    "shipped_recipes",
    "to_toml",
]

Recipe = KernelRecipe | TranslationRecipe | TextRecipe | LanguageRecipe | VisionRecipe | PaintRecipe
RECIPES = (
    KernelRecipe,
    TranslationRecipe,
    PretrainingRecipe,
    ClassificationRecipe,
    TaggingRecipe,
    AnsweringRecipe,
    EncoderRecipe,
    LanguageRecipe,
    VisionRecipe,
    PaintRecipe,
)


def load_recipe(name: str, overrides: Mapping[str, Any] | None = None) -> Recipe:
    """A recipe by the name of a shipped one or the path of a TOML file, with other values for some keys."""
    return read_recipe(override(read_table(name), overrides or {}))


def read_recipe(table: Mapping[str, Any]) -> Recipe:
    """A recipe from the table a TOML file holds."""
    recipe: Recipe = one_of(RECIPES, table, "")
    return recipe
