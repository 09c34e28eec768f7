"""A language model behind its queue; it generates whole texts, or streams one piece by piece."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from regard.decoding.generator import Completion, GenerationConfig
from regard.server.schemas import TextModelInfo
from regard.server.served_model import AttentionJob, ServedModel
from regard.tasks.language_modeling.model import LanguageModel


@dataclass(frozen=True)
class StreamJob:
    """Batch key of items (prompt, callback) whose text is streamed.

    The callback receives each piece, and returns whether the client still waits for more.
    """

    config: GenerationConfig


class ServedGenerator(ServedModel[LanguageModel]):
    """A GPT or an n-gram model and its queue."""

    def info(self) -> TextModelInfo:
        return TextModelInfo(
            name=self.name,
            task=self.task,
            does=list(self.loaded.spec.routes),
            labels=[],
            pairs=False,
            max_length=self.loaded.max_length or 0,
            attention=self.loaded.max_length is not None,
            examples=[],
            card=self.card,
        )

    def check(self, prompts: Sequence[str], config: GenerationConfig) -> None:
        """Check prompts and stop texts before they enter the queue.

        Raises:
            RegardError: a prompt has unknown characters or is longer than the context window.
        """
        self.loaded.generator.encode_prompts(prompts)
        self.loaded.generator.check_stop_strings(config)

    def check_attention(self, text: str, target: str | None) -> None:
        self.loaded.generator.encode_prompts([text + (target or "")])

    def cost(self, batch_key: GenerationConfig | StreamJob | AttentionJob) -> float:
        """Time of a text relative to sampling one: the beam size of a search."""
        return float(batch_key.beam) if isinstance(batch_key, GenerationConfig) else 1.0

    def run_batch(
        self, batch_key: GenerationConfig | StreamJob | AttentionJob, items: list[Any]
    ) -> Sequence[Any]:
        match batch_key:
            case GenerationConfig():
                completions = self.loaded.complete(items, batch_key)
                self.count(len(completions), sum(completion.tokens for completion in completions))
                return completions
            case StreamJob():
                return [self.stream(batch_key.config, *item) for item in items]
            case AttentionJob():
                return self.attention(batch_key, items)

    def stream(
        self, config: GenerationConfig, prompt: str, on_piece: Callable[[str], bool]
    ) -> Completion | None:
        """Generate a text piece by piece; None if the callback ended it."""
        for _, piece, completion in self.loaded.generator.stream_batch([prompt], config):
            if piece and not on_piece(piece):
                return None
            if completion is not None:
                self.count(1, completion.tokens)
                return completion
        return None
