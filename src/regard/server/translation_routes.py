"""The routes of models that translate: texts in, translations out, and where the model looked."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import StreamingResponse

from regard.decoding import LengthPolicy
from regard.server import messages
from regard.server.alignment import places
from regard.server.answers import OWN_MISTAKE, encoded, json_answer, refusal
from regard.server.batcher import Gone, Job
from regard.server.cancellation import attended
from regard.server.messages import REFUSALS, AttentionAsked, TranslateAsked
from regard.server.model_registry import ModelRegistry, Refused
from regard.server.request_log import without_words
from regard.server.translator import Found, Look, Sentences, ServedTranslator, put_together
from regard.server.views import POLICY

LINES = "application/x-ndjson"
MANY_CHARACTERS = 20_000
"""So many are split into sentences beside the event loop, which others wait for."""


def translation_routes(registry: ModelRegistry) -> APIRouter:
    router = APIRouter(tags=["translation"])

    @router.post(
        "/translate",
        response_model=messages.Translations,
        responses={
            200: {
                "content": {LINES: {"schema": {"type": "string"}}},
                "description": "All translations; with Accept: application/x-ndjson one a line, as they come.",
            },
            **REFUSALS,
        },
    )
    async def translate(asked: TranslateAsked, request: Request) -> Response:
        """Translate one text or many."""
        model = registry.serving(ServedTranslator, "/translate", asked.model, "does not translate")
        texts = [asked.text] if isinstance(asked.text, str) else asked.text
        sentences = await in_sentences(model, texts, asked.long)
        items = [part for each in sentences for part in each.parts]
        if len(items) > model.batcher.room:
            raise Refused(
                413,
                f"the request has {len(items):,} sentences, the queue has room for {model.batcher.room:,}; "
                "send it in pieces",
            )
        job = model.batcher.put(model.search(asked.beam, asked.nbest, asked.attention), items)
        answers = told_texts(job, texts, sentences)
        if LINES in request.headers.get("accept", ""):
            return StreamingResponse(lines(answers, registry, model, job, request), media_type=LINES)
        async with attended(job, model.batcher, request), asyncio.timeout(registry.seconds):
            return json_answer({"model": model.name, "translations": [each async for each in answers]})

    return router


def attention_routes(registry: ModelRegistry) -> APIRouter:
    router = APIRouter(tags=["attention"])

    @router.post(
        "/attention",
        responses={
            200: {
                "content": {"text/html": {"schema": {"type": "string"}}},
                "description": "Every weight by layer and head; with Accept: text/html a page that shows them, "
                "which Content-Location names for ten minutes.",
            },
            **REFUSALS,
        },
    )
    async def attention(asked: AttentionAsked, request: Request) -> Response:
        """Look where a model looks while it translates a text, writes a given translation, or reads."""
        model = registry.model(asked.model)
        model.check_look(asked.text, asked.target)
        as_page = "text/html" in request.headers.get("accept", "")
        job = model.batcher.put(Look(as_page), [(asked.text, asked.target)])
        async with attended(job, model.batcher, request), asyncio.timeout(registry.seconds):
            [content] = [each async for each in job.answers()]
        if not as_page:
            return Response(content, media_type="application/json")
        return view_answer(content, {"Content-Location": f"/attention/{registry.views.keep(content)}"})

    @router.get(
        "/attention/{view}",
        response_class=Response,
        responses={
            200: {"content": {"text/html": {"schema": {"type": "string"}}}, "description": "The page."},
            404: {"model": messages.Refusal, "description": "There is no such page any more."},
        },
    )
    async def attention_view(view: str) -> Response:
        """A page that `POST /attention` made, by the name that cannot be guessed."""
        page = registry.views.get(view)
        if page is None:
            return refusal(404, "there is no such view any more; open it anew")
        return view_answer(page, {})

    return router


async def in_sentences(model: ServedTranslator, texts: Sequence[str], long: LengthPolicy) -> list[Sentences]:
    def split() -> list[Sentences]:
        return [model.sentences(text, number, long) for number, text in enumerate(texts, start=1)]

    return await run_in_threadpool(split) if sum(map(len, texts)) > MANY_CHARACTERS else split()


async def told_texts(
    job: Job, texts: Sequence[str], sentences: Sequence[Sentences]
) -> AsyncIterator[dict[str, Any]]:
    """The answer for each text, as soon as all its parts are translated."""
    answers = job.answers()
    for text, each in zip(texts, sentences, strict=True):
        parts = [await anext(answers) for _ in each.parts]
        yield told(text, put_together(text, parts), each.note)


def told(text: str, found: Found, note: str | None) -> dict[str, Any]:
    """A translation as JSON."""
    best, alignment = found.translation, found.alignment
    return {
        "text": best.text,
        "score": best.score,
        "others": [{"text": other.text, "score": other.score} for other in best.others],
        "note": note,
        "alignment": alignment
        and {
            "source": {"words": alignment.source, "places": places(text, alignment.source)},
            "target": {"words": alignment.target, "places": places(best.text, alignment.target)},
            "links": alignment.links,
        },
    }


async def lines(
    answers: AsyncIterator[dict[str, Any]],
    registry: ModelRegistry,
    model: ServedTranslator,
    job: Job,
    request: Request,
) -> AsyncIterator[bytes]:
    """A translation a line; where it cannot go on, the last line says why."""
    until = asyncio.get_running_loop().time() + registry.seconds
    number = 0
    async with attended(job, model.batcher, request):
        try:
            while True:
                async with asyncio.timeout_at(until):  # the client may take its time, the answer may not
                    each = await anext(answers)
                yield encoded({"number": number, **each}) + b"\n"
                number += 1
        except (StopAsyncIteration, Gone):
            return
        except TimeoutError:
            yield encoded({"error": registry.too_slow()}) + b"\n"
        except Exception as problem:
            registry.log(without_words(problem))
            yield encoded({"error": OWN_MISTAKE}) + b"\n"


def view_answer(page: bytes, headers: dict[str, str]) -> Response:
    """A viewer page, with rules of its own: it has scripts inside, and no origin."""
    headers = {**headers, "Content-Security-Policy": POLICY}
    return Response(page, headers=headers, media_type="text/html")
