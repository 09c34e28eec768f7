"""`regard translate`: lines in, lines out."""

import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path

from regard.app.choices import LongText
from regard.data.corpus import read_lines
from regard.decoding import Translation, Translator
from regard.errors import RegardError
from regard.jobs.loaded import LoadedTranslator


def run(
    loaded: LoadedTranslator,
    files: list[Path],
    output: Path | None,
    beam: int | None,
    nbest: int,
    batch_size: int | None,
    long: LongText,
    as_json: bool,
) -> None:
    """Translate files one after another, or standard input; a person who types is answered line by line."""
    typed = not files and sys.stdin.isatty()
    lines = (line for file in files for line in read_lines(file)) if files else standard_input(typed)
    options = loaded.options(beam, nbest)
    pieces = Pieces(loaded, long)
    translated = loaded.stream(pieces.cut(lines), options, batch_size=batch_size, window=1 if typed else 2048)
    where = nullcontext(sys.stdout) if output is None else output.open("w", encoding="utf-8", newline="\n")
    with where as out:
        for translation in pieces.join(translated):
            out.write(line_of(translation, nbest, as_json))
            if typed:
                out.flush()


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


class Pieces:
    """Lines longer than the model allows, cut before translating and put together after."""

    def __init__(self, loaded: LoadedTranslator, long: LongText) -> None:
        self.translator, self.long = loaded.translator, long
        self.counts: list[int] = []
        self.told = 0

    def cut(self, lines: Iterable[str]) -> Iterator[str]:
        for number, line in enumerate(lines, start=1):
            parts = self._parts(line, number)
            self.counts.append(len(parts))
            yield from parts

    def join(self, translated: Iterable[Translation]) -> Iterator[Translation]:
        stream = iter(translated)
        for first in stream:
            parts = [first]
            parts += [next(stream) for _ in range(self.counts.pop(0) - 1)]
            yield first if len(parts) == 1 else together(parts)

    def _parts(self, line: str, number: int) -> list[str]:
        # A token is at least a byte long, so a short line need not be counted.
        tokens = self.translator.too_long(line) if len(line.encode()) >= self.translator.longest else None
        if tokens is None:
            return [line]
        found = f"line {number} has {tokens} tokens, the model allows {self.translator.longest}"
        if self.long is LongText.refuse:
            raise RegardError(f"{found}; --long split or --long cut would translate it")
        self.told += 1
        if self.told <= 5:
            done = "translated in parts" if self.long is LongText.split else "the rest is left out"
            print(f"regard: {found}: {done}", file=sys.stderr)
        return halves(line, self.translator) if self.long is LongText.split else [line]


def halves(line: str, translator: Translator) -> list[str]:
    """The line cut near its middle, after a sentence's end where there is one, until each part fits."""
    if translator.too_long(line) is None:
        return [line]
    words = line.split()
    if len(words) < 2:
        middle = len(line) // 2
        return halves(line[:middle], translator) + halves(line[middle:], translator)
    ends = [place for place in range(1, len(words)) if words[place - 1][-1] in ".!?;:,"]
    middle = min(ends or range(1, len(words)), key=lambda place: abs(place - len(words) / 2))
    return halves(" ".join(words[:middle]), translator) + halves(" ".join(words[middle:]), translator)


def together(parts: list[Translation]) -> Translation:
    return Translation(
        " ".join(part.source for part in parts),
        " ".join(part.text for part in parts),
        sum(part.score for part in parts) / len(parts),
    )
