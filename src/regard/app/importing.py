"""`regard import`: another tool's checkpoint as a run folder."""

import json
from pathlib import Path

from regard.config import (
    AnsweringRecipe,
    ClassificationRecipe,
    EmbedSettings,
    EncoderRecipe,
    PretrainingRecipe,
    TaggingRecipe,
    TextRecipe,
)
from regard.exchange import huggingface
from regard.exchange.huggingface import Imported
from regard.jobs.bert import write_bert
from regard.jobs.card import harmless
from regard.jobs.training import count_parameters


def run(folder: Path, out: Path, as_json: bool) -> None:
    """Read a Hugging Face folder, write a run folder, and tell what it holds."""
    found = huggingface.read(folder)
    recipe = recipe_of(found)
    parameters = count_parameters(found.model)
    card = f"# {harmless(folder.name)}\n\nImported: {recipe.task}, {found.config}, {parameters:,} parameters.\n"
    write_bert(out, recipe, found.model, found.tokenizer, found.labels, card)
    told = {
        "run": str(out),
        "task": recipe.task,
        "parameters": parameters,
        "vocabulary": found.tokenizer.size,
        "labels": list(found.labels),
        "fresh": list(found.fresh),
    }
    if as_json:
        print(json.dumps(told, ensure_ascii=False))
        return
    labels = f", labels {', '.join(found.labels)}" if found.labels else ""
    fresh = f"; not in the checkpoint, so fresh: {', '.join(found.fresh)}" if found.fresh else ""
    print(f"{recipe.task}: {found.config}, {parameters:,} parameters{labels}{fresh}")
    print(f"run:     {out}")


def recipe_of(found: Imported) -> TextRecipe:
    """The recipe that such a model could have come from."""
    match found.head:
        case "classes":
            return ClassificationRecipe("classification", model=found.config)
        case "tags":
            return TaggingRecipe("tagging", model=found.config)
        case "span":
            return AnsweringRecipe("answering", model=found.config)
        case "pretraining":
            return PretrainingRecipe("pretraining", model=found.config)
        case "none":
            return EncoderRecipe("encoder", found.config, EmbedSettings(found.normal, found.longest))
