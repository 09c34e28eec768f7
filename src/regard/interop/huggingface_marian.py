"""Encoder-decoder Transformers as Hugging Face folders: Marian with post-norm, Pegasus with pre-norm.

Hugging Face's sinusoids are all sines, then all cosines; regard's alternate. The dimensions of the residual
stream are therefore permuted. `transformers` is not needed: the files are JSON and safetensors.
"""

import json
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast, get_args

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from tokenizers import Tokenizer as Library
from tokenizers import processors
from torch import Tensor

from regard import storage, tokenization
from regard.config.decoding import SearchConfig
from regard.config.models import Seq2SeqModelConfig, TransformerConfig
from regard.config.schema import coerce_union
from regard.decoding import BeamSearchConfig
from regard.errors import RegardError
from regard.interop.model_folders import expect_kind, read_config
from regard.nn.build import build
from regard.nn.positions import sinusoids
from regard.nn.seq2seq import Seq2SeqModel
from regard.nn.transformer import Transformer
from regard.tensor_files import check_shapes, shapes_in, write_tensors
from regard.tokenization import SPECIAL_TOKENS, Tokenizer
from regard.tokenization.subwords import SubwordTokenizer

WEIGHTS, CONFIG, GENERATION = "model.safetensors", "config.json", "generation_config.json"
TOKENIZER, TOKENIZER_CONFIG = "tokenizer.json", "tokenizer_config.json"
FILES = f"{CONFIG}, {WEIGHTS}, tokenizer.json"

KEY_MAPPING = (
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
"""Patterns of regard's parameter names, and their replacements in Hugging Face's names."""

INTO_STREAM = r"(out_proj|fc2|layer_norm|layernorm)\.(weight|bias)$"
FROM_STREAM = r"(shared|[qkv]_proj|fc1)\.weight$"
"""Weights whose rows, or whose columns, are dimensions of the residual stream."""

IGNORED = (
    r"model\.(encoder|decoder)\.embed_(tokens|positions)\.weight",  # tied embeddings; sinusoids
    r"lm_head\.weight",
    r"model\.(encoder|decoder)\.layers\.\d+\.(self|encoder)_attn\.k_proj\.bias",
)
"""Tied and constant tables, and biases of the keys, which have no effect on the softmax."""


@dataclass(frozen=True)
class MarianCheckpoint:
    """An imported checkpoint."""

    recipe: dict[str, Any]
    """The recipe's TOML tables."""
    config: TransformerConfig
    tokenizer: Tokenizer
    model: Seq2SeqModel


def check(config: object) -> TransformerConfig:
    """The model section, if Marian or Pegasus can represent it.

    Raises:
        RegardError: They cannot.
    """
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
        if (value := getattr(config, name)) not in choices:
            raise RegardError(
                f"Hugging Face's Marian and Pegasus have model.{name} = {' or '.join(choices)}, and this model "
                f"has {value}; it can be exported to onnx"
            )
    return config


def write(model: Seq2SeqModel, config: object, search: SearchConfig, recipe: str, folder: Path) -> None:
    """Write config.json, generation_config.json and model.safetensors of a model with a joint vocabulary.

    Args:
        model: The model.
        config: Its configuration.
        search: Defaults of `generate`.
        recipe: The recipe as TOML, which `read` restores.
        folder: Folder to write; it is created if missing.

    Raises:
        RegardError: Neither Marian nor Pegasus can represent the model.
    """
    config = check(config)
    assert isinstance(model, Transformer)
    vocab_size = len(model.output_bias)
    positions = max(config.max_length, BeamSearchConfig().max_length)
    folder.mkdir(parents=True, exist_ok=True)
    hf_config = {**make_hf_config(config, vocab_size), "regard": recipe}
    storage.write_text(folder / CONFIG, json.dumps(hf_config, indent=2) + "\n")
    storage.write_text(folder / GENERATION, json.dumps(generation_config(search), indent=2) + "\n")
    weights = {
        hf_name(name): permute_stream(hf_name(name), weight) for name, weight in parameters_of(model).items()
    }
    for name in [name for name in weights if name.endswith("k_proj.weight")]:
        weights[name.replace("weight", "bias")] = torch.zeros(config.d_model)
    for side in ("encoder", "decoder"):
        table = sinusoids(positions, config.d_model)
        weights[f"model.{side}.embed_positions.weight"] = table[:, hf_order(config.d_model)]
    with storage.atomic_path(folder / WEIGHTS) as part:
        write_tensors(weights, part)


def read(folder: Path) -> MarianCheckpoint:
    """Import a folder that `write` wrote, or `transformers` after it.

    Raises:
        RegardError: A file is missing or damaged, or the folder holds another model.
    """
    expect_kind(folder, "huggingface", FILES)
    hf_config = read_config(folder)
    recipe = recipe_of(hf_config, folder)
    try:
        section = coerce_union(get_args(Seq2SeqModelConfig), recipe.get("model", {}), "model")
    except RegardError as problem:
        raise damaged_recipe(folder, problem) from None
    config = check(section)
    tokenizer = read_tokenizer(folder)
    for key, expected in make_hf_config(config, tokenizer.size).items():
        if key in SHAPE_KEYS and hf_config.get(key) != expected:
            raise RegardError(
                f"{folder / CONFIG}: {key} is {hf_config.get(key)!r}, and by its recipe it is {expected!r}"
            )
    path = weights_file(folder)
    with torch.device("meta"):
        parameters = parameters_of(build(config, tokenizer.size, tokenizer.size, tokenizer.padding))
        shapes = {
            hf_name(name): tuple(permute_stream(hf_name(name), parameter).shape)
            for name, parameter in parameters.items()
        }
    try:
        check_shapes(shapes_in(path, is_ignored), shapes)
        weights = load_file(path)
    except ValueError as problem:
        raise RegardError(f"{path} does not hold the weights of its {CONFIG}: {problem}") from None
    except (SafetensorError, OSError) as problem:
        raise RegardError(f"{path} is damaged: {problem}") from None
    model = build(config, tokenizer.size, tokenizer.size, tokenizer.padding).eval()
    with torch.no_grad():
        for name, parameter in parameters_of(model).items():
            key = hf_name(name)
            parameter.copy_(permute_stream(key, weights[key], inverse=True).view_as(parameter))
    return MarianCheckpoint(recipe, config, tokenizer, model)


SHAPE_KEYS = (
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
"""Keys of config.json that determine the weights."""


def make_hf_config(config: TransformerConfig, vocab_size: int) -> dict[str, Any]:
    """The content of config.json."""
    pre_norm = config.norm == "pre"
    return {
        "model_type": "pegasus" if pre_norm else "marian",
        "architectures": ["PegasusForConditionalGeneration" if pre_norm else "MarianMTModel"],
        "vocab_size": vocab_size,
        "decoder_vocab_size": vocab_size,
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


def generation_config(search: SearchConfig) -> dict[str, Any]:
    """The content of generation_config.json: the recipe's search, with special tokens suppressed."""
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


def recipe_of(hf_config: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """The recipe in a config.json, where `write` stores it and `transformers` preserves it."""
    path, kind = folder / CONFIG, hf_config.get("model_type")
    if kind not in ("marian", "pegasus"):
        raise RegardError(f"{path}: its model_type is {kind!r}; 'marian' and 'pegasus' can be imported")
    if not isinstance(hf_config.get("regard"), str):
        raise RegardError(
            f"{path} has no key 'regard': only {kind} models that regard exported can be imported"
        )
    try:
        recipe = tomllib.loads(hf_config["regard"])
    except tomllib.TOMLDecodeError as problem:
        raise damaged_recipe(folder, problem) from None
    if recipe.get("task") != "translation":
        raise RegardError(
            f"{path}: its key 'regard' is the recipe of a {recipe.get('task')} model, not of a "
            "translation model"
        )
    return recipe


def damaged_recipe(folder: Path, problem: Exception) -> RegardError:
    """The error for a recipe in config.json that cannot be used."""
    return RegardError(f"{folder / CONFIG}: its key 'regard' is damaged: {problem}")


def parameters_of(model: Seq2SeqModel) -> dict[str, Tensor]:
    """Parameters by name, tied ones once."""
    return {name: parameter.detach() for name, parameter in model.named_parameters()}


def hf_name(name: str) -> str:
    """Hugging Face's name of a parameter."""
    for pattern, replacement in KEY_MAPPING:
        name = re.sub(pattern, replacement, name, count=1)
    return name


def permute_stream(name: str, weight: Tensor, *, inverse: bool = False) -> Tensor:
    """Permute the dimensions of the residual stream to Hugging Face's order, or back.

    Args:
        name: Hugging Face's name of the weight.
        weight: The weight.
        inverse: Whether to permute from Hugging Face's order to regard's.
    """
    if name == "final_logits_bias":  # Hugging Face's has one more axis
        return weight.view(1, -1)
    axis = 0 if re.search(INTO_STREAM, name) else 1 if re.search(FROM_STREAM, name) else None
    if axis is None:
        return weight
    order = hf_order(weight.size(axis)).to(weight.device)
    return weight.index_select(axis, order.argsort() if inverse else order)


def hf_order(d_model: int) -> Tensor:
    """Indices of Hugging Face's dimensions in regard's order: all sines, then all cosines."""
    return torch.cat((torch.arange(0, d_model, 2), torch.arange(1, d_model, 2)))


def is_ignored(name: str) -> bool:
    """Whether a weight of a checkpoint is not needed."""
    return any(re.fullmatch(pattern, name) for pattern in IGNORED)


def weights_file(folder: Path) -> Path:
    """The path of model.safetensors; RegardError if there is none."""
    path = storage.inside(folder, WEIGHTS)
    if not path.is_file():
        raise RegardError(f"{folder} has no {WEIGHTS}; expected were {FILES}")
    return path


def check_tokenizer(source: Tokenizer, target: Tokenizer) -> SubwordTokenizer:
    """The shared tokenizer of both languages.

    Raises:
        RegardError: Languages have separate tokenizers, or `transformers` has no tokenizer of this kind.
    """
    if source is not target:
        raise RegardError(
            "a Hugging Face folder has one vocabulary for both languages, and this run has two; "
            "it can be exported to onnx or ctranslate2"
        )
    if not isinstance(source, SubwordTokenizer):
        raise RegardError(
            f"transformers has no tokenizer of kind {source.kind}: a run with bpe, wordpiece or unigram can be "
            "exported to it, this one to onnx or ctranslate2"
        )
    return source


def write_tokenizer(tokenizer: SubwordTokenizer, folder: Path, max_length: int) -> None:
    """Write tokenizer.json, with a template that adds `</s>`, and tokenizer_config.json."""
    library = Library.from_str(tokenizer.library.to_str())
    end = SPECIAL_TOKENS[Tokenizer.end]
    library.post_processor = cast(
        Any,
        processors.TemplateProcessing(single=f"$A {end}", special_tokens=[(end, Tokenizer.end)]),
    )
    storage.write_text(folder / TOKENIZER, library.to_str(pretty=True) + "\n")
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": SPECIAL_TOKENS[Tokenizer.begin],
        "eos_token": end,
        "pad_token": SPECIAL_TOKENS[Tokenizer.padding],
        "unk_token": SPECIAL_TOKENS[Tokenizer.unknown],
        "model_max_length": max_length,
        "split_special_tokens": True,  # "<s>" in a text is three characters
        "clean_up_tokenization_spaces": False,
    }
    storage.write_text(folder / TOKENIZER_CONFIG, json.dumps(settings, indent=2) + "\n")


def read_tokenizer(folder: Path) -> SubwordTokenizer:
    """Read tokenizer.json without the template that `write_tokenizer` added."""
    if not (folder / TOKENIZER).exists():
        raise RegardError(f"{folder} has no {TOKENIZER}")
    tokenizer = tokenization.load(storage.inside(folder, TOKENIZER))
    if not isinstance(tokenizer, SubwordTokenizer):
        raise RegardError(
            f"{folder / TOKENIZER} is a {tokenizer.kind} tokenizer; expected was bpe, wordpiece or unigram"
        )
    tokenizer.library.post_processor = None
    return SubwordTokenizer(tokenizer.library)
