"""The route of models that go on with texts: prompts in, texts out, at once or as they are written."""

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, Field

from regard.decoding.generator import Completion, GenerationConfig
from regard.decoding.sampling import SamplingConfig
from regard.limits import SERVER_MAX_BEAM, SERVER_MAX_TOKENS
from regard.server.answers import OWN_MISTAKE, encoded, json_answer
from regard.server.batcher import Gone
from regard.server.cancellation import attended
from regard.server.messages import CHARACTERS, REFUSALS, TEXTS, Asked
from regard.server.model_registry import ModelRegistry, Refused
from regard.server.request_log import without_words
from regard.server.translation_routes import LINES
from regard.server.writer import ServedGenerator, Stream

Prompt = Annotated[str, Field(max_length=CHARACTERS, min_length=1)]
SEEDS = 2**31


class GenerateAsked(Asked):
    """Texts to go on with."""

    prompt: Prompt | Annotated[list[Prompt], Field(max_length=TEXTS)] = Field(
        description=f"a text of 1 to {CHARACTERS:,} characters, or a list of at most {TEXTS} of them",
        examples=["Once upon", ["Once upon", "It was"]],
    )
    model: str | None = Field(default=None, description="the name of a model; the first one's of this kind")
    tokens: int = Field(
        default=100,
        ge=1,
        le=SERVER_MAX_TOKENS,
        description=f"a whole number from 1 to {SERVER_MAX_TOKENS}: the most",
    )
    seed: int = Field(default=1, ge=0, lt=SEEDS, description="a whole number: the same one gives the same text")
    temperature: float = Field(
        default=1.0, ge=0.01, le=100, description="a number from 0.01 to 100: above 1 is bolder"
    )
    top_k: int = Field(
        default=0, ge=0, le=1 << 24, description="a whole number: draw from so many likeliest; 0: all"
    )
    top_p: float = Field(
        default=1.0, gt=0, le=1, description="a number above 0, at most 1: draw from this share"
    )
    repetition_penalty: float = Field(
        default=1.0, ge=0.01, le=100, description="a number from 0.01 to 100: above 1, less is said again"
    )
    beam: int = Field(
        default=0,
        ge=0,
        le=SERVER_MAX_BEAM,
        description=f"a whole number up to {SERVER_MAX_BEAM}: search; 0: draw",
    )
    stop: Annotated[list[Prompt], Field(max_length=8)] = Field(
        default=[], description="a list of at most 8 texts: end before the first of them"
    )

    def config(self, batch: int) -> GenerationConfig:
        sampling = SamplingConfig(self.seed, self.temperature, self.top_k, self.top_p)
        return GenerationConfig(
            self.tokens, sampling, self.beam, self.repetition_penalty, tuple(self.stop), batch
        )


class Continuation(BaseModel):
    """What was written after a prompt, and why it ends."""

    text: str
    tokens: int
    why: str = Field(description='"end", "stop" or "length"')


class Continuations(BaseModel):
    """A text for each prompt."""

    model: str
    texts: list[Continuation]


ASKED: dict[str, type[Asked]] = {"/generate": GenerateAsked}
"""What the body of a route holds, to say what is wrong with one."""


def writing_routes(registry: ModelRegistry) -> APIRouter:
    router = APIRouter(tags=["writing"])
    if "/generate" not in registry.routes():
        return router

    @router.post(
        "/generate",
        response_model=Continuations,
        responses={
            200: {
                "content": {LINES: {"schema": {"type": "string"}}},
                "description": "All texts; for one prompt with Accept: application/x-ndjson, piece by piece.",
            },
            **REFUSALS,
        },
    )
    async def generate(asked: GenerateAsked, request: Request) -> Response:
        """Go on with one text or many."""
        model = registry.serving(ServedGenerator, "/generate", asked.model, "writes no texts")
        prompts = [asked.prompt] if isinstance(asked.prompt, str) else asked.prompt
        config = asked.config(model.batcher.batch)
        await run_in_threadpool(model.check, prompts, config)
        if LINES in request.headers.get("accept", "") and len(prompts) == 1:
            return StreamingResponse(pieces(registry, model, prompts[0], config, request), media_type=LINES)
        if len(prompts) > model.batcher.room:
            raise Refused(413, f"the queue has room for {model.batcher.room:,} prompts; send them in pieces")
        job = model.batcher.put(config, prompts)
        async with attended(job, model.batcher, request), asyncio.timeout(registry.seconds):
            return json_answer({"model": model.name, "texts": [told(each) async for each in job.answers()]})

    return router


def told(found: Completion) -> dict[str, Any]:
    return {"text": found.text, "tokens": found.tokens, "why": found.why}


async def pieces(
    registry: ModelRegistry, model: ServedGenerator, prompt: str, config: GenerationConfig, request: Request
) -> AsyncIterator[bytes]:
    """A piece a line, and the whole at last; where it cannot go on, the last line says why."""
    loop, coming, listening = asyncio.get_running_loop(), asyncio.Queue[str | None](), [True]

    def tell(piece: str) -> bool:
        """Called by the model's thread; whether anybody listens."""
        loop.call_soon_threadsafe(coming.put_nowait, piece)
        return listening[0]

    job = model.batcher.put(Stream(config), [(prompt, tell)])
    async with attended(job, model.batcher, request):
        ended = asyncio.create_task(last_of(job.answers(), coming))
        try:
            async with asyncio.timeout(registry.seconds):
                while (piece := await coming.get()) is not None:
                    yield encoded({"piece": piece}) + b"\n"
                if (whole := await ended) is not None:
                    yield encoded(told(whole)) + b"\n"
        except Gone:
            return
        except TimeoutError:
            yield encoded({"error": registry.too_slow()}) + b"\n"
        except Exception as problem:
            registry.log(without_words(problem))
            yield encoded({"error": OWN_MISTAKE}) + b"\n"
        finally:
            listening[0] = False
            ended.cancel()


async def last_of(answers: AsyncIterator[Any], coming: "asyncio.Queue[str | None]") -> Completion | None:
    """The one answer; whoever waits for pieces is told that there are no more."""
    try:
        found: Completion | None = await anext(answers)
        return found
    finally:
        coming.put_nowait(None)
