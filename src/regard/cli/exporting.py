"""`regard export`: a run for another tool, and what the check of it found."""

import json
from dataclasses import asdict
from pathlib import Path

from regard.tasks.exporting import export
from regard.tasks.formats import Format, Quantization


def run(
    folder: Path, to: Format, out: Path, quantization: Quantization | None, source: Path | None, as_json: bool
) -> None:
    """Export, check, and tell."""
    made = export(folder, to, out, quantization, source)
    check = made.check
    if as_json:
        print(json.dumps({"folder": str(made.folder), "format": made.format, **asdict(check)}))
        return
    alike = ", ".join(f"{count:,} ({how})" for how, count in check.same.items())
    told = f": the same for {alike}" if alike else ""
    print(f"check:   {check.engine} beside the run, {check.sentences:,} examples{told};")
    print(f"         largest difference of {check.of} {check.difference:.1e}")
    print(f"folder:  {made.folder}")
