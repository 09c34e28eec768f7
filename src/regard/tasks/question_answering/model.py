"""The loaded model of a question-answering run."""

from collections.abc import Sequence

from regard.errors import RegardError
from regard.tasks.encoder.model import TrainedEncoder
from regard.tasks.question_answering.config import QuestionAnsweringRecipe
from regard.tasks.question_answering.task import (
    AnswerSpan,
    QuestionAnsweringTask,
    encode_windows,
    predict_answers,
)


class QuestionAnswerer(TrainedEncoder[QuestionAnsweringTask]):
    """A BERT that finds answers in paragraphs."""

    does = "answers questions"
    recipe: QuestionAnsweringRecipe

    def task(self) -> QuestionAnsweringTask:
        return QuestionAnsweringTask(self.recipe)

    @property
    def reads_pairs(self) -> bool:
        return True

    def answer(self, questions: Sequence[tuple[str, str]]) -> list[AnswerSpan]:
        """The answer to each question in its paragraph.

        Args:
            questions: Pairs of (question, paragraph).

        Raises:
            RegardError: A question or a paragraph is empty.
        """
        for number, (question, paragraph) in enumerate(questions, start=1):
            if not question.strip() or not paragraph.strip():
                raise RegardError(f"question {number}: question and paragraph must not be empty")
        if not questions:
            return []
        data = self.recipe.data
        windows = encode_windows(self.tokenizer, questions, data, self.max_length)
        paragraphs = [paragraph for _, paragraph in questions]
        return predict_answers(self.model, windows, paragraphs, data.longest_answer)[0]
