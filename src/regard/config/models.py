"""Model sections: what each model is made of."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from regard.config.schema import Count, Layers, NotNegative, Positive, Range, Share, Size, Whole, defaults

ScoreName = Literal["scaled-dot", "dot", "general", "additive", "concat", "gaussian", "cosine"]


def check_score(score: ScoreName, position: str) -> None:
    """Refuse a position scheme that is not defined for the score.

    Raises:
        ValueError: Relative positions with another score than the scaled dot product.
    """
    if position == "relative" and score != "scaled-dot":
        raise ValueError(
            f'score: relative positions are defined for the "scaled-dot" score, not for "{score}"; '
            "choose another position or leave score out"
        )


@dataclass(frozen=True)
class ModelConfig:
    """Keys of every model that is trained from tokens or patches."""

    kind: str
    start: str | None = None
    """A run to start from: its weights and its vocabulary, for a BERT, GPT or ViT its sizes too."""
    dropout: Share = 0.1


@dataclass(frozen=True)
class TransformerBaseConfig(ModelConfig):
    """A named size, any part of which may be given by itself; 0 means 'as the size has it'."""

    SIZES: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    """What each named size stands for, key by key."""

    size: str = ""
    d_model: Size = 0
    heads: Layers = 0
    d_ff: Size = 0
    score: ScoreName = "scaled-dot"
    """How well a key fits a query, in every attention."""
    attention_dropout: Share = 0.1

    def __post_init__(self) -> None:
        for name, value in self.SIZES[self.size].items():
            if not getattr(self, name):
                object.__setattr__(self, name, value)
        if self.d_model % self.heads:
            raise ValueError(f"heads: {self.heads} heads do not divide d_model {self.d_model}")


@dataclass(frozen=True)
class SingleStackConfig(TransformerBaseConfig):
    """A Transformer of one stack of layers: BERT, GPT, ViT."""

    layers: Layers = 0
    epsilon: Positive = 1e-5
    """LayerNorm epsilon."""


@dataclass(frozen=True)
class Seq2SeqConfig(ModelConfig):
    """Keys of a model with a source and a target."""

    tie_embeddings: Literal["all", "output", "none"] = "all"
    """Which embeddings are one table: source, target and output; target and output; none."""
    max_length: Annotated[Count, Range(at_most=1 << 20)] = 256
    """The most tokens a side may have."""


@dataclass(frozen=True)
@defaults(attention_dropout=0.0)
class TransformerConfig(Seq2SeqConfig, TransformerBaseConfig):
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
class ConvS2SConfig(Seq2SeqConfig):
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


SCORES: dict[str, tuple[ScoreName, ...]] = {
    "bahdanau": ("additive", "concat"),
    "luong": ("general", "dot", "concat"),
}
"""The scores each attention of an RNN is defined with; the first unless another is named."""


@dataclass(frozen=True)
@defaults(tie_embeddings="none")
class RnnConfig(Seq2SeqConfig):
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
@defaults(epsilon=1e-12)
class BertConfig(SingleStackConfig):
    """A named size, any part of which may be given by itself; 0 means 'as the size has it'."""

    SIZES: ClassVar = {
        "tiny": {"layers": 2, "d_model": 128, "heads": 2, "d_ff": 512},
        "mini": {"layers": 4, "d_model": 256, "heads": 4, "d_ff": 1024},
        "small": {"layers": 4, "d_model": 512, "heads": 8, "d_ff": 2048},
        "base": {"layers": 12, "d_model": 768, "heads": 12, "d_ff": 3072},
        "large": {"layers": 24, "d_model": 1024, "heads": 16, "d_ff": 4096},
    }
    """Base and large as Devlin et al. 2019 have them, the small ones as Turc et al. 2019."""

    kind: Literal["bert"] = "bert"
    size: Literal["tiny", "mini", "small", "base", "large"] = "base"
    activation: Literal["relu", "gelu", "gelu-tanh", "silu"] = "gelu"
    """gelu-tanh: GELU by its tanh approximation, as some checkpoints have it (gelu_new)."""
    segments: Annotated[Count, Range(at_most=1 << 10)] = 2
    max_length: Annotated[Count, Range(at_most=1 << 17)] = 512
    """The most tokens a text may have, [CLS] and [SEP] among them."""

    @property
    def width(self) -> int:
        """The size of a token's vector inside the model."""
        return self.d_model

    def __str__(self) -> str:
        return f"BERT, {self.layers} layers, {self.d_model} / {self.d_ff}, {self.heads} heads"


Pooling = Literal["mean", "cls", "max"]
"""How the vectors of tokens become one: their mean, that of [CLS], or the largest value of each feature."""


@dataclass(frozen=True)
class EmbedConfig:
    """How a text becomes one vector."""

    pooling: Pooling = "mean"
    """mean or max: over all tokens; cls: the vector of [CLS]."""
    normal: bool = True
    """Vectors of length 1."""
    max_length: Whole = 0
    """The most tokens that are read; 0 means as many as the model has places."""


@dataclass(frozen=True)
class GptConfig(SingleStackConfig):
    """A named size, any part of which may be given by itself; 0 means 'as the size has it'."""

    SIZES: ClassVar = {
        "nano": {"layers": 2, "d_model": 64, "heads": 2, "d_ff": 256, "max_length": 64},
        "micro": {"layers": 4, "d_model": 128, "heads": 4, "d_ff": 512, "max_length": 64},
        "mini": {"layers": 6, "d_model": 192, "heads": 6, "d_ff": 768, "max_length": 256},
        "small": {"layers": 6, "d_model": 384, "heads": 6, "d_ff": 1536, "max_length": 256},
        "gpt": {"layers": 12, "d_model": 768, "heads": 12, "d_ff": 3072, "max_length": 512, "norm": "post"},
        "gpt2": {"layers": 12, "d_model": 768, "heads": 12, "d_ff": 3072, "max_length": 1024},
    }
    """gpt as Radford et al. 2018 have it, gpt2 the smallest of Radford et al. 2019; pre-norm unless said."""

    kind: Literal["gpt"] = "gpt"
    size: Literal["nano", "micro", "mini", "small", "gpt", "gpt2"] = "micro"
    max_length: Annotated[int, Range(at_least=0, at_most=1 << 17)] = 0
    """The window: how many tokens it sees at once."""
    norm: Literal["pre", "post"] | None = None
    """As the size has it, unless given."""
    position: Literal["learned", "sinusoidal", "relative", "rotary", "alibi"] = "learned"
    activation: Literal["relu", "gelu", "gelu-tanh", "silu", "swiglu"] = "gelu-tanh"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.norm is None:
            object.__setattr__(self, "norm", "pre")
        if self.position in ("sinusoidal", "rotary") and (self.d_model // self.heads) % 2:
            raise ValueError(f"position: {self.position} positions come in pairs; a head's size must be even")
        check_score(self.score, self.position)
        if self.max_length < 2:
            raise ValueError("max_length: a window of one token has nothing to guess the next one from")

    @property
    def width(self) -> int:
        """The size of a token's vector inside the model."""
        return self.d_model

    def __str__(self) -> str:
        size = f"{self.layers} layers, {self.d_model} / {self.d_ff}, {self.heads} heads"
        return f"GPT, {size}, window {self.max_length}"


@dataclass(frozen=True)
class NgramConfig:
    """Runs of tokens counted, and fewer where there were none (interpolated Kneser-Ney)."""

    kind: Literal["ngram"]
    order: Annotated[Count, Range(at_most=16)] = 5
    """The longest run: a token is guessed from the order - 1 before it."""
    discount: Share = 0.0
    """Taken from every count and given to what was not seen; 0 means by the counts, for each length of run."""

    def __str__(self) -> str:
        return f"counts of runs of up to {self.order} tokens"


Pixels = Annotated[int, Range(at_least=0, at_most=1 << 14)]


@dataclass(frozen=True)
@defaults(dropout=0.0, attention_dropout=0.0, epsilon=1e-6)
class VitConfig(SingleStackConfig):
    """A named size, any part of which may be given by itself; 0 means 'as the size has it'."""

    SIZES: ClassVar = {
        "digits": {"layers": 6, "d_model": 64, "heads": 4, "d_ff": 128, "patch": 4},
        "tiny": {"layers": 12, "d_model": 192, "heads": 3, "d_ff": 768, "patch": 16},
        "small": {"layers": 12, "d_model": 384, "heads": 6, "d_ff": 1536, "patch": 16},
        "base": {"layers": 12, "d_model": 768, "heads": 12, "d_ff": 3072, "patch": 16},
        "large": {"layers": 24, "d_model": 1024, "heads": 16, "d_ff": 4096, "patch": 16},
        "huge": {"layers": 32, "d_model": 1280, "heads": 16, "d_ff": 5120, "patch": 14},
    }
    """Base, large, huge: Dosovitskiy et al. 2021; tiny, small: Touvron et al. 2021; digits: ours, for MNIST."""

    kind: Literal["vit"] = "vit"
    size: Literal["digits", "tiny", "small", "base", "large", "huge"] = "base"
    patch: Pixels = 0
    """Height and width of a patch."""
    height: Pixels = 0
    width: Pixels = 0
    """Of an image, which is brought to this size; 0 means as the training images are."""
    channels: Annotated[int, Range(at_least=0, at_most=3)] = 0
    """1 for grey, 3 for colour; 0 means as the training images are."""
    read: Literal["class", "mean"] = "class"
    """What speaks for the image: a token of its own, or the mean of the patches."""
    position: Literal["learned", "sinusoidal"] = "learned"
    activation: Literal["relu", "gelu", "silu"] = "gelu"
    mean: tuple[float, ...] = (0.5,)
    spread: tuple[Positive, ...] = (0.5,)
    """Brightness, from 0 to 1, less the mean and over the spread; one number, or one for each channel."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("height", "width"):
            if getattr(self, name) % self.patch:
                raise ValueError(
                    f"patch: patches of {self.patch} do not divide the {name} of {getattr(self, name)}"
                )
        if self.channels == 2:
            raise ValueError("channels: images are grey (1) or coloured (3), not 2")
        if self.position == "sinusoidal" and self.d_model % 4:
            raise ValueError(
                f"d_model: sinusoidal positions of rows and columns need a multiple of 4, not {self.d_model}"
            )
        for name in ("mean", "spread"):
            if len(getattr(self, name)) not in (1, self.channels or 3):
                raise ValueError(f"{name}: one number, or one for each channel")

    @property
    def rows(self) -> int:
        """Of patches."""
        return self.height // self.patch

    @property
    def columns(self) -> int:
        return self.width // self.patch

    @property
    def tokens(self) -> int:
        """Patches of an image, and the class token where there is one."""
        return self.rows * self.columns + (self.read == "class")

    def __str__(self) -> str:
        return (
            f"ViT, {self.layers} layers, {self.d_model} / {self.d_ff}, {self.heads} heads, "
            f"patches of {self.patch} in {self.height} x {self.width}"
        )


Small = Annotated[int, Range(at_least=1, at_most=1 << 10)]


@dataclass(frozen=True)
class UnetConfig:
    """A U-Net over grey pictures, and the small Transformer encoder that reads its prompt."""

    kind: Literal["unet"] = "unet"
    side: Small = 28
    """Pixels in a row and in a column."""
    channels: Small = 16
    """Numbers a pixel at the full resolution."""
    widths: tuple[Small, ...] = (1, 3, 6)
    """How many times that at each resolution; each has half the side of the one before."""
    blocks: Annotated[int, Range(at_least=1, at_most=100)] = 1
    """Residual blocks at each resolution, on the way down and again on the way up."""
    attend_at: tuple[Count, ...] = (14, 7)
    """Sides of the resolutions at which pixels look at each other and at the prompt."""
    heads: Small = 2
    dropout: Share = 0.0
    prompt_layers: Annotated[int, Range(at_least=1, at_most=100)] = 2
    prompt_size: Small = 64
    """Size of a prompt word's vector."""
    schedule: Literal["cosine", "linear"] = "cosine"
    """How a picture drowns in noise."""
    noise_steps: Annotated[int, Range(at_least=2, at_most=1 << 14)] = 1000
    """In how many steps it does."""

    def __post_init__(self) -> None:
        if not self.widths:
            raise ValueError("widths: there is no resolution; name one width at least")
        if self.side % (1 << len(self.widths) - 1):
            raise ValueError(
                f"widths: a side of {self.side} pixels cannot be halved {len(self.widths) - 1} times"
            )
        for side in self.attend_at:
            if side not in self.sides:
                allowed = ", ".join(map(str, self.sides))
                raise ValueError(f"attend_at: there is no resolution of side {side}; allowed: {allowed}")
        for width in (*(self.channels * each for each in self.widths), self.prompt_size):
            if width % (2 * self.heads):
                raise ValueError(f"heads: {self.heads} heads do not divide {width} channels evenly")

    @property
    def sides(self) -> tuple[int, ...]:
        """The side of each resolution, the full one first."""
        return tuple(self.side >> level for level in range(len(self.widths)))

    @property
    def told(self) -> int:
        """Size of the vector that tells every block of noise and prompt."""
        return 8 * self.channels

    @property
    def reader(self) -> TransformerConfig:
        """The encoder that reads a prompt."""
        return TransformerConfig(
            encoder_layers=self.prompt_layers,
            d_model=self.prompt_size,
            heads=self.heads,
            d_ff=2 * self.prompt_size,
            dropout=self.dropout,
        )

    @property
    def width(self) -> int:
        """The size of a pixel's vector at the full resolution."""
        return self.channels

    def __str__(self) -> str:
        channels = " / ".join(str(self.channels * each) for each in self.widths)
        where = ", ".join(f"{side} x {side}" for side in self.attend_at) or "no resolution"
        return f"U-Net, {channels} channels, attention at {where}, {self.heads} heads"


@dataclass(frozen=True)
class KernelRegressionConfig:
    """Attention as kernel regression."""

    kernel: Literal["average", "fixed", "learned"] = "learned"
    sharpness: Positive = 1.0
    """The fixed kernel's, and where the learned one starts; averaging has none."""

    def __post_init__(self) -> None:
        if self.kernel == "average" and self.sharpness != 1.0:
            raise ValueError("sharpness: averaging looks at every point alike, so it takes no sharpness")


@dataclass(frozen=True)
class TokenReductionConfig:
    """What becomes of the tokens inside an encoder; by default they all go on."""

    merge: tuple[NotNegative, ...] = ()
    """Tokens merged in each layer: a share of them below 1, else how many; one number is for all layers."""
    near: bool = False
    """Merge neighbours only: what is one then stands for a stretch of the text."""
    prune: Literal["none", "soft", "hard"] = "none"
    """soft: learn the threshold of each layer; hard: drop in training too, by those it starts from."""
    keep: Annotated[float, Range(above=0, at_most=1)] = 0.7
    """Share of the tokens, mean over the layers, that soft pruning makes for."""
    temperature: Positive = 0.02
    """How soft soft pruning is: the range of importance, in fair shares, over which a token fades. Where all
    tokens get nearly a fair share, as in a model hardly trained, thresholds need 0.1 to start moving."""
    weight: NotNegative = 0.4
    """How much a share of tokens beyond `keep` weighs beside the loss of an example."""

    def __post_init__(self) -> None:
        for each in self.merge:
            if not 0 <= each < 1 << 20 or (each >= 1 and each != int(each)):
                raise ValueError(f"merge: {each} is neither a share below 1 nor a whole number of tokens")
        if self.merge and self.prune != "none":
            raise ValueError("merge: tokens are merged or pruned, not both")

    def __bool__(self) -> bool:
        """Whether there is any."""
        return any(self.merge) or self.prune != "none"
