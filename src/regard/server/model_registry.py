"""The models of a server by name, and what its routes share: metrics, log, timeout."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, TypeVar

from fastapi.responses import StreamingResponse
from pydantic import BaseModel

from regard.errors import RegardError, did_you_mean
from regard.limits import SERVER_MAX_BEAM
from regard.server.metrics import Metrics
from regard.server.middleware import MAX_BODY_BYTES, log_to_stderr, traceback_without_message
from regard.server.queue import ClientDisconnected
from regard.server.schemas import (
    INTERNAL_ERROR,
    MAX_CHARACTERS,
    MAX_TEXTS,
    NDJSON,
    ErrorResponse,
    ModelsResponse,
    RequestError,
    RequestLimits,
    ndjson_line,
)
from regard.server.served_encoder import ServedEncoder
from regard.server.served_generator import ServedGenerator
from regard.server.served_model import ServedModel
from regard.server.served_translator import ServedTranslator
from regard.tasks import load

SERVED_MODELS: dict[str, type[ServedModel[Any]]] = {
    "/translate": ServedTranslator,
    "/classify": ServedEncoder,
    "/tag": ServedEncoder,
    "/answer": ServedEncoder,
    "/embed": ServedEncoder,
    "/generate": ServedGenerator,
}
"""The class that serves a model, by the first of its task's routes."""

ServedType = TypeVar("ServedType", bound=ServedModel[Any])


@dataclass
class ModelRegistry:
    """The models of a server, and what its routes share."""

    models: Mapping[str, ServedModel[Any]]
    metrics: Metrics
    timeout: float
    """Seconds a request may wait for its answer."""
    log: Callable[[str], object] = log_to_stderr
    stopping: bool = False

    def model(self, name: str | None) -> ServedModel[Any]:
        """The model of that name, or the first one.

        Raises:
            RequestError: there is no model of this name.
        """
        if name is None:
            return next(iter(self.models.values()))
        if name not in self.models:
            hint = did_you_mean(name, self.models)
            raise RequestError(
                404, f"model: there is no model of this name{hint}; available: {', '.join(self.models)}"
            )
        return self.models[name]

    def routes(self) -> set[str]:
        """The routes that at least one model answers."""
        return {route for model in self.models.values() for route in model.loaded.spec.routes}

    def model_for(self, served: type[ServedType], route: str, name: str | None) -> ServedType:
        """The model of that name, or the first one, that answers a route.

        Raises:
            RequestError: there is no model of this name, or it does not answer the route.
        """
        models = {
            model.name: model
            for model in self.models.values()
            if isinstance(model, served) and route in model.loaded.spec.routes
        }
        model = next(iter(models.values())) if name is None else models.get(self.model(name).name)
        if model is None:
            raise RequestError(422, f"model: {name} does not support {route}; use one of: {', '.join(models)}")
        return model

    def timeout_message(self) -> str:
        return f"the answer took longer than {self.timeout:g} s; send less at once, or try again later"

    def stream(self, bodies: AsyncGenerator[BaseModel, None]) -> StreamingResponse:
        """The bodies as a response with one per line; if an error occurs, it is the last line."""
        return StreamingResponse(self._lines(bodies), media_type=NDJSON)

    async def _lines(self, bodies: AsyncGenerator[BaseModel, None]) -> AsyncIterator[bytes]:
        try:
            async with aclosing(bodies):
                async for body in bodies:
                    yield ndjson_line(body)
        except ClientDisconnected:
            return
        except TimeoutError:
            yield ndjson_line(ErrorResponse(error=self.timeout_message()))
        except Exception as error:
            self.log(traceback_without_message(error))
            yield ndjson_line(ErrorResponse(error=INTERNAL_ERROR))

    def info(self) -> ModelsResponse:
        """The response of `/models`."""
        limits = RequestLimits(
            bytes=MAX_BODY_BYTES,
            texts=MAX_TEXTS,
            characters=MAX_CHARACTERS,
            seconds=self.timeout,
            queue=min(model.queue.capacity for model in self.models.values()),
            beam=SERVER_MAX_BEAM,
        )
        return ModelsResponse(models=[model.info() for model in self.models.values()], limits=limits)

    def close(self) -> None:
        """Refuse new requests."""
        self.stopping = True
        for model in self.models.values():
            model.queue.close()


def open_registry(runs: Mapping[str, str], queue_size: int, max_batch: int, timeout: float) -> ModelRegistry:
    """Load and warm up the models of run folders.

    Args:
        runs: Run folders by model name.
        queue_size: Items that may wait for each model.
        max_batch: Items per batch.
        timeout: Seconds a request may wait for its answer.
    """
    models: dict[str, ServedModel[Any]] = {}
    metrics = Metrics(lambda: {name: model.queue.waiting for name, model in models.items()})
    for name, folder in runs.items():
        loaded: Any = load(folder)
        if not loaded.spec.routes:
            raise RegardError(
                f"{folder} holds a model for {loaded.recipe.task}, which `regard serve` does not support"
            )
        served = SERVED_MODELS[loaded.spec.routes[0]]
        models[name] = served(name, loaded, metrics, queue_size=queue_size, max_batch=max_batch)
    return ModelRegistry(models, metrics, timeout)
