"""A Transformer as CTranslate2 runs it, through CTranslate2's own model specification."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
import torch
from torch import Tensor, nn

from regard import storage
from regard.decoding import BeamSearchConfig, DecodingConstraints, Engine, Hypothesis
from regard.errors import RegardError
from regard.interop.packages import needed
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
from regard.tokenization import SPECIALS, Tokenizer

Quantization = Literal["int8"]
LONGEST = BeamSearchConfig().max_length
"""The most tokens a search writes: as many places must be known."""
ACTIVATIONS = {"relu": "RELU", "gelu": "GELU", "silu": "SWISH", "swiglu": "SWISH"}
PATIENCE = 2
"""Its search ends with so many times the beam finished; ours goes on while an open one may still win."""


def check(model: Seq2SeqModel) -> Transformer:
    """The model, if CTranslate2 can be told what it does; else a sentence."""
    if not isinstance(model, Transformer):
        raise RegardError("CTranslate2 runs Transformers only; a recurrent model can be exported to onnx")
    for stack in (model.encoder, model.decoder):
        if not isinstance(stack.position, Sinusoidal | Learned):
            raise RegardError(
                "CTranslate2 knows positions that are added to the embeddings, sinusoidal or learned, and this "
                "model has others; it can be exported to onnx"
            )
        if any(isinstance(each, Attention) and type(each.score) is not ScaledDot for each in stack.modules()):
            raise RegardError(
                "CTranslate2 knows the scaled dot product score only; this model can be exported to onnx"
            )
        if not stack.blocks:
            raise RegardError("CTranslate2 wants at least one layer on each side")
    return model


def write(
    model: Seq2SeqModel,
    source_words: Sequence[str],
    target_words: Sequence[str],
    folder: Path,
    max_length: int,
    quantization: Quantization | None = None,
) -> None:
    """A folder that `ctranslate2.Translator` opens; sentences have at most `max_length` tokens."""
    model = check(model)
    specs = needed("ctranslate2.specs")
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
    spec.config.decoder_start_token = SPECIALS[Tokenizer.begin]
    spec.config.layer_norm_epsilon = cast(nn.LayerNorm, first.self_attention.norm).eps
    fill_stack(spec.encoder, model.encoder, model.source_embedding.weight, max_length)
    fill_stack(spec.decoder, model.decoder, model.target_embedding.weight, max_length)
    spec.decoder.projection.weight, spec.decoder.projection.bias = map(array, model.output)
    spec.validate()
    spec.optimize(quantization=quantization)
    folder.mkdir(parents=True, exist_ok=True)
    spec.save(str(folder))


def fill_stack(spec: Any, stack: Encoder | Decoder, table: Tensor, max_length: int) -> None:
    """One side of their specification with one side of our model."""
    embeddings = spec.embeddings[0] if isinstance(spec.embeddings, list) else spec.embeddings
    embeddings.weight = array(table)
    spec.scale_embeddings = True
    places = len(stack.position.table) if isinstance(stack.position, Learned) else max(max_length, LONGEST)
    with torch.no_grad():
        spec.position_encodings.encodings = array(stack.position.embed(torch.zeros(places, table.size(1))))
    if isinstance(stack.norm, nn.LayerNorm):
        fill_norm(spec.layer_norm, stack.norm)
    for layer, block in zip(spec.layer, stack.blocks, strict=True):
        fill_layer(layer, cast(EncoderBlock | DecoderBlock, block))


def fill_layer(layer: Any, block: EncoderBlock | DecoderBlock) -> None:
    own = block.self_attention.attention
    fill_together(layer.self_attention.linear[0], own.query, own.key, own.value)
    fill_together(layer.self_attention.linear[1], own.output)
    fill_norm(layer.self_attention.layer_norm, block.self_attention.norm)
    if isinstance(block, DecoderBlock):
        cross = cast(Residual, block.cross_attention).attention
        fill_together(layer.attention.linear[0], cross.query)
        fill_together(layer.attention.linear[1], cross.key, cross.value)
        fill_together(layer.attention.linear[2], cross.output)
        fill_norm(layer.attention.layer_norm, cast(Residual, block.cross_attention).norm)
    forward = cast(FeedForward, block.feed_forward.sublayer)
    if forward.gate is not None:
        fill_together(layer.ffn.linear_0, forward.gate)
        fill_together(layer.ffn.linear_0_noact, forward.fc1)
    else:
        fill_together(layer.ffn.linear_0, forward.fc1)
    fill_together(layer.ffn.linear_1, forward.fc2)
    fill_norm(layer.ffn.layer_norm, block.feed_forward.norm)


def fill_together(spec: Any, *linears: nn.Module) -> None:
    """Linear maps of the same input, one below the other; a bias of zeros where there is none."""
    maps = [cast(nn.Linear, each) for each in linears]
    spec.weight = np.concatenate([array(each.weight) for each in maps])
    spec.bias = np.concatenate(
        [np.zeros(len(each.weight), np.float32) if each.bias is None else array(each.bias) for each in maps]
    )


def fill_norm(spec: Any, norm: nn.Module) -> None:
    spec.gamma, spec.beta = array(cast(Tensor, norm.weight)), array(cast(Tensor, norm.bias))


def array(tensor: Tensor) -> Any:
    return tensor.detach().cpu().numpy().copy()


class CTranslate2(Engine):
    """An exported folder, opened by `ctranslate2.Translator`; ids in, ids out."""

    def __init__(self, folder: Path, source_words: Sequence[str], target_words: Sequence[str]) -> None:
        for name in ("config.json", "model.bin"):
            if not storage.inside(folder, name).is_file():
                raise RegardError(f"{folder} is not a CTranslate2 model: it has no {name}")
        check_words(folder, "source", source_words)
        check_words(folder, "target", target_words)
        self.source_words = source_words
        self.ids = {word: number for number, word in enumerate(target_words)}
        package = needed("ctranslate2")
        try:
            # A batch to each thread: for models of these sizes that is faster than a batch shared by all.
            self.engine = package.Translator(
                str(folder), intra_threads=1, inter_threads=torch.get_num_threads()
            )
        except Exception as problem:  # each kind of damage has one of its own
            raise RegardError(f"{folder} is damaged: CTranslate2 says {one_line(problem)}") from None
        self.name = f"CTranslate2 {package.__version__}, {self.engine.compute_type}"

    def search(
        self,
        sentences: Sequence[Sequence[int]],
        constraints: DecodingConstraints,
        options: BeamSearchConfig,
        batch_size: int,
    ) -> list[list[Hypothesis]]:
        if options.coverage:
            raise RegardError("CTranslate2 has no penalty on coverage such as ours; decode.coverage must be 0")
        # More than the beam is asked for, unranked: what our search would have gone on to find is among it.
        wanted = 1 if options.beam == 1 else PATIENCE * options.beam
        rooms = [min(options.max_length, constraints.max_length_for(len(ids))) for ids in sentences]
        try:
            found = self.engine.translate_batch(
                [[self.source_words[number] for number in ids[:-1]] for ids in sentences],
                max_batch_size=batch_size,
                beam_size=options.beam,
                patience=PATIENCE,
                num_hypotheses=wanted,
                length_penalty=0,
                no_repeat_ngram_size=options.no_repeat,
                max_decoding_length=max(rooms),
                min_decoding_length=1,
                suppress_sequences=[[SPECIALS[number]] for number in constraints.suppressed],
                return_scores=True,
                return_end_token=True,
            )
        except RuntimeError as problem:
            raise RegardError(f"CTranslate2 cannot run this model: {one_line(problem)}") from None
        return [self.ranked(each, constraints, options, room) for each, room in zip(found, rooms, strict=True)]

    def ranked(
        self, found: Any, constraints: DecodingConstraints, options: BeamSearchConfig, room: int
    ) -> list[Hypothesis]:
        """Their hypotheses by our score: the log probability over the length, the end counted.

        One limit of length holds for all they translate at once; what is too long for its own is cut.
        """
        made = []
        for words, total in zip(found.hypotheses, found.scores, strict=True):
            ids = [self.ids[word] for word in words[:room]]
            score = total / len(ids) ** options.length_penalty
            made.append((ids[-1] == constraints.end, Hypothesis(tuple(ids), score, total)))
        # What was cut off counts only where nothing has ended.
        kept = [replace(each, ids=each.ids[:-1]) for ended, each in made if ended] or [each for _, each in made]
        return sorted(kept, key=lambda each: (-each.score, each.ids))[: options.nbest]


def check_words(folder: Path, side: str, words: Sequence[str]) -> None:
    """The folder's vocabulary must be the tokenizer's: ids are told by their words."""
    shared = storage.inside(folder, "shared_vocabulary.json")
    path = shared if shared.is_file() else storage.inside(folder, f"{side}_vocabulary.json")
    try:
        found = json.loads(path.read_text("utf-8"))
    except OSError:
        raise RegardError(f"{folder} is not a CTranslate2 model: it has no {path.name}") from None
    except (ValueError, RecursionError) as problem:
        raise RegardError(f"{path} is damaged: {problem}") from None
    if found != list(words):
        raise RegardError(f"{path} and the tokenizer of {folder} do not belong together: their words differ")


def one_line(problem: BaseException) -> str:
    return " ".join(str(problem).split()) or type(problem).__name__
