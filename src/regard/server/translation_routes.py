"""`/translate`: texts in, translations out, all at once or line by line."""

import asyncio
import itertools
from collections.abc import AsyncGenerator, AsyncIterator, Sequence

from fastapi import APIRouter, Request, Response
from fastapi.concurrency import run_in_threadpool

from regard.decoding import LengthPolicy
from regard.server.alignment import Alignment, word_spans
from regard.server.model_registry import ModelRegistry
from regard.server.queue import Job, cancel_on_disconnect
from regard.server.schemas import (
    ERRORS,
    NDJSON,
    AlignedText,
    Hypothesis,
    TranslatedLine,
    TranslatedText,
    TranslateRequest,
    TranslateResponse,
    UnknownWord,
    WordAlignment,
    as_list,
    json_response,
    streamed,
)
from regard.server.served_translator import AlignedTranslation, ServedTranslator, SplitText, join_sentences

MAX_SYNC_CHARACTERS = 20_000
"""More characters than this are split into sentences outside of the event loop."""


def translation_routes(registry: ModelRegistry) -> APIRouter:
    router = APIRouter(tags=["translation"])
    if "/translate" not in registry.routes():
        return router

    @router.post(
        "/translate",
        response_model=TranslateResponse,
        responses={
            **streamed(
                "All translations; with Accept: application/x-ndjson, one per line as they are finished."
            ),
            **ERRORS,
        },
    )
    async def translate(body: TranslateRequest, request: Request) -> Response:
        """Translate one or several texts."""
        model = registry.model_for(ServedTranslator, "/translate", body.model)
        texts = as_list(body.text)
        split_texts = await split_all(model, texts, body.long)
        sentences = [sentence for split_text in split_texts for sentence in split_text.parts]
        job = model.submit(model.job(body.beam, body.nbest, body.attention), sentences, "sentences")
        results = translated_texts(model, job, texts, split_texts)
        if NDJSON in request.headers.get("accept", ""):
            return registry.stream(lines(results, model, job, request, registry.timeout))
        async with cancel_on_disconnect(job, model.queue, request), asyncio.timeout(registry.timeout):
            translations = [result async for result in results]
        return json_response(TranslateResponse(model=model.name, translations=translations))

    return router


async def split_all(model: ServedTranslator, texts: Sequence[str], long: LengthPolicy) -> list[SplitText]:
    def split() -> list[SplitText]:
        return [model.split(text, number, long) for number, text in enumerate(texts, start=1)]

    return await run_in_threadpool(split) if sum(map(len, texts)) > MAX_SYNC_CHARACTERS else split()


async def translated_texts(
    model: ServedTranslator, job: Job, texts: Sequence[str], split_texts: Sequence[SplitText]
) -> AsyncIterator[TranslatedText]:
    """The translation of each text, as soon as all its sentences are translated."""
    results, source = job.results(), model.loaded.vocabulary.source
    for text, split_text in zip(texts, split_texts, strict=True):
        sentences = [await anext(results) for _ in split_text.parts]
        yield translated_text(text, join_sentences(text, sentences, source), split_text.note)


def translated_text(text: str, result: AlignedTranslation, note: str | None) -> TranslatedText:
    best = result.translation
    return TranslatedText(
        text=best.text,
        score=best.score,
        others=[Hypothesis(text=other.text, score=other.score) for other in best.others],
        note=note,
        words=result.words,
        unknown=[UnknownWord(text=word.text, span=(word.start, word.end)) for word in best.unknown_words],
        alignment=None if result.alignment is None else word_alignment(result.alignment, text, best.text),
    )


def word_alignment(alignment: Alignment, source: str, target: str) -> WordAlignment:
    return WordAlignment(
        source=AlignedText(words=alignment.source, spans=word_spans(source, alignment.source)),
        target=AlignedText(words=alignment.target, spans=word_spans(target, alignment.target)),
        links=alignment.links,
    )


async def lines(
    results: AsyncIterator[TranslatedText],
    model: ServedTranslator,
    job: Job,
    request: Request,
    timeout: float,
) -> AsyncGenerator[TranslatedLine, None]:
    """The lines of a streamed response."""
    deadline = asyncio.get_running_loop().time() + timeout
    async with cancel_on_disconnect(job, model.queue, request):
        for number in itertools.count():
            try:
                async with asyncio.timeout_at(deadline):  # for the model only: the client may read slowly
                    result = await anext(results)
            except StopAsyncIteration:
                return
            yield TranslatedLine(number=number, **dict(result))
