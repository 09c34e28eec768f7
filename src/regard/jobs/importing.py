"""A translation model from a Hugging Face folder as a run."""

from dataclasses import dataclass
from pathlib import Path

from regard.exchange import marian
from regard.jobs.card import harmless
from regard.jobs.folder import RunFolder
from regard.jobs.translation import count_parameters
from regard.jobs.vocabulary import Vocabulary


@dataclass(frozen=True)
class ImportedRun:
    """What `regard import` made."""

    folder: Path
    task: str
    model: str
    parameters: int
    vocabulary: int


def import_translation(folder: Path, out: Path) -> ImportedRun:
    """Read the folder, write a finished run."""
    found = marian.read(folder)
    run = RunFolder.create(out)
    parameters = count_parameters(found.model)
    told = f"{found.recipe.model}, {parameters:,} parameters"
    with run.alone():
        Vocabulary(found.tokenizer, found.tokenizer).save(out)
        run.write_weights(found.model)
        run.write("README.md", f"# {harmless(folder.name)}\n\nImported: translation, {told}.\n")
        run.write_recipe(found.recipe)
        run.write_config(found.recipe)
    return ImportedRun(out, found.recipe.task, str(found.recipe.model), parameters, found.tokenizer.size)
