"""Export of Transformers to CTranslate2 by its model specification, and search with the exported model."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
import torch
from torch import Tensor, nn

from regard import storage
from regard.decoding import BeamSearchConfig, DecodingConstraints, Engine, Hypothesis
from regard.errors import RegardError
from regard.interop.packages import import_package
from regard.nn import (
    Attention,
    DecoderBlock,
    EncoderBlock,
    FeedForward,
    Learned,
    Residual,
    ScaledDot,
    Sinusoidal,
)
from regard.nn.seq2seq import Seq2SeqModel
from regard.nn.transformer import Decoder, Encoder, Transformer
from regard.tokenization import SPECIAL_TOKENS, Tokenizer

Quantization = Literal["int8"]
MAX_TARGET_LENGTH = BeamSearchConfig().max_length
"""Maximum number of tokens of a translation, for which positional encodings are exported."""
ACTIVATIONS = {"relu": "RELU", "gelu": "GELU", "silu": "SWISH", "swiglu": "SWISH"}
PATIENCE = 2
"""CTranslate2 ends its search with this many times the beam of finished hypotheses; regard's continues while an
unfinished hypothesis can still win."""


def check(model: Seq2SeqModel) -> Transformer:
    """The model, if CTranslate2 can represent it.

    Raises:
        RegardError: It cannot.
    """
    if not isinstance(model, Transformer):
        raise RegardError("CTranslate2 supports Transformers only; a recurrent model can be exported to onnx")
    for stack in (model.encoder, model.decoder):
        if not isinstance(stack.position, Sinusoidal | Learned):
            raise RegardError(
                "CTranslate2 supports sinusoidal and learned positions only; this model can be exported to onnx"
            )
        attentions = (module for module in stack.modules() if isinstance(module, Attention))
        if any(type(attention.score) is not ScaledDot for attention in attentions):
            raise RegardError(
                "CTranslate2 supports the scaled dot product score only; this model can be exported to onnx"
            )
        if not stack.blocks:
            raise RegardError("CTranslate2 needs at least one encoder layer and one decoder layer")
    return model


def write(
    model: Seq2SeqModel,
    source_words: Sequence[str],
    target_words: Sequence[str],
    folder: Path,
    max_length: int,
    quantization: Quantization | None = None,
) -> None:
    """Write a folder for `ctranslate2.Translator`.

    Args:
        model: The model.
        source_words: The token of each source id.
        target_words: The token of each target id.
        folder: Folder to write.
        max_length: Maximum number of tokens of a sentence.
        quantization: int8 weights; None: float32.

    Raises:
        RegardError: CTranslate2 is not installed or cannot represent the model.
    """
    model = check(model)
    specs = import_package("ctranslate2.specs")
    first = cast(EncoderBlock, model.encoder.blocks[0])
    activation = cast(FeedForward, first.feed_forward.sublayer).activation
    spec = specs.TransformerSpec.from_config(
        (len(model.encoder.blocks), len(model.decoder.blocks)),
        first.self_attention.attention.heads,
        pre_norm=first.self_attention.placement == "pre",
        activation=specs.Activation[ACTIVATIONS[activation]],
        ffn_glu=activation == "swiglu",
    )
    spec.register_source_vocabulary(list(source_words))
    spec.register_target_vocabulary(list(target_words))
    spec.config.add_source_eos = True
    spec.config.decoder_start_token = SPECIAL_TOKENS[Tokenizer.begin]
    spec.config.layer_norm_epsilon = cast(nn.LayerNorm, first.self_attention.norm).eps
    fill_stack(spec.encoder, model.encoder, model.source_embedding.weight, max_length)
    fill_stack(spec.decoder, model.decoder, model.target_embedding.weight, max_length)
    spec.decoder.projection.weight, spec.decoder.projection.bias = map(array, model.output)
    spec.validate()
    spec.optimize(quantization=quantization)
    folder.mkdir(parents=True, exist_ok=True)
    spec.save(str(folder))


def fill_stack(spec: Any, stack: Encoder | Decoder, table: Tensor, max_length: int) -> None:
    """Fill the specification of an encoder or decoder."""
    embeddings = spec.embeddings[0] if isinstance(spec.embeddings, list) else spec.embeddings
    embeddings.weight = array(table)
    spec.scale_embeddings = True
    positions = (
        len(stack.position.table) if isinstance(stack.position, Learned) else max(max_length, MAX_TARGET_LENGTH)
    )
    with torch.no_grad():
        spec.position_encodings.encodings = array(stack.position.embed(torch.zeros(positions, table.size(1))))
    if isinstance(stack.norm, nn.LayerNorm):
        fill_norm(spec.layer_norm, stack.norm)
    for layer, block in zip(spec.layer, stack.blocks, strict=True):
        fill_layer(layer, cast(EncoderBlock | DecoderBlock, block))


def fill_layer(layer: Any, block: EncoderBlock | DecoderBlock) -> None:
    """Fill the specification of a layer."""
    attention = block.self_attention.attention
    fill_linear(layer.self_attention.linear[0], attention.query, attention.key, attention.value)
    fill_linear(layer.self_attention.linear[1], attention.output)
    fill_norm(layer.self_attention.layer_norm, block.self_attention.norm)
    if isinstance(block, DecoderBlock):
        cross = cast(Residual, block.cross_attention).attention
        fill_linear(layer.attention.linear[0], cross.query)
        fill_linear(layer.attention.linear[1], cross.key, cross.value)
        fill_linear(layer.attention.linear[2], cross.output)
        fill_norm(layer.attention.layer_norm, cast(Residual, block.cross_attention).norm)
    forward = cast(FeedForward, block.feed_forward.sublayer)
    if forward.gate is not None:
        fill_linear(layer.ffn.linear_0, forward.gate)
        fill_linear(layer.ffn.linear_0_noact, forward.fc1)
    else:
        fill_linear(layer.ffn.linear_0, forward.fc1)
    fill_linear(layer.ffn.linear_1, forward.fc2)
    fill_norm(layer.ffn.layer_norm, block.feed_forward.norm)


def fill_linear(spec: Any, *linears: nn.Module) -> None:
    """Fill the specification of a fused linear layer from layers with the same input; a missing bias is 0."""
    layers = [cast(nn.Linear, linear) for linear in linears]
    spec.weight = np.concatenate([array(layer.weight) for layer in layers])
    biases = [torch.zeros(len(layer.weight)) if layer.bias is None else layer.bias for layer in layers]
    spec.bias = np.concatenate([array(bias) for bias in biases])


def fill_norm(spec: Any, norm: nn.Module) -> None:
    spec.gamma, spec.beta = array(cast(Tensor, norm.weight)), array(cast(Tensor, norm.bias))


def array(tensor: Tensor) -> Any:
    return tensor.detach().cpu().numpy().copy()


class CTranslate2(Engine):
    """An exported model in `ctranslate2.Translator`: search over token ids."""

    def __init__(self, folder: Path, source_words: Sequence[str], target_words: Sequence[str]) -> None:
        for name in ("config.json", "model.bin"):
            if not storage.inside(folder, name).is_file():
                raise RegardError(f"{folder} is not a CTranslate2 model: it has no {name}")
        check_words(folder, "source", source_words)
        check_words(folder, "target", target_words)
        self.source_words = source_words
        self.ids = {word: number for number, word in enumerate(target_words)}
        package = import_package("ctranslate2")
        try:
            # One batch per thread: for models of this size, faster than all threads on one batch.
            self.engine = package.Translator(
                str(folder), intra_threads=1, inter_threads=torch.get_num_threads()
            )
        except Exception as problem:  # the library raises various types
            raise RegardError(f"{folder} is damaged: CTranslate2 reports {one_line(problem)}") from None
        self.name = f"CTranslate2 {package.__version__}, {self.engine.compute_type}"

    def search(
        self,
        sentences: Sequence[Sequence[int]],
        constraints: DecodingConstraints,
        options: BeamSearchConfig,
        batch_size: int,
    ) -> list[list[Hypothesis]]:
        if options.coverage:
            raise RegardError("CTranslate2 has no such coverage penalty; decode.coverage must be 0")
        # More hypotheses than the beam, unranked: they include those that regard's longer search would find.
        num_hypotheses = 1 if options.beam == 1 else PATIENCE * options.beam
        max_lengths = [min(options.max_length, constraints.max_length_for(len(ids))) for ids in sentences]
        try:
            results = self.engine.translate_batch(
                [[self.source_words[number] for number in ids[:-1]] for ids in sentences],
                max_batch_size=batch_size,
                beam_size=options.beam,
                patience=PATIENCE,
                num_hypotheses=num_hypotheses,
                length_penalty=0,
                no_repeat_ngram_size=options.no_repeat,
                max_decoding_length=max(max_lengths),
                min_decoding_length=1,
                suppress_sequences=[[SPECIAL_TOKENS[number]] for number in constraints.suppressed],
                return_scores=True,
                return_end_token=True,
            )
        except RuntimeError as problem:
            raise RegardError(f"CTranslate2 cannot run this model: {one_line(problem)}") from None
        return [
            self.rank(result, constraints, options, max_length)
            for result, max_length in zip(results, max_lengths, strict=True)
        ]

    def rank(
        self, result: Any, constraints: DecodingConstraints, options: BeamSearchConfig, max_length: int
    ) -> list[Hypothesis]:
        """Hypotheses of one sentence ranked by regard's score: log probability over length, end token included.

        CTranslate2 has one maximum length per batch; hypotheses beyond that of their sentence are cut.
        """
        finished, cut = [], []
        for words, total in zip(result.hypotheses, result.scores, strict=True):
            ids = [self.ids[word] for word in words[:max_length]]
            score = total / len(ids) ** options.length_penalty
            if ids[-1] == constraints.end:
                finished.append(Hypothesis(tuple(ids[:-1]), score, total))
            else:
                cut.append(Hypothesis(tuple(ids), score, total))
        ranked = sorted(finished or cut, key=lambda hypothesis: (-hypothesis.score, hypothesis.ids))
        return ranked[: options.nbest]


def check_words(folder: Path, side: str, words: Sequence[str]) -> None:
    """Check that the folder's vocabulary is the tokenizer's, since ids are mapped by their words."""
    shared = storage.inside(folder, "shared_vocabulary.json")
    path = shared if shared.is_file() else storage.inside(folder, f"{side}_vocabulary.json")
    try:
        vocabulary = json.loads(path.read_text("utf-8"))
    except OSError:
        raise RegardError(f"{folder} is not a CTranslate2 model: it has no {path.name}") from None
    except (ValueError, RecursionError) as problem:
        raise RegardError(f"{path} is damaged: {problem}") from None
    if vocabulary != list(words):
        raise RegardError(f"{path} and the tokenizer of {folder} do not match: their words differ")


def one_line(problem: BaseException) -> str:
    """The message of an exception on one line."""
    return " ".join(str(problem).split()) or type(problem).__name__
