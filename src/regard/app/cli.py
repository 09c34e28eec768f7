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
    run: Run,
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
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line.")] = False,
) -> None:
    """Translate text, line for line; files of any size, in constant memory.

    Examples:

    regard translate runs/picturebook input.de -o output.en

    echo "Ein Hund schläft." | regard translate runs/picturebook
    """
    from regard.app import translating
    from regard.decoding import Chance
    from regard.jobs import load_translator

    translating.check_shares(files or [], output)
    loaded = load_translator(run)
    chance = None if seed is None else Chance(seed, temperature)
    translating.run(loaded, files or [], output, loaded.options(beam, nbest), chance, batch_size, long, as_json)


Files = Annotated[
    list[Path] | None, typer.Argument(metavar="[FILE]...", help="Texts, one a line; none: standard input.")
]
Output = Annotated[Path | None, typer.Option("-o", "--output", help="Where to write; else standard output.")]
JsonLines = Annotated[bool, typer.Option("--json", help="One JSON object a line.")]


@cli.command()
def classify(run: Run, files: Files = None, output: Output = None, as_json: JsonLines = False) -> None:
    """Label texts, line for line, with the label's probability; pairs are two texts with a tab between.

    Examples:

    echo "a warm , funny film" | regard classify runs/sentiment

    regard classify runs/inference pairs.tsv --json -o labels.jsonl
    """
    from regard.app import asking

    asking.classify(run, files or [], output, as_json)


@cli.command()
def tag(
    run: Run,
    files: Files = None,
    output: Output = None,
    words: Annotated[
        bool, typer.Option("--words", help="The text is words already, with blanks between.")
    ] = False,
    as_json: JsonLines = False,
) -> None:
    """Tag the words of texts: word, tag and probability a line; with --json also the names they make.

    Example:  echo "Empire State Building in New York" | regard tag runs/ner
    """
    from regard.app import asking

    asking.tag(run, files or [], output, words, as_json)


@cli.command()
def answer(
    run: Run,
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[FILE]...", help="Questions and their paragraphs, a tab between; none: standard input."
        ),
    ] = None,
    output: Output = None,
    question: Annotated[str | None, typer.Option(help="One question, with --paragraph.")] = None,
    paragraph: Annotated[Path | None, typer.Option(help="The file that holds its answer.")] = None,
    as_json: JsonLines = False,
) -> None:
    """Find the answer to a question in its paragraph, with its probability and its place.

    Examples:

    regard answer runs/qa --question "Who led the team in sacks?" --paragraph panthers.txt

    regard answer runs/qa questions.tsv --json
    """
    from regard.app import asking

    asking.answer(run, files or [], output, question, paragraph, as_json)


@cli.command()
def embed(run: Run, files: Files = None, output: Output = None, as_json: JsonLines = False) -> None:
    """Make a vector of each line, the mean of its tokens': numbers with tabs between; -o FILE.npy: one array.

    Example:  regard embed runs/minilm sentences.txt -o vectors.npy
    """
    from regard.app import asking

    asking.embed(run, files or [], output, as_json)


@cli.command(name="import")
def import_folder(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="DIR", help="A Hugging Face BERT folder: config.json, model.safetensors, vocabulary."
        ),
    ],
    out: Annotated[Path, typer.Option(help="The run folder to make.")],
    as_json: AsJson = False,
) -> None:
    """Make a run of a Hugging Face BERT, with or without a head; only safetensors, JSON and text are read.

    Example:  regard import all-MiniLM-L6-v2 --out runs/minilm
    """
    from regard.app import importing

    importing.run(folder, out, as_json)


@cli.command()
def evaluate(
    run: Run,
    source: Source = None,
    target: Target = None,
    beam: Beam = None,
    data: Annotated[Path | None, typer.Option(help="For labels, tags, answers: a file of them.")] = None,
    as_json: AsJson = False,
) -> None:
    """Measure a run: BLEU, chrF, TER with sacreBLEU's signature, loss; or accuracy, F1, exact match.

    Examples:

    regard evaluate runs/picturebook

    regard evaluate runs/mine --source test.de --target test.en --json

    regard evaluate runs/ner --data test.conll
    """
    from regard.app import evaluating

    evaluating.run(run, source, target, beam, data, as_json)


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
    text: Annotated[str, typer.Argument(help="The text to translate or read, and look into.")],
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
        str | None,
        typer.Option(help="A translation to look at instead of the model's own; for BERT, a second text."),
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
