"""Answers to questions, as a stretch of the paragraph they are asked of."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from torch import nn

from regard.data.examples import Example, FixedExamples
from regard.data.squad import Answer, Question, read_squad
from regard.errors import RegardError
from regard.metrics import score_answers
from regard.nn.build import Head
from regard.tasks.encoder import training as texts
from regard.tasks.encoder.training import TaskRun, TaskScores, asked
from regard.tasks.metrics_log import ProgressListener
from regard.tasks.question_answering.config import QuestionAnsweringRecipe, QuestionDataConfig
from regard.tokenization import BertTokenizer, Pieces
from regard.training.objectives import SpanObjective

NOWHERE = (0, 0)
"""Where an answer that is not in a window begins and ends: at [CLS]."""


def train(
    recipe: QuestionAnsweringRecipe,
    out: Path,
    listener: ProgressListener | None = None,
    *,
    resume: bool = False,
) -> TaskRun | None:
    """Train into the folder `out`, and measure on the test file or on the validation questions."""
    return texts.train(recipe, Answering, out, listener, resume=resume)


class Answering:
    """The work of an answering recipe."""

    head: Head = "span"
    objective = SpanObjective

    def __init__(self, recipe: QuestionAnsweringRecipe) -> None:
        self.data = recipe.data
        self.labels: list[str] = []
        self.splits: dict[str, list[Question]] = {}
        self.max_length = min(recipe.data.max_length, recipe.model.max_length)

    def open(self, split: str, path: Path) -> None:
        self.splits[split] = read_squad(path)

    def key(self, item: Question) -> str:
        return f"article {item.article}"

    def tell(self) -> Iterator[str]:
        told = ", ".join(f"{len(questions):,} for {split}" for split, questions in self.splits.items())
        yield f"questions: {told}"

    def texts(self) -> Iterable[str]:
        for each in self.splits["train"]:
            yield each.question
        yield from dict.fromkeys(each.context for each in self.splits["train"])

    def encode(self, tokenizer: BertTokenizer, tell: Callable[[str], object]) -> FixedExamples:
        windows = self.windows(tokenizer, "train")
        empty = sum(each.example.labels == NOWHERE for each in windows)
        tell(f"windows of {self.max_length} tokens: {len(windows):,}, {empty:,} of them without the answer")
        return FixedExamples([each.example for each in windows])

    def windows(self, tokenizer: BertTokenizer, split: str) -> list["Window"]:
        questions = self.splits[split]
        return windows_of(
            tokenizer,
            [(each.question, each.context) for each in questions],
            self.data,
            self.max_length,
            [each.answers[0] for each in questions],
        )

    def measure(self, model: nn.Module, tokenizer: BertTokenizer, split: str) -> TaskScores:
        questions, windows = self.splits[split], self.windows(tokenizer, split)
        contexts = [each.context for each in questions]
        best, loss = spans(model, windows, contexts, self.data.longest_answer)
        gold = [[answer.text for answer in each.answers] for each in questions]
        scores = score_answers(gold, [each.answer for each in best])
        return TaskScores({**scores.numbers(), "loss": loss}, len(questions), [])


@dataclass(frozen=True)
class Window:
    """A question with a part of its paragraph: where the part begins in the text, and its pieces' letters."""

    question: int
    begin: int
    spans: list[tuple[int, int]]
    example: Example


def windows_of(
    tokenizer: BertTokenizer,
    asked_of: Sequence[tuple[str, str]],
    data: QuestionDataConfig,
    max_length: int,
    answers: Sequence[Answer] | None = None,
) -> list[Window]:
    """Each question with its paragraph, a long one in windows that overlap.

    A window without the whole answer aims at [CLS].
    """
    room = max_length - data.longest_question - 3
    if room <= data.overlap:
        raise RegardError(
            f"data.overlap: the model has {max_length} places, so a window has {max(0, room)} tokens, which "
            f"must be more than the overlap of {data.overlap}"
        )
    questions = tokenizer.encode_batch([question for question, _ in asked_of])
    contexts = tokenizer.pieces([context for _, context in asked_of])
    found: list[Window] = []
    for number, (question, context) in enumerate(zip(questions, contexts, strict=True)):
        question = question[: data.longest_question]
        room = max_length - len(question) - 3
        place = place_of(answers[number], context) if answers is not None else None
        for first in range(0, max(1, len(context.ids) - data.overlap), room - data.overlap):
            part = context.ids[first : first + room]
            ids = np.array(tokenizer.joined(question, part), np.int64)
            begin = len(question) + 2
            labels = NOWHERE
            if place is not None and first <= place[0] and place[1] < first + len(part):
                labels = (place[0] - first + begin, place[1] - first + begin)
            example = Example(len(found), ids, begin, labels)
            found.append(Window(number, begin, context.spans[first : first + room], example))
    return found


def place_of(answer: Answer, context: Pieces) -> tuple[int, int] | None:
    """The first and the last piece of an answer; None where cleaning left nothing of it."""
    end = answer.start + len(answer.text)
    inside = [
        place for place, (first, after) in enumerate(context.spans) if first < end and after > answer.start
    ]
    return (inside[0], inside[-1]) if inside else None


@dataclass(frozen=True)
class AnswerSpan:
    """An answer, how likely it is, and its letters in the paragraph: from `start` to before `end`."""

    answer: str
    probability: float
    start: int
    end: int


def spans(
    model: nn.Module, windows: Sequence[Window], contexts: Sequence[str], longest_answer: int
) -> tuple[list[AnswerSpan], float]:
    """The best answer to each question over all windows of its paragraph, and the mean loss of a window.

    The likelihood of a stretch is that of its two ends among all places of the paragraph.
    """
    best: list[tuple[float, int, int]] = [(-np.inf, 0, 0) for _ in contexts]
    mass: list[list[np.ndarray]] = [[] for _ in contexts]
    loss = 0.0
    for batch, scores in asked(model, [each.example for each in windows]):
        logs = scores.log_softmax(-1).cpu().numpy()
        for row, number in enumerate(batch.sentences):
            window = windows[number]
            loss -= float(sum(logs[row, side, place] for side, place in enumerate(window.example.labels))) / 2
            inside = slice(window.begin, window.begin + len(window.spans))
            starts, ends = scores[row].cpu().numpy()[:, inside]
            if not len(starts):
                continue
            score, first, last = best_stretch(starts, ends, longest_answer)
            mass[window.question].append(np.array([log_sum(starts), log_sum(ends)]))
            if score > best[window.question][0]:
                best[window.question] = (score, window.spans[first][0], window.spans[last][1])
    answers = []
    for number, (score, start, end) in enumerate(best):
        total = sum(log_sum(side) for side in np.stack(mass[number], 1)) if mass[number] else 0.0
        share = float(np.exp(score - total)) if mass[number] else 0.0
        answers.append(AnswerSpan(contexts[number][start:end], share, start, end))
    return answers, loss / max(1, len(windows))


def best_stretch(starts: np.ndarray, ends: np.ndarray, max_length: int) -> tuple[float, int, int]:
    """Score, first and last piece of the best stretch of at most `max_length` pieces."""
    places = np.arange(len(starts))
    apart = places[None, :] - places[:, None]
    allowed = (apart >= 0) & (apart < max_length)
    both = np.where(allowed, starts[:, None] + ends[None, :], -np.inf)
    first, last = divmod(int(both.argmax()), len(starts))
    return float(both[first, last]), first, last


def log_sum(scores: np.ndarray) -> float:
    """log of the sum of exponentials."""
    most = float(scores.max())
    return most + float(np.log(np.exp(scores - most).sum()))
