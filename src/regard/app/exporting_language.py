"""`regard export` of a GPT: the run as a folder of Hugging Face's."""

import json
from pathlib import Path

from regard.config import GptModel
from regard.errors import RegardError
from regard.exchange import gpt2
from regard.jobs import load_writer
from regard.jobs.training import count_parameters
from regard.models.gpt import GptWriter


def run(run: Path, folder: Path, as_json: bool) -> None:
    """Write a GPT-2 folder, and tell what it holds."""
    loaded = load_writer(run)
    if not isinstance(loaded.model, GptWriter) or not isinstance(loaded.recipe.model, GptModel):
        raise RegardError(f"{run} holds {loaded.recipe.model}; a GPT can be exported")
    if (folder / "config.json").exists():
        raise RegardError(f"{folder} already holds a model; give another folder, or remove it first")
    gpt2.write(folder, loaded.model, loaded.recipe.model, loaded.tokenizer)
    told = {"folder": str(folder), "to": "huggingface", "parameters": count_parameters(loaded.model)}
    print(json.dumps(told) if as_json else f"GPT-2, {told['parameters']:,} parameters: {folder}")
