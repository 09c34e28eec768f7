"""A translation model behind its queue: texts become sentences that fit, and those are worked in batches."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from regard.decoding import BeamSearchConfig, Policy, Translation
from regard.decoding.fitting import too_long
from regard.decoding.translator import TranslatedPart, join_parts
from regard.errors import RegardError
from regard.server.alignment import Aligned, aligned, joined
from regard.server.batcher import Batcher
from regard.tasks.metrics_log import whole_rows
from regard.tasks.run_folder import RunFolder
from regard.tasks.translation.model import Translator
from regard.viz.attention_maps import AttentionMaps
from regard.viz.html_page import attention_page

EXAMPLES, LONGEST_EXAMPLE = 4, 120
LARGEST_CARD = 1 << 16
"""Bytes of a model card: one of a twentieth of that is long."""
LARGEST_LOOK = 1_000_000
"""Weights that are shown of one text: more would take seconds, and a browser its memory."""


@dataclass(frozen=True)
class Search:
    """How sentences are to be translated; those of one way go in one batch."""

    options: BeamSearchConfig
    attention: bool


@dataclass(frozen=True)
class Look:
    """Texts are to be looked into; each item is the text and a translation, or None for the model's own."""

    as_page: bool


@dataclass(frozen=True)
class Found:
    """A sentence or a text translated."""

    translation: Translation
    alignment: Aligned | None


@dataclass(frozen=True)
class Sentences:
    """A text in parts that fit the model, and what there is to say about it."""

    parts: list[str]
    note: str | None


class ServedTranslator:
    """One model of the server."""

    task = "translation"

    def __init__(
        self,
        name: str,
        loaded: Translator,
        *,
        room: int,
        batch: int,
        batched: Callable[[int], object],
        counted: Callable[[int, int], object],
    ) -> None:
        self.name, self.loaded, self.counted = name, loaded, counted
        self.examples, self.card = examples_of(loaded), card_of(loaded.folder)
        self.attentive = self.warm_up()
        loaded.pipeline.freeze()
        threads = loaded.pipeline.searchers
        self.batcher = Batcher(self.work, room=room, batch=batch, threads=threads, told=batched, cost=self.cost)

    def warm_up(self) -> bool:
        """Have everything made that the first request would wait for; whether translations can be aligned."""
        loaded = self.loaded
        source, max_length = loaded.vocabulary.source, loaded.recipe.model.max_length
        short = (text for text in self.examples if too_long(source, text, max_length) is None)
        maps = loaded.attention(next(short, "."))
        return any(name.endswith("cross") for name in maps.layers)

    def about(self) -> dict[str, Any]:
        """What a client may want to know."""
        data = self.loaded.recipe.data
        return {
            "name": self.name,
            "task": self.task,
            "source_language": data.source_language,
            "target_language": data.target_language,
            "beam": self.loaded.recipe.decode.beam,
            "max_length": self.loaded.recipe.model.max_length,
            "attention": self.attentive,
            "examples": self.examples,
            "card": self.card,
        }

    def search(self, beam: int | None, nbest: int, attention: bool) -> Search:
        return Search(self.loaded.options(beam, nbest), attention and self.attentive)

    def sentences(self, text: str, number: int, long: Policy) -> Sentences:
        """The text in parts that fit; a text that is refused for its length is told by its number."""
        notes: list[str] = []
        parts = self.loaded.pipeline.parts(text, long, notes.append, number)
        return Sentences(parts, notes[0] if notes else None)

    def check_look(self, text: str, target: str | None) -> None:
        """Refuse to look into what the model has no places for."""
        max_length, vocabulary = self.loaded.recipe.model.max_length, self.loaded.vocabulary
        for what, tokenizer, words in (
            ("text", vocabulary.source, text),
            ("target", vocabulary.target, target),
        ):
            if (tokens := too_long(tokenizer, words or "", max_length)) is not None:
                raise RegardError(f"the {what} has {tokens} tokens, the model can look at {max_length} at once")

    def cost(self, way: Search | Look) -> float:
        """Time of a sentence relative to the model's usual beam size."""
        return way.options.beam / self.loaded.recipe.decode.beam if isinstance(way, Search) else 1.0

    def work(self, way: Search | Look, items: list[Any]) -> Sequence[Any]:
        """What a thread of the queue does with a batch."""
        match way:
            case Search():
                return self.translate(way, items)
            case Look():
                return [self.look(way, text, target) for text, target in items]

    def translate(self, way: Search, sentences: list[str]) -> list[Found]:
        """Sentences that fit."""
        parts = self.loaded.pipeline.translate_parts(sentences, way.options, batch_size=len(sentences))
        self.counted(len(parts), sum(len(part.hypotheses[0].ids) for part in parts if part.hypotheses))
        return [Found(part.translation, self.alignment(part) if way.attention else None) for part in parts]

    def alignment(self, part: TranslatedPart) -> Aligned | None:
        """Attention between the words of a sentence and its translation, with the ids that were searched.

        None for a sentence that was cut, since the model did not read all of it.
        """
        translation = part.translation
        if not translation.text:
            return Aligned([], [], [])
        target_ids = part.hypotheses[0].ids
        if max(len(part.source_ids), len(target_ids)) >= self.loaded.recipe.model.max_length:
            return None
        maps = self.loaded.attention_of_ids(translation.source, part.source_ids, translation.text, target_ids)
        return aligned(maps)

    def look(self, way: Look, text: str, target: str | None) -> bytes | RegardError:
        """The answer to a request for attention; made here, where no other request waits for it."""
        maps = self.loaded.attention(text, target)
        if not maps.layers:
            return RegardError(f"{self.name} has no attention weights to show")
        return attention_answer(way, maps)


def put_together(text: str, parts: Sequence[Found]) -> Found:
    """One answer from those of a text's parts."""
    translation = join_parts(text, [part.translation for part in parts])
    alignments = [part.alignment for part in parts if part.alignment is not None]
    return Found(translation, joined(alignments) if alignments else None)


def attention_answer(way: Look, maps: AttentionMaps) -> bytes | RegardError:
    """Attention weights as JSON, or as the viewer's page; too many of them are refused."""
    weights = sum(layer.weights.size for layer in maps.layers.values())
    if weights > LARGEST_LOOK:
        return RegardError(
            f"this text has {weights:,} weights to look at and the server shows {LARGEST_LOOK:,}; "
            "`regard look` has no such limit"
        )
    return (attention_page(maps) if way.as_page else json.dumps(maps.as_json(), ensure_ascii=False)).encode()


def examples_of(loaded: Translator) -> list[str]:
    """A few sentences of the kind the model was trained on: those its last validations translated."""
    path = loaded.folder.file("metrics.jsonl")
    rows = reversed(whole_rows(path)) if path.is_file() else ()
    samples = (sample for row in rows if isinstance(row.get("samples"), list) for sample in row["samples"])
    told = (sample.get("source") for sample in samples if isinstance(sample, dict))
    texts = (text for text in told if isinstance(text, str) and text.isprintable())
    return list(dict.fromkeys(text for text in texts if 0 < len(text) <= LONGEST_EXAMPLE))[:EXAMPLES]


def card_of(folder: RunFolder) -> str:
    path = folder.file("README.md")
    if not path.is_file():
        return ""
    with path.open("rb") as file:
        return file.read(LARGEST_CARD).decode("utf-8", "replace")
