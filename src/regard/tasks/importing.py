"""Another tool's checkpoint as a run: Hugging Face folders of translation models, BERT, GPT-2, ViT."""

from dataclasses import dataclass
from pathlib import Path

from regard.errors import RecipeError, RegardError
from regard.interop import huggingface_bert, huggingface_gpt2, huggingface_marian, huggingface_vit
from regard.interop.model_folders import expect_kind, read_config
from regard.tasks.classification.config import ClassificationRecipe
from regard.tasks.encoder.config import EncoderRecipe, TextRecipe
from regard.tasks.encoder.run_folder import write_labels, write_texts
from regard.tasks.image_classification.config import ImageClassificationRecipe
from regard.tasks.language_modeling.config import LanguageModelingRecipe
from regard.tasks.masked_lm.config import MaskedLmRecipe
from regard.tasks.model_card import harmless
from regard.tasks.question_answering.config import QuestionAnsweringRecipe
from regard.tasks.registry import read_recipe
from regard.tasks.run_folder import RunFolder
from regard.tasks.tagging.config import TaggingRecipe
from regard.tasks.training import count_parameters
from regard.tasks.translation.vocabulary import Vocabulary


@dataclass(frozen=True)
class ImportedRun:
    """What `regard import` made."""

    folder: Path
    task: str
    model: str
    parameters: int
    vocabulary: int
    """Pieces of it; images have none."""
    labels: tuple[str, ...] = ()
    new_weights: tuple[str, ...] = ()
    """Weights that the checkpoint does not have."""


def import_folder(folder: Path, out: Path) -> ImportedRun:
    """Read a Hugging Face folder, write a finished run."""
    expect_kind(folder, "huggingface", huggingface_marian.FILES)
    match read_config(folder)["model_type"]:
        case "marian" | "pegasus":
            return import_translation(folder, out)
        case "bert":
            return import_bert(folder, out)
        case "gpt2":
            return import_gpt(folder, out)
        case "vit":
            return import_vit(folder, out)
        case other:
            raise RegardError(
                f"{folder / 'config.json'}: its model_type is {other!r}; 'bert', 'gpt2', 'vit', 'marian' and "
                "'pegasus' can be imported"
            )


def import_translation(folder: Path, out: Path) -> ImportedRun:
    imported = huggingface_marian.read(folder)
    try:
        recipe = read_recipe(imported.recipe)
    except RecipeError as problem:
        raise huggingface_marian.damaged_recipe(folder, problem) from None
    run = RunFolder.create(out)
    parameters = count_parameters(imported.model)
    with run.alone():
        Vocabulary(imported.tokenizer, imported.tokenizer).save(out)
        run.write_weights(imported.model)
        run.write("README.md", card(folder, recipe.task, imported.config, parameters))
        run.write_recipe(recipe)
        run.write_config(recipe)
    return ImportedRun(out, recipe.task, str(imported.config), parameters, imported.tokenizer.size)


def import_bert(folder: Path, out: Path) -> ImportedRun:
    found = huggingface_bert.read(folder)
    recipe, parameters = recipe_of(found), count_parameters(found.model)
    told = card(folder, recipe.task, found.config, parameters)
    write_texts(out, recipe, found.model, found.tokenizer, found.labels, told)
    return ImportedRun(
        out, recipe.task, str(found.config), parameters, found.tokenizer.size, found.labels, found.new_weights
    )


def import_gpt(folder: Path, out: Path) -> ImportedRun:
    found = huggingface_gpt2.read(folder)
    recipe, parameters = (
        LanguageModelingRecipe("language-modeling", model=found.config),
        count_parameters(found.model),
    )
    told = card(folder, recipe.task, found.config, parameters)
    write_texts(out, recipe, found.model, found.tokenizer, (), told)
    return ImportedRun(out, recipe.task, str(found.config), parameters, found.tokenizer.size)


def import_vit(folder: Path, out: Path) -> ImportedRun:
    found = huggingface_vit.read(folder)
    recipe, parameters = (
        ImageClassificationRecipe("image-classification", model=found.config),
        count_parameters(found.model),
    )
    run = RunFolder.create(out)
    with run.alone():
        write_labels(run, found.labels)
        run.write_weights(found.model)
        run.write("README.md", card(folder, recipe.task, found.config, parameters))
        run.write_recipe(recipe)
        run.write_config(recipe)
    return ImportedRun(out, recipe.task, str(found.config), parameters, 0, found.labels, found.new_weights)


def card(folder: Path, task: str, model: object, parameters: int) -> str:
    return f"# {harmless(folder.name)}\n\nImported: {task}, {model}, {parameters:,} parameters.\n"


def recipe_of(found: huggingface_bert.BertCheckpoint) -> TextRecipe:
    """The recipe that such a model could have come from."""
    match found.head:
        case "classes":
            return ClassificationRecipe("classification", model=found.config)
        case "tags":
            return TaggingRecipe("tagging", model=found.config)
        case "span":
            return QuestionAnsweringRecipe("question-answering", model=found.config)
        case "pretraining":
            return MaskedLmRecipe("masked-lm", model=found.config)
        case _:
            return EncoderRecipe("encoder", found.config, found.embed)
