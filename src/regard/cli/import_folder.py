"""`regard import`: a run folder from a Hugging Face folder."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from regard.cli.arguments import AsJson


def import_folder(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="DIR", help="A Hugging Face folder: config.json, model.safetensors, vocabulary."
        ),
    ],
    out: Annotated[Path, typer.Option(help="Output run folder.")],
    as_json: AsJson = False,
) -> None:
    """Import a Hugging Face folder: BERT, GPT-2, ViT, Marian or a model exported by regard.

    Only safetensors, JSON and text files are read.

    Example:  regard import all-MiniLM-L6-v2 --out runs/minilm
    """
    from regard.cli.terminal import log_next_commands
    from regard.tasks.import_run import import_run

    imported = import_run(folder, out)
    if as_json:
        summary = asdict(imported)
        del summary["model"]
        print(json.dumps({"run": str(summary.pop("folder")), **summary}, ensure_ascii=False))
        return
    labels = f", labels {', '.join(imported.labels)}" if imported.labels else ""
    fresh = (
        f"; not in the checkpoint, randomly initialized: {', '.join(imported.new_weights)}"
        if imported.new_weights
        else ""
    )
    print(f"{imported.task}: {imported.model}, {imported.parameters:,} parameters{labels}{fresh}")
    print(f"run:     {out}")
    log_next_commands(out)
