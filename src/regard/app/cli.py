"""The command line: one verb a command, each a thin skin over the rooms below."""

import errno
import json
import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from regard import __version__
from regard.app import data, show
from regard.errors import RegardError

cli = typer.Typer(
    name="regard",
    help="Train, run and open up attention models, on the machine you have.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
cli.add_typer(show.app, name="show")
cli.add_typer(data.app, name="data")


def main() -> None:
    """The console script: a user's mistake ends with one sentence and exit code 2, never a traceback."""
    try:
        cli()
    except RegardError as mistake:
        fail(str(mistake), mistake.code)
    except KeyboardInterrupt:
        fail("stopped", 130)
    except BrokenPipeError:
        sys.stderr.close()  # whoever read our output has gone; nobody wants to hear about it
        sys.exit(1)
    except OSError as problem:
        if problem.errno not in USERS_MATTERS:
            raise
        where = f" {problem.filename}" if problem.filename else ""
        code = 1 if problem.errno in (errno.ENOSPC, errno.EDQUOT, errno.EROFS) else 2
        fail(f"writing{where} failed: {(problem.strerror or str(problem)).lower()}", code)


USERS_MATTERS = {
    errno.EACCES,
    errno.EDQUOT,
    errno.EISDIR,
    errno.ENOENT,
    errno.ENOSPC,
    errno.ENOTDIR,
    errno.EPERM,
    errno.EROFS,
}
"""What keeps a file from being written that a user can mend."""


def fail(sentence: str, code: int) -> None:
    print(f"regard: {sentence}", file=sys.stderr)
    sys.exit(code)


def print_version(wanted: bool) -> None:
    if wanted:
        print(f"regard {__version__}")
        raise typer.Exit


@cli.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


Run = Annotated[Path, typer.Argument(metavar="RUN", help="A run folder made by `regard train`.")]
Exported = Annotated[Path, typer.Argument(metavar="RUN", help="A run folder, or what `regard export` made.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Source = Annotated[Path | None, typer.Option(help="Sentences to translate; else the recipe's test split.")]
Target = Annotated[Path | None, typer.Option(help="Their references, line for line.")]
Beam = Annotated[int | None, typer.Option(min=1, help="Translations kept open.", show_default="the recipe's")]


@cli.command()
def train(
    recipe: Annotated[str, typer.Argument(help="The name of a shipped recipe, or a TOML file.")],
    assignments: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help="Laid over the recipe.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="The run folder to make.", show_default="runs/RECIPE")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the checkpoint in --out.")] = False,
    as_json: AsJson = False,
) -> None:
    """Train a recipe into a run folder.

    Examples:

    regard train picturebook

    regard train translation data.source=mine.de data.target=mine.en train.minutes=30 --out runs/mine
    """
    from regard.app import results
    from regard.app.terminal import Terminal
    from regard.jobs import train as train_recipe

    with Terminal() as terminal:
        run = train_recipe(recipe, out, assignments or [], resume=resume, audience=terminal)
    if run is None:  # not the first process of several
        return
    if as_json:
        print(json.dumps(run.as_json()))
    else:
        results.print_run(run)


@cli.command()
def translate(
    run: Exported,
    files: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[FILE]...", help="Texts, a sentence a line; none: standard input."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Where to write; else standard output.")
    ] = None,
    beam: Beam = None,
    nbest: Annotated[
        int, typer.Option(min=1, help="Translations a line; more than 1: number, score and text.")
    ] = 1,
    batch_size: Annotated[int | None, typer.Option(min=1, show_default="the recipe's")] = None,
    long: Annotated[
        Literal["split", "cut", "refuse"],
        typer.Option(help="What to do with a line longer than the model allows."),
    ] = "split",
    seed: Annotated[
        int | None, typer.Option(min=0, help="Draw translations by chance instead of searching.")
    ] = None,
    temperature: Annotated[float, typer.Option(min=0.01, help="With --seed: above 1 is bolder.")] = 1.0,
    engine: Annotated[
        Literal["regard", "ctranslate2", "onnx"] | None,
        typer.Option(help="What runs the model.", show_default="what the folder is made for"),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line.")] = False,
) -> None:
    """Translate text, line for line; files of any size, in constant memory.

    Examples:

    regard translate runs/picturebook input.de -o output.en

    echo "Ein Hund schläft." | regard translate runs/picturebook

    regard translate exported/ctranslate2 input.de --engine ctranslate2
    """
    from regard.app import translating
    from regard.decoding import Chance
    from regard.jobs.engines import open_engine

    translating.check_shares(files or [], output)
    loaded = open_engine(run, engine)
    chance = None if seed is None else Chance(seed, temperature)
    translating.run(loaded, files or [], output, loaded.options(beam, nbest), chance, batch_size, long, as_json)


@cli.command()
def export(
    run: Run,
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder to make.")],
    to: Annotated[
        Literal["ctranslate2", "onnx", "huggingface"], typer.Option("--to", help="The tool it is for.")
    ],
    quantize: Annotated[
        Literal["int8"] | None, typer.Option(help="ctranslate2: weights as small whole numbers.")
    ] = None,
    source: Annotated[
        Path | None, typer.Option(help="Sentences to check it with; else those the run kept.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write a translation model for CTranslate2, ONNX or Hugging Face, and check that it says the same there.

    Examples:

    regard export runs/mine --to ctranslate2 exported/ctranslate2 --quantize int8

    regard export runs/mine --to huggingface exported/huggingface
    """
    from regard.app import exporting

    exporting.run(run, to, folder, quantize, source, as_json)


@cli.command(name="import")
def import_folder(
    folder: Annotated[
        Path,
        typer.Argument(metavar="DIR", help="A Hugging Face folder: config.json, model.safetensors, tokenizer."),
    ],
    out: Annotated[Path, typer.Option(help="The run folder to make.")],
    as_json: AsJson = False,
) -> None:
    """Make a run of a Hugging Face folder: a translation model that regard exported, trained further or not.

    Only safetensors and JSON are read.

    Example:  regard import exported/huggingface --out runs/again
    """
    from regard.app import importing

    importing.run(folder, out, as_json)


@cli.command()
def evaluate(
    run: Run,
    source: Source = None,
    target: Target = None,
    beam: Beam = None,
    as_json: AsJson = False,
) -> None:
    """Measure a run: BLEU, chrF, TER with sacreBLEU's signature, loss, BLEU by length.

    Examples:

    regard evaluate runs/picturebook

    regard evaluate runs/mine --source test.de --target test.en --json
    """
    from regard.app import evaluating

    evaluating.run(run, source, target, beam, as_json)


@cli.command()
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
    from regard.app import comparing

    comparing.run(runs, source, target, beam, outputs or [], as_json)


@cli.command()
def look(
    run: Run,
    text: Annotated[str, typer.Argument(help="The sentence to translate and look into.")],
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            help="A page (.html), a picture (.png, .svg) or .json.",
            show_default="the terminal",
        ),
    ] = None,
    target: Annotated[
        str | None, typer.Option(help="A translation to look at instead of the model's own.")
    ] = None,
    layer: Annotated[
        str | None,
        typer.Option(help="Such as decoder.0.cross, encoder.rollout.", show_default="the alignment"),
    ] = None,
    head: Annotated[int | None, typer.Option(min=0, help="One head of the layer, from 0.")] = None,
    words: Annotated[bool, typer.Option("--words", help="Join subwords into words.")] = False,
) -> None:
    """See which words looked at which: a page with every layer and head, a picture, or a map in the terminal.

    Examples:

    regard look runs/picturebook "Ein alter Mann liest im Park eine Zeitung." -o park.html

    regard look runs/picturebook "Der Hund schläft." --layer encoder.0.self -o heads.svg
    """
    from regard.app import looking

    looking.run(run, text, output, target, layer, head, words)


@cli.command()
def report(
    run: Run,
    output: Annotated[Path, typer.Option("-o", "--output", help="The page to write.")] = Path("report.html"),
) -> None:
    """A training on one page: curves, samples over time, BLEU by length, attention, recipe, environment.

    Example:  regard report runs/picturebook -o report.html
    """
    from regard.app import reporting

    reporting.run(run, output)


@cli.command()
def serve(
    runs: Annotated[
        list[str], typer.Argument(metavar="RUN", help="Run folders; NAME=RUN names one, else its folder does.")
    ],
    host: Annotated[str, typer.Option(help="The address to listen at.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free one.")] = 8000,
    token_file: Annotated[
        Path | None,
        typer.Option(help="A file with the token clients must send.", show_default="$REGARD_TOKEN, or none"),
    ] = None,
    queue: Annotated[int, typer.Option(min=1, help="Sentences that may wait for a model.")] = 512,
    batch: Annotated[int, typer.Option(min=1, help="Sentences translated together.")] = 64,
    timeout: Annotated[float, typer.Option(min=0.01, help="Seconds a request may wait for its answer.")] = 30.0,
    allow_host: Annotated[
        list[str] | None, typer.Option(help="Another name the server goes by; '*' for any.")
    ] = None,
    allow_origin: Annotated[
        list[str] | None, typer.Option(help="A site whose pages may ask, such as https://example.org.")
    ] = None,
) -> None:
    """Serve run folders over HTTP, with a page to try them; its address is printed when it listens.

    Examples:

    regard serve runs/picturebook

    regard serve german=runs/picturebook runs/mine --port 0 --token-file token.txt
    """
    from regard.app import serving

    serving.run(
        serving.Serving(
            runs, host, port, token_file, queue, batch, timeout, allow_host or (), allow_origin or ()
        )
    )


@cli.command()
def doctor(as_json: AsJson = False) -> None:
    """Check this machine and this installation, in less than a minute; exit code 1 if something is wrong.

    Example:  regard doctor --json
    """
    from regard.app import doctoring

    if not doctoring.run(as_json):
        raise typer.Exit(1)


@cli.command()
def bench(
    run: Annotated[
        Path | None, typer.Argument(metavar="[RUN]", help="A run to decode with; random weights without one.")
    ] = None,
    source: Annotated[Path | None, typer.Option(help="Sentences for it to translate, one a line.")] = None,
    peers: Annotated[bool, typer.Option(help="Measure peers beside regard where they are installed.")] = True,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer sizes and rounds: about a minute.")] = False,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Where to save the result; in the cache unless told.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """How fast this machine trains and translates: matrix products, training, decoding, start-up, memory.

    Takes about two minutes. With the extra `bench` installed, peers take turns with regard in the same run.

    Example:  regard bench --quick        regard bench runs/multi30k --source test.en --json
    """
    from regard.app import benching

    benching.measure(run, source, output, peers=peers, quick=quick, print_json=as_json)
