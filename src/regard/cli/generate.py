"""`regard generate`: text generation from prompts."""

import json
import sys
from collections.abc import Iterator
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

from regard.cli.arguments import JsonLines, Output, Run
from regard.cli.lines import open_output, standard_input
from regard.errors import RegardError, memory_hint
from regard.limits import MAX_BATCH_SIZE, MAX_BEAM, MAX_SAMPLES, MAX_TOKENS

if TYPE_CHECKING:
    from regard.decoding.generator import Completion, GenerationConfig

PROMPTS_PER_BATCH = 256
"""Prompts that are read before generation starts."""


def generate(
    run: Run,
    prompts: Annotated[
        list[str] | None,
        typer.Argument(metavar="PROMPT", help="Prompts (default: lines of standard input)."),
    ] = None,
    file: Annotated[Path | None, typer.Option(help="File with one prompt per line.")] = None,
    output: Output = None,
    tokens: Annotated[int, typer.Option(min=1, max=MAX_TOKENS, help="Maximum number of new tokens.")] = 200,
    temperature: Annotated[
        float | None,
        typer.Option(min=0.01, help="Sampling temperature; above 1 is more random.", show_default="1"),
    ] = None,
    top_k: Annotated[int | None, typer.Option(min=1, help="Sample from the k likeliest tokens.")] = None,
    top_p: Annotated[
        float | None, typer.Option(help="Nucleus sampling: smallest set of tokens with this total probability.")
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Random seed.", show_default="1")] = None,
    samples: Annotated[
        int,
        typer.Option(min=1, max=MAX_SAMPLES, help="Texts per prompt, with consecutive seeds."),
    ] = 1,
    repetition_penalty: Annotated[
        float, typer.Option(help="Above 1, tokens of the text so far are less likely.")
    ] = 1.0,
    beam: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=MAX_BEAM,
            help="Beam search with this beam size instead of sampling; 1 is greedy.",
        ),
    ] = None,
    batch_size: Annotated[
        int,
        typer.Option(min=1, max=MAX_BATCH_SIZE, help="Prompts per batch."),
    ] = 32,
    stop: Annotated[list[str] | None, typer.Option(help="Stop before this text; repeat for more.")] = None,
    as_json: JsonLines = False,
) -> None:
    """Generate text from prompts; a single prompt is streamed.

    Examples:

    regard generate runs/shakespeare "ROMEO:" --temperature 0.8 --top-k 40

    regard generate runs/gpt --file prompts.txt --tokens 50 --seed 7 --json
    """
    from regard.decoding.generator import GenerationConfig, with_following_seeds
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
        raise RegardError("--beam finds one text per prompt; --samples needs sampling")
    if prompts and file is not None:
        raise RegardError("give prompts as arguments or with --file, not both")
    loaded = LanguageModel.load(run)
    configs = with_following_seeds(config, samples)
    with memory_hint(memory_advice(config)), open_output(output) as out:
        if prompts and len(prompts) == 1 and samples == 1 and not as_json:
            stream(loaded.stream(prompts[0], config), prompts[0], out)
            return
        first = True
        for batch in prompt_batches(prompts or [], file):
            by_seed = [loaded.complete(batch, seed_config) for seed_config in configs]
            for completions in zip(*by_seed, strict=True):  # those of one prompt together
                for completion in completions:
                    if as_json:
                        out.write(json.dumps(asdict(completion), ensure_ascii=False) + "\n")
                    else:
                        out.write(paragraph(completion, first, out))
                    first = False
            out.flush()


def check_no_sampling(options: dict[str, int | float | None]) -> None:
    """Refuse sampling options together with --beam."""
    for name, value in options.items():
        if value is not None:
            raise RegardError(f"--beam and {name} exclude each other; {name} is for sampling")


def memory_advice(config: "GenerationConfig") -> str:
    """What to do when generating runs out of memory."""
    beam = f", --beam (now {config.beam})" if config.beam else ""
    return f"lower --batch-size (now {config.batch_size}){beam} or --tokens (now {config.tokens})"


def stream(pieces: Iterator[str], prompt: str, out: TextIO) -> None:
    """Print the prompt and its continuation piece by piece."""
    started = False
    for piece in pieces:
        out.write(printable(piece if started else prompt + piece, out))  # the model checks the prompt first
        out.flush()
        started = True
    out.write("\n")


def prompt_batches(prompts: list[str], file: Path | None) -> Iterator[list[str]]:
    """The prompts, or those of a file or standard input in batches; a terminal is read line by line."""
    from regard.data.corpus import read_lines

    if prompts:
        yield prompts
        return
    interactive = file is None and sys.stdin.isatty()
    lines = iter(standard_input(interactive) if file is None else read_lines(file))
    while batch := list(islice(lines, 1 if interactive else PROMPTS_PER_BATCH)):
        yield batch


def paragraph(completion: "Completion", first: bool, out: TextIO) -> str:
    """A prompt with its continuation, after an empty line unless it is the first."""
    return ("" if first else "\n") + printable(completion.prompt + completion.text, out) + "\n"


def printable(text: str, out: TextIO) -> str:
    """The text, without control characters if the output is a terminal."""
    from regard.viz.terminal import printable

    return "\n".join(map(printable, text.split("\n"))) if out.isatty() else text
