"""`regard data`: the data sets of regard.data.catalog, listed, downloaded and printed."""

import json as json_format
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

if TYPE_CHECKING:
    from regard.data.catalog import Description

app = typer.Typer(
    name="data",
    help="Data sets by name: list them, fetch them, look at their sentences.",
    epilog="Example: regard data show multi30k -n 3",
    no_args_is_help=True,
)

Name = Annotated[str, typer.Argument(help="One of the names that `regard data list` prints.")]
Cache = Annotated[
    Path | None, typer.Option(help="Where downloads are kept.", show_default="$REGARD_CACHE or ~/.cache/regard")
]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON, and nothing else, on stdout.")]


@app.command("list", epilog="Example: regard data list --json")
def list_sets(cache: Cache = None, json: Json = False) -> None:
    """What there is: languages, pairs, licence, origin, and whether it is here already."""
    from regard.data import catalog

    data_sets = [(catalog.describe(name), catalog.present(name, cache=cache)) for name in catalog.names()]
    if json:
        records = [as_record(description, here) for description, here in data_sets]
        print(json_format.dumps(records, ensure_ascii=False))
        return
    headings = ("name", "languages", "pairs", "licence", "here", "origin")
    rows = [headings, *(cells(description, here) for description, here in data_sets)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


@app.command(epilog="Example: regard data get multi30k --language fr --language en")
def get(
    name: Name,
    cache: Cache = None,
    path: Annotated[bool, typer.Option("--path", help="Print only the folder, for data.path=... .")] = False,
    language: Annotated[
        list[str] | None,
        typer.Option(help="A language to fetch; repeat for more.", show_default="the first two"),
    ] = None,
    form: Annotated[Literal["raw", "tok"], typer.Option(help="Sentences as written, or tokenized.")] = "raw",
) -> None:
    """Download a data set into the cache, checked; what is there already is not downloaded again."""
    from regard.data import catalog

    files = catalog.fetch(name, cache=cache, languages=language, form=form)
    if not files:
        typer.echo(f"{name} is inside the package; there is nothing to download.", err=True)
    for line in sorted({str(file.parent) for file in files}) if path else [str(file) for file in files]:
        print(line)


@app.command(epilog="Example: regard data show tatoeba-eng-fra --split test -n 3 --source fr --target en")
def show(
    name: Name,
    split: Annotated[str, typer.Option(help="train, valid or test.")] = "train",
    number: Annotated[int, typer.Option("-n", "--number", min=1, help="How many pairs.")] = 5,
    source: Annotated[str | None, typer.Option(help="Language.", show_default="the data set's first")] = None,
    target: Annotated[str | None, typer.Option(help="Language.", show_default="the data set's second")] = None,
    path: Annotated[Path | None, typer.Option(help="A folder of yours that holds the data set.")] = None,
    form: Annotated[Literal["raw", "tok"], typer.Option(help="Sentences as written, or tokenized.")] = "raw",
    cache: Cache = None,
    json: Json = False,
) -> None:
    """Print the first pairs of a split: source, tab, target."""
    from itertools import islice

    from regard.data import catalog

    pairs = catalog.pairs(name, split, source=source, target=target, path=path, form=form, cache=cache)
    for source_text, target_text in islice(pairs, number):
        record = {"source": source_text, "target": target_text}
        print(json_format.dumps(record, ensure_ascii=False) if json else f"{source_text}\t{target_text}")


def as_record(description: "Description", here: bool) -> dict[str, object]:
    return {
        "name": description.name,
        "summary": description.summary,
        "languages": list(description.languages),
        "pairs": dict(description.sizes),
        "forms": list(description.forms),
        "licence": description.licence,
        "origin": description.origin,
        "here": here,
    }


def cells(description: "Description", here: bool) -> tuple[str, ...]:
    """The row of a data set in the table."""
    sizes = [size for size in description.sizes.values() if size is not None]
    return (
        description.name,
        " ".join(description.languages),
        f"{sum(sizes):,}" if sizes else "any number",
        description.licence,
        "yes" if here else "no",
        description.origin,
    )
