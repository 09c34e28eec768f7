"""`regard data`: the named data sets, listed, fetched and looked at; a thin skin over regard.data.catalog."""

import json as json_format
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

if TYPE_CHECKING:
    from regard.data.catalog import Description

# regard.data is imported inside the commands: `regard --help` must not wait for it.

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

    found = [(catalog.describe(name), catalog.present(name, cache=cache)) for name in catalog.names()]
    if json:
        print(json_format.dumps([as_record(*one) for one in found], ensure_ascii=False))
        return
    table = [("name", "languages", "pairs", "licence", "here", "origin"), *[cells(*one) for one in found]]
    widths = [max(len(line[column]) for line in table) for column in range(len(table[0]))]
    for line in table:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


@app.command(epilog="Example: regard data get multi30k --language fr --language en")
def get(
    name: Name,
    cache: Cache = None,
    path: Annotated[bool, typer.Option("--path", help="Print only the folder, for data.path=... .")] = False,
    language: Annotated[
        list[str] | None,
        typer.Option(help="A language to fetch; repeat for more.", show_default="the first two"),
    ] = None,
    form: Annotated[Literal["raw", "tok"], typer.Option(help="Sentences as written, or tokenised.")] = "raw",
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
    form: Annotated[Literal["raw", "tok"], typer.Option(help="Sentences as written, or tokenised.")] = "raw",
    cache: Cache = None,
    json: Json = False,
) -> None:
    """Print the first pairs of a split: source, tab, target."""
    from itertools import islice

    from regard.data import catalog

    pairs = catalog.pairs(name, split, source=source, target=target, path=path, form=form, cache=cache)
    for one, other in islice(pairs, number):
        record = {"source": one, "target": other}
        print(json_format.dumps(record, ensure_ascii=False) if json else f"{one}\t{other}")


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
    """A data set as the words of one line of the table."""
    sizes = [size for size in description.sizes.values() if size is not None]
    return (
        description.name,
        " ".join(description.languages),
        f"{sum(sizes):,}" if sizes else "any number",
        description.licence,
        "yes" if here else "no",
        description.origin,
    )
