"""Arguments and options that several commands share."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from regard.limits import MAX_BATCH_SIZE, MAX_BEAM, check_range


def within(option: str, maximum: int, minimum: int = 1) -> Callable[[int | None], int | None]:
    """A callback that raises RegardError when an option's value is out of range."""

    def check(value: int | None) -> int | None:
        if value is not None:
            check_range(option, value, minimum, maximum)
        return value

    return check


Run = Annotated[Path, typer.Argument(metavar="RUN", help="A run folder made by `regard train`.")]
Exported = Annotated[Path, typer.Argument(metavar="RUN", help="A run folder, or what `regard export` made.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Source = Annotated[Path | None, typer.Option(help="Sentences to translate; else the recipe's test split.")]
Target = Annotated[Path | None, typer.Option(help="Their references, line for line.")]
Beam = Annotated[
    int | None,
    typer.Option(
        callback=within("--beam", MAX_BEAM), help=f"Beam size, 1 to {MAX_BEAM}.", show_default="the recipe's"
    ),
]
BatchSize = Annotated[
    int | None,
    typer.Option(
        callback=within("--batch-size", MAX_BATCH_SIZE),
        help=f"Sentences translated together, 1 to {MAX_BATCH_SIZE:,}.",
        show_default="the recipe's",
    ),
]
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
