"""What the routes share: the models by name, the numbers, the log, the pages kept, the patience."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from regard.errors import RegardError, did_you_mean
from regard.limits import SERVER_MAX_BEAM
from regard.server import messages
from regard.server.access import LARGEST_BODY
from regard.server.metrics import Metrics
from regard.server.reader import ServedReader
from regard.server.request_log import standard_error
from regard.server.translator import ServedTranslator
from regard.server.views import Views
from regard.server.writer import ServedGenerator
from regard.tasks import load

Served = ServedTranslator | ServedReader | ServedGenerator
ServedModel = TypeVar("ServedModel", ServedTranslator, ServedReader, ServedGenerator)

SERVED: dict[str, type[ServedTranslator] | type[ServedReader] | type[ServedGenerator]] = {
    "/translate": ServedTranslator,
    "/classify": ServedReader,
    "/tag": ServedReader,
    "/answer": ServedReader,
    "/embed": ServedReader,
    "/generate": ServedGenerator,
}
"""How a model is queued, by the first of its task's routes."""


class Refused(Exception):
    """A request that is not done, with the status and the sentence it is answered with."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


@dataclass
class ModelRegistry:
    """The models of a server, and what its routes share."""

    models: Mapping[str, Served]
    metrics: Metrics
    seconds: float
    """How long a request may wait for its answer."""
    log: Callable[[str], object] = standard_error
    views: Views = field(default_factory=Views)
    stopping: bool = False

    def model(self, name: str | None) -> Served:
        """The model of that name; the first one where none is named."""
        if name is None:
            return next(iter(self.models.values()))
        if name not in self.models:
            hint = did_you_mean(name, self.models)
            raise Refused(404, f"model: there is no model of this name{hint}; served: {', '.join(self.models)}")
        return self.models[name]

    def routes(self) -> set[str]:
        """The routes that some model answers."""
        return {route for model in self.models.values() for route in model.loaded.spec.routes}

    def serving(self, kind: type[ServedModel], route: str, name: str | None, cannot: str) -> ServedModel:
        """The model of that name, or the first one, that answers a route; another one `cannot`, as it says."""
        able = {
            each.name: each
            for each in self.models.values()
            if isinstance(each, kind) and route in each.loaded.spec.routes
        }
        model = next(iter(able.values())) if name is None else able.get(self.model(name).name)
        if model is None:
            raise Refused(422, f"model: {name} {cannot}; of {', '.join(able)}")
        return model

    def too_slow(self) -> str:
        return f"the answer took longer than {self.seconds:g} s; ask for less at once, or try again later"

    def about(self) -> dict[str, Any]:
        return {
            "models": [model.about() for model in self.models.values()],
            "limits": {
                "bytes": LARGEST_BODY,
                "texts": messages.TEXTS,
                "characters": messages.CHARACTERS,
                "seconds": self.seconds,
                "queue": min(model.batcher.room for model in self.models.values()),
                "beam": SERVER_MAX_BEAM,
            },
        }

    def close(self) -> None:
        """Accept nothing more."""
        self.stopping = True
        for model in self.models.values():
            model.batcher.close()


def open_registry(runs: Mapping[str, str], room: int, batch: int, seconds: float) -> ModelRegistry:
    """The models of run folders by name, loaded and warmed up, each behind a queue of its own."""
    models: dict[str, Served] = {}
    metrics = Metrics(lambda: {name: model.batcher.waiting for name, model in models.items()})

    def batched(name: str, size: int) -> None:
        metrics.batches.observe(name, number=size)

    def counted(name: str, sentences: int, tokens: int) -> None:
        metrics.sentences.add(name, number=sentences)
        metrics.tokens.add(name, number=tokens)

    for name, folder in runs.items():
        loaded: Any = load(folder)
        if not loaded.spec.routes:
            raise RegardError(f"{folder} holds a model for {loaded.recipe.task}, which is not served")
        models[name] = SERVED[loaded.spec.routes[0]](
            name, loaded, room=room, batch=batch, batched=partial(batched, name), counted=partial(counted, name)
        )
    return ModelRegistry(models, metrics, seconds)
