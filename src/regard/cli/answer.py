"""`regard answer`: extractive question answering."""

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.arguments import JsonLines, Output, Run
from regard.cli.lines import Line, UnknownWordLog, json_line, tab_separated_pair, write_results, write_texts
from regard.errors import RegardError

if TYPE_CHECKING:
    from regard.tasks.question_answering.task import AnswerSpan


def answer(
    run: Run,
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="FILE",
            help="Files with question, tab, paragraph per line (default: standard input).",
        ),
    ] = None,
    output: Output = None,
    question: Annotated[str | None, typer.Option(help="A single question; needs --paragraph.")] = None,
    paragraph: Annotated[
        Path | None, typer.Option(help="File with the paragraph that contains the answer.")
    ] = None,
    as_json: JsonLines = False,
) -> None:
    """Find the span of a paragraph that answers a question, with its probability and position.

    Examples:

    regard answer runs/qa --question "Who led the team in sacks?" --paragraph panthers.txt

    regard answer runs/qa questions.tsv --json
    """
    from regard.data.text_files import numbered_lines
    from regard.tasks.question_answering.model import QuestionAnswerer

    answerer = QuestionAnswerer.load(run)

    def answers(lines: list[Line]) -> Iterator[str]:
        questions = [tab_separated_pair(line, "a question and its paragraph") for line in lines]
        return (answer_line(result, as_json) for result in answerer.answer(questions))

    if question is None and paragraph is None:
        write_results(answers, files or [], output, answerer.tokenizer)
        return
    if question is None or paragraph is None or files:
        raise RegardError("--question and --paragraph must be given together, and without files")
    context = " ".join(text for _, text in numbered_lines(paragraph))
    UnknownWordLog(answerer.tokenizer).check(f"{question} {context}")
    write_texts((answer_line(result, as_json) for result in answerer.answer([(question, context)])), output)


def answer_line(result: "AnswerSpan", as_json: bool) -> str:
    return json_line(asdict(result)) if as_json else f"{result.answer}\t{result.probability:.4f}\n"
