"""`regard translate`: translate text line by line."""

import json
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from regard.cli.arguments import BatchSize, Beam, EnsembleRuns, Exported, JsonLines, Output
from regard.cli.lines import UnknownWordLog, open_output, standard_input
from regard.errors import RegardError, memory_hint
from regard.limits import MAX_NBEST

if TYPE_CHECKING:
    from regard.decoding import Translation


def translate(
    run: Exported,
    files: Annotated[
        list[Path] | None,
        typer.Argument(metavar="FILE", help="Files with one sentence per line (default: standard input)."),
    ] = None,
    output: Output = None,
    beam: Beam = None,
    nbest: Annotated[
        int,
        typer.Option(
            min=1,
            max=MAX_NBEST,
            help="Translations per line; more than 1: rank, score and text. The beam size is at least N.",
        ),
    ] = 1,
    batch_size: BatchSize = None,
    long: Annotated[
        Literal["split", "cut", "refuse"],
        typer.Option(help="What to do with a line longer than the model's maximum."),
    ] = "split",
    seed: Annotated[
        int | None, typer.Option(min=0, help="Sample with this seed instead of beam search.")
    ] = None,
    temperature: Annotated[float, typer.Option(min=0.01, help="Sampling temperature, with --seed.")] = 1.0,
    engine: Annotated[
        Literal["regard", "ctranslate2", "onnx"] | None,
        typer.Option(help="Inference engine.", show_default="the folder's format"),
    ] = None,
    ensemble: EnsembleRuns = None,
    as_json: JsonLines = False,
) -> None:
    """Translate text line by line, files of any size in constant memory.

    Examples:

    regard translate runs/picturebook input.de -o output.en

    echo "Ein Hund schläft." | regard translate runs/picturebook

    regard translate runs/one input.de --with runs/other

    regard translate exported/ctranslate2 input.de --engine ctranslate2
    """
    from regard.data.corpus import read_lines
    from regard.decoding import SamplingConfig
    from regard.decoding.translator import WINDOW
    from regard.tasks.distributed_output import write_distributed
    from regard.tasks.translation.exported_translator import open_translator
    from regard.tasks.translation.model import memory_advice
    from regard.training.distributed import process_group, world_size

    if world_size() > 1 and (not files or output is None):
        raise RegardError("with several processes, FILE and -o are required")
    loaded = open_translator(run, engine, ensemble or [])
    options = loaded.options(beam, nbest)
    sampling = None if seed is None else SamplingConfig(seed, temperature)
    batch_size = batch_size or loaded.recipe.decode.batch_size
    interactive = not files and sys.stdin.isatty()
    with process_group() as world, memory_hint(memory_advice(batch_size, options.beam)):
        lines = (line for file in files for line in read_lines(file)) if files else standard_input(interactive)
        loaded.pipeline.freeze()
        windows = loaded.pipeline.stream(
            lines,
            options,
            batch_size=batch_size,
            window=1 if interactive else WINDOW,
            sampling=sampling,
            long=long,
            warn=LimitedLog(),
            shard=(world.rank, world.size),
        )
        unknown = UnknownWordLog(loaded.pipeline.source, sys.maxsize if interactive else 5)

        def texts() -> Iterator[str]:
            for number, window in enumerate(windows):
                first = 1 + (number if interactive else (number * world.size + world.rank) * WINDOW)
                for line, translation in enumerate(window, start=first):
                    unknown.check(translation.source, f"line {line}", translation.unknown_words)
                yield "".join(result_line(translation, options.nbest, as_json) for translation in window)

        if world.size > 1 and output is not None:
            write_distributed(texts(), output, world)  # each process writes its share; the first one joins them
        else:
            with open_output(output) as out:
                for text in texts():
                    out.write(text)
                    if interactive:
                        out.flush()
        unknown.summarize()


def result_line(translation: "Translation", nbest: int, as_json: bool) -> str:
    """The translation of a line, or its n-best list followed by an empty line."""
    if as_json:
        return json.dumps(asdict(translation), ensure_ascii=False) + "\n"
    if nbest == 1:
        return translation.text + "\n"
    hypotheses = (translation, *translation.others)
    rows = (
        f"{rank}\t{hypothesis.score:.4f}\t{hypothesis.text}\n"
        for rank, hypothesis in enumerate(hypotheses, start=1)
    )
    return "".join(rows) + "\n"


class LimitedLog:
    """Prints the first `maximum` messages about long lines, and drops the others."""

    def __init__(self, maximum: int = 5) -> None:
        self.remaining = maximum

    def __call__(self, message: str) -> None:
        if self.remaining > 0:
            print(f"regard: {message}", file=sys.stderr)
        self.remaining -= 1
