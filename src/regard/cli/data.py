"""`regard data`: list, download and print data sets."""

import json as json_format
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from regard.cli.arguments import AsJson

if TYPE_CHECKING:
    from regard.data.catalog import Description

app = typer.Typer(
    name="data",
    help="List, download and print data sets.",
    epilog="Example: regard data show multi30k -n 3",
    no_args_is_help=True,
)

Name = Annotated[str, typer.Argument(help="A name from `regard data list`.")]
Cache = Annotated[
    Path | None,
    typer.Option(help="Cache folder for downloads.", show_default="$REGARD_CACHE or ~/.cache/regard"),
]


@app.command("list", epilog="Example: regard data list --json")
def list_sets(cache: Cache = None, json: AsJson = False) -> None:
    """List the data sets: languages, pairs, licence, origin, and whether they are downloaded."""
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
    path: Annotated[
        bool, typer.Option("--path", help="Print only the folder, for use as data.path=FOLDER.")
    ] = False,
    language: Annotated[
        list[str] | None,
        typer.Option(help="A language to download; repeat for more.", show_default="the first two"),
    ] = None,
    form: Annotated[Literal["raw", "tok"], typer.Option(help="Raw or tokenized sentences.")] = "raw",
) -> None:
    """Download a data set into the cache and verify it; files in the cache are not downloaded again."""
    from regard.data import catalog

    files = catalog.fetch(name, cache=cache, languages=language, form=form)
    if not files:
        typer.echo(f"{name} is part of the package; nothing to download", err=True)
    for line in sorted({str(file.parent) for file in files}) if path else [str(file) for file in files]:
        print(line)


@app.command(epilog="Example: regard data show tatoeba-eng-fra --split test -n 3 --source fr --target en")
def show(
    name: Name,
    split: Annotated[str, typer.Option(help="train, valid or test.")] = "train",
    number: Annotated[int, typer.Option("-n", "--number", min=1, help="Number of pairs.")] = 5,
    source: Annotated[
        str | None, typer.Option(help="Source language.", show_default="the data set's first")
    ] = None,
    target: Annotated[
        str | None, typer.Option(help="Target language.", show_default="the data set's second")
    ] = None,
    path: Annotated[Path | None, typer.Option(help="A folder with the data set, instead of the cache.")] = None,
    form: Annotated[Literal["raw", "tok"], typer.Option(help="Raw or tokenized sentences.")] = "raw",
    cache: Cache = None,
    json: AsJson = False,
) -> None:
    """Print the first pairs of a split: source and target, tab-separated."""
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
