"""Routes about the server: `/models`, `/health`, `/metrics`, and the web page with its files."""

import hashlib
from dataclasses import dataclass
from importlib.resources import files

from fastapi import APIRouter, Request, Response

from regard.server.metrics import MEDIA_TYPE
from regard.server.model_registry import ModelRegistry
from regard.server.schemas import ERRORS, HealthResponse, ModelsResponse, error_response, json_response
from regard.viz.html_page import VIEWER

MEDIA_TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}


def server_routes(registry: ModelRegistry) -> APIRouter:
    router = APIRouter(tags=["server"])

    @router.get("/models", response_model=ModelsResponse, responses={401: ERRORS[401]})
    async def models() -> Response:
        """The models with their languages or labels, model cards and examples, and the limits of a request."""
        return json_response(registry.info())

    @router.get(
        "/health",
        response_model=HealthResponse,
        responses={503: {"model": HealthResponse, "description": "The server is stopping."}},
    )
    async def health() -> Response:
        """Whether requests are accepted."""
        if registry.stopping:
            return json_response(HealthResponse(status="stopping"), 503)
        return json_response(HealthResponse(status="ok"))

    @router.get(
        "/metrics",
        response_class=Response,
        responses={
            200: {"content": {MEDIA_TYPE: {"schema": {"type": "string"}}}, "description": "Prometheus text."},
            401: ERRORS[401],
        },
    )
    async def metrics() -> Response:
        """Metrics in the Prometheus text format."""
        return Response(registry.metrics.text(), headers={"Content-Type": MEDIA_TYPE})

    return router


def page_routes() -> APIRouter:
    """The web page at `/` and its files."""
    router = APIRouter(include_in_schema=False)
    static_files = load_static_files()

    @router.get("/")
    async def page(request: Request) -> Response:
        return file_response(static_files["index.html"], request)

    @router.get("/page/{name}")
    async def page_file(name: str, request: Request) -> Response:
        if name not in static_files:
            return error_response(404, "the page has no such file")
        return file_response(static_files[name], request)

    return router


@dataclass(frozen=True)
class StaticFile:
    """A file of the web page."""

    content: bytes
    media_type: str
    etag: str


def load_static_files() -> dict[str, StaticFile]:
    """The files of the page by name; theme.css is shared with the attention viewer."""
    static_files = {}
    for path in (*files("regard.server").joinpath("static").iterdir(), VIEWER / "theme.css"):
        suffix = path.name.rpartition(".")[2]
        if suffix in MEDIA_TYPES:
            content = path.read_bytes()
            etag = f'"{hashlib.sha256(content).hexdigest()[:20]}"'
            static_files[path.name] = StaticFile(content, MEDIA_TYPES[suffix], etag)
    return static_files


def file_response(file: StaticFile, request: Request) -> Response:
    """The file, or 304 if the browser's copy is current."""
    headers = {"ETag": file.etag, "Cache-Control": "no-cache"}
    if request.headers.get("if-none-match") == file.etag:
        return Response(status_code=304, headers=headers)
    return Response(file.content, headers=headers, media_type=file.media_type)
