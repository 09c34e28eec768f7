"""Request and response bodies: one pydantic model for each, which is also what /openapi.json documents."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from fastapi import Response
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from regard.decoding import LengthPolicy
from regard.limits import SERVER_MAX_BEAM, SERVER_MAX_TOKENS

MAX_TEXTS = 128
"""Texts in one request."""
MAX_CHARACTERS = 5000
"""Characters of one text."""
MAX_SEED = 2**31 - 1
NDJSON = "application/x-ndjson"
"""Media type of a response that is streamed as one JSON object per line."""
INTERNAL_ERROR = "internal server error; see the server's log"


def without_surrogates(text: Any) -> Any:
    """The text with lone surrogates, which an untrusted run folder may contain, as question marks."""
    return text.encode("utf-8", "replace").decode() if isinstance(text, str) else text


OutText = Annotated[str, BeforeValidator(without_surrogates)]
"""A text in a response."""
Text = Annotated[str, Field(max_length=MAX_CHARACTERS)]
NonEmptyText = Annotated[str, Field(max_length=MAX_CHARACTERS, min_length=1)]
Texts = Text | Annotated[list[Text], Field(max_length=MAX_TEXTS)]
NonEmptyTexts = NonEmptyText | Annotated[list[NonEmptyText], Field(max_length=MAX_TEXTS)]
BeamSize = Annotated[int, Field(ge=1, le=SERVER_MAX_BEAM)]
Span = tuple[int, int]
"""Start and end in a text, in characters; the end is exclusive."""

TEXTS = f"a text of at most {MAX_CHARACTERS:,} characters, or a list of at most {MAX_TEXTS} texts"
NON_EMPTY_TEXTS = f"a text of 1 to {MAX_CHARACTERS:,} characters, or a list of at most {MAX_TEXTS} texts"
MODEL = "the name of a model in /models; default: the first one"
MODEL_OF_ROUTE = "the name of a model in /models; default: the first one that answers this route"
TRUNCATED = "a remark if the text is longer than the model's maximum length, otherwise null"


class RequestBody(BaseModel):
    """A request's body; values are not converted between types, and unknown keys are refused.

    The description of a field completes the error message "KEY: expected ...".
    """

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class TranslateRequest(RequestBody):
    """Texts to translate."""

    text: Texts = Field(
        description=TEXTS, examples=["Ein Hund schläft.", ["Ein Hund schläft.", "Eine Katze auch."]]
    )
    model: str | None = Field(default=None, description=MODEL_OF_ROUTE)
    beam: BeamSize | None = Field(
        default=None, description=f"a whole number from 1 to {SERVER_MAX_BEAM}: beam size; default: the model's"
    )
    nbest: BeamSize = Field(
        default=1, description=f"a whole number from 1 to {SERVER_MAX_BEAM}: translations per text"
    )
    attention: bool = Field(default=False, description="true or false: whether to return the word alignment")
    long: LengthPolicy = Field(
        default="split",
        description='"split", "cut" or "refuse": what to do with a text longer than the model allows',
    )


class AttentionRequest(RequestBody):
    """A text whose attention weights are computed."""

    text: NonEmptyText = Field(
        description=f"a text of 1 to {MAX_CHARACTERS:,} characters", examples=["Ein Hund schläft."]
    )
    model: str | None = Field(default=None, description=MODEL)
    target: Text | None = Field(
        default=None,
        description=f"a text of at most {MAX_CHARACTERS:,} characters: a translation in place of the model's, "
        "the second text of a pair, or the paragraph of a question",
    )


class ClassifyRequest(RequestBody):
    """Texts or pairs of texts to classify."""

    text: NonEmptyTexts = Field(
        description=NON_EMPTY_TEXTS, examples=["a warm , funny film", ["a dull film", "a joy"]]
    )
    pair: NonEmptyTexts | None = Field(
        default=None,
        description=f"the second texts, as many as the first, for a model of text pairs: {NON_EMPTY_TEXTS}",
    )
    model: str | None = Field(default=None, description=MODEL_OF_ROUTE)


class TagRequest(RequestBody):
    """Texts to tag with named entities."""

    text: Texts = Field(description=TEXTS, examples=["Ada Lovelace lived in London."])
    model: str | None = Field(default=None, description=MODEL_OF_ROUTE)


class AnswerRequest(RequestBody):
    """Questions about a paragraph."""

    question: NonEmptyTexts = Field(
        description=f"a question of 1 to {MAX_CHARACTERS:,} characters, "
        f"or a list of at most {MAX_TEXTS} questions",
        examples=["Who lived in London?"],
    )
    paragraph: NonEmptyText = Field(
        description=f"the text of 1 to {MAX_CHARACTERS:,} characters that contains the answers",
        examples=["Ada Lovelace lived in London."],
    )
    model: str | None = Field(default=None, description=MODEL_OF_ROUTE)


class EmbedRequest(RequestBody):
    """Texts to embed."""

    text: Texts = Field(description=TEXTS, examples=[["A dog sleeps.", "A hound is asleep."]])
    model: str | None = Field(default=None, description=MODEL_OF_ROUTE)


class GenerateRequest(RequestBody):
    """Prompts to continue."""

    prompt: NonEmptyTexts = Field(description=NON_EMPTY_TEXTS, examples=["Once upon", ["Once upon", "It was"]])
    model: str | None = Field(default=None, description=MODEL_OF_ROUTE)
    tokens: int = Field(
        default=100,
        ge=1,
        le=SERVER_MAX_TOKENS,
        description=f"a whole number from 1 to {SERVER_MAX_TOKENS}: the maximum number of new tokens",
    )
    seed: int = Field(
        default=1, ge=0, le=MAX_SEED, description="a whole number: the same seed samples the same text"
    )
    temperature: float = Field(
        default=1.0, ge=0.01, le=100, description="a number from 0.01 to 100: sampling temperature"
    )
    top_k: int = Field(
        default=0,
        ge=0,
        le=1 << 24,
        description="a whole number: sample from the k likeliest tokens; 0: from all",
    )
    top_p: float = Field(
        default=1.0,
        gt=0,
        le=1,
        description="a number above 0, at most 1: nucleus sampling, "
        "from the smallest set of tokens with this total probability",
    )
    repetition_penalty: float = Field(
        default=1.0,
        ge=0.01,
        le=100,
        description="a number from 0.01 to 100: above 1, tokens of the text so far are less likely",
    )
    beam: int = Field(
        default=0,
        ge=0,
        le=SERVER_MAX_BEAM,
        description=f"a whole number up to {SERVER_MAX_BEAM}: beam search with this beam size; 0: sample",
    )
    stop: Annotated[list[NonEmptyText], Field(max_length=8)] = Field(
        default=[], description="a list of at most 8 texts: generation ends before the first of them"
    )


class TokenizeRequest(RequestBody):
    """Texts to split into tokens."""

    text: Texts = Field(description=TEXTS, examples=["Ein Hund schläft.", ["Ein Hund schläft.", "Ein Kind."]])
    model: str | None = Field(default=None, description=MODEL)


class AlignedText(BaseModel):
    """The words of a text and their positions in it."""

    words: list[OutText]
    spans: list[Span] = Field(
        serialization_alias="places", description="start and end of each word, in characters"
    )


class WordAlignment(BaseModel):
    """Attention between the words of a text and of its translation."""

    source: AlignedText
    target: AlignedText
    links: list[tuple[int, int, float]] = Field(
        description="index of the target word, index of the source word, weight"
    )


class Hypothesis(BaseModel):
    """A translation and its score."""

    text: OutText
    score: float = Field(description="log probability divided by the length; higher is better")


class UnknownWord(BaseModel):
    """A word that is not in the model's vocabulary."""

    text: OutText
    span: Span = Field(serialization_alias="place", description="start and end in the text, in characters")


class TranslatedText(Hypothesis):
    """The best translation of a text."""

    others: list[Hypothesis] = Field(description="the other translations of the n-best list, best first")
    note: OutText | None = Field(description=TRUNCATED)
    words: int = Field(description="number of words of the text, without punctuation")
    unknown: list[UnknownWord] = Field(
        description="words of the text that are not in the model's vocabulary; it cannot translate them"
    )
    alignment: WordAlignment | None = Field(
        description="null unless attention was requested and the model has cross-attention; null for a cut text"
    )


class TranslatedLine(TranslatedText):
    """A translation in a streamed response."""

    number: int = Field(description="index of the text in the request")


class TranslateResponse(BaseModel):
    """A translation per text, in order."""

    model: OutText
    translations: list[TranslatedText]


class Classification(BaseModel):
    """The most probable label of a text or pair, and the probability of every label, the largest first."""

    label: OutText
    probability: float
    probabilities: dict[OutText, float]
    note: OutText | None = Field(description=TRUNCATED)


class ClassifyResponse(BaseModel):
    """A classification per text or pair, in order."""

    model: OutText
    classifications: list[Classification]


class TaggedWord(BaseModel):
    """A word of a text and its tag."""

    word: OutText
    span: Span = Field(serialization_alias="place", description="start and end in the text, in characters")
    tag: OutText
    probability: float


class Entity(BaseModel):
    """A named entity of a text."""

    name: OutText
    kind: OutText
    span: Span = Field(serialization_alias="place", description="start and end in the text, in characters")
    probability: float = Field(description="the lowest probability of its words' tags")


class TaggedText(BaseModel):
    """The tagged words and the named entities of a text."""

    words: list[TaggedWord]
    names: list[Entity]


class TagResponse(BaseModel):
    """Tags and entities per text, in order."""

    model: OutText
    texts: list[TaggedText]


class Answer(BaseModel):
    """The span of the paragraph that answers a question."""

    answer: OutText
    span: Span = Field(serialization_alias="place", description="start and end in the paragraph, in characters")
    probability: float


class AnswerResponse(BaseModel):
    """An answer per question, in order."""

    model: OutText
    answers: list[Answer]


class Embedding(BaseModel):
    """The embedding of a text."""

    vector: list[float]
    note: OutText | None = Field(description=TRUNCATED)


class EmbedResponse(BaseModel):
    """An embedding per text, in order."""

    model: OutText
    embeddings: list[Embedding]


class GeneratedPiece(BaseModel):
    """A part of a generated text in a streamed response."""

    piece: OutText


class GeneratedText(BaseModel):
    """The continuation of a prompt."""

    text: OutText
    tokens: int
    why: OutText = Field(description='why it ends: "end" (end token), "stop" (stop text) or "length"')


class GenerateResponse(BaseModel):
    """A continuation per prompt, in order."""

    model: OutText
    texts: list[GeneratedText]


class TokenizedText(BaseModel):
    """The tokens of a text as the model reads it, with special tokens."""

    pieces: list[OutText]
    ids: list[int] = Field(description="token ids of the pieces in the model's vocabulary")
    count: int = Field(description="number of tokens; a model reads at most `max_length` of /models at once")


class TokenizeResponse(BaseModel):
    """The tokens per text, in order."""

    model: OutText
    vocabulary: int = Field(description="size of the model's vocabulary")
    texts: list[TokenizedText]


class TranslatorInfo(BaseModel):
    """A translation model."""

    name: OutText
    task: str
    source_language: OutText
    target_language: OutText
    beam: int = Field(description="default beam size")
    max_length: int = Field(description="maximum length in tokens; longer texts are split, cut or refused")
    corpus: Literal["picturebook"] | None = Field(
        description="the embedded corpus that the model was trained on; null for other data"
    )
    attention: bool
    examples: list[OutText]
    card: OutText = Field(description="the model card, in Markdown")


class TextModelInfo(BaseModel):
    """A model that classifies, tags, answers questions, embeds or generates."""

    name: OutText
    task: str
    does: list[str] = Field(description="its routes: /classify, /tag, /answer, /embed, /generate")
    labels: list[OutText]
    pairs: bool | None = Field(description="whether it classifies pairs of texts; null if it accepts both")
    max_length: int = Field(description="maximum length in tokens; the rest of a longer text is left out")
    attention: bool
    examples: list[OutText]
    card: OutText = Field(description="the model card, in Markdown")


class RequestLimits(BaseModel):
    """The maximum size of a request."""

    bytes: int
    texts: int
    characters: int
    seconds: float
    queue: int
    beam: int


class ModelsResponse(BaseModel):
    """The models of the server; the first one is the default."""

    models: list[TranslatorInfo | TextModelInfo]
    limits: RequestLimits


class HealthResponse(BaseModel):
    """Whether requests are accepted."""

    status: Literal["ok", "stopping"]


class ErrorResponse(BaseModel):
    """Why a request failed."""

    error: OutText = Field(description="one sentence")


ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": ErrorResponse, "description": description}
    for status, description in {
        400: "The body is not JSON, or there are two Host headers.",
        401: "The access token is missing or wrong.",
        403: "The request comes from a page of another site.",
        404: "There is no model of this name.",
        408: "The headers or the body did not arrive in time.",
        413: "The request has more bytes or sentences than the server accepts.",
        421: "The server does not answer to this host name.",
        422: "A key or value is not valid.",
        429: "The queue is full; Retry-After is the number of seconds to wait.",
        431: "The request line and headers are too large, or too many.",
        500: "Internal server error.",
        503: "The server is stopping, or has reached its limit of connections.",
        504: "The answer took too long.",
    }.items()
}
"""The error responses of a POST route, for /openapi.json."""


class RequestError(Exception):
    """A request that is refused with this status and message."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def as_list(texts: str | Sequence[str]) -> list[str]:
    return [texts] if isinstance(texts, str) else list(texts)


def json_response(body: BaseModel, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """The body as a response; it is serialized here, since FastAPI would validate it a second time."""
    return Response(body.model_dump_json(by_alias=True), status, headers, "application/json")


def ndjson_line(body: BaseModel) -> bytes:
    """A line of a streamed response."""
    return body.model_dump_json(by_alias=True).encode() + b"\n"


def streamed(description: str) -> dict[int | str, dict[str, Any]]:
    """The success response of a route that can stream lines, for /openapi.json."""
    return {200: {"content": {NDJSON: {"schema": {"type": "string"}}}, "description": description}}


def error_response(status: int, message: str, headers: dict[str, str] | None = None) -> Response:
    return json_response(ErrorResponse(error=message), status, headers)


def internal_error() -> Response:
    return error_response(500, INTERNAL_ERROR)
