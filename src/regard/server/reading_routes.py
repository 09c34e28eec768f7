"""The routes of models that read: labels, names, answers and vectors, as far as some model gives them."""

import asyncio
from collections.abc import Sequence
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.concurrency import run_in_threadpool

from regard.errors import RegardError
from regard.server import reading_messages as told
from regard.server.alignment import places
from regard.server.answers import json_answer
from regard.server.cancellation import attended
from regard.server.messages import REFUSALS, Asked
from regard.server.model_registry import ModelRegistry, Refused
from regard.server.reader import Read, ServedReader, Verb
from regard.tasks.classification.task import LabelPrediction
from regard.tasks.question_answering.task import AnswerSpan
from regard.tasks.tagging.task import TaggedSentence

ASKED: dict[str, type[Asked]] = {
    "/classify": told.ClassifyAsked,
    "/tag": told.TagAsked,
    "/answer": told.AnswerAsked,
    "/embed": told.EmbedAsked,
}
"""What the body of a route holds, to say what is wrong with one."""


def reading_routes(registry: ModelRegistry) -> APIRouter:
    router = APIRouter(tags=["reading"])
    routes = registry.routes()
    if "/classify" in routes:
        add_classify(router, registry)
    if "/tag" in routes:
        add_tag(router, registry)
    if "/answer" in routes:
        add_answer(router, registry)
    if "/embed" in routes:
        add_embed(router, registry)
    return router


def add_classify(router: APIRouter, registry: ModelRegistry) -> None:
    @router.post("/classify", response_model=told.Classifications, responses=REFUSALS)
    async def classify(asked: told.ClassifyAsked, request: Request) -> Response:
        """Label one text or many, or pairs of texts."""
        model = reader(registry, asked.model, "classify")
        texts, pairs = listed(asked.text), None if asked.pair is None else listed(asked.pair)
        check_pairs(model, texts, pairs)
        items = texts if pairs is None else list(zip(texts, pairs, strict=True))
        found: list[LabelPrediction] = await answers(registry, model, "classify", items, request)
        notes = await notes_of(model, texts, pairs)
        rows = [{**vars(each), "note": note} for each, note in zip(found, notes, strict=True)]
        return json_answer({"model": model.name, "classifications": rows})


def add_tag(router: APIRouter, registry: ModelRegistry) -> None:
    @router.post("/tag", response_model=told.Taggings, responses=REFUSALS)
    async def tag(asked: told.TagAsked, request: Request) -> Response:
        """Find the names in one text or many."""
        model, texts = reader(registry, asked.model, "tag"), listed(asked.text)
        found: list[TaggedSentence] = await answers(registry, model, "tag", texts, request)
        rows = [told_tags(text, each) for text, each in zip(texts, found, strict=True)]
        return json_answer({"model": model.name, "texts": rows})


def add_answer(router: APIRouter, registry: ModelRegistry) -> None:
    @router.post("/answer", response_model=told.Answers, responses=REFUSALS)
    async def answer(asked: told.AnswerAsked, request: Request) -> Response:
        """Find the answer to one question or many in a paragraph."""
        model, questions = reader(registry, asked.model, "answer"), listed(asked.question)
        check_full("question", questions)
        check_full("paragraph", [asked.paragraph])
        items = [(question, asked.paragraph) for question in questions]
        found: list[AnswerSpan] = await answers(registry, model, "answer", items, request)
        rows = [
            {"answer": each.answer, "place": (each.start, each.end), "probability": each.probability}
            for each in found
        ]
        return json_answer({"model": model.name, "answers": rows})


def add_embed(router: APIRouter, registry: ModelRegistry) -> None:
    @router.post("/embed", response_model=told.Embeddings, responses=REFUSALS)
    async def embed(asked: told.EmbedAsked, request: Request) -> Response:
        """Make a vector of one text or many."""
        model, texts = reader(registry, asked.model, "embed"), listed(asked.text)
        found: list[list[float]] = await answers(registry, model, "embed", texts, request)
        notes = await notes_of(model, texts, None)
        rows = [{"vector": each, "note": note} for each, note in zip(found, notes, strict=True)]
        return json_answer({"model": model.name, "embeddings": rows})


def reader(registry: ModelRegistry, name: str | None, verb: Verb) -> ServedReader:
    """The model of that name, or the first that can be asked for this."""
    return registry.serving(ServedReader, f"/{verb}", name, f"cannot be asked for /{verb}")


async def answers(
    registry: ModelRegistry, model: ServedReader, verb: Verb, items: Sequence[Any], request: Request
) -> list[Any]:
    """The answer to each item, once all are there."""
    if len(items) > model.batcher.room:
        raise Refused(
            413,
            f"the request has {len(items):,} texts, the queue has room for {model.batcher.room:,}; "
            "send it in pieces",
        )
    job = model.batcher.put(Read(verb), items)
    async with attended(job, model.batcher, request), asyncio.timeout(registry.seconds):
        return [each async for each in job.answers()]


async def notes_of(model: ServedReader, texts: list[str], pairs: list[str] | None) -> list[str | None]:
    """What there is to say about each text, found beside the event loop, which others wait for."""

    def found() -> list[str | None]:
        return [model.note(text, None if pairs is None else pairs[number]) for number, text in enumerate(texts)]

    return await run_in_threadpool(found)


def listed(given: str | list[str]) -> list[str]:
    return [given] if isinstance(given, str) else given


def check_pairs(model: ServedReader, texts: list[str], pairs: list[str] | None) -> None:
    """Refuse what the model was not trained on."""
    if model.pairs is True and pairs is None:
        raise RegardError(f"pair: {model.name} labels pairs of texts, and the second ones are missing")
    if model.pairs is False and pairs is not None:
        raise RegardError(f"pair: {model.name} labels single texts")
    if pairs is not None and len(pairs) != len(texts):
        raise RegardError(f"pair: there are {len(texts)} texts and {len(pairs)} second ones")
    check_full("text", texts)
    check_full("pair", pairs or [])


def check_full(key: str, texts: list[str]) -> None:
    for number, text in enumerate(texts, start=1):
        if not text.strip():
            raise RegardError(f"{key}: number {number} is empty")


def told_tags(text: str, found: TaggedSentence) -> dict[str, Any]:
    """A text's words and names as JSON, with where they stand."""
    where = places(text, found.words)
    words = [
        {"word": word, "place": place, "tag": tag, "probability": share}
        for word, place, tag, share in zip(found.words, where, found.tags, found.probabilities, strict=True)
    ]
    names = [
        {
            "name": text[where[each.first][0] : where[each.last][1]],
            "kind": each.kind,
            "place": (where[each.first][0], where[each.last][1]),
            "probability": each.probability,
        }
        for each in found.names
    ]
    return {"words": words, "names": names}
