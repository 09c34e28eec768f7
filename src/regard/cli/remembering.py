"""`regard remember`: sentence pairs that a run asks while it translates."""

import json
from pathlib import Path

from regard.cli.terminal import Terminal
from regard.errors import RegardError
from regard.tasks.run_folder import RunFolder
from regard.tasks.translation.memory import remember
from regard.tasks.translation.neighbours import forget as forget_neighbours


def run(folder: Path, source: Path | None, target: Path | None, forget: bool, as_json: bool) -> None:
    """Remember the run's training pairs or those of files, or forget what it remembers."""
    if forget:
        if source or target:
            raise RegardError("--forget takes no files: all that the run remembers is forgotten")
        had = forget_neighbours(RunFolder.open(folder))
        told = "it translates as it was trained again" if had else "it remembered nothing"
        print(json.dumps({"run": str(folder), "forgotten": had}) if as_json else f"{folder}: {told}")
        return
    with Terminal() as terminal:
        memory = remember(folder, source, target, terminal)
    print(json.dumps({"run": str(folder), **memory.as_json()}) if as_json else memory)
