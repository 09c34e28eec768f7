"""`regard remember`: the kNN-MT datastore of a translation run."""

import json
from pathlib import Path
from typing import Annotated

import typer

from regard.cli.arguments import AsJson, Run
from regard.errors import RegardError


def remember(
    run: Run,
    source: Annotated[
        Path | None,
        typer.Option(help="Source sentences, or a table of pairs (default: the run's training data)."),
    ] = None,
    target: Annotated[Path | None, typer.Option(help="Their translations, line by line.")] = None,
    forget: Annotated[bool, typer.Option("--forget", help="Delete the translation memory.")] = False,
    as_json: AsJson = False,
) -> None:
    """Add a kNN translation memory to a run (no training).

    At each step, the prediction is interpolated with the target words of the most similar decoder states in a
    datastore (kNN-MT, Khandelwal et al. 2021). The number of neighbours and the interpolation weight are tuned
    on the validation set. A larger datastore makes translation slower.

    Examples:

    regard remember runs/mine

    regard remember runs/mine --source manuals.de --target manuals.en

    regard remember runs/mine --forget
    """
    from regard.cli.terminal import Terminal
    from regard.tasks.run_folder import RunFolder
    from regard.tasks.translation.datastore import build_datastore as build_memory
    from regard.tasks.translation.datastore_file import delete_datastore as remove_memory

    if forget:
        if source or target:
            raise RegardError(
                "--forget deletes the whole translation memory; use it without --source and --target"
            )
        removed = remove_memory(RunFolder.open(run))
        message = "translation memory deleted" if removed else "there was no translation memory"
        print(json.dumps({"run": str(run), "forgotten": removed}) if as_json else f"{run}: {message}")
        return
    with Terminal() as terminal:
        memory = build_memory(run, source, target, terminal)
    print(json.dumps({"run": str(run), **memory.as_json()}) if as_json else memory)
