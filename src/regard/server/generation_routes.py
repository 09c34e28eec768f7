"""`/generate`: prompts in, continuations out, all at once or, for a single prompt, piece by piece."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.concurrency import run_in_threadpool

from regard.decoding.generator import Completion, GenerationConfig
from regard.decoding.sampling import SamplingConfig
from regard.server.model_registry import ModelRegistry
from regard.server.queue import cancel_on_disconnect
from regard.server.schemas import (
    ERRORS,
    NDJSON,
    GeneratedPiece,
    GeneratedText,
    GenerateRequest,
    GenerateResponse,
    as_list,
    json_response,
    streamed,
)
from regard.server.served_generator import ServedGenerator, StreamJob


def generation_routes(registry: ModelRegistry) -> APIRouter:
    router = APIRouter(tags=["generation"])
    if "/generate" not in registry.routes():
        return router

    @router.post(
        "/generate",
        response_model=GenerateResponse,
        responses={
            **streamed("All texts; for a single prompt with Accept: application/x-ndjson, piece by piece."),
            **ERRORS,
        },
    )
    async def generate(body: GenerateRequest, request: Request) -> Response:
        """Continue one or several prompts."""
        model = registry.model_for(ServedGenerator, "/generate", body.model)
        prompts = as_list(body.prompt)
        config = generation_config(body, model.queue.max_batch)
        await run_in_threadpool(model.check, prompts, config)
        if NDJSON in request.headers.get("accept", "") and len(prompts) == 1:
            return registry.stream(lines(model, prompts[0], config, request, registry.timeout))
        job = model.submit(config, prompts, "prompts")
        async with cancel_on_disconnect(job, model.queue, request), asyncio.timeout(registry.timeout):
            texts = [generated_text(completion) async for completion in job.results()]
        return json_response(GenerateResponse(model=model.name, texts=texts))

    return router


def generation_config(body: GenerateRequest, batch_size: int) -> GenerationConfig:
    sampling = SamplingConfig(body.seed, body.temperature, body.top_k, body.top_p)
    return GenerationConfig(
        body.tokens, sampling, body.beam, body.repetition_penalty, tuple(body.stop), batch_size
    )


def generated_text(completion: Completion) -> GeneratedText:
    return GeneratedText(text=completion.text, tokens=completion.tokens, why=completion.why)


async def lines(
    model: ServedGenerator, prompt: str, config: GenerationConfig, request: Request, timeout: float
) -> AsyncGenerator[GeneratedPiece | GeneratedText, None]:
    """The lines of a streamed response: the pieces, then the whole text."""
    loop, pieces, connected = asyncio.get_running_loop(), asyncio.Queue[str | None](), True

    def on_piece(piece: str) -> bool:
        """Called by the model's thread; returns whether to continue."""
        loop.call_soon_threadsafe(pieces.put_nowait, piece)
        return connected

    job = model.submit(StreamJob(config), [(prompt, on_piece)])
    async with cancel_on_disconnect(job, model.queue, request):
        completion = asyncio.create_task(only_result(job.results(), pieces))
        try:
            async with asyncio.timeout(timeout):
                while (piece := await pieces.get()) is not None:
                    yield GeneratedPiece(piece=piece)
                if (whole := await completion) is not None:
                    yield generated_text(whole)
        finally:
            connected = False
            completion.cancel()


async def only_result(results: AsyncIterator[Any], pieces: "asyncio.Queue[str | None]") -> Completion | None:
    """The result of a streamed text; a None in `pieces` marks their end, also after an error."""
    try:
        completion: Completion | None = await anext(results)
        return completion
    finally:
        pieces.put_nowait(None)
