"""`regard classify`, `tag`, `answer` and `embed`: lines in, answers out, in constant memory."""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from regard.cli.translating import standard_input
from regard.data.lines import numbered_lines
from regard.engine.allocator import tuned_allocator
from regard.errors import RegardError
from regard.tasks import load
from regard.tasks.classification.model import Classifier
from regard.tasks.classification.task import LabelPrediction
from regard.tasks.encoder.model import Encoder
from regard.tasks.encoder.reduction import amounts_of
from regard.tasks.image_classification.model import ImageClassifier
from regard.tasks.question_answering.model import QuestionAnswerer
from regard.tasks.question_answering.task import AnswerSpan
from regard.tasks.tagging.model import Tagger
from regard.tasks.tagging.task import TaggedSentence

WINDOW = 512
"""Lines that are read before they are answered together."""

Line = tuple[str, str]
"""Where a line stands, and what it says."""


def classify(
    run: Path, files: list[Path], output: Path | None, as_json: bool, merge: str | None = None
) -> None:
    """A label and its share for each line, or for each image; pairs are two texts with a tab between."""
    opened = load(run)
    if opened.spec.reads == "image":
        images = ImageClassifier.of(opened)
        if merge is not None:
            images.merge(amounts_of(merge))
        classify_images(images, files, output, as_json)
        return
    loaded = Classifier.of(opened, "labels texts or images")
    if merge is not None:
        loaded.merge(amounts_of(merge))

    def answer(lines: list[Line]) -> Iterator[str]:
        pairs = loaded.pairs if loaded.pairs is not None else "\t" in lines[0][1]
        texts = [two(line, "two texts") if pairs else said(line) for line in lines]
        for text, judged in zip(texts, loaded.classify(texts), strict=True):
            yield json_line({"text": text, **asdict(judged)}) if as_json else label_line(judged)

    write(answer, files, output)


def classify_images(loaded: ImageClassifier, files: list[Path], output: Path | None, as_json: bool) -> None:
    """A label and its share for each file; more than one has its name before them."""
    if not files:
        raise RegardError(f"{loaded.folder.path} labels images: give their files")

    def answers() -> Iterator[str]:
        for first in range(0, len(files), WINDOW):
            some = files[first : first + WINDOW]
            for file, judged in zip(some, loaded.classify(some), strict=True):
                name = f"{file}\t" if len(files) > 1 else ""
                yield (
                    json_line({"image": str(file), **asdict(judged)}) if as_json else name + label_line(judged)
                )

    put(output, answers())


def tag(
    run: Path, files: list[Path], output: Path | None, words: bool, as_json: bool, merge: str | None = None
) -> None:
    """Words with their tags in columns, a blank line after each line's words."""
    loaded = Tagger.load(run)
    if merge is not None:
        loaded.merge(amounts_of(merge))

    def answer(lines: list[Line]) -> Iterator[str]:
        sentences = [line.split() for _, line in lines] if words else [line for _, line in lines]
        for found in loaded.tag(sentences):
            yield json_line(asdict(found)) if as_json else columns(found)

    write(answer, files, output)


def answer(
    run: Path,
    files: list[Path],
    output: Path | None,
    question: str | None,
    paragraph: Path | None,
    as_json: bool,
) -> None:
    """An answer and its share for each line: a question and its paragraph with a tab between."""
    loaded = QuestionAnswerer.load(run)

    def reply(lines: list[Line]) -> Iterator[str]:
        for found in loaded.answer([two(line, "a question and its paragraph") for line in lines]):
            yield answer_line(found, as_json)

    if question is None and paragraph is None:
        write(reply, files, output)
        return
    if question is None or paragraph is None or files:
        raise RegardError("--question and --paragraph go together, and without other files")
    whole = " ".join(line for _, line in numbered_lines(paragraph))
    put(output, (answer_line(found, as_json) for found in loaded.answer([(question, whole)])))


def embed(run: Path, files: list[Path], output: Path | None, as_json: bool) -> None:
    """A vector for each line: numbers with tabs between, JSON, or one array where the output is a .npy file."""
    loaded = Encoder.load(run)
    if output is not None and output.suffix == ".npy":
        vectors = [loaded.embed([line for _, line in lines]) for lines in windows(files)]
        with output.open("wb") as out:
            np.save(out, np.concatenate(vectors), allow_pickle=False)
        return

    def reply(lines: list[Line]) -> Iterator[str]:
        for (_, line), vector in zip(lines, loaded.embed([line for _, line in lines]), strict=True):
            numbers = [float(f"{each:.7g}") for each in vector]
            yield (
                json_line({"text": line, "vector": numbers}) if as_json else "\t".join(map(str, numbers)) + "\n"
            )

    write(reply, files, output)


def write(reply: Callable[[list[Line]], Iterator[str]], files: list[Path], output: Path | None) -> None:
    put(output, (text for lines in windows(files) for text in reply(lines)))


def put(output: Path | None, texts: Iterator[str]) -> None:
    where = nullcontext(sys.stdout) if output is None else output.open("w", encoding="utf-8", newline="\n")
    with tuned_allocator(), where as out:
        for text in texts:
            out.write(text)
            out.flush()


def windows(files: list[Path]) -> Iterator[list[Line]]:
    """Some lines at a time; a person who types is answered line by line."""
    typed = not files and sys.stdin.isatty()
    lines = numbered(files, typed)
    while some := list(islice(lines, 1 if typed else WINDOW)):
        yield some


def numbered(files: list[Path], typed: bool) -> Iterator[Line]:
    if not files:
        for number, line in enumerate(standard_input(typed), start=1):
            yield f"standard input, line {number}", line
    for file in files:
        for number, line in numbered_lines(file):
            yield f"{file}, line {number}", line


def said(line: Line) -> str:
    where, text = line
    if not text.strip():
        raise RegardError(f"{where}: the text is empty")
    return text


def two(line: Line, what: str) -> tuple[str, str]:
    where, text = line
    parts = text.split("\t")
    if len(parts) != 2 or not all(part.strip() for part in parts):
        raise RegardError(f"{where}: expected {what} with a tab between")
    return parts[0], parts[1]


def label_line(judged: LabelPrediction) -> str:
    return f"{judged.label}\t{judged.probability:.4f}\n"


def columns(found: TaggedSentence) -> str:
    rows = zip(found.words, found.tags, found.probabilities, strict=True)
    return "".join(f"{word}\t{tag}\t{share:.4f}\n" for word, tag, share in rows) + "\n"


def answer_line(found: AnswerSpan, as_json: bool) -> str:
    return json_line(asdict(found)) if as_json else f"{found.answer}\t{found.probability:.4f}\n"


def json_line(content: dict[str, Any]) -> str:
    return json.dumps(content, ensure_ascii=False) + "\n"
