"""Questions on paragraphs with their answers: SQuAD 1.1's JSON."""

import gzip
import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.data.lines import CorpusError

LARGEST = 1 << 30
"""Bytes of a file, unpacked."""


@dataclass(frozen=True)
class Answer:
    """A stretch of the paragraph."""

    text: str
    start: int
    """Where its first letter stands."""


@dataclass(frozen=True)
class Question:
    """A question, the paragraph it is asked of, and the answers that people gave."""

    number: str
    """What the file calls it."""
    article: int
    question: str
    context: str
    answers: tuple[Answer, ...]


def read_squad(path: Path) -> list[Question]:
    """Every question of a file, plain or .gz; an answer that is not in its paragraph is refused."""
    raw = read_whole(path)
    try:
        content = json.loads(raw)
    except json.JSONDecodeError as problem:
        raise CorpusError(f"{path}, line {problem.lineno}: not valid JSON ({problem.msg})") from None
    except RecursionError:
        raise CorpusError(f"{path}: not usable JSON; it is nested too deeply") from None
    found = []
    articles = part(content, "data", list, str(path))
    for number, article in enumerate(articles):
        where = f"{path}, article {number + 1}"
        for place, paragraph in enumerate(part(article, "paragraphs", list, where)):
            found += list(questions(paragraph, number, raw, path, f"{where}, paragraph {place + 1}"))
    if not found:
        raise CorpusError(f"{path} holds no question")
    return found


def questions(paragraph: Any, article: int, raw: str, path: Path, where: str) -> Iterator[Question]:
    context = part(paragraph, "context", str, where)
    for entry in part(paragraph, "qas", list, where):
        number = str(part(entry, "id", (str, int), where))
        here = f"{path}, line {line_of(raw, number)} (question {number})"
        asked = part(entry, "question", str, here).strip()
        if not asked:
            raise CorpusError(f"{here}: the question is empty")
        given = part(entry, "answers", list, here)
        if not given:
            raise CorpusError(f"{here}: there is no answer; each question must have one in its paragraph")
        answers = tuple(
            Answer(part(each, "text", str, here), part(each, "answer_start", int, here)) for each in given
        )
        for answer in answers:
            check_answer(answer, context, here)
        yield Question(number, article, asked, context, answers)


def check_answer(answer: Answer, context: str, here: str) -> None:
    end = answer.start + len(answer.text)
    if not answer.text.strip():
        raise CorpusError(f"{here}: the answer is empty")
    if answer.start < 0 or context[answer.start : end] != answer.text:
        raise CorpusError(
            f"{here}: the answer {answer.text[:60]!r} is not at place {answer.start} of its paragraph"
        )


def part(holder: Any, key: str, kind: type | tuple[type, ...], where: str) -> Any:
    """A part of the file, if it is there and of its kind."""
    if not isinstance(holder, dict) or key not in holder:
        raise CorpusError(f"{where}: there is no {key!r}; the file must be in the form of SQuAD 1.1")
    if not isinstance(holder[key], kind) or isinstance(holder[key], bool):
        raise CorpusError(f"{where}: {key!r} is not what SQuAD 1.1 has there")
    return holder[key]


def line_of(raw: str, number: str) -> int:
    """The line in which a question's id stands."""
    place = raw.find(json.dumps(number))
    return raw.count("\n", 0, max(0, place)) + 1


def read_whole(path: Path) -> str:
    try:
        with gzip.open(path, "rb") if path.suffix.lower() == ".gz" else path.open("rb") as stream:
            content = stream.read(LARGEST + 1)
    except FileNotFoundError:
        raise CorpusError(f"there is no file {path}") from None
    except (OSError, EOFError, zlib.error) as problem:
        raise CorpusError(f"{path} cannot be read: {problem}") from None
    if len(content) > LARGEST:
        raise CorpusError(f"{path} is larger than {LARGEST:,} bytes")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        line = content.count(b"\n", 0, problem.start) + 1
        raise CorpusError(f"{path}, line {line}: this is not UTF-8 text") from None
