"""`regard translate`: lines in, lines out."""

import json
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path

from regard.data.corpus import read_lines
from regard.decoding import BeamSearchConfig, Policy, SamplingConfig, Translation
from regard.decoding.translator import WINDOW
from regard.errors import RegardError, memory_hint
from regard.tasks.engines import ExportedTranslator
from regard.tasks.shares import write_in_shares
from regard.tasks.translation.model import Translator, memory_advice
from regard.training.distributed import joined, processes


def run(
    loaded: Translator | ExportedTranslator,
    files: list[Path],
    output: Path | None,
    options: BeamSearchConfig,
    chance: SamplingConfig | None,
    batch_size: int | None,
    long: Policy,
    as_json: bool,
) -> None:
    """Translate files one after another, or standard input; a person who types is answered line by line.

    Under torchrun every process translates its share of the windows, and the first puts them together.
    """
    typed = not files and sys.stdin.isatty()
    batch_size = batch_size or loaded.recipe.decode.batch_size
    with joined() as world, memory_hint(memory_advice(batch_size, options.beam)):
        lines = (line for file in files for line in read_lines(file)) if files else standard_input(typed)
        loaded.pipeline.freeze()
        windows = loaded.pipeline.stream(
            lines,
            options,
            batch_size=batch_size,
            window=1 if typed else WINDOW,
            chance=chance,
            long=long,
            tell=Tell(),
            share=(world.rank, world.size),
        )
        written = ("".join(line_of(each, options.nbest, as_json) for each in window) for window in windows)
        if world.size > 1 and output is not None:
            write_in_shares(written, output, world)
            return
        where = nullcontext(sys.stdout) if output is None else output.open("w", encoding="utf-8", newline="\n")
        with where as out:
            for text in written:
                out.write(text)
                if typed:
                    out.flush()


def check_shares(files: list[Path], output: Path | None) -> None:
    """Before a model is loaded: shares of the work need files to read and to write."""
    if processes() > 1 and (not files or output is None):
        raise RegardError("several processes translate files into a file: give FILE and -o")


def standard_input(typed: bool) -> Iterator[str]:
    """Lines of standard input; bytes that are not UTF-8 are refused with the line they are in."""
    if typed:
        print("Type a sentence and press Enter; Ctrl-D ends.", file=sys.stderr)
    for number, raw in enumerate(sys.stdin.buffer, start=1):
        try:
            yield raw.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n").rstrip()
        except UnicodeDecodeError:
            raise RegardError(f"standard input, line {number}: this is not UTF-8 text") from None


def line_of(translation: Translation, nbest: int, as_json: bool) -> str:
    if as_json:
        return json.dumps(asdict(translation), ensure_ascii=False) + "\n"
    if nbest == 1:
        return translation.text + "\n"
    ranked = (translation, *translation.others)
    return (
        "".join(f"{rank}\t{each.score:.4f}\t{each.text}\n" for rank, each in enumerate(ranked, start=1)) + "\n"
    )


class Tell:
    """The first few long lines are told, lest a file of them fill the screen."""

    def __init__(self, most: int = 5) -> None:
        self.left = most

    def __call__(self, sentence: str) -> None:
        if self.left > 0:
            print(f"regard: {sentence}", file=sys.stderr)
        self.left -= 1
