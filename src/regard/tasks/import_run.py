"""`regard import`: a Hugging Face folder (translation model, BERT, GPT-2, ViT) as a finished run."""

from dataclasses import dataclass
from pathlib import Path

from regard.errors import RecipeError, RegardError
from regard.interop import huggingface_bert, huggingface_gpt2, huggingface_marian, huggingface_vit
from regard.interop.model_folders import expect_kind, read_config
from regard.tasks.classification.config import ClassificationRecipe
from regard.tasks.encoder.config import EncoderRecipe, TextRecipe
from regard.tasks.encoder.run_folder import write_labels, write_text_run
from regard.tasks.image_classification.config import ImageClassificationRecipe
from regard.tasks.language_modeling.config import LanguageModelingRecipe
from regard.tasks.masked_lm.config import MaskedLmRecipe
from regard.tasks.model_card import escape
from regard.tasks.question_answering.config import QuestionAnsweringRecipe
from regard.tasks.registry import read_recipe
from regard.tasks.run_folder import RunFolder
from regard.tasks.tagging.config import TaggingRecipe
from regard.tasks.training import count_parameters
from regard.tasks.translation.vocabulary import Vocabulary


@dataclass(frozen=True)
class ImportedRun:
    """The result of `regard import`."""

    folder: Path
    task: str
    model: str
    parameters: int
    vocabulary: int
    """Number of pieces; 0 for images."""
    labels: tuple[str, ...] = ()
    new_weights: tuple[str, ...] = ()
    """Weights that the checkpoint does not have; they are initialized at random."""


def import_run(folder: Path, out: Path) -> ImportedRun:
    """Read a Hugging Face folder and write a finished run.

    Raises:
        RegardError: The model type cannot be imported, or the folder is incomplete or damaged.
    """
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
    checkpoint = huggingface_marian.read(folder)
    try:
        recipe = read_recipe(checkpoint.recipe)
    except RecipeError as problem:
        raise huggingface_marian.damaged_recipe(folder, problem) from None
    run = RunFolder.create(out)
    parameters = count_parameters(checkpoint.model)
    with run.locked():
        Vocabulary(checkpoint.tokenizer, checkpoint.tokenizer).save(out)
        run.write_weights(checkpoint.model)
        run.write("README.md", import_card(folder, recipe.task, checkpoint.config, parameters))
        run.write_recipe(recipe)
        run.write_config(recipe)
    return ImportedRun(out, recipe.task, str(checkpoint.config), parameters, checkpoint.tokenizer.size)


def import_bert(folder: Path, out: Path) -> ImportedRun:
    checkpoint = huggingface_bert.read(folder)
    recipe, parameters = bert_recipe(checkpoint), count_parameters(checkpoint.model)
    card = import_card(folder, recipe.task, checkpoint.config, parameters)
    write_text_run(out, recipe, checkpoint.model, checkpoint.tokenizer, checkpoint.labels, card)
    return ImportedRun(
        out,
        recipe.task,
        str(checkpoint.config),
        parameters,
        checkpoint.tokenizer.size,
        checkpoint.labels,
        checkpoint.new_weights,
    )


def import_gpt(folder: Path, out: Path) -> ImportedRun:
    checkpoint = huggingface_gpt2.read(folder)
    recipe = LanguageModelingRecipe("language-modeling", model=checkpoint.config)
    parameters = count_parameters(checkpoint.model)
    card = import_card(folder, recipe.task, checkpoint.config, parameters)
    write_text_run(out, recipe, checkpoint.model, checkpoint.tokenizer, (), card)
    return ImportedRun(out, recipe.task, str(checkpoint.config), parameters, checkpoint.tokenizer.size)


def import_vit(folder: Path, out: Path) -> ImportedRun:
    checkpoint = huggingface_vit.read(folder)
    recipe = ImageClassificationRecipe("image-classification", model=checkpoint.config)
    parameters = count_parameters(checkpoint.model)
    run = RunFolder.create(out)
    with run.locked():
        write_labels(run, checkpoint.labels)
        run.write_weights(checkpoint.model)
        run.write("README.md", import_card(folder, recipe.task, checkpoint.config, parameters))
        run.write_recipe(recipe)
        run.write_config(recipe)
    return ImportedRun(
        out, recipe.task, str(checkpoint.config), parameters, 0, checkpoint.labels, checkpoint.new_weights
    )


def import_card(folder: Path, task: str, model: object, parameters: int) -> str:
    return f"# {escape(folder.name)}\n\nImported: {task}, {model}, {parameters:,} parameters.\n"


def bert_recipe(checkpoint: huggingface_bert.BertCheckpoint) -> TextRecipe:
    """A recipe of the task that the head of a BERT is for."""
    match checkpoint.head:
        case "classes":
            return ClassificationRecipe("classification", model=checkpoint.config)
        case "tags":
            return TaggingRecipe("tagging", model=checkpoint.config)
        case "span":
            return QuestionAnsweringRecipe("question-answering", model=checkpoint.config)
        case "pretraining":
            return MaskedLmRecipe("masked-lm", model=checkpoint.config)
        case _:
            return EncoderRecipe("encoder", checkpoint.config, checkpoint.embed)
