"""The routes about the server itself: its models, its health, its numbers, and the page with its files."""

from fastapi import APIRouter, Request, Response

from regard.server import messages
from regard.server.answers import json_answer, refusal
from regard.server.files import PageFile, page_files
from regard.server.messages import REFUSALS
from regard.server.metrics import MEDIA_TYPE
from regard.server.model_registry import ModelRegistry


def about_routes(registry: ModelRegistry) -> APIRouter:
    router = APIRouter(tags=["server"])

    @router.get("/models", response_model=messages.Models, responses={401: REFUSALS[401]})
    async def models() -> Response:
        """The models, what they translate, their cards and examples; and how much a request may hold."""
        return json_answer(registry.about())

    @router.get(
        "/health",
        response_model=messages.Health,
        responses={503: {"model": messages.Health, "description": "The server is stopping."}},
    )
    async def health() -> Response:
        """Whether requests are accepted."""
        if registry.stopping:
            return json_answer({"status": "stopping"}, 503)
        return json_answer({"status": "ok"})

    @router.get(
        "/metrics",
        response_class=Response,
        responses={
            200: {"content": {MEDIA_TYPE: {"schema": {"type": "string"}}}, "description": "Prometheus text."},
            401: REFUSALS[401],
        },
    )
    async def metrics() -> Response:
        """What was counted, for Prometheus."""
        return Response(registry.metrics.text(), headers={"Content-Type": MEDIA_TYPE})

    return router


def page_routes() -> APIRouter:
    """The page at `/` and the files it is made of."""
    router = APIRouter(include_in_schema=False)
    files = page_files()

    @router.get("/")
    async def page(request: Request) -> Response:
        return file_answer(files["index.html"], request)

    @router.get("/page/{name}")
    async def page_file(name: str, request: Request) -> Response:
        if name not in files:
            return refusal(404, "the page has no such file")
        return file_answer(files[name], request)

    return router


def file_answer(file: PageFile, request: Request) -> Response:
    """The file, or word that the browser's copy is still good."""
    headers = {"ETag": file.tag, "Cache-Control": "no-cache"}
    if request.headers.get("if-none-match") == file.tag:
        return Response(status_code=304, headers=headers)
    return Response(file.content, headers=headers, media_type=file.media_type)
