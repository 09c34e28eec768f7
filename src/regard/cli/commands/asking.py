"""Runs are asked: texts in, answers out, line for line; prompts in, pictures out."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from regard.cli.commands.arguments import (
    AsJson,
    BatchSize,
    Beam,
    Exported,
    Files,
    JsonLines,
    Merge,
    Output,
    Run,
    With,
    within,
)
from regard.errors import RegardError
from regard.limits import MAX_BATCH_SIZE, MAX_BEAM, MAX_NBEST, MAX_SAMPLES, MAX_TOKENS


def translate(
    run: Exported,
    files: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[FILE]...", help="Texts, a sentence a line; none: standard input."),
    ] = None,
    output: Output = None,
    beam: Beam = None,
    nbest: Annotated[
        int,
        typer.Option(
            callback=within("--nbest", MAX_NBEST),
            help="Translations per line; more than 1: rank, score and text. The beam is at least as wide.",
        ),
    ] = 1,
    batch_size: BatchSize = None,
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
    beside: With = None,
    as_json: JsonLines = False,
) -> None:
    """Translate text, line for line; files of any size, in constant memory.

    Examples:

    regard translate runs/picturebook input.de -o output.en

    echo "Ein Hund schläft." | regard translate runs/picturebook

    regard translate runs/one input.de --with runs/other

    regard translate exported/ctranslate2 input.de --engine ctranslate2
    """
    from regard.cli import translating
    from regard.decoding import SamplingConfig
    from regard.tasks.engines import open_engine

    translating.check_shares(files or [], output)
    loaded = open_engine(run, engine, beside or [])
    chance = None if seed is None else SamplingConfig(seed, temperature)
    translating.run(loaded, files or [], output, loaded.options(beam, nbest), chance, batch_size, long, as_json)


def generate(
    run: Run,
    prompts: Annotated[
        list[str] | None,
        typer.Argument(metavar="[PROMPT]...", help="To go on with; none: standard input."),
    ] = None,
    file: Annotated[Path | None, typer.Option(help="Prompts, one a line.")] = None,
    output: Output = None,
    tokens: Annotated[
        int, typer.Option(callback=within("--tokens", MAX_TOKENS), help="The most tokens to write.")
    ] = 200,
    temperature: Annotated[
        float | None, typer.Option(min=0.01, help="Above 1 is bolder.", show_default="1")
    ] = None,
    top_k: Annotated[int | None, typer.Option(min=1, help="Draw from so many likeliest tokens.")] = None,
    top_p: Annotated[
        float | None, typer.Option(help="Draw from the likeliest tokens with this share together.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, help="The same seed gives the same text.", show_default="1")
    ] = None,
    samples: Annotated[
        int,
        typer.Option(callback=within("--samples", MAX_SAMPLES), help="Texts a prompt, with seeds that follow."),
    ] = 1,
    repetition_penalty: Annotated[
        float, typer.Option(help="Above 1, what was said is less likely to be said again.")
    ] = 1.0,
    beam: Annotated[
        int | None,
        typer.Option(
            callback=within("--beam", MAX_BEAM), help="Search for the likeliest text instead; 1 is greedy."
        ),
    ] = None,
    batch_size: Annotated[
        int,
        typer.Option(callback=within("--batch-size", MAX_BATCH_SIZE), help="Prompts continued together."),
    ] = 32,
    stop: Annotated[list[str] | None, typer.Option(help="End before this; may be given several times.")] = None,
    as_json: JsonLines = False,
) -> None:
    """Go on with texts, token by token; one prompt is told as it is written.

    Examples:

    regard generate runs/shakespeare "ROMEO:" --temperature 0.8 --top-k 40

    regard generate runs/gpt --file prompts.txt --tokens 50 --seed 7 --json
    """
    from regard.cli import generating

    wish = generating.wish_of(
        tokens, seed, temperature, top_k, top_p, beam, repetition_penalty, stop or [], batch_size
    )
    if beam is not None and samples > 1:
        raise RegardError("--beam finds one text a prompt; --samples is for drawing")
    generating.run(run, prompts or [], file, output, wish, samples, as_json)


def classify(
    run: Run, files: Files = None, output: Output = None, merge: Merge = None, as_json: JsonLines = False
) -> None:
    """Label texts, line for line, with the label's probability; pairs are two texts with a tab between.

    A run of a Vision Transformer labels image files, PNG or JPEG.

    Examples:

    echo "a warm , funny film" | regard classify runs/sentiment

    regard classify runs/inference pairs.tsv --json -o labels.jsonl

    regard classify runs/vit one.png two.jpg
    """
    from regard.cli import asking

    asking.classify(run, files or [], output, as_json, merge)


def tag(
    run: Run,
    files: Files = None,
    output: Output = None,
    words: Annotated[
        bool, typer.Option("--words", help="The text is words already, with blanks between.")
    ] = False,
    merge: Merge = None,
    as_json: JsonLines = False,
) -> None:
    """Tag the words of texts: word, tag and probability a line; with --json also the names they make.

    Example:  echo "Empire State Building in New York" | regard tag runs/ner
    """
    from regard.cli import asking

    asking.tag(run, files or [], output, words, as_json, merge)


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
    from regard.cli import asking

    asking.answer(run, files or [], output, question, paragraph, as_json)


def embed(run: Run, files: Files = None, output: Output = None, as_json: JsonLines = False) -> None:
    """Make a vector of each line, pooled from its tokens': numbers with tabs between; -o FILE.npy: one array.

    Example:  regard embed runs/minilm sentences.txt -o vectors.npy
    """
    from regard.cli import asking

    asking.embed(run, files or [], output, as_json)


def paint(
    run: Run,
    prompts: Annotated[
        list[str], typer.Argument(metavar="PROMPT...", help="What to paint, a row of pictures each.")
    ],
    output: Annotated[Path, typer.Option("-o", "--output", help="The grid to write, .png or .svg.")] = Path(
        "painted.png"
    ),
    count: Annotated[int, typer.Option("-n", "--count", min=1, help="Pictures for each prompt.")] = 8,
    steps: Annotated[
        int | None, typer.Option(min=1, help="From noise to picture.", show_default="the recipe's")
    ] = None,
    guidance: Annotated[
        float | None,
        typer.Option(
            min=0, help="How much the prompt counts: 1 as learned, 0 not.", show_default="the recipe's"
        ),
    ] = None,
    sampler: Annotated[
        Literal["ddim", "ddpm"] | None,
        typer.Option(help="ddpm: new noise at each step.", show_default="the recipe's"),
    ] = None,
    merge: Annotated[
        float, typer.Option(min=0, max=0.5, help="Share of the pixels merged before they look around.")
    ] = 0.0,
    seed: Annotated[int, typer.Option(min=0, help="The same seed paints the same pictures.")] = 1,
    as_json: AsJson = False,
) -> None:
    """Paint what prompts say, and write the pictures as a grid.

    Examples:

    regard paint runs/paint "a seven" "eine Drei" -o grid.png

    regard paint runs/paint "7" --steps 100 --guidance 3 --sampler ddpm --seed 5 -o sevens.png
    """
    from regard.cli import painting

    way = {"steps": steps, "guidance": guidance, "sampler": sampler, "merge": merge}
    painting.run(run, prompts, output, count, seed, way, as_json)
