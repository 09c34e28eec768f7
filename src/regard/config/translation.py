"""What a translation model depends on: data, text, model, training, decoding."""

from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal

from regard.config.attention import ModelSettings, ScoreName, TransformerSettings, check_score
from regard.config.schema import Count, Layers, NotNegative, Range, Share, Size, Whole, defaults
from regard.config.training import SmoothedSettings
from regard.limits import MAX_BATCH_SIZE, MAX_BEAM

SCORES: dict[str, tuple[ScoreName, ...]] = {
    "bahdanau": ("additive", "concat"),
    "luong": ("general", "dot", "concat"),
}
"""The scores each attention of an RNN is defined with; the first unless another is named."""


@dataclass(frozen=True)
class Seq2SeqSettings(ModelSettings):
    """Keys of a model with a source and a target."""

    tie_embeddings: Literal["all", "output", "none"] = "all"
    """Which embeddings are one table: source, target and output; target and output; none."""
    max_length: Annotated[Count, Range(at_most=1 << 20)] = 256
    """The most tokens a side may have."""


@dataclass(frozen=True)
@defaults(attention_dropout=0.0)
class TransformerModel(Seq2SeqSettings, TransformerSettings):
    """A named size, any part of which may be given by itself; 0 means 'as the size has it'."""

    SIZES: ClassVar = {
        "tiny": {"encoder_layers": 4, "decoder_layers": 4, "d_model": 128, "heads": 4, "d_ff": 256},
        "small": {"encoder_layers": 3, "decoder_layers": 3, "d_model": 256, "heads": 8, "d_ff": 1024},
        "base": {"encoder_layers": 6, "decoder_layers": 6, "d_model": 512, "heads": 8, "d_ff": 2048},
        "big": {"encoder_layers": 6, "decoder_layers": 6, "d_model": 1024, "heads": 16, "d_ff": 4096},
    }

    kind: Literal["transformer"] = "transformer"
    size: Literal["tiny", "small", "base", "big"] = "small"
    encoder_layers: Layers = 0
    decoder_layers: Layers = 0
    norm: Literal["pre", "post"] = "pre"
    position: Literal["sinusoidal", "learned", "relative", "rotary", "alibi", "none"] = "sinusoidal"
    activation: Literal["relu", "gelu", "silu", "swiglu"] = "relu"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.position in ("sinusoidal", "rotary") and (self.d_model // self.heads) % 2:
            raise ValueError(
                f"position: {self.position} needs an even head size, not {self.d_model // self.heads}"
            )
        check_score(self.score, self.position)

    @property
    def width(self) -> int:
        """The size of a token's vector inside the model."""
        return self.d_model

    def __str__(self) -> str:
        layers = f"{self.encoder_layers} + {self.decoder_layers} layers"
        return f"transformer, {layers}, {self.d_model} / {self.d_ff}, {self.heads} heads"


@dataclass(frozen=True)
class ConvS2SModel(Seq2SeqSettings):
    """Convolutional encoder and decoder with attention in every layer (Gehring et al. 2017)."""

    kind: Literal["convs2s"]
    encoder_layers: Annotated[Layers, Range(at_least=1)] = 4
    decoder_layers: Annotated[Layers, Range(at_least=1)] = 3
    embedding: Annotated[Size, Range(at_least=1)] = 256
    hidden: Annotated[Size, Range(at_least=1)] = 256
    """Size of the states between the convolutions."""
    kernel: Annotated[Count, Range(at_most=63)] = 3
    """Positions that a convolution covers; odd, so that the encoder's are centred."""

    def __post_init__(self) -> None:
        if self.kernel % 2 == 0:
            raise ValueError(f"kernel: {self.kernel} is even; a convolution of the encoder needs a centre")

    @property
    def width(self) -> int:
        """The size of a token's vector, which the noam schedule takes."""
        return self.embedding

    def __str__(self) -> str:
        layers = f"{self.encoder_layers} + {self.decoder_layers} layers"
        return f"convolutional, {layers}, {self.embedding} / {self.hidden}, kernel {self.kernel}"


@dataclass(frozen=True)
@defaults(tie_embeddings="none")
class RnnModel(Seq2SeqSettings):
    """An encoder that reads word by word, a decoder that writes, and what the decoder may look back at."""

    kind: Literal["rnn"]
    cell: Literal["gru", "lstm"] = "gru"
    layers: Annotated[Layers, Range(at_least=1)] = 1
    embedding: Annotated[Size, Range(at_least=1)] = 256
    hidden: Annotated[Size, Range(at_least=1)] = 512
    """Size of the decoder's state."""
    encoder_hidden: Size = 0
    """Size of the encoder's state in each direction; 0 means that all of it is as large as the decoder's."""
    bidirectional: bool = False
    reverse: bool = False
    """Read the source from its end (Sutskever et al. 2014): its first words are then the freshest."""
    attention: Literal["none", "bahdanau", "luong"] = "none"
    score: ScoreName | None = None
    """Bahdanau: additive or concat. Luong: general, dot or concat. The first of each unless given."""
    score_size: Size = 0
    """Size of the small network in an additive or concat score; 0 means as the decoder's state."""
    input_feeding: bool = False
    """Luong: the attentional vector is part of the next step's input."""

    def __post_init__(self) -> None:
        self._fill_in()
        if self.bidirectional and self.reverse:
            raise ValueError(
                "reverse: a bidirectional encoder reads the source from both ends already, so reversing it "
                "would only swap its two halves; set reverse or bidirectional to false"
            )
        if self.attention == "none":
            self._refuse_options_of_attention()
        elif self.score not in SCORES[self.attention]:
            allowed = ", ".join(SCORES[self.attention])
            raise ValueError(f"score: {self.attention} attention has no {self.score} score; allowed: {allowed}")
        if self.attention == "bahdanau" and self.input_feeding:
            raise ValueError(
                "input_feeding: Bahdanau's decoder is fed the context already; this is for luong attention"
            )
        if self.score in ("dot", "general") and self.score_size:
            raise ValueError(f"score_size: a {self.score} score has no network inside; leave it out")
        if self.score == "dot" and self.encoder_size != self.hidden:
            raise ValueError(
                f"score: dot needs states of equal size; the encoder gives {self.encoder_size}{self._twice()}, "
                f'the decoder has {self.hidden}; make them equal, or take score = "general"'
            )
        if self.tie_embeddings != "none" and self.embedding != self.hidden:
            raise ValueError(
                "tie_embeddings: one table for words in and words out needs vectors of equal size; embedding "
                f"is {self.embedding}, hidden is {self.hidden}; make them equal, or take "
                'tie_embeddings = "none"'
            )

    def _fill_in(self) -> None:
        if not self.encoder_hidden:
            halves = 2 if self.bidirectional else 1
            object.__setattr__(self, "encoder_hidden", max(1, self.hidden // halves))
        if self.score is None and self.attention != "none":
            object.__setattr__(self, "score", SCORES[self.attention][0])

    def _refuse_options_of_attention(self) -> None:
        for name in ("score", "score_size", "input_feeding"):
            if getattr(self, name):
                raise ValueError(
                    f'{name}: this belongs to attention, and attention is "none"; choose bahdanau or luong, '
                    f"or leave {name} out"
                )

    def _twice(self) -> str:
        return f" (2 x {self.encoder_hidden})" if self.bidirectional else ""

    @property
    def encoder_size(self) -> int:
        """Size of what the encoder says about a word, all directions together."""
        return self.encoder_hidden * (2 if self.bidirectional else 1)

    @property
    def width(self) -> int:
        """The size of a token's vector inside the model."""
        return self.hidden

    def __str__(self) -> str:
        reading = "bidirectional " if self.bidirectional else "reversed " if self.reverse else ""
        layers = f"{self.layers} + {self.layers} layers, {self.embedding} / {self.hidden}"
        looking = "no attention" if self.attention == "none" else f"{self.attention} attention ({self.score})"
        feeding = ", input feeding" if self.input_feeding else ""
        return f"{reading}{self.cell.upper()}, {layers}, {looking}{feeding}"


@dataclass(frozen=True)
class PairData:
    """Where the sentence pairs are: two files of a user's, or a corpus known by name."""

    corpus: Literal["files", "picturebook", "multi30k", "tatoeba-eng-fra"] = "files"
    path: str | None = None
    """The folder a named corpus lies in; without it, the cache. Files are looked for in it too."""
    source: str | None = None
    target: str | None = None
    """Line-aligned files; or one table (.tsv, .csv, .jsonl) as the source, with both columns named."""
    valid_source: str | None = None
    valid_target: str | None = None
    test_source: str | None = None
    test_target: str | None = None
    """Without files for them, validation and test are held out from the training pairs."""
    source_column: str | None = None
    target_column: str | None = None
    source_language: str = "de"
    target_language: str = "en"
    form: Literal["raw", "tok"] = "raw"
    """multi30k: sentences as written, or lower-cased and tokenized as the literature scores them."""
    held_out: Count = 1000
    """Pairs for validation and as many for the test, where they are held out; at most a tenth in all."""
    pairs: Whole = 0
    """At most so many training pairs; 0 means all."""
    max_length: Count = 200
    """Pairs with more words than this on a side are dropped, and counted."""
    ratio: Annotated[float, Range(at_least=1)] = 9.0
    """Pairs in which one side has so many times the words of the other are dropped, and counted."""

    def __post_init__(self) -> None:
        if self.corpus == "files" and self.source is None:
            raise ValueError("source: this key is missing; it is the file with the sentences to translate from")
        if self.corpus != "files" and (self.source or self.target):
            raise ValueError(f'source: files are read with corpus = "files", not with {self.corpus}')
        for name in ("valid", "test"):
            if getattr(self, f"{name}_target") and not getattr(self, f"{name}_source"):
                raise ValueError(f"{name}_source: this key is missing; {name}_target is given")


@dataclass(frozen=True)
class TextSettings:
    """How sentences become ids."""

    kind: Literal["bpe", "wordpiece", "unigram", "words", "spacy", "space"] = "bpe"
    size: Annotated[int, Range(at_least=8)] = 8000
    """Subwords: how many at most. Words are chosen by `min_count` instead."""
    min_count: Count = 2
    joint: bool = True
    """One vocabulary for both languages."""
    lower: bool = False
    normal: Literal["none", "nfc", "nfkc"] = "nfc"
    tokenized: bool = False
    """The text is tokenized already: blanks are the only borders, and output is joined with blanks."""
    dropout: Share = 0.0
    """BPE-dropout: merges left out at random while training."""
    over_all: bool = False
    """Words of validation and test count too, as the report has it; only with separate vocabularies."""

    def __post_init__(self) -> None:
        if self.over_all and self.joint:
            raise ValueError("over_all: this is for separate vocabularies; joint is true")
        if self.dropout and self.kind != "bpe":
            raise ValueError(f'dropout: merges can be left out with kind = "bpe" only, not with {self.kind}')


@dataclass(frozen=True)
@defaults(smoothing=0.1)
class TrainSettings(SmoothedSettings):
    """How a translation model learns."""

    r_drop: NotNegative = 0.0
    """Weight of the divergence between two passes with different dropout; 0 means one pass."""
    validate_sentences: Count = 200
    """Sentences translated at a validation; the loss is taken over all."""
    best_by: Literal["bleu", "loss"] = "bleu"


@dataclass(frozen=True)
class DecodeSettings:
    """How a trained model looks for a translation."""

    beam: Annotated[int, Range(at_least=1, at_most=MAX_BEAM)] = 5
    length_penalty: NotNegative = 1.0
    """Scores are divided by length to this power; 0 favours short translations."""
    coverage: NotNegative = 0.0
    """Weight of a penalty on source words nobody looked at (Wu et al. 2016, section 7)."""
    no_repeat: Whole = 0
    """No run of so many tokens occurs twice; 0 means anything may."""
    batch_size: Annotated[int, Range(at_least=1, at_most=MAX_BATCH_SIZE)] = 64


@dataclass(frozen=True)
class TranslationRecipe:
    """From sentence pairs to a translation model."""

    task: Literal["translation"]
    data: PairData
    train: TrainSettings
    text: TextSettings = field(default_factory=TextSettings)
    model: TransformerModel | RnnModel | ConvS2SModel = field(default_factory=TransformerModel)
    decode: DecodeSettings = field(default_factory=DecodeSettings)

    def __post_init__(self) -> None:
        if self.model.tie_embeddings == "all" and not self.text.joint:
            raise ValueError(
                'model.tie_embeddings: "all" needs one vocabulary for both languages; text.joint is false'
            )
        if self.decode.coverage and isinstance(self.model, RnnModel) and self.model.attention == "none":
            raise ValueError(
                'decode.coverage: this counts what was looked at, and model.attention is "none"; leave it out'
            )
