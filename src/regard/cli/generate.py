"""`regard generate`: prompts in, their continuations out; a single prompt is printed token by token."""

import json
import sys
from collections.abc import Iterator
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

from regard.cli.arguments import JsonLines, Output, Run, within
from regard.cli.lines import open_output, standard_input
from regard.errors import RegardError, memory_hint
from regard.limits import MAX_BATCH_SIZE, MAX_BEAM, MAX_SAMPLES, MAX_TOKENS

if TYPE_CHECKING:
    from regard.decoding.generator import Completion, GenerationConfig

PROMPTS_PER_BATCH = 256
"""Prompts that are read before they are continued together."""


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
    from regard.decoding.generator import GenerationConfig
    from regard.decoding.generator import samples as with_following_seeds
    from regard.decoding.sampling import SamplingConfig
    from regard.tasks.language_modeling.model import LanguageModel

    if beam is not None:
        check_no_sampling({"--seed": seed, "--temperature": temperature, "--top-k": top_k, "--top-p": top_p})
    sampling = SamplingConfig(
        1 if seed is None else seed,
        1.0 if temperature is None else temperature,
        top_k or 0,
        1.0 if top_p is None else top_p,
    )
    config = GenerationConfig(tokens, sampling, beam or 0, repetition_penalty, tuple(stop or ()), batch_size)
    if beam is not None and samples > 1:
        raise RegardError("--beam finds one text a prompt; --samples is for drawing")
    if prompts and file is not None:
        raise RegardError("prompts are given as arguments or in a file, not both")
    loaded = LanguageModel.load(run)
    configs = with_following_seeds(config, samples)
    with memory_hint(memory_advice(config)), open_output(output) as out:
        if prompts and len(prompts) == 1 and samples == 1 and not as_json:
            stream(loaded.stream(prompts[0], config), prompts[0], out)
            return
        first = True
        for batch in prompt_batches(prompts or [], file):
            by_seed = [loaded.write(batch, each) for each in configs]
            for completions in zip(*by_seed, strict=True):  # those of one prompt together
                for completion in completions:
                    if as_json:
                        out.write(json.dumps(asdict(completion), ensure_ascii=False) + "\n")
                    else:
                        out.write(paragraph(completion, first, out))
                    first = False
            out.flush()


def check_no_sampling(options: dict[str, int | float | None]) -> None:
    """Refuse options of sampling beside --beam."""
    for name, value in options.items():
        if value is not None:
            raise RegardError(f"--beam searches for the likeliest text, and {name} is for drawing one")


def memory_advice(config: "GenerationConfig") -> str:
    """What to do when generating runs out of memory."""
    beam = f", --beam (now {config.beam})" if config.beam else ""
    return f"Lower --batch-size (now {config.batch_size}){beam} or --tokens (now {config.tokens})."


def stream(pieces: Iterator[str], prompt: str, out: TextIO) -> None:
    """Print the prompt and its continuation piece by piece."""
    begun = False
    for piece in pieces:
        out.write(printable(piece if begun else prompt + piece, out))  # the model checks the prompt first
        out.flush()
        begun = True
    out.write("\n")


def prompt_batches(prompts: list[str], file: Path | None) -> Iterator[list[str]]:
    """The prompts given, else those of a file or of standard input in batches; of a terminal, line by line."""
    from regard.data.corpus import read_lines

    if prompts:
        yield prompts
        return
    interactive = file is None and sys.stdin.isatty()
    lines = iter(standard_input(interactive) if file is None else read_lines(file))
    while batch := list(islice(lines, 1 if interactive else PROMPTS_PER_BATCH)):
        yield batch


def paragraph(completion: "Completion", first: bool, out: TextIO) -> str:
    """A prompt with its continuation, an empty line before all but the first."""
    return ("" if first else "\n") + printable(completion.prompt + completion.text, out) + "\n"


def printable(text: str, out: TextIO) -> str:
    """Without control characters on a terminal; unchanged in a file or a pipe."""
    from regard.viz.terminal import printable

    return "\n".join(map(printable, text.split("\n"))) if out.isatty() else text
