"""A trained Transformer as peers would run it: the same weights in CTranslate2 and in Hugging Face."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from regard.attention.positions import sinusoids
from regard.decoding.lean import attention_of
from regard.layers import DecoderBlock
from regard.models.transformer import Transformer
from regard.text import Tokenizer

LONGEST = 256


def for_ctranslate2(model: Transformer, heads: int, folder: Path) -> Path:
    """The model as a CTranslate2 folder, through its own model specification."""
    from ctranslate2.specs import TransformerSpec  # an extra: only who compares needs it

    config_layers = (len(model.encoder.blocks), len(model.decoder.blocks))
    spec = TransformerSpec.from_config(config_layers, heads, pre_norm=is_pre(model))
    vocabulary = [f"w{number}" for number in range(model.output[0].size(0))]
    vocabulary[0], vocabulary[1], vocabulary[3] = "<s>", "</s>", "<unk>"
    spec.register_source_vocabulary(vocabulary)
    spec.register_target_vocabulary(vocabulary)
    spec.config.add_source_eos = False
    spec.config.decoder_start_token = "<s>"
    width = model.output[0].size(1)
    for side, part, table in (
        (spec.encoder, model.encoder, model.source_embedding.weight),
        (spec.decoder, model.decoder, model.target_embedding.weight),
    ):
        embeddings = side.embeddings[0] if isinstance(side.embeddings, list) else side.embeddings
        embeddings.weight = array(table)
        side.scale_embeddings = True
        side.position_encodings.encodings = sinusoids(LONGEST, width).numpy()
        if isinstance(part.norm, nn.LayerNorm):
            fill_norm(side.layer_norm, part.norm)
        for layer, block in zip(side.layer, part.blocks, strict=True):
            fill_layer(layer, block)
    spec.decoder.projection.weight = array(model.output[0])
    spec.decoder.projection.bias = array(model.output[1])
    spec.validate()
    folder.mkdir(parents=True, exist_ok=True)
    spec.optimize()
    spec.save(str(folder))
    return folder


def is_pre(model: Transformer) -> bool:
    return isinstance(model.decoder.norm, nn.LayerNorm)


def fill_layer(layer: Any, block: Any) -> None:
    own = attention_of(block.self_attention)
    parts = [whole(each) for each in (own.query, own.key, own.value)]
    layer.self_attention.linear[0].weight = np.concatenate([weight for weight, _ in parts])
    layer.self_attention.linear[0].bias = np.concatenate([bias for _, bias in parts])
    fill_linear(layer.self_attention.linear[1], own.output)
    fill_norm(layer.self_attention.layer_norm, block.self_attention.norm)
    if isinstance(block, DecoderBlock):
        assert block.cross_attention is not None
        cross = attention_of(block.cross_attention)
        fill_linear(layer.attention.linear[0], cross.query)
        parts = [whole(each) for each in (cross.key, cross.value)]
        layer.attention.linear[1].weight = np.concatenate([weight for weight, _ in parts])
        layer.attention.linear[1].bias = np.concatenate([bias for _, bias in parts])
        fill_linear(layer.attention.linear[2], cross.output)
        fill_norm(layer.attention.layer_norm, block.cross_attention.norm)
    forward: Any = block.feed_forward.sublayer
    fill_linear(layer.ffn.linear_0, forward.widen)
    fill_linear(layer.ffn.linear_1, forward.narrow)
    fill_norm(layer.ffn.layer_norm, block.feed_forward.norm)


def array(tensor: Tensor) -> np.ndarray:
    return tensor.detach().numpy().copy()


def whole(linear: Any) -> tuple[np.ndarray, np.ndarray]:
    """Weight and bias, of zeros where there is none."""
    weight = array(linear.weight)
    bias = np.zeros(len(weight), np.float32) if linear.bias is None else array(linear.bias)
    return weight, bias


def fill_linear(spec: Any, linear: Any) -> None:
    spec.weight, spec.bias = whole(linear)


def fill_norm(spec: Any, norm: Any) -> None:
    spec.gamma, spec.beta = array(norm.weight), array(norm.bias)


def for_hugging_face(model: Transformer, heads: int) -> Any:
    """The model in `transformers`: Pegasus, whose norms stand before, or Marian, whose norms stand after.

    Their sinusoids hold all sines, then all cosines; so the stream's dimensions are put in that order.
    """
    from transformers import MarianConfig, MarianMTModel, PegasusConfig, PegasusForConditionalGeneration

    words, width = model.output[0].shape
    inner: Any = model.decoder.blocks[0].feed_forward
    settings = {
        "vocab_size": words,
        "d_model": width,
        "encoder_layers": len(model.encoder.blocks),
        "decoder_layers": len(model.decoder.blocks),
        "encoder_attention_heads": heads,
        "decoder_attention_heads": heads,
        "encoder_ffn_dim": inner.sublayer.widen.out_features,
        "decoder_ffn_dim": inner.sublayer.widen.out_features,
        "activation_function": "relu",
        "scale_embedding": True,
        "max_position_embeddings": LONGEST,
        "pad_token_id": Tokenizer.padding,
        "eos_token_id": Tokenizer.end,
        "decoder_start_token_id": Tokenizer.begin,
        "forced_eos_token_id": None,
    }
    theirs: Any = (
        PegasusForConditionalGeneration(PegasusConfig(**settings))
        if is_pre(model)
        else MarianMTModel(MarianConfig(**settings))
    )
    order = torch.cat((torch.arange(0, width, 2), torch.arange(1, width, 2)))
    with torch.no_grad():
        theirs.model.shared.weight.copy_(model.source_embedding.weight[:, order])
        theirs.final_logits_bias.copy_(model.output[1].unsqueeze(0))
        for side, part in ((theirs.model.encoder, model.encoder), (theirs.model.decoder, model.decoder)):
            if isinstance(part.norm, nn.LayerNorm):
                copy_norm(side.layer_norm, part.norm, order)
            for layer, block in zip(side.layers, part.blocks, strict=True):
                copy_layer(layer, block, order)
    return theirs.eval()


def copy_layer(layer: Any, block: Any, order: Tensor) -> None:
    copy_attention(layer.self_attn, attention_of(block.self_attention), order)
    copy_norm(layer.self_attn_layer_norm, block.self_attention.norm, order)
    if isinstance(block, DecoderBlock):
        assert block.cross_attention is not None
        copy_attention(layer.encoder_attn, attention_of(block.cross_attention), order)
        copy_norm(layer.encoder_attn_layer_norm, block.cross_attention.norm, order)
    forward: Any = block.feed_forward.sublayer
    layer.fc1.weight.copy_(forward.widen.weight[:, order])
    layer.fc1.bias.copy_(forward.widen.bias)
    layer.fc2.weight.copy_(forward.narrow.weight[order])
    layer.fc2.bias.copy_(forward.narrow.bias[order])
    copy_norm(layer.final_layer_norm, block.feed_forward.norm, order)


def copy_attention(theirs: Any, ours: Any, order: Tensor) -> None:
    for name, linear in (("q_proj", ours.query), ("k_proj", ours.key), ("v_proj", ours.value)):
        target = getattr(theirs, name)
        target.weight.copy_(linear.weight[:, order])
        target.bias.copy_(torch.zeros(len(linear.weight)) if linear.bias is None else linear.bias)
    theirs.out_proj.weight.copy_(ours.output.weight[order])
    theirs.out_proj.bias.copy_(ours.output.bias[order])


def copy_norm(theirs: Any, ours: Any, order: Tensor) -> None:
    theirs.weight.copy_(ours.weight[order])
    theirs.bias.copy_(ours.bias[order])
