"""A BERT or another encoder behind its queue: classification, tagging, question answering, embeddings."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from regard.errors import RegardError
from regard.server.schemas import TextModelInfo
from regard.server.served_model import AttentionJob, ServedModel
from regard.tasks.encoder.model import Encoder

EncoderMethod = Literal["classify", "tag", "answer", "embed"]
"""Methods of a loaded encoder, each with a route of the same name."""


@dataclass(frozen=True)
class EncoderJob:
    """Batch key of texts that are passed to one method of the model."""

    method: EncoderMethod


class ServedEncoder(ServedModel[Encoder]):
    """An encoder and its queue."""

    def warm_up(self) -> None:
        self.loaded.attention(".")

    @property
    def pairs(self) -> bool | None:
        """Whether it classifies pairs of texts; None if it accepts both."""
        return self.loaded.pairs

    def info(self) -> TextModelInfo:
        return TextModelInfo(
            name=self.name,
            task=self.task,
            does=list(self.loaded.spec.routes),
            labels=list(self.loaded.labels),
            pairs=self.pairs,
            max_length=self.loaded.max_length,
            attention=True,
            examples=[],
            card=self.card,
        )

    def truncation_note(self, text: str, pair: str | None = None) -> str | None:
        """A remark on a text of which only the beginning fits the model."""
        tokens, max_length = len(self.loaded.input_ids(text, pair)), self.loaded.max_length
        return f"{tokens} tokens; the model read {max_length} of them" if tokens > max_length else None

    def check_attention(self, text: str, target: str | None) -> None:
        tokens, max_length = len(self.loaded.input_ids(text, target)), self.loaded.recipe.model.max_length
        if tokens > max_length:
            raise RegardError(f"the text has {tokens} tokens, the model's maximum is {max_length}")

    def run_batch(self, batch_key: EncoderJob | AttentionJob, items: list[Any]) -> Sequence[Any]:
        match batch_key:
            case EncoderJob():
                self.count(len(items), 0)
                results: Sequence[Any] = getattr(self.loaded, batch_key.method)(items)
                return results.tolist() if isinstance(results, np.ndarray) else results
            case AttentionJob():
                return self.attention(batch_key, items)
