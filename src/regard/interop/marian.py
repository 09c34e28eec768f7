"""A Transformer to a Hugging Face folder and back: Marian has its norms after the sublayers, Pegasus before.

Their sinusoids hold all sines, then all cosines, ours take turns; so the dimensions of the residual stream
change their order, and nothing else does. `transformers` is not needed: all is JSON and safetensors.
"""

import json
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from regard import storage
from regard.config.decoding import SearchConfig
from regard.config.models import ConvS2SConfig, RnnConfig, TransformerConfig
from regard.config.schema import coerce_union
from regard.decoding import BeamSearchConfig
from regard.errors import RegardError
from regard.interop.folders import expect, read_config
from regard.interop.tokenizer_files import read_tokenizer
from regard.nn.build import build
from regard.nn.positions import sinusoids
from regard.nn.seq2seq import Seq2SeqModel
from regard.nn.transformer import Transformer
from regard.tensor_files import check_shapes, shapes_in, write_tensors
from regard.tokenization import Tokenizer

WEIGHTS, CONFIG, GENERATION = "model.safetensors", "config.json", "generation_config.json"
FILES = f"{CONFIG}, {WEIGHTS}, tokenizer.json"

NAMES = (
    (r"^source_embedding\.", "model.shared."),
    (r"^output_bias$", "final_logits_bias"),
    (r"^(encoder|decoder)\.norm\.", r"model.\1.layer_norm."),
    (r"^(encoder|decoder)\.blocks\.", r"model.\1.layers."),
    (r"\.self_attention\.sublayer\.attention\.", ".self_attn."),
    (r"\.self_attention\.norm\.", ".self_attn_layer_norm."),
    (r"\.cross_attention\.sublayer\.", ".encoder_attn."),
    (r"\.cross_attention\.norm\.", ".encoder_attn_layer_norm."),
    (r"_attn\.query\.", "_attn.q_proj."),
    (r"_attn\.key\.", "_attn.k_proj."),
    (r"_attn\.value\.", "_attn.v_proj."),
    (r"_attn\.output\.", "_attn.out_proj."),
    (r"\.feed_forward\.sublayer\.fc1\.", ".fc1."),
    (r"\.feed_forward\.sublayer\.fc2\.", ".fc2."),
    (r"\.feed_forward\.norm\.", ".final_layer_norm."),
)
"""Our names of weights, part by part, and theirs."""

INTO_STREAM = r"(out_proj|fc2|layer_norm|layernorm)\.(weight|bias)$"
FROM_STREAM = r"(shared|[qkv]_proj|fc1)\.weight$"
"""Weights whose rows, or whose columns, are dimensions of the residual stream."""

PASSED_OVER = (
    r"model\.(encoder|decoder)\.embed_(tokens|positions)\.weight",  # the same table again; sinusoids
    r"lm_head\.weight",
    r"model\.(encoder|decoder)\.layers\.\d+\.(self|encoder)_attn\.k_proj\.bias",
)
"""Tables that are other ones once more, and keys' biases: they add the same to all scores of a query."""


@dataclass(frozen=True)
class Imported:
    """A checkpoint as regard has it."""

    recipe: dict[str, Any]
    """The recipe's TOML tables."""
    config: TransformerConfig
    tokenizer: Tokenizer
    model: Seq2SeqModel


def check(config: object) -> TransformerConfig:
    """The model section, if Marian or Pegasus can be it; else a sentence."""
    if not isinstance(config, TransformerConfig):
        raise RegardError(
            f"Hugging Face has no such translation model ({config}); a recurrent model can be exported to onnx"
        )
    allowed = {
        "score": ("scaled-dot",),
        "position": ("sinusoidal",),
        "tie_embeddings": ("all",),
        "activation": ("relu", "gelu", "silu"),
    }
    for name, choices in allowed.items():
        if (given := getattr(config, name)) not in choices:
            raise RegardError(
                f"Hugging Face's Marian and Pegasus have model.{name} = {' or '.join(choices)}, and this model "
                f"has {given}; it can be exported to onnx"
            )
    return config


def write(model: Seq2SeqModel, config: object, search: SearchConfig, recipe: str, folder: Path) -> None:
    """config.json, generation_config.json and model.safetensors of a model with one vocabulary.

    Args:
        model: The model.
        config: Its configuration.
        search: The search that `generate` is to use by default.
        recipe: The recipe as TOML, which `read` restores.
        folder: Written into; made if it does not exist.

    Raises:
        RegardError: Neither Marian nor Pegasus can represent the model.
    """
    config = check(config)
    assert isinstance(model, Transformer)
    words = len(model.output_bias)
    places = max(config.max_length, BeamSearchConfig().max_length)
    folder.mkdir(parents=True, exist_ok=True)
    told = {**config_of(config, words), "regard": recipe}
    storage.write_text(folder / CONFIG, json.dumps(told, indent=2) + "\n")
    storage.write_text(folder / GENERATION, json.dumps(generation_of(search), indent=2) + "\n")
    weights = {theirs_for(name): turned(theirs_for(name), each) for name, each in ours(model).items()}
    for name in [name for name in weights if name.endswith("k_proj.weight")]:
        weights[name.replace("weight", "bias")] = torch.zeros(config.d_model)
    for side in ("encoder", "decoder"):
        table = sinusoids(places, config.d_model)
        weights[f"model.{side}.embed_positions.weight"] = table[:, order(config.d_model)]
    with storage.atomic_path(folder / WEIGHTS) as part:
        write_tensors(weights, part)


def read(folder: Path) -> Imported:
    """Open a folder that `write` or `transformers` wrote; what is missing or foreign is one sentence."""
    expect(folder, "huggingface", FILES)
    told = read_config(folder)
    recipe = recipe_of(told, folder)
    try:
        section = coerce_union((TransformerConfig, RnnConfig, ConvS2SConfig), recipe.get("model", {}), "model")
    except RegardError as problem:
        raise damaged_recipe(folder, problem) from None
    config = check(section)
    tokenizer = read_tokenizer(folder)
    for key, wanted in config_of(config, tokenizer.size).items():
        if key in SHAPE and told.get(key) != wanted:
            raise RegardError(
                f"{folder / CONFIG}: {key} is {told.get(key)!r}, and its recipe makes it {wanted!r}"
            )
    path = weights_file(folder)
    with torch.device("meta"):
        meant = ours(build(config, tokenizer.size, tokenizer.size, tokenizer.padding))
        shapes = {theirs_for(name): tuple(turned(theirs_for(name), each).shape) for name, each in meant.items()}
    try:
        check_shapes(shapes_in(path, passed_over), shapes)
        saved = load_file(path)
    except ValueError as problem:
        raise RegardError(f"{path} does not hold the weights of its {CONFIG}: {problem}") from None
    except (SafetensorError, OSError) as problem:
        raise RegardError(f"{path} is damaged: {problem}") from None
    model = build(config, tokenizer.size, tokenizer.size, tokenizer.padding).eval()
    with torch.no_grad():
        for name, each in ours(model).items():
            theirs = theirs_for(name)
            each.copy_(turned(theirs, saved[theirs], back=True).view_as(each))
    return Imported(recipe, config, tokenizer, model)


SHAPE = (
    "vocab_size",
    "d_model",
    "encoder_layers",
    "decoder_layers",
    "encoder_attention_heads",
    "decoder_attention_heads",
    "encoder_ffn_dim",
    "decoder_ffn_dim",
    "activation_function",
    "scale_embedding",
    "model_type",
)
"""Keys on which the weights depend."""


def config_of(config: TransformerConfig, words: int) -> dict[str, Any]:
    """Their config.json for our model section."""
    pre = config.norm == "pre"
    return {
        "model_type": "pegasus" if pre else "marian",
        "architectures": ["PegasusForConditionalGeneration" if pre else "MarianMTModel"],
        "vocab_size": words,
        "decoder_vocab_size": words,
        "d_model": config.d_model,
        "encoder_layers": config.encoder_layers,
        "decoder_layers": config.decoder_layers,
        "num_hidden_layers": config.encoder_layers,
        "encoder_attention_heads": config.heads,
        "decoder_attention_heads": config.heads,
        "encoder_ffn_dim": config.d_ff,
        "decoder_ffn_dim": config.d_ff,
        "activation_function": config.activation,
        "dropout": config.dropout,
        "activation_dropout": config.dropout,
        "attention_dropout": config.attention_dropout,
        "scale_embedding": True,
        "max_position_embeddings": max(config.max_length, BeamSearchConfig().max_length),
        "is_encoder_decoder": True,
        "tie_word_embeddings": True,
        "share_encoder_decoder_embeddings": True,
        "bos_token_id": Tokenizer.begin,
        "eos_token_id": Tokenizer.end,
        "pad_token_id": Tokenizer.padding,
        "decoder_start_token_id": Tokenizer.begin,
        "forced_eos_token_id": None,
        "torch_dtype": "float32",
    }


def generation_of(search: SearchConfig) -> dict[str, Any]:
    """How `generate` searches: as the recipe does, without the symbols that are no text."""
    return {
        "bos_token_id": Tokenizer.begin,
        "eos_token_id": Tokenizer.end,
        "pad_token_id": Tokenizer.padding,
        "decoder_start_token_id": Tokenizer.begin,
        "max_length": BeamSearchConfig().max_length,
        "num_beams": search.beam,
        "length_penalty": search.length_penalty,
        "no_repeat_ngram_size": search.no_repeat,
        "suppress_tokens": [Tokenizer.begin, Tokenizer.padding, Tokenizer.unknown],
        "begin_suppress_tokens": [Tokenizer.end],
    }


def recipe_of(settings: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """The recipe that `write` left in config.json, where `transformers` keeps it too."""
    where, kind = folder / CONFIG, settings.get("model_type")
    if kind not in ("marian", "pegasus"):
        raise RegardError(f"{where}: its model_type is {kind!r}; 'marian' and 'pegasus' can be imported")
    if not isinstance(settings.get("regard"), str):
        raise RegardError(
            f"{where} has no key 'regard': of {kind} models, those that regard exported can be imported"
        )
    try:
        recipe = tomllib.loads(settings["regard"])
    except tomllib.TOMLDecodeError as problem:
        raise damaged_recipe(folder, problem) from None
    if recipe.get("task") != "translation":
        raise RegardError(
            f"{where}: its key 'regard' is the recipe of a {recipe.get('task')} model, not of one "
            "that translates"
        )
    return recipe


def damaged_recipe(folder: Path, problem: Exception) -> RegardError:
    return RegardError(f"{folder / CONFIG}: its key 'regard' is damaged: {problem}")


def ours(model: Seq2SeqModel) -> dict[str, Tensor]:
    """Our parameters, each once."""
    return {name: each.detach() for name, each in model.named_parameters()}


def theirs_for(name: str) -> str:
    for pattern, replacement in NAMES:
        name = re.sub(pattern, replacement, name, count=1)
    return name


def turned(name: str, weight: Tensor, *, back: bool = False) -> Tensor:
    """A weight, under their name, with the stream's dimensions in their order, or back in ours."""
    if name == "final_logits_bias":  # theirs has an axis more
        return weight.view(1, -1)
    axis = 0 if re.search(INTO_STREAM, name) else 1 if re.search(FROM_STREAM, name) else None
    if axis is None:
        return weight
    places = order(weight.size(axis)).to(weight.device)
    return weight.index_select(axis, places.argsort() if back else places)


def order(width: int) -> Tensor:
    """Where in our order their dimensions are: all sines, then all cosines."""
    return torch.cat((torch.arange(0, width, 2), torch.arange(1, width, 2)))


def passed_over(name: str) -> bool:
    return any(re.fullmatch(pattern, name) for pattern in PASSED_OVER)


def weights_file(folder: Path) -> Path:
    path = storage.inside(folder, WEIGHTS)
    if not path.is_file():
        raise RegardError(f"{folder} has no {WEIGHTS}; expected were {FILES}")
    return path
