"""The application: routes, access checks, request log, and errors as one sentence."""

import sys
from dataclasses import dataclass

from fastapi import FastAPI, Request, Response, Security
from fastapi.exceptions import RequestValidationError
from fastapi.security import HTTPBearer
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp

from regard import __version__
from regard.errors import RegardError
from regard.server.about_routes import about_routes, page_routes
from regard.server.access import AccessMiddleware, Rules
from regard.server.answers import own_mistake, refusal
from regard.server.batcher import Closed, Full, Gone
from regard.server.messages import Asked, AttentionAsked, TranslateAsked, sentence_of
from regard.server.model_registry import ModelRegistry, Refused
from regard.server.reading_routes import ASKED as READING
from regard.server.reading_routes import reading_routes
from regard.server.request_log import RequestLog
from regard.server.tokenize_routes import ASKED as TOKENIZING
from regard.server.tokenize_routes import tokenize_routes
from regard.server.translation_routes import attention_routes, translation_routes
from regard.server.writing_routes import ASKED as WRITING
from regard.server.writing_routes import writing_routes

OWN: dict[str, type[Asked]] = {"/translate": TranslateAsked, "/attention": AttentionAsked}
ASKED: dict[str, type[Asked]] = {**OWN, **READING, **WRITING, **TOKENIZING}
"""What the body of a route holds, to say what is wrong with one."""

DEEPEST = 100
"""Levels of nested lists and objects that Python's JSON parser takes in any case; about 900 in fact."""


@dataclass(frozen=True)
class Application:
    """The server without its sockets: routes, access checks, request log."""

    registry: ModelRegistry
    gate: AccessMiddleware
    watch: RequestLog

    def close(self) -> None:
        """Let nobody in any more; what was accepted goes on."""
        self.gate.closed = True
        self.registry.close()

    def join(self) -> None:
        """After `close`: wait for the models' threads."""
        for model in self.registry.models.values():
            model.batcher.join()


def application(registry: ModelRegistry, rules: Rules) -> Application:
    """Routes, then access checks before them, then the request log around both."""
    routes = FastAPI(
        title="regard",
        version=__version__,
        description="What the models of run folders write and read, and where they look meanwhile.",
        docs_url=None,  # FastAPI's pages load scripts from elsewhere
        redoc_url=None,
    )
    locked = [Security(HTTPBearer(auto_error=False))] if rules.token else []
    if "/translate" in registry.routes():
        routes.include_router(translation_routes(registry), dependencies=locked)
    routes.include_router(reading_routes(registry), dependencies=locked)
    routes.include_router(writing_routes(registry), dependencies=locked)
    routes.include_router(attention_routes(registry), dependencies=locked)
    routes.include_router(tokenize_routes(registry), dependencies=locked)
    routes.include_router(about_routes(registry), dependencies=locked)
    routes.include_router(page_routes())
    tell_errors(routes, registry)
    gate = AccessMiddleware(routes, rules)
    inner: ASGIApp = gate
    if rules.origins:
        inner = CORSMiddleware(
            gate,
            list(rules.origins),
            allow_methods=["GET", "POST"],
            allow_headers=["Authorization"],
            expose_headers=["Content-Location", "Retry-After"],
        )
    return Application(registry, gate, RequestLog(inner, registry.metrics, registry.log))


def why_not_parsed(problem: BaseException | None) -> str:
    """What is wrong with a body, by the error of Python's JSON parser, which FastAPI answers with 400."""
    match problem:
        case RecursionError():
            return f"the body is nested deeper than {DEEPEST} levels; wanted is one object of texts or lists"
        case UnicodeDecodeError() | None:
            return "the body is not JSON in UTF-8"
        case ValueError():
            return f"the body holds a number of more than {sys.get_int_max_str_digits():,} digits"
        case _:
            return "the body cannot be read as JSON"


def tell_errors(routes: FastAPI, registry: ModelRegistry) -> None:
    """Every way in which a request can fail, as a status and a sentence."""

    @routes.exception_handler(RegardError)
    async def users_mistake(request: Request, problem: RegardError) -> Response:
        return refusal(422, str(problem))

    @routes.exception_handler(Refused)
    async def refused(request: Request, problem: Refused) -> Response:
        return refusal(problem.status, str(problem))

    @routes.exception_handler(RequestValidationError)
    async def not_what_is_wanted(request: Request, problem: RequestValidationError) -> Response:
        return refusal(422, sentence_of(problem, ASKED.get(request.url.path)))

    @routes.exception_handler(HTTPException)
    async def no_such_route(request: Request, problem: HTTPException) -> Response:
        sentences = {
            400: why_not_parsed(problem.__cause__),
            404: "there is no such address here; /openapi.json tells which there are",
            405: "this address does not take this method; /openapi.json tells which it takes",
        }
        sentence = sentences.get(problem.status_code, str(problem.detail))
        return refusal(problem.status_code, sentence, dict(problem.headers or {}))

    @routes.exception_handler(Full)
    async def full(request: Request, problem: Full) -> Response:
        return refusal(429, str(problem), {"Retry-After": str(problem.seconds)})

    @routes.exception_handler(Closed)
    async def closed(request: Request, problem: Closed) -> Response:
        return refusal(503, str(problem), {"Connection": "close", "Retry-After": "5"})

    @routes.exception_handler(TimeoutError)
    async def too_slow(request: Request, problem: TimeoutError) -> Response:
        return refusal(504, registry.too_slow())

    @routes.exception_handler(Exception)
    async def servers_mistake(request: Request, problem: Exception) -> Response:
        return own_mistake()  # it goes on to the watch, which logs it

    @routes.exception_handler(Gone)
    async def nobody_there(request: Request, problem: Gone) -> Response:
        return Response(status_code=499)  # nobody reads it; the log tells what became of the request
