"""`regard import`: a Hugging Face folder as a run folder."""

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
    out: Annotated[Path, typer.Option(help="The run folder to make.")],
    as_json: AsJson = False,
) -> None:
    """Make a run of a Hugging Face folder: a BERT, a GPT-2, a ViT, or a translation model that we exported.

    Only safetensors, JSON and text are read.

    Example:  regard import all-MiniLM-L6-v2 --out runs/minilm
    """
    from regard.tasks.import_run import import_run

    imported = import_run(folder, out)
    if as_json:
        summary = asdict(imported)
        del summary["model"]
        print(json.dumps({"run": str(summary.pop("folder")), **summary}, ensure_ascii=False))
        return
    labels = f", labels {', '.join(imported.labels)}" if imported.labels else ""
    fresh = (
        f"; not in the checkpoint, so fresh: {', '.join(imported.new_weights)}" if imported.new_weights else ""
    )
    print(f"{imported.task}: {imported.model}, {imported.parameters:,} parameters{labels}{fresh}")
    print(f"run:     {out}")
