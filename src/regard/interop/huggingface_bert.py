"""BERT as a Hugging Face folder: config.json, model.safetensors, and vocab.txt or tokenizer.json.

Only JSON, text and safetensors are read, and shapes are checked before memory is allocated.
"""

import json
import re
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import torch
from safetensors import SafetensorError, safe_open
from tokenizers import Tokenizer as Library
from tokenizers import processors
from torch import Tensor, nn

from regard import storage, tokenization
from regard.config.models import BertConfig, EmbedConfig
from regard.config.schema import build
from regard.errors import RecipeError, RegardError
from regard.interop.model_folders import (
    ACTIVATION_NAMES,
    ACTIVATIONS,
    check_score,
    check_softmax,
    labels_of,
    read_json,
    read_text,
    weights_file,
    write_files,
)
from regard.interop.sentence_transformers import WITHOUT_MODULES, module_files, read_embed_config
from regard.nn.build import Head, build_bert
from regard.tensor_files import check_shapes, shapes_in
from regard.tokenization import BertOptions, BertTokenizer, bert_tokenizer
from regard.tokenization.bert import BERT_SPECIAL_TOKENS

KEY_MAPPING = (
    (r"bert\.token_embedding\.", "bert.embeddings.word_embeddings."),
    (r"bert\.segment_embedding\.", "bert.embeddings.token_type_embeddings."),
    (r"bert\.position_embedding\.table", "bert.embeddings.position_embeddings.weight"),
    (r"bert\.norm\.", "bert.embeddings.LayerNorm."),
    (r"bert\.pooler\.", "bert.pooler.dense."),
    (r"bert\.blocks\.", "bert.encoder.layer."),
    (r"\.self_attention\.sublayer\.attention\.output\.", ".attention.output.dense."),
    (r"\.self_attention\.sublayer\.attention\.", ".attention.self."),
    (r"\.self_attention\.norm\.", ".attention.output.LayerNorm."),
    (r"\.feed_forward\.sublayer\.fc1\.", ".intermediate.dense."),
    (r"\.feed_forward\.sublayer\.fc2\.", ".output.dense."),
    (r"\.feed_forward\.norm\.", ".output.LayerNorm."),
    (r"^transform\.", "cls.predictions.transform.dense."),
    (r"^norm\.", "cls.predictions.transform.LayerNorm."),
    (r"^output_bias", "cls.predictions.bias"),
    (r"^next_sentence\.", "cls.seq_relationship."),
    (r"^(labels|tags)\.", "classifier."),
    (r"^edges\.", "qa_outputs."),
)
"""Patterns of regard's parameter names, and their replacements in Hugging Face's names."""

IGNORED = (
    r"(bert\.)?embeddings\.position_ids",
    r"cls\.predictions\.decoder\.(weight|bias)",  # copies of other weights, see `check_tied`
    r"(bert\.)?encoder\.layer\.\d+\.attention\.self\.key\.bias",  # no effect: softmax is invariant to it
)
OPTIONAL = ("bert.pooler.", "next_sentence.")
"""Prefixes of weights that a checkpoint may lack; they are initialised at random."""

ARCHITECTURES: dict[Head, str] = {
    "none": "BertModel",
    "pretraining": "BertForPreTraining",
    "classes": "BertForSequenceClassification",
    "tags": "BertForTokenClassification",
    "span": "BertForQuestionAnswering",
}
"""Hugging Face's class for each head."""
BODY_KEY = "bert.embeddings.word_embeddings.weight"
"""In a checkpoint, if the names of the body begin with `bert.`."""


@dataclass(frozen=True)
class BertCheckpoint:
    """An imported checkpoint."""

    config: BertConfig
    head: Head
    labels: tuple[str, ...]
    """Classes or tags, in the order of their ids."""
    tokenizer: BertTokenizer
    model: nn.Module
    embed: EmbedConfig
    new_weights: tuple[str, ...]
    """Weights that the checkpoint lacks, initialised at random."""


def read(folder: Path) -> BertCheckpoint:
    """Import a folder.

    Raises:
        RegardError: A file is missing or damaged, or regard cannot represent the model.
    """
    if not folder.is_dir():
        raise RegardError(f"there is no folder {folder}")
    hf_config = read_json(folder, "config.json")
    config = model_config(hf_config, folder)
    embed = read_embed_config(folder, config.max_length)
    tokenizer = read_tokenizer(folder)
    path = weights_file(folder)
    try:
        shapes = shapes_in(path, is_ignored)
    except ValueError as problem:
        raise RegardError(f"{path} is not a file of weights: {problem}") from None
    head = head_of(hf_config, shapes, path)
    if head != "none" and (embed.pooling, embed.normalize) != ("mean", True):
        raise RegardError(
            f"{folder / 'modules.json'}: text vectors are pooled by {embed.pooling}, "
            f"{'' if embed.normalize else 'not '}normalized, and a {ARCHITECTURES[head]} has normalized means "
            f"only; save the weights of BertModel alone; {WITHOUT_MODULES}"
        )
    if head == "classes":
        check_softmax(hf_config, shapes["classifier.weight"], folder)
    labels = labels_of(hf_config, folder) if head in ("classes", "tags") else ()
    with torch.device("meta"):
        model = build_bert(config, head, int(hf_config["vocab_size"]), tokenizer.padding, len(labels))
    hf_names = {name: hf_name(name, shapes) for name, _ in model.named_parameters()}
    new_weights = tuple(name for name in hf_names if hf_names[name] not in shapes and name.startswith(OPTIONAL))
    expected = {
        hf_names[name]: tuple(parameter.shape)
        for name, parameter in model.named_parameters()
        if name not in new_weights
    }
    try:
        check_shapes(shapes, expected)
    except ValueError as problem:
        raise RegardError(f"{path} does not hold the BERT of its config.json: {problem}") from None
    if head == "pretraining":
        check_tied(hf_config, path, hf_names["bert.token_embedding.weight"])
    if tokenizer.size > int(hf_config["vocab_size"]):
        raise RegardError(
            f"{folder}: the vocabulary has {tokenizer.size} pieces, and vocab_size in config.json is "
            f"{hf_config['vocab_size']}"
        )
    sizes = tokenizer.size, tokenizer.padding, len(labels)
    model = build_bert(config, head, *sizes, pooling=embed.pooling)
    load_weights(model, path, {name: hf for name, hf in hf_names.items() if name not in new_weights})
    return BertCheckpoint(config, head, labels, tokenizer, model, embed, new_weights)


def write(
    folder: Path,
    model: nn.Module,
    config: BertConfig,
    head: Head,
    labels: Sequence[str],
    tokenizer: BertTokenizer,
    embed: EmbedConfig | None = None,
) -> None:
    """Write a folder for Hugging Face's classes, tokenizers and pipelines for BERT.

    Args:
        folder: Folder to write.
        model: The model.
        config: Its configuration.
        head: Its head.
        labels: Its classes or tags.
        tokenizer: Its tokenizer.
        embed: Pooling of text vectors, for which the files of sentence-transformers are written.
    """
    files: dict[str, object] = {
        "config.json": make_hf_config(config, head, labels, tokenizer),
        **tokenizer_files(tokenizer, config.max_length),
    }
    if embed is not None:
        files |= module_files(embed, config.d_model)
    write_files(folder, files, hf_state_dict(model, head))
    pieces = tokenizer.tokens(range(tokenizer.size))
    storage.write_text(folder / "vocab.txt", "".join(f"{piece}\n" for piece in pieces))


def make_hf_config(
    config: BertConfig, head: Head, labels: Sequence[str], tokenizer: BertTokenizer
) -> dict[str, object]:
    """The content of config.json; RegardError if Hugging Face's BERT cannot represent the model."""
    check_score("BERT", config.score)
    id2label = {str(number): label for number, label in enumerate(labels)}
    return {
        "architectures": [ARCHITECTURES[head]],
        "model_type": "bert",
        "num_hidden_layers": config.layers,
        "hidden_size": config.d_model,
        "num_attention_heads": config.heads,
        "intermediate_size": config.d_ff,
        "hidden_dropout_prob": config.dropout,
        "attention_probs_dropout_prob": config.attention_dropout,
        "hidden_act": ACTIVATION_NAMES[config.activation],
        "layer_norm_eps": config.epsilon,
        "type_vocab_size": config.segments,
        "max_position_embeddings": config.max_length,
        "vocab_size": tokenizer.size,
        "pad_token_id": tokenizer.padding,
        "torch_dtype": "float32",
        **(
            {"id2label": id2label, "label2id": {label: int(number) for number, label in id2label.items()}}
            if id2label
            else {}
        ),
    }


def hf_state_dict(model: nn.Module, head: Head) -> dict[str, Tensor]:
    """All weights by Hugging Face's names; the bias of its keys, which has no effect, is 0."""
    keys = set() if head == "none" else {BODY_KEY}
    weights: dict[str, Tensor] = {}
    for name, parameter in model.named_parameters():
        key = hf_name(name, keys)
        weights[key] = parameter
        if key.endswith(".attention.self.key.weight"):
            weights[key.replace("weight", "bias")] = torch.zeros(len(parameter))
    return weights


def load_weights(model: nn.Module, path: Path, hf_names: Mapping[str, str]) -> None:
    """Copy weights one by one from a safetensors file; embeddings beyond the vocabulary are omitted."""
    parameters = dict(model.named_parameters())
    try:
        with safe_open(path, "pt") as file, torch.no_grad():
            for name, key in hf_names.items():
                weight = file.get_tensor(key)
                parameters[name].copy_(weight[: len(parameters[name])])
    except (SafetensorError, OSError) as problem:
        raise RegardError(f"{path} is damaged: {problem}") from None


def model_config(hf_config: Mapping[str, Any], folder: Path) -> BertConfig:
    """The model section of a config.json; RegardError if regard cannot represent it."""
    path = folder / "config.json"
    kind = hf_config.get("model_type")
    if kind != "bert":
        raise RegardError(f"{path}: its model_type is {kind!r}, not 'bert'")
    if hf_config.get("position_embedding_type", "absolute") != "absolute":
        raise RegardError(
            f"{path}: positions are {hf_config['position_embedding_type']!r}; allowed is 'absolute'"
        )
    if hf_config.get("is_decoder") or hf_config.get("add_cross_attention"):
        raise RegardError(f"{path}: this BERT is a decoder; only encoders can be imported")
    if not isinstance(hf_config.get("vocab_size"), int) or not 5 <= hf_config["vocab_size"] <= 1 << 24:
        raise RegardError(f"{path}: vocab_size is {hf_config.get('vocab_size')!r}; it must be a whole number")
    activation = hf_config.get("hidden_act", "gelu")
    table = {
        "layers": hf_config.get("num_hidden_layers", 12),
        "d_model": hf_config.get("hidden_size", 768),
        "heads": hf_config.get("num_attention_heads", 12),
        "d_ff": hf_config.get("intermediate_size", 3072),
        "dropout": hf_config.get("hidden_dropout_prob", 0.1),
        "attention_dropout": hf_config.get("attention_probs_dropout_prob", 0.1),
        "activation": ACTIVATIONS.get(str(activation), activation),
        "epsilon": hf_config.get("layer_norm_eps", 1e-12),
        "segments": hf_config.get("type_vocab_size", 2),
        "max_length": hf_config.get("max_position_embeddings", 512),
    }
    try:
        return build(BertConfig, table)
    except RecipeError as problem:
        raise RegardError(f"{path} describes no BERT that regard has: {problem}") from None


def head_of(hf_config: Mapping[str, Any], keys: Container[str], path: Path) -> Head:
    """The head of a checkpoint by its weights; classifiers of texts and tokens differ in `architectures`."""
    if "qa_outputs.weight" in keys:
        return "span"
    if "cls.predictions.bias" in keys:
        return "pretraining"
    if "classifier.weight" not in keys:
        return "none"
    architectures = [str(name) for name in hf_config.get("architectures") or ()]
    if "BertForTokenClassification" in architectures:
        return "tags"
    if "BertForSequenceClassification" in architectures:
        return "classes"
    raise RegardError(
        f"{path} has a classifier of unknown kind: architectures in config.json must name "
        "BertForSequenceClassification or BertForTokenClassification"
    )


def check_tied(hf_config: Mapping[str, Any], path: Path, embeddings: str) -> None:
    """Refuse a masked LM whose output is not tied to the token embeddings (key `embeddings`) and the bias."""
    output = "cls.predictions.decoder.weight"
    copies = {output: embeddings, "cls.predictions.decoder.bias": "cls.predictions.bias"}
    try:
        with safe_open(path, "pt") as file:
            stored = set(file.keys())
            untied = [
                copy for copy, key in copies.items() if copy in stored and not tensors_equal(file, copy, key)
            ]
    except (SafetensorError, OSError) as problem:
        raise RegardError(f"{path} is damaged: {problem}") from None
    if untied:
        reason = f"{path}: {untied[0]} differs from {copies[untied[0]]}"
    elif output not in stored and hf_config.get("tie_word_embeddings", True) is not True:
        reason = f"{path.parent / 'config.json'}: tie_word_embeddings is false"
    else:
        return
    raise RegardError(
        f"{reason}; the output of a masked language model must be tied to its token embeddings; to import the "
        "model without its head, save it with AutoModel of transformers"
    )


def tensors_equal(file: Any, key: str, other_key: str) -> bool:
    """Whether two tensors of an open safetensors file are equal; their shapes are compared first."""
    if file.get_slice(key).get_shape() != file.get_slice(other_key).get_shape():
        return False
    weight = file.get_tensor(key)
    return torch.equal(weight, file.get_tensor(other_key).to(weight.dtype))


def hf_name(name: str, keys: Container[str]) -> str:
    """The name of a weight in a checkpoint with these keys; older ones have `gamma` and `beta` in norms."""
    for pattern, replacement in KEY_MAPPING:
        name = re.sub(pattern, replacement, name, count=1)
    if BODY_KEY not in keys:
        name = name.removeprefix("bert.")
    if name not in keys and ".LayerNorm." in name:
        older = name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta")
        return older if older in keys else name
    return name


def is_ignored(name: str) -> bool:
    """Whether a weight of a checkpoint is not needed."""
    return any(re.fullmatch(pattern, name) for pattern in IGNORED)


def read_tokenizer(folder: Path) -> BertTokenizer:
    """The tokenizer of a folder: tokenizer.json, or else vocab.txt with tokenizer_config.json."""
    if (folder / "tokenizer.json").exists():
        tokenizer = tokenization.load(storage.inside(folder, "tokenizer.json"))
        if not isinstance(tokenizer, BertTokenizer):
            raise RegardError(
                f"{folder / 'tokenizer.json'} is a {tokenizer.kind} tokenizer, not BERT's WordPiece"
            )
        return tokenizer
    if not (folder / "vocab.txt").exists():
        raise RegardError(f"{folder} has no vocabulary: neither tokenizer.json nor vocab.txt is there")
    path = storage.inside(folder, "vocab.txt")
    has_settings = (folder / "tokenizer_config.json").exists()
    settings = read_json(folder, "tokenizer_config.json") if has_settings else {}
    options = BertOptions(
        lowercase=bool(settings.get("do_lower_case", True)),
        strip_accents=settings.get("strip_accents"),
        split_cjk=bool(settings.get("tokenize_chinese_chars", True)),
    )
    try:
        return bert_tokenizer(read_text(path).removesuffix("\n").split("\n"), options)
    except ValueError as problem:
        raise RegardError(f"{path} is not BERT's vocabulary: {problem}") from None


def tokenizer_files(tokenizer: BertTokenizer, max_length: int) -> dict[str, object]:
    """Contents of tokenizer_config.json and tokenizer.json."""
    token_names = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")
    settings = {
        "tokenizer_class": "BertTokenizer",
        "do_lower_case": tokenizer.lowercase,
        "model_max_length": max_length,
        **dict(zip(token_names, BERT_SPECIAL_TOKENS, strict=True)),
    }
    library = with_template(tokenizer)
    return {"tokenizer_config.json": settings, "tokenizer.json": json.loads(library.to_str())}


def with_template(tokenizer: BertTokenizer) -> Library:
    """The tokenizer with a template that adds [CLS] and [SEP]."""
    library = Library.from_str(tokenizer.library.to_str())
    begin, end = ("[CLS]", tokenizer.begin), ("[SEP]", tokenizer.end)
    library.post_processor = cast(
        Any,
        processors.TemplateProcessing(
            single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[begin, end]
        ),
    )
    return library
