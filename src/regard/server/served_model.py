"""A loaded model behind its batch queue: what models of all kinds have in common."""

import json
from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from regard.errors import RegardError
from regard.server.metrics import Metrics
from regard.server.queue import BatchQueue, Job
from regard.server.schemas import RequestError, TextModelInfo, TranslatorInfo
from regard.tasks.loaded_model import TextModel
from regard.tasks.run_folder import RunFolder
from regard.viz.attention_maps import AttentionMaps
from regard.viz.html_page import attention_page

MAX_CARD_BYTES = 1 << 16
"""Bytes of a model card that are served."""
MAX_ATTENTION_WEIGHTS = 1_000_000
"""Attention weights of one text: more would take seconds here, and too much memory in a browser."""

Loaded = TypeVar("Loaded", bound=TextModel)


@dataclass(frozen=True)
class AttentionJob:
    """Batch key of items (text, target) whose attention weights are computed, as a page or as JSON."""

    as_page: bool


class ServedModel(ABC, Generic[Loaded]):
    """A loaded model and its queue.

    Args:
        name: The name in requests.
        loaded: The model.
        metrics: Receives batch sizes and counts.
        queue_size: Items that may wait.
        max_batch: Items per batch.
    """

    def __init__(self, name: str, loaded: Loaded, metrics: Metrics, *, queue_size: int, max_batch: int) -> None:
        self.name, self.loaded, self.metrics = name, loaded, metrics
        self.card = model_card(loaded.folder)
        self.warm_up()
        self.queue = BatchQueue(
            self.run_batch,
            capacity=queue_size,
            max_batch=max_batch,
            threads=self.threads,
            on_batch=lambda size: metrics.batches.observe(name, number=size),
            cost=self.cost,
        )

    @property
    def task(self) -> str:
        return self.loaded.spec.name

    @property
    def threads(self) -> int:
        """Worker threads of the queue."""
        return 1

    def warm_up(self) -> None:
        """Run the model once, so that the first request does not pay for lazy initialization."""

    def cost(self, batch_key: Any) -> float:
        """Time of an item relative to a usual one."""
        return 1.0

    @abstractmethod
    def info(self) -> TranslatorInfo | TextModelInfo:
        """The model's entry in `/models`."""

    @abstractmethod
    def check_attention(self, text: str, target: str | None) -> None:
        """Refuse texts longer than the model's maximum length.

        Raises:
            RegardError: a text has too many tokens.
        """

    @abstractmethod
    def run_batch(self, batch_key: Any, items: list[Any]) -> Sequence[Any]:
        """A result per item, or an exception in its place; runs in a thread of the queue."""

    def submit(self, batch_key: Hashable, items: Sequence[Any], unit: str = "texts") -> Job:
        """Enqueue the items of a request.

        Raises:
            RequestError: the items exceed the queue's capacity.
            QueueFull: they exceed its free capacity.
        """
        if len(items) > self.queue.capacity:
            raise RequestError(
                413,
                f"the request has {len(items):,} {unit}, the queue's capacity is {self.queue.capacity:,}; "
                "send it in pieces",
            )
        return self.queue.submit(batch_key, items)

    def count(self, sentences: int, tokens: int) -> None:
        """Add to the model's metrics."""
        self.metrics.sentences.add(self.name, number=sentences)
        self.metrics.tokens.add(self.name, number=tokens)

    def attention(
        self, job: AttentionJob, items: Sequence[tuple[str, str | None]]
    ) -> list[bytes | RegardError]:
        """The attention weights of each (text, target), as a page or as JSON."""
        return [
            self.attention_body(job, self.loaded.spec.attention(self.loaded, text, target))
            for text, target in items
        ]

    def attention_body(self, job: AttentionJob, maps: AttentionMaps) -> bytes | RegardError:
        """Attention weights as a page or JSON; an error if there are none, or too many."""
        if not maps.layers:
            return RegardError(f"{self.name} has no attention")
        weights = sum(layer.weights.size for layer in maps.layers.values())
        if weights > MAX_ATTENTION_WEIGHTS:
            return RegardError(
                f"this text has {weights:,} attention weights, the limit is {MAX_ATTENTION_WEIGHTS:,}; "
                "use `regard look`, which has no limit"
            )
        return (
            attention_page(maps) if job.as_page else json.dumps(maps.as_json(), ensure_ascii=False)
        ).encode()


def model_card(folder: RunFolder) -> str:
    path = folder.file("README.md")
    if not path.is_file():
        return ""
    with path.open("rb") as file:
        return file.read(MAX_CARD_BYTES).decode("utf-8", "replace")
