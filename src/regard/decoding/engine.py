"""What another engine must offer to take the place of a model and our search."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

from regard.decoding.beam_search import BeamSearchConfig
from regard.decoding.constraints import DecodingConstraints
from regard.nn.seq2seq import Hypothesis


class Engine(ABC):
    """A model that brings a search of its own: ids in, translations out."""

    name: str

    @abstractmethod
    def search(
        self,
        sentences: Sequence[Sequence[int]],
        limits: DecodingConstraints,
        options: BeamSearchConfig,
        batch_size: int,
    ) -> list[list[Hypothesis]]:
        """The `nbest` translations of each sentence of ids, its end included, best first."""
