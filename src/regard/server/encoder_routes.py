"""`/classify`, `/tag`, `/answer` and `/embed`, each present if a model of the server supports it."""

import asyncio
from collections.abc import Sequence
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.concurrency import run_in_threadpool

from regard.errors import RegardError
from regard.server.alignment import word_spans
from regard.server.model_registry import ModelRegistry
from regard.server.queue import cancel_on_disconnect
from regard.server.schemas import (
    ERRORS,
    Answer,
    AnswerRequest,
    AnswerResponse,
    Classification,
    ClassifyRequest,
    ClassifyResponse,
    Embedding,
    EmbedRequest,
    EmbedResponse,
    Entity,
    TaggedText,
    TaggedWord,
    TagRequest,
    TagResponse,
    as_list,
    json_response,
)
from regard.server.served_encoder import EncoderJob, EncoderMethod, ServedEncoder
from regard.tasks.classification.task import LabelPrediction
from regard.tasks.question_answering.task import AnswerSpan
from regard.tasks.tagging.task import TaggedSentence


def encoder_routes(registry: ModelRegistry) -> APIRouter:
    router = APIRouter(tags=["encoders"])
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
    @router.post("/classify", response_model=ClassifyResponse, responses=ERRORS)
    async def classify(body: ClassifyRequest, request: Request) -> Response:
        """Classify one or several texts, or pairs of texts."""
        model = registry.model_for(ServedEncoder, "/classify", body.model)
        texts, pairs = as_list(body.text), None if body.pair is None else as_list(body.pair)
        check_pairs(model, texts, pairs)
        items = texts if pairs is None else list(zip(texts, pairs, strict=True))
        labels: list[LabelPrediction] = await run(registry, model, "classify", items, request)
        notes = await truncation_notes(model, texts, pairs)
        classifications = [
            Classification(
                label=label.label, probability=label.probability, probabilities=label.probabilities, note=note
            )
            for label, note in zip(labels, notes, strict=True)
        ]
        return json_response(ClassifyResponse(model=model.name, classifications=classifications))


def add_tag(router: APIRouter, registry: ModelRegistry) -> None:
    @router.post("/tag", response_model=TagResponse, responses=ERRORS)
    async def tag(body: TagRequest, request: Request) -> Response:
        """Tag the words of one or several texts, and list the named entities."""
        model, texts = registry.model_for(ServedEncoder, "/tag", body.model), as_list(body.text)
        sentences: list[TaggedSentence] = await run(registry, model, "tag", texts, request)
        tagged = [tagged_text(text, sentence) for text, sentence in zip(texts, sentences, strict=True)]
        return json_response(TagResponse(model=model.name, texts=tagged))


def add_answer(router: APIRouter, registry: ModelRegistry) -> None:
    @router.post("/answer", response_model=AnswerResponse, responses=ERRORS)
    async def answer(body: AnswerRequest, request: Request) -> Response:
        """Find the answer to one or several questions in a paragraph."""
        model = registry.model_for(ServedEncoder, "/answer", body.model)
        questions = as_list(body.question)
        check_not_blank("question", questions)
        check_not_blank("paragraph", [body.paragraph])
        items = [(question, body.paragraph) for question in questions]
        spans: list[AnswerSpan] = await run(registry, model, "answer", items, request)
        answers = [
            Answer(answer=span.answer, span=(span.start, span.end), probability=span.probability)
            for span in spans
        ]
        return json_response(AnswerResponse(model=model.name, answers=answers))


def add_embed(router: APIRouter, registry: ModelRegistry) -> None:
    @router.post("/embed", response_model=EmbedResponse, responses=ERRORS)
    async def embed(body: EmbedRequest, request: Request) -> Response:
        """Embed one or several texts."""
        model, texts = registry.model_for(ServedEncoder, "/embed", body.model), as_list(body.text)
        vectors: list[list[float]] = await run(registry, model, "embed", texts, request)
        notes = await truncation_notes(model, texts, None)
        embeddings = [Embedding(vector=vector, note=note) for vector, note in zip(vectors, notes, strict=True)]
        return json_response(EmbedResponse(model=model.name, embeddings=embeddings))


async def run(
    registry: ModelRegistry,
    model: ServedEncoder,
    method: EncoderMethod,
    items: Sequence[Any],
    request: Request,
) -> list[Any]:
    """The result of each item, once all are computed."""
    job = model.submit(EncoderJob(method), items)
    async with cancel_on_disconnect(job, model.queue, request), asyncio.timeout(registry.timeout):
        return [result async for result in job.results()]


async def truncation_notes(model: ServedEncoder, texts: list[str], pairs: list[str] | None) -> list[str | None]:
    """A remark per truncated text; computed in a thread, since tokenizing would block the event loop."""

    def notes() -> list[str | None]:
        seconds = [None] * len(texts) if pairs is None else pairs
        return [model.truncation_note(text, second) for text, second in zip(texts, seconds, strict=True)]

    return await run_in_threadpool(notes)


def check_pairs(model: ServedEncoder, texts: list[str], pairs: list[str] | None) -> None:
    """Refuse single texts or pairs that do not fit the model's training data."""
    if model.pairs is True and pairs is None:
        raise RegardError(f"pair: {model.name} classifies pairs of texts; the second texts are missing")
    if model.pairs is False and pairs is not None:
        raise RegardError(f"pair: {model.name} classifies single texts")
    if pairs is not None and len(pairs) != len(texts):
        raise RegardError(f"pair: there are {len(texts)} texts and {len(pairs)} second texts")
    check_not_blank("text", texts)
    check_not_blank("pair", pairs or [])


def check_not_blank(key: str, texts: list[str]) -> None:
    for number, text in enumerate(texts, start=1):
        if not text.strip():
            raise RegardError(f"{key}: number {number} is empty")


def tagged_text(text: str, sentence: TaggedSentence) -> TaggedText:
    spans = word_spans(text, sentence.words)
    words = [
        TaggedWord(word=word, span=span, tag=tag, probability=probability)
        for word, span, tag, probability in zip(
            sentence.words, spans, sentence.tags, sentence.probabilities, strict=True
        )
    ]
    entities = []
    for entity in sentence.names:
        start, end = spans[entity.first][0], spans[entity.last][1]
        entities.append(
            Entity(name=text[start:end], kind=entity.kind, span=(start, end), probability=entity.probability)
        )
    return TaggedText(words=words, names=entities)
