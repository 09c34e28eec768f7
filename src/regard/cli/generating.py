"""`regard generate`: prompts in, what comes next out; one prompt is told as it is written."""

import json
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import IO

from regard.cli.translating import standard_input
from regard.data.corpus import read_lines
from regard.decoding.sampling import SamplingConfig
from regard.decoding.writer import Completion, GenerationConfig, samples
from regard.errors import RegardError, memory_hint
from regard.tasks.language_modeling.model import LanguageModel
from regard.viz.terminal import harmless

WINDOW = 256
"""Prompts that are read before they are gone on with together."""


def run(
    folder: Path,
    prompts: list[str],
    file: Path | None,
    output: Path | None,
    wish: GenerationConfig,
    count: int,
    as_json: bool,
) -> None:
    """Go on with the prompts given, or with each line of a file or of standard input."""
    if prompts and file is not None:
        raise RegardError("prompts are given as arguments or in a file, not both")
    loaded = LanguageModel.load(folder)
    wishes = samples(wish, count)
    where = nullcontext(sys.stdout) if output is None else output.open("w", encoding="utf-8", newline="\n")
    with memory_hint(memory_advice(wish)), where as out:
        if len(prompts) == 1 and count == 1 and not as_json:
            tell(out, prompts[0], loaded.stream(prompts[0], wish))
            return
        first = True
        for some in windows(prompts, file):
            found = [loaded.write(some, each) for each in wishes]
            for texts in zip(*found, strict=True):  # the texts of one prompt together
                for text in texts:
                    out.write(line_of(text) if as_json else apart(text, first, out))
                    first = False
            out.flush()


def tell(out: IO[str], prompt: str, pieces: Iterator[str]) -> None:
    """The prompt and what comes after it, as it comes."""
    begun = False
    for piece in pieces:
        out.write(shown(piece if begun else prompt + piece, out))  # not before the prompt was found good
        out.flush()
        begun = True
    out.write("\n")


def windows(prompts: list[str], file: Path | None) -> Iterator[list[str]]:
    """Some prompts at a time; a person who types is answered line by line."""
    if prompts:
        yield prompts
        return
    typed = file is None and sys.stdin.isatty()
    lines = iter(standard_input(typed) if file is None else read_lines(file))
    while some := list(islice(lines, 1 if typed else WINDOW)):
        yield some


def line_of(text: Completion) -> str:
    return json.dumps(asdict(text), ensure_ascii=False) + "\n"


def apart(text: Completion, first: bool, out: IO[str]) -> str:
    """A prompt with its text, an empty line before all but the first."""
    return ("" if first else "\n") + shown(text.prompt + text.text, out) + "\n"


def shown(text: str, out: IO[str]) -> str:
    """On a terminal, text that only shows; in a file or a pipe, text as it is."""
    return "\n".join(map(harmless, text.split("\n"))) if out.isatty() else text


def wish_of(
    tokens: int,
    seed: int | None,
    temperature: float | None,
    top_k: int | None,
    top_p: float | None,
    beam: int | None,
    repetition: float,
    stop: list[str],
    batch_size: int,
) -> GenerationConfig:
    """What was asked for; chance and search are two ways, and one is chosen."""
    if beam is not None:
        given = {"--seed": seed, "--temperature": temperature, "--top-k": top_k, "--top-p": top_p}
        for name, value in given.items():
            if value is not None:
                raise RegardError(f"--beam searches for the likeliest text, and {name} is for drawing one")
    chance = SamplingConfig(
        1 if seed is None else seed,
        1.0 if temperature is None else temperature,
        top_k or 0,
        1.0 if top_p is None else top_p,
    )
    return GenerationConfig(tokens, chance, beam or 0, repetition, tuple(stop), batch_size)


def memory_advice(wish: GenerationConfig) -> str:
    """What to lower where memory does not suffice."""
    beam = f", --beam (now {wish.beam})" if wish.beam else ""
    return f"Lower --batch-size (now {wish.batch_size}){beam} or --tokens (now {wish.tokens})."
