"""A model that reads, behind its queue: labels, tags, answers and vectors for texts, worked in batches."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from regard.errors import RegardError
from regard.server.batcher import Batcher
from regard.server.translator import Look, attention_answer, card_of
from regard.tasks.encoder.model import Encoder

Verb = Literal["classify", "tag", "answer", "embed"]
VERBS: tuple[Verb, ...] = get_args(Verb)


@dataclass(frozen=True)
class Read:
    """What is to be done with texts; those of one way go in one batch."""

    verb: Verb


class ServedReader:
    """One BERT of the server."""

    def __init__(
        self,
        name: str,
        loaded: Encoder,
        *,
        room: int,
        batch: int,
        batched: Callable[[int], object],
        counted: Callable[[int, int], object],
    ) -> None:
        self.name, self.loaded, self.counted = name, loaded, counted
        self.card = card_of(loaded.folder)
        loaded.attention(".")  # everything is made that the first request would wait for
        self.batcher = Batcher(self.work, room=room, batch=batch, told=batched)

    @property
    def task(self) -> str:
        return self.loaded.spec.name

    @property
    def verbs(self) -> tuple[Verb, ...]:
        """What it can be asked: what it was trained for, and vectors, which every BERT has."""
        return tuple(verb for verb in VERBS if f"/{verb}" in self.loaded.spec.routes)

    @property
    def pairs(self) -> bool | None:
        """Whether it labels pairs of texts; None where it may take both."""
        return self.loaded.pairs

    def about(self) -> dict[str, Any]:
        """What a client may want to know."""
        loaded = self.loaded
        return {
            "name": self.name,
            "task": self.task,
            "does": [f"/{verb}" for verb in self.verbs],
            "labels": loaded.labels,
            "pairs": self.pairs,
            "max_length": loaded.max_length,
            "attention": True,
            "examples": [],
            "card": self.card,
        }

    def note(self, text: str, pair: str | None = None) -> str | None:
        """What there is to say about a text of which only the beginning is read."""
        tokens, max_length = len(self.loaded.input_ids(text, pair)), self.loaded.max_length
        return f"{tokens} tokens; the model read {max_length} of them" if tokens > max_length else None

    def check_look(self, text: str, target: str | None) -> None:
        """Refuse to look into what the model has no places for."""
        tokens, max_length = len(self.loaded.input_ids(text, target)), self.loaded.recipe.model.max_length
        if tokens > max_length:
            raise RegardError(f"the text has {tokens} tokens, the model can look at {max_length} at once")

    def work(self, way: Read | Look, items: list[Any]) -> Sequence[Any]:
        """What the queue's thread does with a batch."""
        match way:
            case Read():
                self.counted(len(items), 0)
                return self.read(way.verb, items)
            case Look():
                return [attention_answer(way, self.loaded.attention(text, target)) for text, target in items]

    def read(self, verb: Verb, items: list[Any]) -> Sequence[Any]:
        """An answer for each item; the routes ask only what the model does."""
        answers: Sequence[Any] = getattr(self.loaded, verb)(items)
        return answers.tolist() if isinstance(answers, np.ndarray) else answers
