"""A model that goes on with texts, behind its queue; what it writes may be told as it comes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from regard.decoding.generator import Completion, GenerationConfig
from regard.server.batcher import Batcher
from regard.server.translator import Look, attention_answer, card_of
from regard.tasks.language_modeling.model import LanguageModel


@dataclass(frozen=True)
class Stream:
    """A text is to be told piece by piece; each item is a prompt, and whom to tell."""

    config: GenerationConfig


class ServedGenerator:
    """One GPT of the server, or counts of tokens."""

    def __init__(
        self,
        name: str,
        loaded: LanguageModel,
        *,
        room: int,
        batch: int,
        batched: Callable[[int], object],
        counted: Callable[[int, int], object],
    ) -> None:
        self.name, self.loaded, self.counted = name, loaded, counted
        self.card = card_of(loaded.folder)
        self.batcher = Batcher(self.work, room=room, batch=batch, told=batched, cost=self.cost)

    @property
    def task(self) -> str:
        return self.loaded.recipe.task

    def about(self) -> dict[str, Any]:
        """What a client may want to know."""
        return {
            "name": self.name,
            "task": self.task,
            "does": ["/generate"],
            "labels": [],
            "pairs": False,
            "max_length": self.loaded.max_length or 0,
            "attention": self.loaded.max_length is not None,
            "examples": [],
            "card": self.card,
        }

    def check(self, prompts: Sequence[str], config: GenerationConfig) -> None:
        """Refuse what the model cannot go on with before it waits in the queue with others."""
        self.loaded.generator.encode_prompts(prompts)
        self.loaded.generator.check_stop_strings(config)

    def check_look(self, text: str, target: str | None) -> None:
        """Refuse to look into what the window has no places for."""
        self.loaded.generator.encode_prompts([text + (target or "")])

    def cost(self, way: GenerationConfig | Stream | Look) -> float:
        """Time of a text relative to sampling one."""
        return float(way.beam) if isinstance(way, GenerationConfig) else 1.0

    def work(self, way: GenerationConfig | Stream | Look, items: list[Any]) -> Sequence[Any]:
        """What the queue's thread does with a batch."""
        match way:
            case GenerationConfig():
                found = self.loaded.complete(items, way)
                self.counted(len(found), sum(each.tokens for each in found))
                return found
            case Stream():
                return [self.streamed(way.config, *item) for item in items]
            case Look():
                return [attention_answer(way, self.loaded.attention(text, target)) for text, target in items]

    def streamed(self, config: GenerationConfig, prompt: str, tell: Callable[[str], bool]) -> Completion | None:
        """Tell a text as it is written; nothing more is written once nobody listens."""
        for _, piece, whole in self.loaded.generator.stream_batch([prompt], config):
            if piece and not tell(piece):
                return None
            if whole is not None:
                self.counted(1, whole.tokens)
                return whole
        return None
