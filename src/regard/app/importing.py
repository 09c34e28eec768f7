"""`regard import`: another tool's checkpoint as a run folder."""

import json
from pathlib import Path

from regard.errors import RegardError
from regard.exchange.folders import expect, read_config
from regard.exchange.marian import FILES
from regard.jobs.importing import import_translation


def run(folder: Path, out: Path, as_json: bool) -> None:
    """Read a Hugging Face folder, write a run folder, and tell what it holds."""
    expect(folder, "huggingface", FILES)
    kind = read_config(folder)["model_type"]
    if kind not in ("marian", "pegasus"):
        raise RegardError(
            f"{folder / 'config.json'}: its model_type is {kind!r}; 'marian' and 'pegasus' can be imported"
        )
    made = import_translation(folder, out)
    told = {"run": str(out), "task": made.task, "parameters": made.parameters, "vocabulary": made.vocabulary}
    if as_json:
        print(json.dumps(told))
        return
    print(f"{made.task}: {made.model}, {made.parameters:,} parameters")
    print(f"run:     {out}")
