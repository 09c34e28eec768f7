"""Model sections: architecture and sizes of every model."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from regard.config.schema import Count, Layers, NotNegative, Positive, Range, Share, Size, Whole, defaults

ScoreName = Literal["scaled-dot", "dot", "general", "additive", "concat", "gaussian", "cosine"]


def check_score(score: ScoreName, position: str) -> None:
    """Check that the position scheme is defined for the attention score.

    Raises:
        ValueError: Relative positions with a score other than the scaled dot product.
    """
    if position == "relative" and score != "scaled-dot":
        raise ValueError(
            f'score: relative positions are defined for the "scaled-dot" score, not for "{score}"; '
            "choose another position or leave score out"
        )


@dataclass(frozen=True)
class ModelConfig:
    """Keys of all models over tokens or patches."""

    kind: str
    start: str | None = None
    """Run folder to initialise from: weights and vocabulary; for a BERT, GPT or ViT also the sizes."""
    dropout: Share = 0.1
    """Dropout probability."""


@dataclass(frozen=True)
class TransformerBaseConfig(ModelConfig):
    """A Transformer of a named size; a key that is not 0 overrides that part of the size."""

    SIZES: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    """Values of each named size."""

    size: str = ""
    """Named size."""
    d_model: Size = 0
    """Size of hidden states; 0: from `size`."""
    heads: Layers = 0
    """Attention heads; 0: from `size`."""
    d_ff: Size = 0
    """Inner size of the feed-forward network; 0: from `size`."""
    score: ScoreName = "scaled-dot"
    """Attention score function of all attention layers."""
    attention_dropout: Share = 0.1
    """Dropout probability of attention weights."""

    def __post_init__(self) -> None:
        for name, value in self.SIZES[self.size].items():
            if not getattr(self, name):
                object.__setattr__(self, name, value)
        if self.d_model % self.heads:
            raise ValueError(f"heads: {self.heads} heads do not divide d_model {self.d_model}")


@dataclass(frozen=True)
class SingleStackConfig(TransformerBaseConfig):
    """A Transformer with a single stack of layers: BERT, GPT, ViT."""

    layers: Layers = 0
    """Number of layers; 0: from `size`."""
    epsilon: Positive = 1e-5
    """LayerNorm epsilon."""


@dataclass(frozen=True)
class Seq2SeqConfig(ModelConfig):
    """Keys of all encoder-decoder models."""

    @property
    def has_attention(self) -> bool:
        """Whether the decoder has attention over the source."""
        return True

    tie_embeddings: Literal["all", "output", "none"] = "all"
    """Weight tying: source, target and output embeddings share one table; target and output do; or none."""
    max_length: Annotated[Count, Range(at_most=1 << 20)] = 256
    """Maximum number of tokens per sentence."""


@dataclass(frozen=True)
@defaults(attention_dropout=0.0)
class TransformerConfig(Seq2SeqConfig, TransformerBaseConfig):
    """An encoder-decoder Transformer of a named size; a key that is not 0 overrides that part of the size."""

    SIZES: ClassVar = {
        "tiny": {"encoder_layers": 4, "decoder_layers": 4, "d_model": 128, "heads": 4, "d_ff": 256},
        "small": {"encoder_layers": 3, "decoder_layers": 3, "d_model": 256, "heads": 8, "d_ff": 1024},
        "base": {"encoder_layers": 6, "decoder_layers": 6, "d_model": 512, "heads": 8, "d_ff": 2048},
        "big": {"encoder_layers": 6, "decoder_layers": 6, "d_model": 1024, "heads": 16, "d_ff": 4096},
    }

    kind: Literal["transformer"] = "transformer"
    size: Literal["tiny", "small", "base", "big"] = "small"
    encoder_layers: Layers = 0
    """Encoder layers; 0: from `size`."""
    decoder_layers: Layers = 0
    """Decoder layers; 0: from `size`."""
    norm: Literal["pre", "post"] = "pre"
    """LayerNorm before (pre) or after (post) the residual connection."""
    position: Literal["sinusoidal", "learned", "relative", "rotary", "alibi", "none"] = "sinusoidal"
    """Positional encoding."""
    activation: Literal["relu", "gelu", "silu", "swiglu"] = "relu"
    """Activation of the feed-forward network."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.position in ("sinusoidal", "rotary") and (self.d_model // self.heads) % 2:
            raise ValueError(
                f"position: {self.position} needs an even head size, not {self.d_model // self.heads}"
            )
        check_score(self.score, self.position)

    @property
    def width(self) -> int:
        """Size of hidden states."""
        return self.d_model

    def __str__(self) -> str:
        layers = f"{self.encoder_layers} + {self.decoder_layers} layers"
        return f"transformer, {layers}, {self.d_model} / {self.d_ff}, {self.heads} heads"


@dataclass(frozen=True)
class ConvS2SConfig(Seq2SeqConfig):
    """ConvS2S: convolutional encoder-decoder with attention in every decoder layer (Gehring et al. 2017)."""

    kind: Literal["convs2s"]
    encoder_layers: Annotated[Layers, Range(at_least=1)] = 4
    """Encoder layers."""
    decoder_layers: Annotated[Layers, Range(at_least=1)] = 3
    """Decoder layers."""
    embedding: Annotated[Size, Range(at_least=1)] = 256
    """Embedding size."""
    hidden: Annotated[Size, Range(at_least=1)] = 256
    """Hidden size of the convolutions."""
    kernel: Annotated[Count, Range(at_most=63)] = 3
    """Kernel size of the convolutions; odd, so that the encoder's are centred."""

    def __post_init__(self) -> None:
        if self.kernel % 2 == 0:
            raise ValueError(f"kernel: {self.kernel} is even; a convolution of the encoder needs a centre")

    @property
    def width(self) -> int:
        """Embedding size, which the noam schedule scales by."""
        return self.embedding

    def __str__(self) -> str:
        layers = f"{self.encoder_layers} + {self.decoder_layers} layers"
        return f"convolutional, {layers}, {self.embedding} / {self.hidden}, kernel {self.kernel}"


SCORES: dict[str, tuple[ScoreName, ...]] = {
    "bahdanau": ("additive", "concat"),
    "luong": ("general", "dot", "concat"),
}
"""Score functions of each attention of an RNN; the first is the default."""


@dataclass(frozen=True)
@defaults(tie_embeddings="none")
class RnnConfig(Seq2SeqConfig):
    """A recurrent encoder-decoder with no attention, Bahdanau's or Luong's."""

    kind: Literal["rnn"]
    cell: Literal["gru", "lstm"] = "gru"
    """Recurrent cell."""
    layers: Annotated[Layers, Range(at_least=1)] = 1
    """Layers of the encoder, and as many of the decoder."""
    embedding: Annotated[Size, Range(at_least=1)] = 256
    """Embedding size."""
    hidden: Annotated[Size, Range(at_least=1)] = 512
    """Hidden size of the decoder."""
    encoder_hidden: Size = 0
    """Hidden size of the encoder per direction; 0: all directions together have the decoder's size."""
    bidirectional: bool = False
    """Bidirectional encoder."""
    reverse: bool = False
    """Reverse the source sentence (Sutskever et al. 2014), so that its first words are read last."""
    attention: Literal["none", "bahdanau", "luong"] = "none"
    """Attention of the decoder."""
    score: ScoreName | None = None
    """Attention score. Bahdanau: additive (default) or concat. Luong: general (default), dot or concat."""
    score_size: Size = 0
    """Hidden size of an additive or concat score; 0: the decoder's hidden size."""
    input_feeding: bool = False
    """Luong: feed the attentional vector into the next step."""

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
                "input_feeding: Bahdanau's decoder gets the context as input already; "
                "set it with luong attention"
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
                "tie_embeddings: tied input and output embeddings must have the same size; embedding "
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
                    f'{name}: this is an option of attention, and attention is "none"; '
                    f"choose bahdanau or luong, or leave {name} out"
                )

    def _twice(self) -> str:
        return f" (2 x {self.encoder_hidden})" if self.bidirectional else ""

    @property
    def has_attention(self) -> bool:
        """Whether the decoder has attention over the source."""
        return self.attention != "none"

    @property
    def encoder_size(self) -> int:
        """Size of an encoder state, all directions together."""
        return self.encoder_hidden * (2 if self.bidirectional else 1)

    @property
    def width(self) -> int:
        """Hidden size of the decoder."""
        return self.hidden

    def __str__(self) -> str:
        direction = "bidirectional " if self.bidirectional else "reversed " if self.reverse else ""
        layers = f"{self.layers} + {self.layers} layers, {self.embedding} / {self.hidden}"
        attention = "no attention" if self.attention == "none" else f"{self.attention} attention ({self.score})"
        feeding = ", input feeding" if self.input_feeding else ""
        return f"{direction}{self.cell.upper()}, {layers}, {attention}{feeding}"


Seq2SeqModelConfig = TransformerConfig | RnnConfig | ConvS2SConfig
"""The model section of a translation recipe; `kind` chooses."""


@dataclass(frozen=True)
@defaults(epsilon=1e-12)
class BertConfig(SingleStackConfig):
    """A BERT of a named size; a key that is not 0 overrides that part of the size."""

    SIZES: ClassVar = {
        "tiny": {"layers": 2, "d_model": 128, "heads": 2, "d_ff": 512},
        "mini": {"layers": 4, "d_model": 256, "heads": 4, "d_ff": 1024},
        "small": {"layers": 4, "d_model": 512, "heads": 8, "d_ff": 2048},
        "base": {"layers": 12, "d_model": 768, "heads": 12, "d_ff": 3072},
        "large": {"layers": 24, "d_model": 1024, "heads": 16, "d_ff": 4096},
    }
    """base and large: Devlin et al. 2019; tiny, mini and small: Turc et al. 2019."""

    kind: Literal["bert"] = "bert"
    size: Literal["tiny", "mini", "small", "base", "large"] = "base"
    activation: Literal["relu", "gelu", "gelu-tanh", "silu"] = "gelu"
    """Activation of the feed-forward network; gelu-tanh is the tanh approximation of GELU (gelu_new)."""
    segments: Annotated[Count, Range(at_most=1 << 10)] = 2
    """Number of segment (token type) embeddings."""
    max_length: Annotated[Count, Range(at_most=1 << 17)] = 512
    """Maximum number of tokens per text, including [CLS] and [SEP]."""

    @property
    def width(self) -> int:
        """Size of hidden states."""
        return self.d_model

    def __str__(self) -> str:
        return f"BERT, {self.layers} layers, {self.d_model} / {self.d_ff}, {self.heads} heads"


Pooling = Literal["mean", "cls", "max"]
"""Pooling of token vectors into a text vector: mean, [CLS], or maximum per feature."""


@dataclass(frozen=True)
class EmbedConfig:
    """Text embedding: pooling, normalisation and truncation."""

    pooling: Pooling = "mean"
    """mean or max over all tokens, or the vector of [CLS]."""
    normalize: bool = True
    """Scale text vectors to unit length."""
    max_length: Whole = 0
    """Truncate texts to so many tokens; 0: the model's maximum."""


@dataclass(frozen=True)
class GptConfig(SingleStackConfig):
    """A GPT of a named size; a key that is not 0 overrides that part of the size."""

    SIZES: ClassVar = {
        "nano": {"layers": 2, "d_model": 64, "heads": 2, "d_ff": 256, "max_length": 64},
        "micro": {"layers": 4, "d_model": 128, "heads": 4, "d_ff": 512, "max_length": 64},
        "mini": {"layers": 6, "d_model": 192, "heads": 6, "d_ff": 768, "max_length": 256},
        "small": {"layers": 6, "d_model": 384, "heads": 6, "d_ff": 1536, "max_length": 256},
        "gpt": {"layers": 12, "d_model": 768, "heads": 12, "d_ff": 3072, "max_length": 512, "norm": "post"},
        "gpt2": {"layers": 12, "d_model": 768, "heads": 12, "d_ff": 3072, "max_length": 1024},
    }
    """gpt: Radford et al. 2018; gpt2: the smallest of Radford et al. 2019. All but gpt are pre-norm."""

    kind: Literal["gpt"] = "gpt"
    size: Literal["nano", "micro", "mini", "small", "gpt", "gpt2"] = "micro"
    max_length: Annotated[int, Range(at_least=0, at_most=1 << 17)] = 0
    """Context window in tokens; 0: from `size`."""
    norm: Literal["pre", "post"] | None = None
    """LayerNorm before (pre) or after (post) the residual connection; default: from `size`."""
    position: Literal["learned", "sinusoidal", "relative", "rotary", "alibi"] = "learned"
    """Positional encoding."""
    activation: Literal["relu", "gelu", "gelu-tanh", "silu", "swiglu"] = "gelu-tanh"
    """Activation of the feed-forward network; gelu-tanh is the tanh approximation of GELU (gelu_new)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.norm is None:
            object.__setattr__(self, "norm", "pre")
        if self.position in ("sinusoidal", "rotary") and (self.d_model // self.heads) % 2:
            raise ValueError(
                f"position: {self.position} needs an even head size, not {self.d_model // self.heads}"
            )
        check_score(self.score, self.position)
        if self.max_length < 2:
            raise ValueError(
                "max_length: a context window of one token leaves nothing to predict the next one from"
            )

    @property
    def width(self) -> int:
        """Size of hidden states."""
        return self.d_model

    def __str__(self) -> str:
        size = f"{self.layers} layers, {self.d_model} / {self.d_ff}, {self.heads} heads"
        return f"GPT, {size}, window {self.max_length}"


@dataclass(frozen=True)
class NgramConfig:
    """An n-gram model with interpolated Kneser-Ney smoothing."""

    kind: Literal["ngram"]
    order: Annotated[Count, Range(at_most=16)] = 5
    """n: a token is predicted from the n - 1 before it."""
    discount: Share = 0.0
    """Absolute discount of every count; 0: estimated from the counts, per order."""

    def __str__(self) -> str:
        return f"counts of runs of up to {self.order} tokens"


Pixels = Annotated[int, Range(at_least=0, at_most=1 << 14)]


@dataclass(frozen=True)
@defaults(dropout=0.0, attention_dropout=0.0, epsilon=1e-6)
class VitConfig(SingleStackConfig):
    """A Vision Transformer of a named size; a key that is not 0 overrides that part of the size."""

    SIZES: ClassVar = {
        "digits": {"layers": 6, "d_model": 64, "heads": 4, "d_ff": 128, "patch": 4},
        "tiny": {"layers": 12, "d_model": 192, "heads": 3, "d_ff": 768, "patch": 16},
        "small": {"layers": 12, "d_model": 384, "heads": 6, "d_ff": 1536, "patch": 16},
        "base": {"layers": 12, "d_model": 768, "heads": 12, "d_ff": 3072, "patch": 16},
        "large": {"layers": 24, "d_model": 1024, "heads": 16, "d_ff": 4096, "patch": 16},
        "huge": {"layers": 32, "d_model": 1280, "heads": 16, "d_ff": 5120, "patch": 14},
    }
    """base, large, huge: Dosovitskiy et al. 2021; tiny, small: Touvron et al. 2021; digits: for MNIST."""

    kind: Literal["vit"] = "vit"
    size: Literal["digits", "tiny", "small", "base", "large", "huge"] = "base"
    patch: Pixels = 0
    """Height and width of a patch in pixels; 0: from `size`."""
    height: Pixels = 0
    """Image height in pixels; images are resized to it; 0: that of the training images."""
    width: Pixels = 0
    """Image width in pixels; images are resized to it; 0: that of the training images."""
    channels: Annotated[int, Range(at_least=0, at_most=3)] = 0
    """1 for grey, 3 for colour; 0: that of the training images."""
    pooling: Literal["class", "mean"] = "class"
    """What the classifier reads: a class token, or the mean of the patches."""
    position: Literal["learned", "sinusoidal"] = "learned"
    """Positional encoding."""
    activation: Literal["relu", "gelu", "silu"] = "gelu"
    """Activation of the feed-forward network."""
    mean: tuple[float, ...] = (0.5,)
    """Pixel mean, subtracted from values in 0 to 1; one number, or one per channel."""
    std: tuple[Positive, ...] = (0.5,)
    """Pixel standard deviation, by which values are divided; one number, or one per channel."""

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
        for name in ("mean", "std"):
            if len(getattr(self, name)) not in (1, self.channels or 3):
                raise ValueError(f"{name}: give one number, or one per channel")

    @property
    def rows(self) -> int:
        """Rows of patches."""
        return self.height // self.patch

    @property
    def columns(self) -> int:
        return self.width // self.patch

    @property
    def tokens(self) -> int:
        """Sequence length: patches, and the class token with `pooling = "class"`."""
        return self.rows * self.columns + (self.pooling == "class")

    def __str__(self) -> str:
        return (
            f"ViT, {self.layers} layers, {self.d_model} / {self.d_ff}, {self.heads} heads, "
            f"patches of {self.patch} in {self.height} x {self.width}"
        )


Small = Annotated[int, Range(at_least=1, at_most=1 << 10)]


@dataclass(frozen=True)
class UnetConfig:
    """A U-Net for diffusion of grey images, with a Transformer encoder for the prompt."""

    kind: Literal["unet"] = "unet"
    side: Small = 28
    """Image height and width in pixels."""
    channels: Small = 16
    """Channels at full resolution."""
    widths: tuple[Small, ...] = (1, 3, 6)
    """Channel multiplier per resolution; each resolution has half the side of the previous one."""
    blocks: Annotated[int, Range(at_least=1, at_most=100)] = 1
    """Residual blocks per resolution, in the downsampling and in the upsampling path."""
    attend_at: tuple[Count, ...] = (14, 7)
    """Sides of the resolutions with self-attention and cross-attention to the prompt."""
    heads: Small = 2
    """Attention heads."""
    dropout: Share = 0.0
    """Dropout probability."""
    prompt_layers: Annotated[int, Range(at_least=1, at_most=100)] = 2
    """Layers of the prompt encoder."""
    prompt_size: Small = 64
    """Size of hidden states of the prompt encoder."""
    schedule: Literal["cosine", "linear"] = "cosine"
    """Noise schedule."""
    noise_steps: Annotated[int, Range(at_least=2, at_most=1 << 14)] = 1000
    """Number of diffusion time steps."""

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
        for width in (*(self.channels * multiplier for multiplier in self.widths), self.prompt_size):
            if width % (2 * self.heads):
                raise ValueError(f"heads: {self.heads} heads do not divide {width} channels evenly")

    @property
    def sides(self) -> tuple[int, ...]:
        """Side of each resolution, full resolution first."""
        return tuple(self.side >> level for level in range(len(self.widths)))

    @property
    def conditioning_size(self) -> int:
        """Size of the conditioning vector (time step and pooled prompt) that every block gets."""
        return 8 * self.channels

    @property
    def prompt_encoder(self) -> TransformerConfig:
        """Configuration of the prompt encoder."""
        return TransformerConfig(
            encoder_layers=self.prompt_layers,
            d_model=self.prompt_size,
            heads=self.heads,
            d_ff=2 * self.prompt_size,
            dropout=self.dropout,
        )

    @property
    def width(self) -> int:
        """Channels at full resolution."""
        return self.channels

    def __str__(self) -> str:
        channels = " / ".join(str(self.channels * multiplier) for multiplier in self.widths)
        where = ", ".join(f"{side} x {side}" for side in self.attend_at) or "no resolution"
        return f"U-Net, {channels} channels, attention at {where}, {self.heads} heads"


@dataclass(frozen=True)
class KernelRegressionConfig:
    """Attention as kernel regression (Nadaraya-Watson)."""

    kernel: Literal["average", "fixed", "learned"] = "learned"
    """Uniform weights (average), or a Gaussian kernel of fixed or learned sharpness."""
    sharpness: Positive = 1.0
    """Sharpness of the fixed kernel, and initial sharpness of the learned one; average has none."""

    def __post_init__(self) -> None:
        if self.kernel == "average" and self.sharpness != 1.0:
            raise ValueError('sharpness: kernel = "average" weights all points equally and has no sharpness')


@dataclass(frozen=True)
class TokenReductionConfig:
    """Token merging or pruning inside an encoder; off by default."""

    merge: tuple[NotNegative, ...] = ()
    """Tokens merged per layer: a share below 1, or a number of tokens; one value applies to all layers."""
    neighbors_only: bool = False
    """Merge adjacent tokens only, so that each merged token covers one span of the text."""
    prune: Literal["none", "soft", "hard"] = "none"
    """soft: learn a threshold per layer; hard: drop tokens in training too, with thresholds learned before."""
    keep: Annotated[float, Range(above=0, at_most=1)] = 0.7
    """Target share of tokens kept by soft pruning, mean over the layers."""
    temperature: Positive = 0.02
    """Softness of soft pruning: the range of importance (1 is the mean attention per token) over which a token
    fades out. In a model with little training, where importance is nearly uniform, thresholds need 0.1."""
    weight: NotNegative = 0.4
    """Weight in the loss of the share of tokens kept beyond `keep`."""

    def __post_init__(self) -> None:
        for amount in self.merge:
            if not 0 <= amount < 1 << 20 or (amount >= 1 and amount != int(amount)):
                raise ValueError(f"merge: {amount} is neither a share below 1 nor a whole number of tokens")
        if self.merge and self.prune != "none":
            raise ValueError("merge: tokens are merged or pruned, not both")

    def __bool__(self) -> bool:
        """Whether tokens are merged or pruned."""
        return any(self.merge) or self.prune != "none"
