"""Arguments and options that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

from regard.limits import MAX_BATCH_SIZE, MAX_BEAM

Run = Annotated[Path, typer.Argument(metavar="RUN", help="A run folder made by `regard train`.")]
Exported = Annotated[
    Path, typer.Argument(metavar="RUN", help="A run folder, or an export made by `regard export`.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Source = Annotated[Path | None, typer.Option(help="Source sentences (default: the recipe's test split).")]
Target = Annotated[Path | None, typer.Option(help="References, line by line.")]
Beam = Annotated[
    int | None,
    typer.Option(min=1, max=MAX_BEAM, help=f"Beam size, 1 to {MAX_BEAM}.", show_default="the recipe's"),
]
BatchSize = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=MAX_BATCH_SIZE,
        help=f"Sentences per batch, 1 to {MAX_BATCH_SIZE:,}.",
        show_default="the recipe's",
    ),
]
EnsembleRuns = Annotated[
    list[Path] | None,
    typer.Option("--with", metavar="RUN", help="Another run for an ensemble; repeat for more."),
]
Merge = Annotated[
    str | None,
    typer.Option(
        help="Tokens to merge per layer: a fraction (0.2), a number (16) or a list by layer (0.5,0,8)."
    ),
]
Files = Annotated[
    list[Path] | None,
    typer.Argument(metavar="FILE", help="Files, one text per line (default: standard input)."),
]
Output = Annotated[Path | None, typer.Option("-o", "--output", help="Output file (default: standard output).")]
JsonLines = Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")]
