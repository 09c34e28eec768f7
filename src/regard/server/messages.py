"""What may be asked and what is answered, as OpenAPI tells it."""

from typing import Annotated, Any

from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field

from regard.decoding import LengthPolicy
from regard.errors import nearest
from regard.limits import SERVER_MAX_BEAM

TEXTS = 128
"""Texts in one request."""
CHARACTERS = 5000
"""Characters of one text."""

Text = Annotated[str, Field(max_length=CHARACTERS)]
Count = Annotated[int, Field(ge=1, le=SERVER_MAX_BEAM)]


class Asked(BaseModel):
    """A request's body: nothing is guessed from another type, and an unknown key is refused."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class TranslateAsked(Asked):
    """Texts to translate."""

    text: Text | Annotated[list[Text], Field(max_length=TEXTS)] = Field(
        description=f"a text of at most {CHARACTERS:,} characters, or a list of at most {TEXTS} of them",
        examples=["Ein Hund schläft.", ["Ein Hund schläft.", "Eine Katze auch."]],
    )
    model: str | None = Field(default=None, description="the name of a model; the first one's without it")
    beam: Count | None = Field(
        default=None, description=f"a whole number from 1 to {SERVER_MAX_BEAM}: translations kept open"
    )
    nbest: Count = Field(
        default=1, description=f"a whole number from 1 to {SERVER_MAX_BEAM}: translations of each text"
    )
    attention: bool = Field(default=False, description="true or false: whether to tell the alignment")
    long: LengthPolicy = Field(
        default="split",
        description='"split", "cut" or "refuse": what to do with a text longer than the model allows',
    )


class AttentionAsked(Asked):
    """A text to look into."""

    text: Annotated[str, Field(max_length=CHARACTERS, min_length=1)] = Field(
        description=f"a text of 1 to {CHARACTERS:,} characters", examples=["Ein Hund schläft."]
    )
    model: str | None = Field(default=None, description="the name of a model; the first one's without it")
    target: Text | None = Field(
        default=None,
        description=f"at most {CHARACTERS:,} characters: a translation to look at instead of the model's own, "
        "the second text of a pair, or a question's paragraph",
    )


class Side(BaseModel):
    """The words of a text and where they stand in it, from and to, counted in characters."""

    words: list[str]
    places: list[tuple[int, int]]


class Alignment(BaseModel):
    """Which source words each target word looked at: (target word, source word, weight)."""

    source: Side
    target: Side
    links: list[tuple[int, int, float]]


class Candidate(BaseModel):
    """A translation and its score: the log probability over the length, more is better."""

    text: str
    score: float


class Translated(Candidate):
    """The best translation of a text."""

    others: list[Candidate] = Field(description="the next best, where nbest is more than 1")
    note: str | None = Field(description="what was done to a text longer than the model allows")
    alignment: Alignment | None = Field(
        description="where attention was asked for, the model has some, and the text was not cut"
    )


class Translations(BaseModel):
    """One translation for each text, in order."""

    model: str
    translations: list[Translated]


class ModelAbout(BaseModel):
    """A model that translates."""

    name: str
    task: str
    source_language: str
    target_language: str
    beam: int = Field(description="translations kept open where a request does not say how many")
    max_length: int = Field(
        description="tokens the model has places for; longer texts are split, cut or refused"
    )
    attention: bool
    examples: list[str]
    card: str = Field(description="the model card, in Markdown")


class ReaderAbout(BaseModel):
    """A model that reads: it labels, tags, answers or makes vectors."""

    name: str
    task: str
    does: list[str] = Field(description="what may be asked of it: /classify, /tag, /answer, /embed, /generate")
    labels: list[str]
    pairs: bool | None = Field(description="whether it labels pairs of texts; null where it may take both")
    max_length: int = Field(description="tokens of a text that are read; the rest is left out, and told")
    attention: bool
    examples: list[str]
    card: str = Field(description="the model card, in Markdown")


class Limits(BaseModel):
    """How much a request may hold."""

    bytes: int
    texts: int
    characters: int
    seconds: float
    queue: int
    beam: int


class Models(BaseModel):
    """The models by which requests may name them; the first is taken where none is named."""

    models: list[ModelAbout | ReaderAbout]
    limits: Limits


class Health(BaseModel):
    """Whether requests are accepted."""

    status: str


class Refusal(BaseModel):
    """Why a request was not done."""

    error: str = Field(description="one sentence")


REFUSALS: dict[int | str, dict[str, Any]] = {
    400: {"description": "The body is not JSON, or there are two Host headers."},
    401: {"description": "The token is missing or wrong."},
    403: {"description": "A page of another site asked."},
    404: {"description": "There is no model of this name."},
    408: {"description": "The headers or the body did not come in time."},
    413: {"description": "More bytes or sentences than one request may hold."},
    421: {"description": "The server does not answer to this host name."},
    422: {"description": "A key or value is not what it may be."},
    429: {"description": "The queue is full; Retry-After says when to try again."},
    431: {"description": "The request line and headers are too large, or too many."},
    500: {"description": "A mistake of the server."},
    503: {"description": "The server is stopping, or has as many connections as it takes."},
    504: {"description": "The answer took too long."},
}
for told in REFUSALS.values():
    told["model"] = Refusal


def sentence_of(problem: RequestValidationError, asked: type[Asked] | None) -> str:
    """What is wrong with a body, without repeating what was in it."""
    # A key that is none explains one that is missing; a whole value is told before its parts.
    first = min(problem.errors(), key=lambda error: (error["type"] != "extra_forbidden", len(error["loc"])))
    where = first["loc"]
    if first["type"] == "json_invalid":
        return "the body is not JSON"
    if asked is None or len(where) < 2 or not isinstance(where[1], str):
        return "the body is not a JSON object with the keys that are wanted"
    key, allowed = where[1], list(asked.model_fields)
    if first["type"] == "extra_forbidden":
        near = nearest(key, allowed)
        hint = f"did you mean {near!r}? " if near else ""
        return f"{key[:40]!a}: there is no such key; {hint}allowed: {', '.join(allowed)}"
    if first["type"] == "missing":
        return f"{key}: this key is missing"
    return f"{key}: wanted is {asked.model_fields[key].description}"
