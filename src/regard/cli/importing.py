"""`regard import`: another tool's checkpoint as a run folder."""

import json
from dataclasses import asdict
from pathlib import Path

from regard.tasks.importing import import_folder


def run(folder: Path, out: Path, as_json: bool) -> None:
    """Make a run of the folder, and tell what it holds."""
    made = import_folder(folder, out)
    if as_json:
        told = asdict(made)
        del told["model"]
        print(json.dumps({"run": str(told.pop("folder")), **told}, ensure_ascii=False))
        return
    labels = f", labels {', '.join(made.labels)}" if made.labels else ""
    fresh = f"; not in the checkpoint, so fresh: {', '.join(made.fresh)}" if made.fresh else ""
    print(f"{made.task}: {made.model}, {made.parameters:,} parameters{labels}{fresh}")
    print(f"run:     {out}")
