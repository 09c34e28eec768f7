"""GPT-2 from a Hugging Face folder and to one: config.json, model.safetensors, tokenizer.json.

Nothing but JSON, text and safetensors is read, and shapes are compared before memory is taken. Their attention
has a bias on keys, ours has none: it adds the same to all scores of a query, which softmax does not see.
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
from regard.interop.folders import (
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

PASSED_OVER = (
    r"h\.\d+\.attn\.(masked_)?bias",  # who may look where, which follows from the order
    r"lm_head\.weight",  # the table of the embeddings once more
)


@dataclass(frozen=True)
class Imported:
    """A checkpoint as regard has it."""

    config: GptConfig
    tokenizer: GptTokenizer
    model: GptLanguageModel


def read(folder: Path) -> Imported:
    """Open a folder; what is missing or foreign is a RegardError of one sentence."""
    told = read_json(folder, "config.json")
    config, vocabulary = config_of(told, folder / "config.json")
    tokenizer = read_tokenizer(folder)
    if tokenizer.size > vocabulary:
        raise RegardError(
            f"{folder}: the vocabulary has {tokenizer.size} tokens, and config.json says {vocabulary}"
        )
    path = weights_file(folder)
    try:
        found = shapes_in(path, lambda name: bool(passed_over(name)))
        check_shapes({bare(name): shape for name, shape in found.items()}, shapes_of(config, vocabulary))
    except ValueError as problem:
        raise RegardError(f"{path} does not hold the GPT-2 of its config.json: {problem}") from None
    model = cast(GptLanguageModel, build_gpt(config, "language", tokenizer.size))
    try:
        with safe_open(path, "pt") as file, torch.no_grad():
            for name in found:
                fill(model, bare(name), file.get_tensor(name).float())
    except (SafetensorError, OSError) as problem:
        raise RegardError(f"{path} is damaged: {problem}") from None
    return Imported(config, tokenizer, model)


def write(folder: Path, model: GptLanguageModel, config: GptConfig, tokenizer: Tokenizer) -> None:
    """Make a folder that Hugging Face's GPT2LMHeadModel and GPT2 tokenizer read."""
    if config.position != "learned" or config.norm != "pre":
        raise RegardError("Hugging Face's GPT-2 has learned positions and norms before; this GPT has others")
    check_score("GPT-2", config.score)
    if config.activation not in ACTIVATION_NAMES:
        raise RegardError(f"Hugging Face's GPT-2 has no activation {config.activation}")
    if not isinstance(tokenizer, GptTokenizer):
        raise RegardError(f"Hugging Face's GPT-2 has byte-level BPE, and this model reads {tokenizer.kind}")
    told = {
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
    tokens = {
        "tokenizer_class": "GPT2Tokenizer",
        "model_max_length": config.max_length,
        **dict.fromkeys(("bos_token", "eos_token", "unk_token"), tokenization.gpt.END_OF_TEXT),
    }
    write_files(folder, {"config.json": told, "tokenizer_config.json": tokens}, theirs_of(model))
    tokenizer.save(folder / "tokenizer.json")


def config_of(told: Mapping[str, Any], where: Path) -> tuple[GptConfig, int]:
    """The model section and the size of the vocabulary; what regard's GPT cannot be is refused."""
    kind = told.get("model_type")
    if kind != "gpt2":
        raise RegardError(f"{where}: its model_type is {kind!r}, not 'gpt2'")
    for name, usual in (("scale_attn_weights", True), ("scale_attn_by_inverse_layer_idx", False)):
        if told.get(name, usual) is not usual:
            raise RegardError(f"{where}: {name} is {told[name]!r}; allowed is {usual}")
    if told.get("add_cross_attention") or told.get("tie_word_embeddings", True) is not True:
        raise RegardError(
            f"{where}: this GPT-2 has cross-attention or an output table of its own; ours has not"
        )
    vocabulary = told.get("vocab_size", 50257)
    if not isinstance(vocabulary, int) or not 257 <= vocabulary <= 1 << 24:
        raise RegardError(f"{where}: vocab_size is {vocabulary!r}; it must be a whole number from 257 on")
    width = told.get("n_embd", 768)
    activation = told.get("activation_function", "gelu_new")
    table = {
        "size": "gpt2",
        "layers": told.get("n_layer", 12),
        "d_model": width,
        "heads": told.get("n_head", 12),
        "d_ff": told.get("n_inner") or 4 * width if isinstance(width, int) else width,
        "max_length": told.get("n_positions", 1024),
        "dropout": told.get("resid_pdrop", 0.1),
        "attention_dropout": told.get("attn_pdrop", 0.1),
        "activation": ACTIVATIONS.get(str(activation), activation),
        "epsilon": told.get("layer_norm_epsilon", 1e-5),
    }
    try:
        return build(GptConfig, table), vocabulary
    except RecipeError as problem:
        raise RegardError(f"{where} describes no GPT that regard has: {problem}") from None


def shapes_of(config: GptConfig, vocabulary: int) -> dict[str, tuple[int, ...]]:
    """Every weight of theirs and its shape; matrices are (in, out)."""
    wide, inner = config.d_model, config.d_ff
    found: dict[str, tuple[int, ...]] = {
        "wte.weight": (vocabulary, wide),
        "wpe.weight": (config.max_length, wide),
    }
    for layer in range(config.layers):
        linear = {
            "attn.c_attn": (wide, 3 * wide),
            "attn.c_proj": (wide, wide),
            "mlp.c_fc": (wide, inner),
            "mlp.c_proj": (inner, wide),
        }
        for name, shape in linear.items():
            found |= {f"h.{layer}.{name}.weight": shape, f"h.{layer}.{name}.bias": shape[1:]}
        for name in ("ln_1", "ln_2"):
            found |= {f"h.{layer}.{name}.{part}": (wide,) for part in ("weight", "bias")}
    return found | {f"ln_f.{part}": (wide,) for part in ("weight", "bias")}


def fill(model: GptLanguageModel, name: str, weight: Tensor) -> None:
    """One weight of theirs into ours."""
    modules = modules_of(model)
    layer, part = name.rsplit(".", 1)
    if layer.endswith("attn.c_attn"):
        for each, piece in zip(queries_keys_values(modules[layer]), weight.chunk(3, dim=-1), strict=True):
            put(each, part, piece)
        return
    put(modules[layer], part, weight)


def put(module: nn.Module, part: str, weight: Tensor) -> None:
    if part == "bias" and getattr(module, "bias", None) is None:  # of keys
        return
    own = module.table if hasattr(module, "table") else getattr(module, part)
    assert isinstance(own, Tensor)
    weight = weight.T if isinstance(module, nn.Linear) and part == "weight" else weight
    own.copy_(weight[: len(own)])  # rows of tokens that the vocabulary does not have are left out


def theirs_of(model: GptLanguageModel) -> dict[str, Tensor]:
    """Every weight as they have it."""
    found: dict[str, Tensor] = {}
    for name, module in modules_of(model).items():
        parts = queries_keys_values(module) if name.endswith("attn.c_attn") else (module,)
        for part in ("weight",) if name in ("wte", "wpe") else ("weight", "bias"):
            found[f"transformer.{name}.{part}"] = torch.cat(
                [taken(each, part) for each in parts], dim=-1
            ).contiguous()
    return found


def taken(module: nn.Module, part: str) -> Tensor:
    own = cast(Tensor, module.table if hasattr(module, "table") else getattr(module, part))
    if own is None:
        return torch.zeros(cast(nn.Linear, module).out_features)
    return own.detach().T if isinstance(module, nn.Linear) and part == "weight" else own.detach()


def modules_of(model: GptLanguageModel) -> dict[str, nn.Module]:
    """Our modules by their names."""
    gpt = model.gpt
    found: dict[str, nn.Module] = {"wte": gpt.token_embedding, "wpe": gpt.decoder.position}
    for number, block in enumerate(gpt.decoder.blocks):
        attention, forward = cast(Any, block).self_attention, cast(Any, block).feed_forward
        found |= {
            f"h.{number}.ln_1": attention.norm,
            f"h.{number}.attn.c_attn": attention.sublayer.attention,
            f"h.{number}.attn.c_proj": attention.sublayer.attention.output,
            f"h.{number}.ln_2": forward.norm,
            f"h.{number}.mlp.c_fc": forward.sublayer.fc1,
            f"h.{number}.mlp.c_proj": forward.sublayer.fc2,
        }
    return found | {"ln_f": gpt.decoder.norm}


def queries_keys_values(attention: nn.Module) -> tuple[nn.Module, ...]:
    return tuple(cast(nn.Module, getattr(attention, name)) for name in ("query", "key", "value"))


def bare(name: str) -> str:
    return name.removeprefix("transformer.")


def passed_over(name: str) -> bool:
    return any(re.fullmatch(pattern, bare(name)) for pattern in PASSED_OVER)


def read_tokenizer(folder: Path) -> GptTokenizer:
    """From tokenizer.json, else from vocab.json and merges.txt."""
    if (folder / "tokenizer.json").exists():
        found = tokenization.load(storage.inside(folder, "tokenizer.json"))
        if not isinstance(found, GptTokenizer):
            raise RegardError(f"{folder / 'tokenizer.json'} is a {found.kind} tokenizer, not GPT-2's")
        return found
    if not (folder / "vocab.json").exists() or not (folder / "merges.txt").exists():
        raise RegardError(f"{folder} has no vocabulary: neither tokenizer.json nor vocab.json with merges.txt")
    vocabulary = read_json(folder, "vocab.json")
    lines = read_text(storage.inside(folder, "merges.txt")).splitlines()
    merges = [line.split(" ") for line in lines if line and not line.startswith("#version")]
    try:
        return gpt_tokenizer(vocabulary, [(left, right) for left, right in merges])
    except ValueError as problem:
        raise RegardError(f"{folder} does not hold GPT-2's vocabulary: {problem}") from None
