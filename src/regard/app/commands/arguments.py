"""What several commands are given."""

from pathlib import Path
from typing import Annotated

import typer

Run = Annotated[Path, typer.Argument(metavar="RUN", help="A run folder made by `regard train`.")]
Exported = Annotated[Path, typer.Argument(metavar="RUN", help="A run folder, or what `regard export` made.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Source = Annotated[Path | None, typer.Option(help="Sentences to translate; else the recipe's test split.")]
Target = Annotated[Path | None, typer.Option(help="Their references, line for line.")]
Beam = Annotated[int | None, typer.Option(min=1, help="Translations kept open.", show_default="the recipe's")]
With = Annotated[
    list[Path] | None,
    typer.Option("--with", metavar="RUN", help="A run to translate with as one; may be given several times."),
]
Merge = Annotated[
    str | None,
    typer.Option(help="Merge tokens in each layer: a share (0.2) or a number (16); 0.5,0,8: layer by layer."),
]
Files = Annotated[
    list[Path] | None, typer.Argument(metavar="[FILE]...", help="Texts, one a line; none: standard input.")
]
Output = Annotated[Path | None, typer.Option("-o", "--output", help="Where to write; else standard output.")]
JsonLines = Annotated[bool, typer.Option("--json", help="One JSON object a line.")]
