"""What may be asked of models that read, and what is answered, as OpenAPI tells it."""

from typing import Annotated

from pydantic import BaseModel, Field

from regard.server.messages import CHARACTERS, TEXTS, Asked, Text

Full = Annotated[str, Field(max_length=CHARACTERS, min_length=1)]
Texts = Text | Annotated[list[Text], Field(max_length=TEXTS)]
FullTexts = Full | Annotated[list[Full], Field(max_length=TEXTS)]

MANY = f"a text of at most {CHARACTERS:,} characters, or a list of at most {TEXTS} of them"
MANY_FULL = f"a text of 1 to {CHARACTERS:,} characters, or a list of at most {TEXTS} of them"
NAME = "the name of a model; the first one's of this kind without it"
CUT = "what was done to a text longer than the model allows"


class ClassifyAsked(Asked):
    """Texts to label, or pairs of texts."""

    text: FullTexts = Field(description=MANY_FULL, examples=["a warm , funny film", ["a dull film", "a joy"]])
    pair: FullTexts | None = Field(
        default=None,
        description=f"where the model labels pairs, the second texts, as many as the first: {MANY_FULL}",
    )
    model: str | None = Field(default=None, description=NAME)


class TagAsked(Asked):
    """Texts in which to find names."""

    text: Texts = Field(description=MANY, examples=["Ada Lovelace lived in London."])
    model: str | None = Field(default=None, description=NAME)


class AnswerAsked(Asked):
    """Questions about a paragraph."""

    question: FullTexts = Field(
        description=f"a question of 1 to {CHARACTERS:,} characters, or a list of at most {TEXTS} of them",
        examples=["Who lived in London?"],
    )
    paragraph: Full = Field(
        description=f"the text of 1 to {CHARACTERS:,} characters that the answers stand in",
        examples=["Ada Lovelace lived in London."],
    )
    model: str | None = Field(default=None, description=NAME)


class EmbedAsked(Asked):
    """Texts to make vectors of."""

    text: Texts = Field(description=MANY, examples=[["A dog sleeps.", "A hound is asleep."]])
    model: str | None = Field(default=None, description=NAME)


class Classified(BaseModel):
    """The label of a text or pair, and the probability of every label, the largest first."""

    label: str
    probability: float
    probabilities: dict[str, float]
    note: str | None = Field(description=CUT)


class Classifications(BaseModel):
    """A label for each text or pair, in order."""

    model: str
    classifications: list[Classified]


class Word(BaseModel):
    """A word, where it stands in the text, from and to, counted in characters, and its tag."""

    word: str
    place: tuple[int, int]
    tag: str
    probability: float


class Name(BaseModel):
    """A name, its kind, where it stands, and how sure its least sure word is."""

    name: str
    kind: str
    place: tuple[int, int]
    probability: float


class Tagged(BaseModel):
    """The words of a text and the names they make."""

    words: list[Word]
    names: list[Name]


class Taggings(BaseModel):
    """Words and names of each text, in order."""

    model: str
    texts: list[Tagged]


class Answer(BaseModel):
    """The stretch of the paragraph that answers a question, where it stands, and how likely it is."""

    answer: str
    place: tuple[int, int]
    probability: float


class Answers(BaseModel):
    """An answer to each question, in order."""

    model: str
    answers: list[Answer]


class Embedded(BaseModel):
    """The vector of a text."""

    vector: list[float]
    note: str | None = Field(description=CUT)


class Embeddings(BaseModel):
    """A vector for each text, in order."""

    model: str
    embeddings: list[Embedded]
