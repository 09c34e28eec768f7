"""SQuAD 1.1 files: questions on paragraphs with their answers (Rajpurkar et al. 2016)."""

import gzip
import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.data.text_files import CorpusError

MAX_BYTES = 1 << 30
"""Largest file accepted, in bytes after decompression."""


@dataclass(frozen=True)
class Answer:
    """An answer: a span of the paragraph."""

    text: str
    start: int
    """Offset of its first character in the paragraph."""


@dataclass(frozen=True)
class Question:
    """A question with its paragraph and its reference answers."""

    number: str
    """Its id in the file."""
    article: int
    question: str
    context: str
    answers: tuple[Answer, ...]


def read_squad(path: Path) -> list[Question]:
    """Read the questions of a file, plain or .gz.

    Raises:
        CorpusError: The file cannot be read, is not SQuAD 1.1, or an answer is not at its offset.
    """
    raw = read_whole(path)
    try:
        content = json.loads(raw)
    except json.JSONDecodeError as problem:
        raise CorpusError(f"{path}, line {problem.lineno}: not valid JSON ({problem.msg})") from None
    except RecursionError:
        raise CorpusError(f"{path}: not usable JSON; it is nested too deeply") from None
    read = []
    articles = field(content, "data", list, str(path))
    for number, article in enumerate(articles):
        where = f"{path}, article {number + 1}"
        for index, paragraph in enumerate(field(article, "paragraphs", list, where)):
            read += list(questions(paragraph, number, raw, path, f"{where}, paragraph {index + 1}"))
    if not read:
        raise CorpusError(f"{path} holds no question")
    return read


def questions(paragraph: Any, article: int, raw: str, path: Path, where: str) -> Iterator[Question]:
    context = field(paragraph, "context", str, where)
    for entry in field(paragraph, "qas", list, where):
        number = str(field(entry, "id", (str, int), where))
        location = f"{path}, line {line_of(raw, number)} (question {number})"
        question = field(entry, "question", str, location).strip()
        if not question:
            raise CorpusError(f"{location}: the question is empty")
        references = field(entry, "answers", list, location)
        if not references:
            raise CorpusError(f"{location}: there is no answer; each question must have one in its paragraph")
        answers = tuple(
            Answer(field(reference, "text", str, location), field(reference, "answer_start", int, location))
            for reference in references
        )
        for answer in answers:
            check_answer(answer, context, location)
        yield Question(number, article, question, context, answers)


def check_answer(answer: Answer, context: str, where: str) -> None:
    end = answer.start + len(answer.text)
    if not answer.text.strip():
        raise CorpusError(f"{where}: the answer is empty")
    if answer.start < 0 or context[answer.start : end] != answer.text:
        raise CorpusError(
            f"{where}: the answer {answer.text[:60]!r} is not at position {answer.start} of its paragraph"
        )


def field(record: Any, key: str, kind: type | tuple[type, ...], where: str) -> Any:
    """The value of a key, if it is there and has the right type."""
    if not isinstance(record, dict) or key not in record:
        raise CorpusError(f"{where}: there is no {key!r}; the file must have the format of SQuAD 1.1")
    if not isinstance(record[key], kind) or isinstance(record[key], bool):
        raise CorpusError(f"{where}: {key!r} does not have the type that SQuAD 1.1 requires")
    return record[key]


def line_of(raw: str, number: str) -> int:
    """The line of the file that has a question's id."""
    offset = raw.find(json.dumps(number))
    return raw.count("\n", 0, max(0, offset)) + 1


def read_whole(path: Path) -> str:
    try:
        with gzip.open(path, "rb") if path.suffix.lower() == ".gz" else path.open("rb") as stream:
            content = stream.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise CorpusError(f"no such file: {path}") from None
    except (OSError, EOFError, zlib.error) as problem:
        raise CorpusError(f"{path} cannot be read: {problem}") from None
    if len(content) > MAX_BYTES:
        raise CorpusError(f"{path} is larger than {MAX_BYTES:,} bytes")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        line = content.count(b"\n", 0, problem.start) + 1
        raise CorpusError(f"{path}, line {line}: this is not UTF-8 text") from None
