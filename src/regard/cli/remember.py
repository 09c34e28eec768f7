"""`regard remember`: the datastore of sentence pairs that a translation run retrieves from."""

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
        typer.Option(help="Sentences to remember, a file or a table of pairs; else the run's own data."),
    ] = None,
    target: Annotated[Path | None, typer.Option(help="Their translations, line by line.")] = None,
    forget: Annotated[bool, typer.Option("--forget", help="Translate as it was trained again.")] = False,
    as_json: AsJson = False,
) -> None:
    """Let a translation run ask sentence pairs that are like the one at hand, without training.

    From then on, the words that stood in the most similar places have a say in every word it writes. How large
    a say is found by validation sentences. It takes longer to translate, the more so the more it remembers.

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
            raise RegardError("--forget takes no files: all that the run remembers is forgotten")
        removed = remove_memory(RunFolder.open(run))
        sentence = "it translates as it was trained again" if removed else "it remembered nothing"
        print(json.dumps({"run": str(run), "forgotten": removed}) if as_json else f"{run}: {sentence}")
        return
    with Terminal() as terminal:
        memory = build_memory(run, source, target, terminal)
    print(json.dumps({"run": str(run), **memory.as_json()}) if as_json else memory)
