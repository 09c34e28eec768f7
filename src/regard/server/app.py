"""The application: routes, error responses and middleware."""

import sys
from dataclasses import dataclass
from typing import get_type_hints

from fastapi import FastAPI, Request, Response, Security
from fastapi.exceptions import RequestValidationError
from fastapi.security import HTTPBearer
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp

from regard import __version__
from regard.errors import RegardError, nearest
from regard.server.encoder_routes import encoder_routes
from regard.server.generation_routes import generation_routes
from regard.server.inspection_routes import inspection_routes
from regard.server.middleware import AccessMiddleware, AccessRules, RequestLog
from regard.server.model_registry import ModelRegistry
from regard.server.queue import ClientDisconnected, QueueClosed, QueueFull
from regard.server.schemas import RequestBody, RequestError, error_response, internal_error
from regard.server.server_routes import page_routes, server_routes
from regard.server.translation_routes import translation_routes

ROUTERS = (translation_routes, encoder_routes, generation_routes, inspection_routes, server_routes)

MAX_JSON_DEPTH = 100
"""Nested lists and objects that Python's JSON parser accepts in any case; the actual limit is about 900."""


@dataclass(frozen=True)
class Application:
    """The server without its sockets."""

    registry: ModelRegistry
    access: AccessMiddleware
    log: RequestLog
    """The outermost ASGI application."""

    def close(self) -> None:
        """Refuse new requests; accepted ones are still answered."""
        self.access.closed = True
        self.registry.close()

    def join(self) -> None:
        """After `close`: wait for the models' threads."""
        for model in self.registry.models.values():
            model.queue.join()


def create_app(registry: ModelRegistry, rules: AccessRules) -> Application:
    """The routes, access checks around them, and the request log around both."""
    app = FastAPI(
        title="regard",
        version=__version__,
        description="Translation, classification, tagging, question answering, embeddings and text "
        "generation with the models of run folders, and attention weights.",
        docs_url=None,  # FastAPI's pages load scripts from other servers
        redoc_url=None,
    )
    security = [Security(HTTPBearer(auto_error=False))] if rules.token else []
    for router in ROUTERS:
        app.include_router(router(registry), dependencies=security)
    app.include_router(page_routes())
    add_error_handlers(app, registry)
    access = AccessMiddleware(app, rules)
    inner: ASGIApp = access
    if rules.origins:
        inner = CORSMiddleware(
            access,
            list(rules.origins),
            allow_methods=["GET", "POST"],
            allow_headers=["Authorization"],
            expose_headers=["Content-Location", "Retry-After"],
        )
    return Application(registry, access, RequestLog(inner, registry.metrics, registry.log))


def add_error_handlers(app: FastAPI, registry: ModelRegistry) -> None:
    """Turn every error into a status and one sentence."""

    @app.exception_handler(RegardError)
    async def user_error(request: Request, error: RegardError) -> Response:
        return error_response(422, str(error))

    @app.exception_handler(RequestError)
    async def request_error(request: Request, error: RequestError) -> Response:
        return error_response(error.status, str(error))

    @app.exception_handler(RequestValidationError)
    async def invalid_body(request: Request, error: RequestValidationError) -> Response:
        return error_response(422, validation_message(error, request_schema(request)))

    @app.exception_handler(HTTPException)
    async def http_error(request: Request, error: HTTPException) -> Response:
        messages = {
            400: parse_message(error.__cause__),
            404: "there is no such path; /openapi.json lists them",
            405: "this path does not support this method; /openapi.json lists the methods",
        }
        message = messages.get(error.status_code, str(error.detail))
        return error_response(error.status_code, message, dict(error.headers or {}))

    @app.exception_handler(QueueFull)
    async def queue_full(request: Request, error: QueueFull) -> Response:
        return error_response(429, str(error), {"Retry-After": str(error.retry_after)})

    @app.exception_handler(QueueClosed)
    async def queue_closed(request: Request, error: QueueClosed) -> Response:
        return error_response(503, str(error), {"Connection": "close", "Retry-After": "5"})

    @app.exception_handler(TimeoutError)
    async def timeout(request: Request, error: TimeoutError) -> Response:
        return error_response(504, registry.timeout_message())

    @app.exception_handler(Exception)
    async def unexpected_error(request: Request, error: Exception) -> Response:
        return internal_error()  # Starlette raises it again, and the request log records it

    @app.exception_handler(ClientDisconnected)
    async def client_disconnected(request: Request, error: ClientDisconnected) -> Response:
        return Response(status_code=499)  # for the request log; no client reads it


def parse_message(error: BaseException | None) -> str:
    """Why a body is not JSON, from the error of Python's parser, which FastAPI turns into a 400."""
    match error:
        case RecursionError():
            return (
                f"the body is nested deeper than {MAX_JSON_DEPTH} levels; expected one object of texts or lists"
            )
        case UnicodeDecodeError() | None:
            return "the body is not JSON in UTF-8"
        case ValueError():
            return f"the body contains a number of more than {sys.get_int_max_str_digits():,} digits"
        case _:
            return "the body cannot be read as JSON"


def request_schema(request: Request) -> type[RequestBody] | None:
    """The schema of the body of the request's route."""
    endpoint = getattr(request.scope.get("route"), "endpoint", None)
    hints = get_type_hints(endpoint).values() if endpoint else ()
    return next((hint for hint in hints if isinstance(hint, type) and issubclass(hint, RequestBody)), None)


def validation_message(error: RequestValidationError, schema: type[RequestBody] | None) -> str:
    """What is wrong with a body, without the user's text."""
    # An unknown key explains a missing one; the error of a whole value comes before those of its parts.
    first = min(error.errors(), key=lambda item: (item["type"] != "extra_forbidden", len(item["loc"])))
    location = first["loc"]
    if first["type"] == "json_invalid":
        return "the body is not JSON"
    if schema is None or len(location) < 2 or not isinstance(location[1], str):
        return "the body is not a JSON object with the keys of this route"
    key, keys = location[1], list(schema.model_fields)
    if first["type"] == "extra_forbidden":
        near = nearest(key, keys)
        hint = f"did you mean {near!r}? " if near else ""
        return f"{key[:40]!a}: there is no such key; {hint}allowed: {', '.join(keys)}"
    if first["type"] == "missing":
        return f"{key}: this key is missing"
    return f"{key}: expected {schema.model_fields[key].description}"
