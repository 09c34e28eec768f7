"""What a BERT is trained for: pre-training, labels for texts and pairs, tags for words, answers.

A GPT is trained for labels too.
"""

from dataclasses import dataclass, field
from typing import Annotated, Literal

from regard.config.bert import BertModel
from regard.config.gpt import GptModel
from regard.config.reduction import Reduction
from regard.config.schema import Count, NotNegative, Range, Whole, defaults
from regard.config.training import SmoothedSettings


@dataclass(frozen=True)
class PieceSettings:
    """How a vocabulary is learned where no run is started from; that run's own is used otherwise."""

    size: Annotated[int, Range(at_least=8)] = 8000
    min_count: Count = 2
    lower: bool = True
    """Letters are made small and lose their accents."""


@dataclass(frozen=True)
@defaults(
    batch_tokens=2048,
    optimizer="adamw",
    beta2=0.999,
    epsilon=1e-8,
    weight_decay=0.01,
    schedule="linear",
    lr=5e-5,
    warmup=50,
    average="none",
)
class TextTrain(SmoothedSettings):
    """How a BERT learns a task; the defaults are those of fine-tuning."""

    best_by: Literal["accuracy", "f1", "exact", "loss"] = "loss"


@dataclass(frozen=True)
class LabelTrain(TextTrain):
    """How a model learns labels."""

    language_loss: NotNegative = 0.0
    """GPT: how much guessing the text itself counts beside the label (Radford et al. 2018 have 0.5)."""


@dataclass(frozen=True)
class Files:
    """Where the examples are."""

    path: str | None = None
    """The folder that files are looked for in."""
    train: str | None = None
    valid: str | None = None
    """Without a file for it, validation is held out from the training examples."""
    test: str | None = None
    """Without a file for it, the run is measured on the validation examples."""
    held_out: Annotated[float, Range(above=0, at_most=0.5)] = 0.1
    """Share of the training examples for validation, where it has no file."""


@dataclass(frozen=True)
class LabelledData(Files):
    """Texts or pairs of texts with a label: .tsv, .csv or .jsonl, also as .gz."""

    pairs: bool = False
    """Whether an example is two texts."""
    text: str | None = None
    pair: str | None = None
    label: str | None = None
    """Columns by name, or by number from 1 where there is no header; usual names are found without."""
    max_length: Count = 256
    """The most tokens of an example; longer ones are cut, and counted."""


@dataclass(frozen=True)
class TaggedData(Files):
    """CoNLL columns: a word a line, its tag last, a blank line between sentences."""

    max_length: Count = 256
    """The most tokens of a sentence; longer ones are read in pieces."""


@dataclass(frozen=True)
class QuestionData(Files):
    """Questions on paragraphs: SQuAD 1.1's JSON."""

    max_length: Annotated[int, Range(at_least=32)] = 256
    """The most tokens of a question with a window of its paragraph."""
    overlap: Whole = 96
    """Tokens that neighbouring windows of a long paragraph share."""
    longest_question: Count = 48
    """Tokens of a question; longer ones are cut."""
    longest_answer: Count = 30
    """Tokens of an answer."""

    def __post_init__(self) -> None:
        room = self.max_length - self.longest_question - 3
        if room <= self.overlap:
            raise ValueError(
                f"overlap: with max_length {self.max_length} and longest_question {self.longest_question} a "
                f"window has {max(0, room)} tokens, which must be more than the overlap of {self.overlap}"
            )


@dataclass(frozen=True)
class DocumentData(Files):
    """Plain text: sentences or paragraphs in lines, a blank line between documents."""

    max_length: Annotated[int, Range(at_least=8)] = 128
    """The most tokens of an example."""
    mask: Annotated[float, Range(above=0, below=1)] = 0.15
    """Share of the tokens to be guessed: 80% of them hidden, 10% replaced by chance, 10% left."""
    whole_words: bool = False
    """Hide all pieces of a word or none."""
    next_sentence: bool = True
    """Also learn whether the second part of a text follows the first."""


Pooling = Literal["mean", "cls", "max"]
"""How the vectors of tokens become one: their mean, that of [CLS], or the largest value of each feature."""


@dataclass(frozen=True)
class EmbedSettings:
    """How a text becomes one vector."""

    pooling: Pooling = "mean"
    """mean or max: over all tokens; cls: the vector of [CLS]."""
    normal: bool = True
    """Vectors of length 1."""
    max_length: Whole = 0
    """The most tokens that are read; 0 means as many as the model has places."""


@dataclass(frozen=True)
class EncoderRecipe:
    """A BERT without a task, as it is imported; other trainings start from it."""

    task: Literal["encoder"]
    model: BertModel = field(default_factory=BertModel)
    embed: EmbedSettings = field(default_factory=EmbedSettings)


@dataclass(frozen=True)
class PretrainingRecipe:
    """From plain text to a BERT: hidden words and next sentences."""

    task: Literal["pretraining"]
    data: DocumentData = field(default_factory=DocumentData)
    text: PieceSettings = field(default_factory=PieceSettings)
    model: BertModel = field(default_factory=BertModel)
    train: TextTrain = field(default_factory=lambda: TextTrain(epochs=3))

    def __post_init__(self) -> None:
        check_best(self.train, ("accuracy", "loss"))


@dataclass(frozen=True)
class ClassificationRecipe:
    """From labelled texts or pairs to a model that labels others."""

    task: Literal["classification"]
    data: LabelledData = field(default_factory=LabelledData)
    text: PieceSettings = field(default_factory=PieceSettings)
    model: BertModel | GptModel = field(default_factory=BertModel)
    reduce: Reduction = field(default_factory=Reduction)
    train: LabelTrain = field(default_factory=lambda: LabelTrain(epochs=3))

    def __post_init__(self) -> None:
        check_best(self.train, ("accuracy", "f1", "loss"))
        if self.train.language_loss and not isinstance(self.model, GptModel):
            raise ValueError('train.language_loss: a BERT guesses no next token; model.kind = "gpt" does')
        if self.reduce and isinstance(self.model, GptModel):
            raise ValueError(
                "reduce: tokens become fewer in a BERT or a Vision Transformer; a GPT needs all of them"
            )
        if self.data.pair is not None and not self.data.pairs:
            raise ValueError("data.pair: a second text is read where data.pairs is true, and it is false")


@dataclass(frozen=True)
class TaggingRecipe:
    """From sentences with a tag at each word to a model that finds names."""

    task: Literal["tagging"]
    data: TaggedData = field(default_factory=TaggedData)
    text: PieceSettings = field(default_factory=PieceSettings)
    model: BertModel = field(default_factory=BertModel)
    reduce: Reduction = field(default_factory=Reduction)
    train: TextTrain = field(default_factory=lambda: TextTrain(epochs=3))

    def __post_init__(self) -> None:
        check_best(self.train, ("f1", "accuracy", "loss"))
        if self.reduce.prune != "none":
            raise ValueError("reduce.prune: a tag is asked of every token, so none can go; merge them instead")


@dataclass(frozen=True)
class AnsweringRecipe:
    """From questions on paragraphs to a model that finds the answer in one."""

    task: Literal["answering"]
    data: QuestionData = field(default_factory=QuestionData)
    text: PieceSettings = field(default_factory=PieceSettings)
    model: BertModel = field(default_factory=BertModel)
    train: TextTrain = field(default_factory=lambda: TextTrain(epochs=3))

    def __post_init__(self) -> None:
        check_best(self.train, ("f1", "exact", "loss"))


TextRecipe = EncoderRecipe | PretrainingRecipe | ClassificationRecipe | TaggingRecipe | AnsweringRecipe
"""Every recipe whose model is a BERT, or in the case of labels perhaps a GPT."""


def check_best(train: TextTrain, allowed: tuple[str, ...]) -> None:
    if train.best_by not in allowed:
        raise ValueError(f"train.best_by: this task has no {train.best_by}; allowed: {', '.join(allowed)}")
