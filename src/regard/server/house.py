"""What the routes share: the models by name, the numbers, the log, the pages kept, the patience."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from regard.errors import RegardError, did_you_mean
from regard.limits import SERVER_MAX_BEAM
from regard.server import messages
from regard.server.gate import LARGEST_BODY
from regard.server.metrics import Metrics
from regard.server.reader import ServedReader
from regard.server.translator import ServedTranslator
from regard.server.views import Views
from regard.server.watch import standard_error
from regard.server.writer import ServedWriter
from regard.tasks import load
from regard.tasks.encoder.model import LoadedEncoder
from regard.tasks.language_modeling.model import LoadedWriter
from regard.tasks.translation.model import LoadedTranslator

Served = ServedTranslator | ServedReader | ServedWriter


class Refused(Exception):
    """A request that is not done, with the status and the sentence it is answered with."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


@dataclass
class House:
    """Everything behind the gate."""

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

    def translator(self, name: str | None) -> ServedTranslator:
        """The model of that name, which must translate; the first that does where none is named."""
        able = [model for model in self.models.values() if isinstance(model, ServedTranslator)]
        model = able[0] if name is None else self.model(name)
        if not isinstance(model, ServedTranslator):
            raise Refused(422, f"model: {name} does not translate; of {', '.join(each.name for each in able)}")
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


def open_house(runs: Mapping[str, str], room: int, batch: int, seconds: float) -> House:
    """The models of run folders by name, loaded and warmed up, each behind a queue of its own."""
    models: dict[str, Served] = {}
    metrics = Metrics(lambda: {name: model.batcher.waiting for name, model in models.items()})

    def batched(name: str, size: int) -> None:
        metrics.batches.observe(name, number=size)

    def translated(name: str, sentences: int, tokens: int) -> None:
        metrics.sentences.add(name, number=sentences)
        metrics.tokens.add(name, number=tokens)

    for name, folder in runs.items():
        loaded = load(folder)
        told = partial(batched, name)
        if isinstance(loaded, LoadedTranslator):
            models[name] = ServedTranslator(
                name, loaded, room=room, batch=batch, batched=told, translated=partial(translated, name)
            )
        elif isinstance(loaded, LoadedEncoder):
            models[name] = ServedReader(
                name, loaded, room=room, batch=batch, batched=told, read=partial(translated, name, tokens=0)
            )
        elif isinstance(loaded, LoadedWriter):
            models[name] = ServedWriter(
                name, loaded, room=room, batch=batch, batched=told, written=partial(translated, name)
            )
        else:
            raise RegardError(f"{folder} holds a {loaded.recipe.task} model, which is not served")
    return House(models, metrics, seconds)
