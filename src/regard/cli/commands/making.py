"""Runs are made, trained or brought from elsewhere, and taken there."""

import json
from pathlib import Path
from typing import Annotated, Literal

import typer

from regard.cli.commands.arguments import AsJson, Run
from regard.cli.commands.helping import recipe_names


def train(
    recipe: Annotated[
        str,
        typer.Argument(help="The name of a shipped recipe, or a TOML file.", autocompletion=recipe_names),
    ],
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
    from regard.cli import results
    from regard.cli.terminal import Terminal
    from regard.config import parse_assignments
    from regard.tasks import train as train_recipe

    with Terminal() as terminal:
        run = train_recipe(
            recipe, out, overrides=parse_assignments(assignments or []), resume=resume, audience=terminal
        )
    if run is None:  # not the first process of several
        return
    if as_json:
        print(json.dumps(run.as_json()))
    else:
        results.print_summary(run.summary())


def remember(
    run: Run,
    source: Annotated[
        Path | None,
        typer.Option(help="Sentences to remember, a file or a table of pairs; else the run's own data."),
    ] = None,
    target: Annotated[Path | None, typer.Option(help="Their translations, line by line.")] = None,
    forget: Annotated[bool, typer.Option("--forget", help="Translate as it was trained again.")] = False,
    as_json: AsJson = False,
) -> None:
    """Let a translation run ask sentence pairs that are like the one at hand, without training.

    From then on, the words that stood in the most similar places have a say in every word it writes. How large
    a say is found by validation sentences. It takes longer to translate, the more so the more it remembers.

    Examples:

    regard remember runs/mine

    regard remember runs/mine --source manuals.de --target manuals.en

    regard remember runs/mine --forget
    """
    from regard.cli import remembering

    remembering.run(run, source, target, forget, as_json)


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
        Path | None, typer.Option(help="Texts, or a folder of images, to check it with; else the run's own.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write a model for CTranslate2, ONNX or Hugging Face, and check what it says there.

    Examples:

    regard export runs/mine --to ctranslate2 exported/ctranslate2 --quantize int8

    regard export runs/mine --to huggingface exported/huggingface
    """
    from regard.cli import exporting

    exporting.run(run, to, folder, quantize, source, as_json)


def import_folder(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="DIR", help="A Hugging Face folder: config.json, model.safetensors, vocabulary."
        ),
    ],
    out: Annotated[Path, typer.Option(help="The run folder to make.")],
    as_json: AsJson = False,
) -> None:
    """Make a run of a Hugging Face folder: a BERT, a GPT-2, a ViT, or a translation model that we exported.

    Only safetensors, JSON and text are read.

    Example:  regard import all-MiniLM-L6-v2 --out runs/minilm
    """
    from regard.cli import importing

    importing.run(folder, out, as_json)
