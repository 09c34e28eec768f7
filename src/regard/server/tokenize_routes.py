"""The route that shows a text as a model reads it: pieces and their ids."""

from typing import Any

from fastapi import APIRouter, Response
from fastapi.concurrency import run_in_threadpool
from pydantic import BaseModel, Field

from regard.server.answers import json_answer
from regard.server.messages import REFUSALS, Asked
from regard.server.model_registry import ModelRegistry, Served
from regard.server.reading_messages import MANY, Texts


class TokenizeAsked(Asked):
    """Texts to split into tokens."""

    text: Texts = Field(description=MANY, examples=["Ein Hund schläft.", ["Ein Hund schläft.", "Ein Kind."]])
    model: str | None = Field(default=None, description="the name of a model; the first one's without it")


class Tokens(BaseModel):
    """A text as the model reads it, with the special tokens around it."""

    pieces: list[str]
    ids: list[int] = Field(description="of the pieces, in the model's vocabulary")
    count: int = Field(
        description="how many there are; those beyond `max_length` in /models are not read at once"
    )


class Tokenized(BaseModel):
    """The tokens of each text, in order."""

    model: str
    vocabulary: int = Field(description="how many ids the model's vocabulary has")
    texts: list[Tokens]


ASKED: dict[str, type[Asked]] = {"/tokenize": TokenizeAsked}
"""What the body of a route holds, to say what is wrong with one."""


def tokenize_routes(registry: ModelRegistry) -> APIRouter:
    router = APIRouter(tags=["tokenization"])

    @router.post("/tokenize", response_model=Tokenized, responses=REFUSALS)
    async def tokenize(asked: TokenizeAsked) -> Response:
        """Split one text or many into tokens."""
        model = registry.model(asked.model)
        texts = [asked.text] if isinstance(asked.text, str) else asked.text
        return json_answer(await run_in_threadpool(tokenized, model, texts))

    return router


def tokenized(model: Served, texts: list[str]) -> dict[str, Any]:
    """The answer as JSON; made beside the event loop, which others wait for."""
    tokenizer, rows = model.loaded.tokenizer, []
    for text in texts:
        ids = model.loaded.input_ids(text)
        rows.append({"pieces": tokenizer.tokens(ids), "ids": ids, "count": len(ids)})
    return {"model": model.name, "vocabulary": tokenizer.size, "texts": rows}
