"""Extractive question answering: the answer is a span of the paragraph."""

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
from regard.tasks.encoder import training as text_training
from regard.tasks.encoder.examples import batched_outputs
from regard.tasks.metrics_log import PhaseProgress, ProgressListener
from regard.tasks.question_answering.config import QuestionAnsweringRecipe, QuestionDataConfig
from regard.tasks.results import TaskRun, TaskScores
from regard.tokenization import BertTokenizer, Encoding
from regard.training.objectives import SpanObjective

NO_ANSWER = (0, 0)
"""Start and end of an answer that is not in the window: the position of [CLS]."""


def train(
    recipe: QuestionAnsweringRecipe,
    out: Path,
    listener: ProgressListener | None = None,
    *,
    resume: bool = False,
) -> TaskRun | None:
    """Train into the folder `out`, and measure on the test file or on the validation questions."""
    return text_training.train(recipe, QuestionAnsweringTask, out, listener, resume=resume)


class QuestionAnsweringTask:
    """Reads, encodes and measures questions on paragraphs; a `TextTask`."""

    head: Head = "span"
    objective = SpanObjective

    def __init__(self, recipe: QuestionAnsweringRecipe) -> None:
        self.data = recipe.data
        self.labels: list[str] = []
        self.splits: dict[str, list[Question]] = {}
        self.max_length = min(recipe.data.max_length, recipe.model.max_length)

    def read_split(self, split: str, path: Path) -> None:
        self.splits[split] = read_squad(path)

    def split_key(self, item: Question) -> str:
        return f"article {item.article}"

    def data_summary(self) -> Iterator[str]:
        counts = ", ".join(f"{len(questions):,} for {split}" for split, questions in self.splits.items())
        yield f"questions: {counts}"

    def vocabulary_texts(self) -> Iterable[str]:
        questions = self.splits["train"]
        yield from (question.question for question in questions)
        yield from dict.fromkeys(question.context for question in questions)

    def encode(self, tokenizer: BertTokenizer, log: Callable[[str], object]) -> FixedExamples:
        windows = self.windows(tokenizer, "train")
        empty = sum(window.example.labels == NO_ANSWER for window in windows)
        log(f"windows of {self.max_length} tokens: {len(windows):,}, {empty:,} of them without the answer")
        return FixedExamples([window.example for window in windows])

    def windows(self, tokenizer: BertTokenizer, split: str) -> list["Window"]:
        questions = self.splits[split]
        return encode_windows(
            tokenizer,
            [(question.question, question.context) for question in questions],
            self.data,
            self.max_length,
            [question.answers[0] for question in questions],
        )

    def measure(
        self, model: nn.Module, tokenizer: BertTokenizer, split: str, progress: PhaseProgress | None = None
    ) -> TaskScores:
        questions, windows = self.splits[split], self.windows(tokenizer, split)
        contexts = [question.context for question in questions]
        predictions, loss = predict_answers(model, windows, contexts, self.data.longest_answer, progress)
        targets = [[answer.text for answer in question.answers] for question in questions]
        scores = score_answers(targets, [prediction.answer for prediction in predictions])
        return TaskScores({**scores.headline(), "loss": loss}, len(questions), [])


@dataclass(frozen=True)
class Window:
    """A question with a part of its paragraph."""

    question: int
    begin: int
    """Position of the part's first piece in the example."""
    spans: list[tuple[int, int]]
    """Characters of each piece in the paragraph: start and end (exclusive)."""
    example: Example


def encode_windows(
    tokenizer: BertTokenizer,
    pairs: Sequence[tuple[str, str]],
    data: QuestionDataConfig,
    max_length: int,
    answers: Sequence[Answer] | None = None,
) -> list[Window]:
    """Pairs of (question, paragraph) as examples; a long paragraph in overlapping windows.

    The label of a window without the whole answer is [CLS].
    """
    window_length = max_length - data.longest_question - 3
    if window_length <= data.overlap:
        raise RegardError(
            f"data.overlap: the model has {max_length} positions, so a window has {max(0, window_length)} "
            f"tokens, which must be more than the overlap of {data.overlap}"
        )
    questions = tokenizer.encode_batch([question for question, _ in pairs])
    contexts = tokenizer.encode_with_offsets([context for _, context in pairs])
    windows: list[Window] = []
    for number, (question, context) in enumerate(zip(questions, contexts, strict=True)):
        question = question[: data.longest_question]
        window_length = max_length - len(question) - 3
        span = piece_span(answers[number], context) if answers is not None else None
        for first in range(0, max(1, len(context.ids) - data.overlap), window_length - data.overlap):
            part = context.ids[first : first + window_length]
            ids = np.array(tokenizer.with_special_tokens(question, part), np.int64)
            begin = len(question) + 2
            labels = NO_ANSWER
            if span is not None and first <= span[0] and span[1] < first + len(part):
                labels = (span[0] - first + begin, span[1] - first + begin)
            example = Example(len(windows), ids, begin, labels)
            windows.append(Window(number, begin, context.offsets[first : first + window_length], example))
    return windows


def piece_span(answer: Answer, context: Encoding) -> tuple[int, int] | None:
    """The first and last piece of an answer; None if normalization left nothing of it."""
    answer_end = answer.start + len(answer.text)
    inside = [
        index for index, (start, end) in enumerate(context.offsets) if start < answer_end and end > answer.start
    ]
    return (inside[0], inside[-1]) if inside else None


@dataclass(frozen=True)
class AnswerSpan:
    """An answer, its probability, and its characters in the paragraph: from `start` to before `end`."""

    answer: str
    probability: float
    start: int
    end: int


def predict_answers(
    model: nn.Module,
    windows: Sequence[Window],
    contexts: Sequence[str],
    longest_answer: int,
    progress: PhaseProgress | None = None,
) -> tuple[list[AnswerSpan], float]:
    """The best answer to each question over all windows of its paragraph, and the mean loss per window.

    The probability of a span is the product of those of its start and end, each normalized over all positions
    in all windows of the paragraph.
    """
    best: list[tuple[float, int, int]] = [(-np.inf, 0, 0) for _ in contexts]
    log_sums: list[list[np.ndarray]] = [[] for _ in contexts]
    loss = 0.0
    examples = [window.example for window in windows]
    for batch, logits in batched_outputs(model, examples, progress=progress):
        log_probabilities = logits.log_softmax(-1).cpu().numpy()
        for row, number in enumerate(batch.sentences):
            window = windows[number]
            targets = enumerate(window.example.labels)
            loss -= float(sum(log_probabilities[row, side, position] for side, position in targets)) / 2
            context = slice(window.begin, window.begin + len(window.spans))
            starts, ends = logits[row].cpu().numpy()[:, context]
            if not len(starts):
                continue
            score, first, last = best_span(starts, ends, longest_answer)
            log_sums[window.question].append(np.array([log_sum_exp(starts), log_sum_exp(ends)]))
            if score > best[window.question][0]:
                best[window.question] = (score, window.spans[first][0], window.spans[last][1])
    answers = []
    for number, (score, start, end) in enumerate(best):
        probability = 0.0
        if log_sums[number]:
            probability = float(
                np.exp(score - sum(log_sum_exp(side) for side in np.stack(log_sums[number], 1)))
            )
        answers.append(AnswerSpan(contexts[number][start:end], probability, start, end))
    return answers, loss / max(1, len(windows))


def best_span(starts: np.ndarray, ends: np.ndarray, max_length: int) -> tuple[float, int, int]:
    """Score, first and last piece of the best span of at most `max_length` pieces."""
    positions = np.arange(len(starts))
    distances = positions[None, :] - positions[:, None]
    allowed = (distances >= 0) & (distances < max_length)
    scores = np.where(allowed, starts[:, None] + ends[None, :], -np.inf)
    first, last = divmod(int(scores.argmax()), len(starts))
    return float(scores[first, last]), first, last


def log_sum_exp(scores: np.ndarray) -> float:
    """The logarithm of the sum of exponentials."""
    largest = float(scores.max())
    return largest + float(np.log(np.exp(scores - largest).sum()))
