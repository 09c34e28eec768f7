"""What the routes share: the models by name, the numbers, the pages kept, the patience."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from regard.app.server import messages
from regard.app.server.gate import LARGEST_BODY
from regard.app.server.metrics import Metrics
from regard.app.server.translator import ServedTranslator
from regard.app.server.views import Views
from regard.errors import did_you_mean


class Refused(Exception):
    """A request that is not done, with the status and the sentence it is answered with."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


@dataclass
class House:
    """Everything behind the gate."""

    models: Mapping[str, ServedTranslator]
    metrics: Metrics
    seconds: float
    """How long a request may wait for its answer."""
    views: Views = field(default_factory=Views)
    stopping: bool = False

    def model(self, name: str | None) -> ServedTranslator:
        """The model of that name; the first one where none is named."""
        if name is None:
            return next(iter(self.models.values()))
        if name not in self.models:
            hint = did_you_mean(name, self.models)
            raise Refused(422, f"model: there is no model of this name{hint}; served: {', '.join(self.models)}")
        return self.models[name]

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
                "beam": messages.LARGEST_BEAM,
            },
        }

    def close(self) -> None:
        """Accept nothing more."""
        self.stopping = True
        for model in self.models.values():
            model.batcher.close()
