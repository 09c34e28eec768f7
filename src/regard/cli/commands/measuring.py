"""Runs are measured, and so is the machine."""

from pathlib import Path
from typing import Annotated

import typer

from regard.cli.commands.arguments import AsJson, BatchSize, Beam, Merge, Run, Source, Target, With


def evaluate(
    run: Run,
    source: Source = None,
    target: Target = None,
    beam: Beam = None,
    batch_size: BatchSize = None,
    data: Annotated[
        Path | None,
        typer.Option(help="A file of labels, tags or answers; a text, for a GPT; for images a folder."),
    ] = None,
    merge: Merge = None,
    beside: With = None,
    as_json: AsJson = False,
) -> None:
    """Measure a run: BLEU, chrF, TER with sacreBLEU's signature, loss; accuracy, F1, exact match; bits a byte.

    Examples:

    regard evaluate runs/picturebook

    regard evaluate runs/mine --source test.de --target test.en --json

    regard evaluate runs/one --with runs/other

    regard evaluate runs/ner --data test.conll

    regard evaluate runs/vit --merge 0.2
    """
    from regard.cli import evaluating

    evaluating.run(run, source, target, beam, batch_size, data, as_json, merge, beside or [])


def compare(
    runs: Annotated[
        list[Path],
        typer.Argument(metavar="RUN", help="Two run folders or more; the first is the measure."),
    ],
    source: Source = None,
    target: Target = None,
    beam: Beam = None,
    outputs: Annotated[
        list[Path] | None,
        typer.Option("-o", "--output", help="A .md, .json, .png or .svg file; may be given several times."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compare runs on the same sentences: size, training, speed, BLEU, chrF, TER, and a paired bootstrap.

    Examples:

    regard compare runs/words runs/bpe

    regard compare runs/words runs/bpe --source test.de --target test.en -o report.md -o report.png
    """
    from regard.cli import comparing

    comparing.run(runs, source, target, beam, outputs or [], as_json)


def report(
    run: Run,
    output: Annotated[Path, typer.Option("-o", "--output", help="The page to write.")] = Path("report.html"),
) -> None:
    """A training on one page: curves, samples over time, BLEU by length, attention, recipe, environment.

    Example:  regard report runs/picturebook -o report.html
    """
    from regard.cli import reporting

    reporting.run(run, output)


def doctor(as_json: AsJson = False) -> None:
    """Check this machine and this installation, in less than a minute; exit code 1 if something is wrong.

    Example:  regard doctor --json
    """
    from regard.cli import doctoring

    if not doctoring.run(as_json):
        raise typer.Exit(1)


def bench(
    names: Annotated[
        list[str],
        typer.Argument(
            metavar="[reduction|paint] RUN",
            help="`RUN` measures decoding speed; `reduction RUN`, the break-even of token reduction; "
            "`paint RUN`, the time profile of painting.",
        ),
    ],
    source: Annotated[Path | None, typer.Option(help="Sentences to translate, one a line.")] = None,
    data: Annotated[
        Path | None,
        typer.Option(help="For `reduction`: what to measure on, if not the run's own."),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer rounds and levels.")] = False,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", help="JSON file for the result; of `reduction` a picture, reduction.png."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Measure the speed of a run on this machine: decoding, token reduction, painting.

    `RUN --source FILE` measures sentences a second by batch size and beam size. `reduction RUN` measures a run
    that labels texts or images with fewer and fewer tokens: accuracy, speed, operations and memory, and from
    which length on reduction is faster. `paint RUN` measures the share of each part of a painting run, and the
    speed-up by merging pixels. Comparisons with other software are scripts in the folder benchmarks/ of the
    source.

    Examples:

    regard bench runs/multi30k --source test.en --json

    regard bench reduction runs/vit -o reduction.png

    regard bench paint runs/paint
    """
    from regard.cli import benching

    if names[0] == "reduction":
        benching.check_unused("source", source)
        benching.reduction(names[1:], data, output, quick=quick, print_json=as_json)
        return
    benching.check_unused("data", data)
    if names[0] == "paint":
        benching.check_unused("source", source)
        benching.painting(names[1:], output, quick=quick, print_json=as_json)
        return
    benching.decoding(names, source, output, quick=quick, print_json=as_json)
