"""Runs are opened: looked into, and served."""

from pathlib import Path
from typing import Annotated

import typer

from regard.cli.commands.arguments import Run, within
from regard.limits import MAX_BATCH_SIZE


def look(
    run: Run,
    text: Annotated[
        str,
        typer.Argument(help="The text to translate, read or go on with, look into; for a ViT an image file."),
    ],
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
        typer.Option(
            help="What to look at instead of the model's own translation or text; for BERT, a second text."
        ),
    ] = None,
    layer: Annotated[
        str | None,
        typer.Option(help="Such as decoder.0.cross, encoder.rollout.", show_default="the alignment"),
    ] = None,
    head: Annotated[int | None, typer.Option(min=0, help="One head of the layer, from 0.")] = None,
    words: Annotated[bool, typer.Option("--words", help="Join subwords into words.")] = False,
    merge: Annotated[
        str | None, typer.Option(help="For an image: show which patches become one, as in `classify --merge`.")
    ] = None,
) -> None:
    """See which words looked at which: a page with every layer and head, a picture, or a map in the terminal.

    Examples:

    regard look runs/picturebook "Ein alter Mann liest im Park eine Zeitung." -o park.html

    regard look runs/picturebook "Der Hund schläft." --layer encoder.0.self -o heads.svg

    regard look runs/vit digit.png -o digit.html --merge 0.2
    """
    from regard.cli import looking

    looking.run(run, text, output, target, layer, head, words, merge)


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
    batch: Annotated[
        int,
        typer.Option(callback=within("--batch", MAX_BATCH_SIZE), help="Sentences translated together."),
    ] = 64,
    timeout: Annotated[float, typer.Option(min=0.01, help="Seconds a request may wait for its answer.")] = 30.0,
    header_timeout: Annotated[
        float, typer.Option(min=0.01, help="Seconds for a request's headers to arrive.")
    ] = 10.0,
    connections: Annotated[int, typer.Option(min=1, help="Connections open at once.")] = 500,
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
    from regard.cli import serving

    serving.run(
        serving.Serving(
            runs,
            host,
            port,
            token_file,
            queue,
            batch,
            timeout,
            allow_host or (),
            allow_origin or (),
            header_timeout,
            connections,
        )
    )
