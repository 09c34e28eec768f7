"""Routes that show how a model reads a text: its tokens, and its attention weights as JSON or as a page."""

import asyncio
import secrets
import time
from collections.abc import Callable
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.concurrency import run_in_threadpool

from regard.server.model_registry import ModelRegistry
from regard.server.queue import cancel_on_disconnect
from regard.server.schemas import (
    ERRORS,
    AttentionRequest,
    ErrorResponse,
    TokenizedText,
    TokenizeRequest,
    TokenizeResponse,
    as_list,
    error_response,
    json_response,
)
from regard.server.served_model import AttentionJob, ServedModel

PAGE_POLICY = (
    "sandbox allow-scripts allow-downloads allow-modals; default-src 'none'; script-src 'unsafe-inline'; "
    "style-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'self'"
)
"""Content security policy of an attention page: no origin of its own; the page's policy names its scripts."""
MAX_PAGE_AGE = 600.0
"""Seconds an attention page is kept."""
MAX_PAGE_BYTES = 1 << 26
"""Total size of the attention pages."""


def inspection_routes(registry: ModelRegistry) -> APIRouter:
    router = APIRouter(tags=["inspection"])
    pages = PageStore()

    @router.post("/tokenize", response_model=TokenizeResponse, responses=ERRORS)
    async def tokenize(body: TokenizeRequest) -> Response:
        """Split one or several texts into tokens."""
        model = registry.model(body.model)
        return await run_in_threadpool(tokens_response, model, as_list(body.text))

    @router.post(
        "/attention",
        responses={
            200: {
                "content": {"text/html": {"schema": {"type": "string"}}},
                "description": "Attention weights by layer and head as JSON; with Accept: text/html a page, "
                "which is also at the address in Content-Location for ten minutes.",
            },
            **ERRORS,
        },
    )
    async def attention(body: AttentionRequest, request: Request) -> Response:
        """Attention weights of a model for a text, and for its translation or continuation."""
        model = registry.model(body.model)
        model.check_attention(body.text, body.target)
        as_page = "text/html" in request.headers.get("accept", "")
        job = model.queue.submit(AttentionJob(as_page), [(body.text, body.target)])
        async with cancel_on_disconnect(job, model.queue, request), asyncio.timeout(registry.timeout):
            [content] = [result async for result in job.results()]
        if not as_page:
            return Response(content, media_type="application/json")
        return page_response(content, {"Content-Location": f"/attention/{pages.add(content)}"})

    @router.get(
        "/attention/{view}",
        response_class=Response,
        responses={
            200: {"content": {"text/html": {"schema": {"type": "string"}}}, "description": "The page."},
            404: {"model": ErrorResponse, "description": "There is no such page, or it has expired."},
        },
    )
    async def attention_page(view: str) -> Response:
        """A page made by `POST /attention`, by its secret name."""
        page = pages.get(view)
        if page is None:
            return error_response(404, "there is no such page, or it has expired; request it again")
        return page_response(page, {})

    return router


def tokens_response(model: ServedModel[Any], texts: list[str]) -> Response:
    """The response of `/tokenize`; takes too long for the event loop if texts are long."""
    tokenizer, rows = model.loaded.tokenizer, []
    for text in texts:
        ids = model.loaded.input_ids(text)
        rows.append(TokenizedText(pieces=tokenizer.tokens(ids), ids=ids, count=len(ids)))
    return json_response(TokenizeResponse(model=model.name, vocabulary=tokenizer.size, texts=rows))


def page_response(page: bytes, headers: dict[str, str]) -> Response:
    headers = {**headers, "Content-Security-Policy": PAGE_POLICY}
    return Response(page, headers=headers, media_type="text/html")


class PageStore:
    """The newest attention pages: none older than `MAX_PAGE_AGE`, at most `MAX_PAGE_BYTES` together."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self._pages: dict[str, tuple[float, bytes]] = {}

    def add(self, page: bytes) -> str:
        """Keep a page; returns its name, which cannot be guessed."""
        self._evict(len(page))
        name = secrets.token_urlsafe(24)
        self._pages[name] = self.clock(), page
        return name

    def get(self, name: str) -> bytes | None:
        self._evict(0)
        entry = self._pages.get(name)
        return None if entry is None else entry[1]

    def _evict(self, needed: int) -> None:
        """Drop the oldest pages until the others are young enough and leave `needed` bytes."""
        oldest = self.clock() - MAX_PAGE_AGE
        size = needed + sum(len(page) for _, page in self._pages.values())
        for name, (added, page) in list(self._pages.items()):
            if added >= oldest and size <= MAX_PAGE_BYTES:
                break
            del self._pages[name]
            size -= len(page)
