"""GPT-2 as a Hugging Face folder: config.json, model.safetensors, tokenizer.json.

Only JSON, text and safetensors are read, and shapes are checked before memory is allocated. The bias of Hugging
Face's keys is dropped: it adds a constant to all scores of a query, to which softmax is invariant.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from regard import storage, tokenization
from regard.config.models import GptConfig
from regard.config.schema import build
from regard.errors import RecipeError, RegardError
from regard.interop.model_folders import (
    ACTIVATION_NAMES,
    ACTIVATIONS,
    check_score,
    read_json,
    read_text,
    weights_file,
    write_files,
)
from regard.nn.build import build_gpt
from regard.nn.gpt import GptLanguageModel
from regard.tensor_files import check_shapes, shapes_in
from regard.tokenization import GptTokenizer, Tokenizer, gpt_tokenizer
from regard.tokenization.gpt import END_OF_TEXT

IGNORED = (
    r"h\.\d+\.attn\.(masked_)?bias",  # causal masks
    r"lm_head\.weight",  # tied to the token embeddings
)


@dataclass(frozen=True)
class Gpt2Checkpoint:
    """An imported checkpoint."""

    config: GptConfig
    tokenizer: GptTokenizer
    model: GptLanguageModel


def read(folder: Path) -> Gpt2Checkpoint:
    """Import a folder.

    Raises:
        RegardError: A file is missing or damaged, or regard cannot represent the model.
    """
    hf_config = read_json(folder, "config.json")
    config, vocab_size = model_config(hf_config, folder / "config.json")
    tokenizer = read_tokenizer(folder)
    if tokenizer.size > vocab_size:
        raise RegardError(
            f"{folder}: the vocabulary has {tokenizer.size} tokens, and vocab_size in config.json is "
            f"{vocab_size}"
        )
    path = weights_file(folder)
    try:
        shapes = shapes_in(path, is_ignored)
        by_name = {without_prefix(key): shape for key, shape in shapes.items()}
        check_shapes(by_name, hf_shapes(config, vocab_size))
    except ValueError as problem:
        raise RegardError(f"{path} does not hold the GPT-2 of its config.json: {problem}") from None
    model = cast(GptLanguageModel, build_gpt(config, "language", tokenizer.size))
    try:
        with safe_open(path, "pt") as file, torch.no_grad():
            for key in shapes:
                load_weight(model, without_prefix(key), file.get_tensor(key).float())
    except (SafetensorError, OSError) as problem:
        raise RegardError(f"{path} is damaged: {problem}") from None
    return Gpt2Checkpoint(config, tokenizer, model)


def write(folder: Path, model: GptLanguageModel, config: GptConfig, tokenizer: Tokenizer) -> None:
    """Write a folder for Hugging Face's GPT2LMHeadModel and GPT2 tokenizer.

    Raises:
        RegardError: Hugging Face's GPT-2 cannot represent the model.
    """
    if config.position != "learned" or config.norm != "pre":
        raise RegardError("Hugging Face's GPT-2 has learned positions and pre-norm; this GPT has others")
    check_score("GPT-2", config.score)
    if config.activation not in ACTIVATION_NAMES:
        raise RegardError(f"Hugging Face's GPT-2 has no activation {config.activation}")
    if not isinstance(tokenizer, GptTokenizer):
        raise RegardError(
            f"Hugging Face's GPT-2 has byte-level BPE, and this model has a tokenizer of kind {tokenizer.kind}"
        )
    hf_config = {
        "architectures": ["GPT2LMHeadModel"],
        "model_type": "gpt2",
        "activation_function": ACTIVATION_NAMES[config.activation],
        "n_layer": config.layers,
        "n_embd": config.d_model,
        "n_head": config.heads,
        "n_inner": config.d_ff,
        "n_positions": config.max_length,
        "n_ctx": config.max_length,
        "vocab_size": tokenizer.size,
        "layer_norm_epsilon": config.epsilon,
        "embd_pdrop": config.dropout,
        "resid_pdrop": config.dropout,
        "attn_pdrop": config.attention_dropout,
        "bos_token_id": tokenizer.end,
        "eos_token_id": tokenizer.end,
        "tie_word_embeddings": True,
        "torch_dtype": "float32",
    }
    settings = {
        "tokenizer_class": "GPT2Tokenizer",
        "model_max_length": config.max_length,
        **dict.fromkeys(("bos_token", "eos_token", "unk_token"), END_OF_TEXT),
    }
    files = {"config.json": hf_config, "tokenizer_config.json": settings}
    write_files(folder, files, hf_state_dict(model))
    tokenizer.save(folder / "tokenizer.json")


def model_config(hf_config: Mapping[str, Any], path: Path) -> tuple[GptConfig, int]:
    """The model section and vocabulary size of a config.json; RegardError if regard cannot represent it."""
    kind = hf_config.get("model_type")
    if kind != "gpt2":
        raise RegardError(f"{path}: its model_type is {kind!r}, not 'gpt2'")
    for name, allowed in (("scale_attn_weights", True), ("scale_attn_by_inverse_layer_idx", False)):
        if hf_config.get(name, allowed) is not allowed:
            raise RegardError(f"{path}: {name} is {hf_config[name]!r}; allowed is {allowed}")
    if hf_config.get("add_cross_attention") or hf_config.get("tie_word_embeddings", True) is not True:
        raise RegardError(
            f"{path}: this GPT-2 has cross-attention or untied output embeddings; regard's has not"
        )
    vocab_size = hf_config.get("vocab_size", 50257)
    if not isinstance(vocab_size, int) or not 257 <= vocab_size <= 1 << 24:
        raise RegardError(f"{path}: vocab_size is {vocab_size!r}; allowed is a whole number, at least 257")
    d_model = hf_config.get("n_embd", 768)
    activation = hf_config.get("activation_function", "gelu_new")
    table = {
        "size": "gpt2",
        "layers": hf_config.get("n_layer", 12),
        "d_model": d_model,
        "heads": hf_config.get("n_head", 12),
        "d_ff": hf_config.get("n_inner") or 4 * d_model if isinstance(d_model, int) else d_model,
        "max_length": hf_config.get("n_positions", 1024),
        "dropout": hf_config.get("resid_pdrop", 0.1),
        "attention_dropout": hf_config.get("attn_pdrop", 0.1),
        "activation": ACTIVATIONS.get(str(activation), activation),
        "epsilon": hf_config.get("layer_norm_epsilon", 1e-5),
    }
    try:
        return build(GptConfig, table), vocab_size
    except RecipeError as problem:
        raise RegardError(f"{path} describes no GPT that regard has: {problem}") from None


def hf_shapes(config: GptConfig, vocab_size: int) -> dict[str, tuple[int, ...]]:
    """Shapes of all weights of Hugging Face's GPT-2; matrices are (in, out)."""
    d_model, d_ff = config.d_model, config.d_ff
    shapes: dict[str, tuple[int, ...]] = {
        "wte.weight": (vocab_size, d_model),
        "wpe.weight": (config.max_length, d_model),
    }
    for layer in range(config.layers):
        linear = {
            "attn.c_attn": (d_model, 3 * d_model),
            "attn.c_proj": (d_model, d_model),
            "mlp.c_fc": (d_model, d_ff),
            "mlp.c_proj": (d_ff, d_model),
        }
        for name, shape in linear.items():
            shapes |= {f"h.{layer}.{name}.weight": shape, f"h.{layer}.{name}.bias": shape[1:]}
        for name in ("ln_1", "ln_2"):
            shapes |= {f"h.{layer}.{name}.{part}": (d_model,) for part in ("weight", "bias")}
    return shapes | {f"ln_f.{part}": (d_model,) for part in ("weight", "bias")}


def load_weight(model: GptLanguageModel, key: str, weight: Tensor) -> None:
    """Copy one weight of Hugging Face's GPT-2 into the model."""
    modules = modules_by_hf_name(model)
    module_name, part = key.rsplit(".", 1)
    if module_name.endswith("attn.c_attn"):
        projections = query_key_value(modules[module_name])
        for projection, piece in zip(projections, weight.chunk(3, dim=-1), strict=True):
            copy_weight(projection, part, piece)
        return
    copy_weight(modules[module_name], part, weight)


def copy_weight(module: nn.Module, part: str, weight: Tensor) -> None:
    """Copy a weight or bias into a module."""
    if part == "bias" and getattr(module, "bias", None) is None:  # keys have no bias
        return
    parameter = module.table if hasattr(module, "table") else getattr(module, part)
    assert isinstance(parameter, Tensor)
    weight = weight.T if isinstance(module, nn.Linear) and part == "weight" else weight
    parameter.copy_(weight[: len(parameter)])  # embeddings beyond the vocabulary are omitted


def hf_state_dict(model: GptLanguageModel) -> dict[str, Tensor]:
    """All weights by Hugging Face's names."""
    weights: dict[str, Tensor] = {}
    for name, module in modules_by_hf_name(model).items():
        modules = query_key_value(module) if name.endswith("attn.c_attn") else (module,)
        for part in ("weight",) if name in ("wte", "wpe") else ("weight", "bias"):
            weights[f"transformer.{name}.{part}"] = torch.cat(
                [hf_weight(module, part) for module in modules], dim=-1
            ).contiguous()
    return weights


def hf_weight(module: nn.Module, part: str) -> Tensor:
    """A weight in Hugging Face's orientation, (in, out); a missing bias is 0."""
    parameter = cast(Tensor, module.table if hasattr(module, "table") else getattr(module, part))
    if parameter is None:
        return torch.zeros(cast(nn.Linear, module).out_features)
    transposed = isinstance(module, nn.Linear) and part == "weight"
    return parameter.detach().T if transposed else parameter.detach()


def modules_by_hf_name(model: GptLanguageModel) -> dict[str, nn.Module]:
    """The model's modules by Hugging Face's names."""
    gpt = model.gpt
    modules: dict[str, nn.Module] = {"wte": gpt.token_embedding, "wpe": gpt.decoder.position}
    for number, block in enumerate(gpt.decoder.blocks):
        attention, forward = cast(Any, block).self_attention, cast(Any, block).feed_forward
        modules |= {
            f"h.{number}.ln_1": attention.norm,
            f"h.{number}.attn.c_attn": attention.sublayer.attention,
            f"h.{number}.attn.c_proj": attention.sublayer.attention.output,
            f"h.{number}.ln_2": forward.norm,
            f"h.{number}.mlp.c_fc": forward.sublayer.fc1,
            f"h.{number}.mlp.c_proj": forward.sublayer.fc2,
        }
    return modules | {"ln_f": gpt.decoder.norm}


def query_key_value(attention: nn.Module) -> tuple[nn.Module, ...]:
    """The three projections that Hugging Face's c_attn fuses."""
    return tuple(cast(nn.Module, getattr(attention, name)) for name in ("query", "key", "value"))


def without_prefix(name: str) -> str:
    return name.removeprefix("transformer.")


def is_ignored(name: str) -> bool:
    """Whether a weight of a checkpoint is not needed."""
    return any(re.fullmatch(pattern, without_prefix(name)) for pattern in IGNORED)


def read_tokenizer(folder: Path) -> GptTokenizer:
    """The tokenizer of a folder: tokenizer.json, or else vocab.json with merges.txt."""
    if (folder / "tokenizer.json").exists():
        tokenizer = tokenization.load(storage.inside(folder, "tokenizer.json"))
        if not isinstance(tokenizer, GptTokenizer):
            raise RegardError(f"{folder / 'tokenizer.json'} is a {tokenizer.kind} tokenizer, not GPT-2's")
        return tokenizer
    if not (folder / "vocab.json").exists() or not (folder / "merges.txt").exists():
        raise RegardError(f"{folder} has no vocabulary: neither tokenizer.json nor vocab.json with merges.txt")
    vocabulary = read_json(folder, "vocab.json")
    lines = read_text(storage.inside(folder, "merges.txt")).splitlines()
    merges = [line.split(" ") for line in lines if line and not line.startswith("#version")]
    try:
        return gpt_tokenizer(vocabulary, [(left, right) for left, right in merges])
    except ValueError as problem:
        raise RegardError(f"{folder} does not hold GPT-2's vocabulary: {problem}") from None
