"""A model that finds answers in paragraphs, opened."""

from collections.abc import Sequence

from regard.errors import RegardError
from regard.tasks.encoder.model import TrainedEncoder
from regard.tasks.question_answering.config import QuestionAnsweringRecipe
from regard.tasks.question_answering.task import Answering, AnswerSpan, spans, windows_of


class QuestionAnswerer(TrainedEncoder):
    """A BERT that finds answers in paragraphs."""

    does = "answers questions"
    recipe: QuestionAnsweringRecipe

    def work(self) -> Answering:
        return Answering(self.recipe)

    @property
    def reads_pairs(self) -> bool:
        return True

    def answer(self, questions: Sequence[tuple[str, str]]) -> list[AnswerSpan]:
        """The answer to each question in its paragraph: pairs of (question, paragraph)."""
        for number, (question, paragraph) in enumerate(questions, start=1):
            if not question.strip() or not paragraph.strip():
                raise RegardError(f"question {number}: question and paragraph must not be empty")
        if not questions:
            return []
        data = self.recipe.data
        windows = windows_of(self.tokenizer, questions, data, self.max_length)
        contexts = [paragraph for _, paragraph in questions]
        return spans(self.model, windows, contexts, data.longest_answer)[0]
