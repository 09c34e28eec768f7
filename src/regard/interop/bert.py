"""BERT from a Hugging Face folder and to one: config.json, model.safetensors, vocab.txt or tokenizer.json.

Nothing but JSON, text and safetensors is read, and shapes are compared before memory is taken.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from regard.config.models import BertConfig, EmbedConfig
from regard.config.schema import build
from regard.errors import RecipeError, RegardError
from regard.interop.bert_text import (
    WITHOUT_MODULES,
    embed_of,
    pooled,
    read_tokenizer,
    theirs_of_text,
    write_vocabulary,
)
from regard.interop.folders import (
    ACTIVATION_NAMES,
    ACTIVATIONS,
    check_score,
    check_softmax,
    labels_of,
    read_json,
    weights_file,
    write_files,
)
from regard.nn.build import Head, build_bert
from regard.tensor_files import check_shapes, shapes_in
from regard.tokenization import BertTokenizer

NAMES = (
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
"""Our names of weights, part by part, and theirs."""

PASSED_OVER = (
    r"(bert\.)?embeddings\.position_ids",
    r"cls\.predictions\.decoder\.(weight|bias)",  # copies of other weights, see `check_tied`
    r"(bert\.)?encoder\.layer\.\d+\.attention\.self\.key\.bias",  # adds the same to all scores of a query
)
MAY_BE_MISSING = ("bert.pooler.", "next_sentence.")
"""Parts that not every checkpoint has; they start fresh."""

ARCHITECTURES: dict[Head, str] = {
    "none": "BertModel",
    "pretraining": "BertForPreTraining",
    "classes": "BertForSequenceClassification",
    "tags": "BertForTokenClassification",
    "span": "BertForQuestionAnswering",
}
"""Their class for each head."""
BODY = "bert.embeddings.word_embeddings.weight"
"""A name by which one sees whether those of the body begin with `bert.`."""


@dataclass(frozen=True)
class Imported:
    """A checkpoint as regard has it."""

    config: BertConfig
    head: Head
    labels: tuple[str, ...]
    """Classes or tags, in the order of their scores."""
    tokenizer: BertTokenizer
    model: nn.Module
    embed: EmbedConfig
    fresh: tuple[str, ...]
    """Weights that the checkpoint does not have."""


def read(folder: Path) -> Imported:
    """Open a folder; what is missing or foreign is a RegardError of one sentence."""
    if not folder.is_dir():
        raise RegardError(f"there is no folder {folder}")
    told = read_json(folder, "config.json")
    config = config_of(told, folder)
    embed = embed_of(folder, config.max_length)
    tokenizer = read_tokenizer(folder)
    path = weights_file(folder)
    try:
        found = shapes_in(path, passed_over)
    except ValueError as problem:
        raise RegardError(f"{path} is not a file of weights: {problem}") from None
    head = head_of(told, found, path)
    if head != "none" and (embed.pooling, embed.normalize) != ("mean", True):
        raise RegardError(
            f"{folder / 'modules.json'}: text vectors are pooled by {embed.pooling}, "
            f"{'' if embed.normalize else 'not '}normalized, and a {ARCHITECTURES[head]} gives normalized means "
            f"only; save the weights of BertModel alone. {WITHOUT_MODULES}"
        )
    if head == "classes":
        check_softmax(told, found["classifier.weight"], folder)
    labels = labels_of(told, folder) if head in ("classes", "tags") else ()
    with torch.device("meta"):
        model = build_bert(config, head, int(told["vocab_size"]), tokenizer.padding, len(labels))
    places = {ours: theirs_for(ours, found) for ours, _ in model.named_parameters()}
    fresh = tuple(ours for ours in places if places[ours] not in found and ours.startswith(MAY_BE_MISSING))
    wanted = {places[name]: tuple(each.shape) for name, each in model.named_parameters() if name not in fresh}
    try:
        check_shapes(found, wanted)
    except ValueError as problem:
        raise RegardError(f"{path} does not hold the BERT of its config.json: {problem}") from None
    if head == "pretraining":
        check_tied(told, path, places["bert.token_embedding.weight"])
    if tokenizer.size > int(told["vocab_size"]):
        raise RegardError(
            f"{folder}: the vocabulary has {tokenizer.size} pieces, and config.json says {told['vocab_size']}"
        )
    sizes = tokenizer.size, tokenizer.padding, len(labels)
    model = build_bert(config, head, *sizes, pooling=embed.pooling)
    fill(model, path, {ours: theirs for ours, theirs in places.items() if ours not in fresh})
    return Imported(config, head, labels, tokenizer, model, embed, fresh)


def write(
    folder: Path,
    model: nn.Module,
    config: BertConfig,
    head: Head,
    labels: Sequence[str],
    tokenizer: BertTokenizer,
    embed: EmbedConfig | None = None,
) -> None:
    """Make a folder that Hugging Face's classes, tokenizers and pipelines for BERT read."""
    told: dict[str, object] = {
        "config.json": theirs_told(config, head, labels, tokenizer),
        **theirs_of_text(tokenizer, config.max_length),
    }
    if embed is not None:
        told |= pooled(embed, config.d_model)
    write_files(folder, told, theirs_of(model, head))
    write_vocabulary(folder, tokenizer)


def theirs_told(
    config: BertConfig, head: Head, labels: Sequence[str], tokenizer: BertTokenizer
) -> dict[str, object]:
    """Their config.json."""
    check_score("BERT", config.score)
    named = {str(number): label for number, label in enumerate(labels)}
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
            {"id2label": named, "label2id": {label: int(number) for number, label in named.items()}}
            if named
            else {}
        ),
    }


def theirs_of(model: nn.Module, head: Head) -> dict[str, Tensor]:
    """Every weight as they have it; their keys have a bias, which softmax does not see: zeros."""
    known = {} if head == "none" else {BODY: ()}
    found: dict[str, Tensor] = {}
    for ours, each in model.named_parameters():
        name = theirs_for(ours, known)
        found[name] = each
        if name.endswith(".attention.self.key.weight"):
            found[name.replace("weight", "bias")] = torch.zeros(len(each))
    return found


def fill(model: nn.Module, path: Path, places: Mapping[str, str]) -> None:
    """Weights one by one into the model; rows of words that the vocabulary does not have are left out."""
    parameters = dict(model.named_parameters())
    try:
        with safe_open(path, "pt") as file, torch.no_grad():
            for ours, theirs in places.items():
                weight = file.get_tensor(theirs)
                parameters[ours].copy_(weight[: len(parameters[ours])])
    except (SafetensorError, OSError) as problem:
        raise RegardError(f"{path} is damaged: {problem}") from None


def config_of(told: Mapping[str, Any], folder: Path) -> BertConfig:
    """The model section; what regard's BERT cannot be is refused."""
    where = folder / "config.json"
    kind = told.get("model_type")
    if kind != "bert":
        raise RegardError(f"{where}: its model_type is {kind!r}, not 'bert'")
    if told.get("position_embedding_type", "absolute") != "absolute":
        raise RegardError(f"{where}: positions are {told['position_embedding_type']!r}; allowed is 'absolute'")
    if told.get("is_decoder") or told.get("add_cross_attention"):
        raise RegardError(f"{where}: this BERT is a decoder; only encoders can be imported")
    if not isinstance(told.get("vocab_size"), int) or not 5 <= told["vocab_size"] <= 1 << 24:
        raise RegardError(f"{where}: vocab_size is {told.get('vocab_size')!r}; it must be a whole number")
    activation = told.get("hidden_act", "gelu")
    table = {
        "layers": told.get("num_hidden_layers", 12),
        "d_model": told.get("hidden_size", 768),
        "heads": told.get("num_attention_heads", 12),
        "d_ff": told.get("intermediate_size", 3072),
        "dropout": told.get("hidden_dropout_prob", 0.1),
        "attention_dropout": told.get("attention_probs_dropout_prob", 0.1),
        "activation": ACTIVATIONS.get(str(activation), activation),
        "epsilon": told.get("layer_norm_eps", 1e-12),
        "segments": told.get("type_vocab_size", 2),
        "max_length": told.get("max_position_embeddings", 512),
    }
    try:
        return build(BertConfig, table)
    except RecipeError as problem:
        raise RegardError(f"{where} describes no BERT that regard has: {problem}") from None


def head_of(told: Mapping[str, Any], found: Mapping[str, Any], path: Path) -> Head:
    """What the checkpoint is for, by the weights it has; classes and tags differ in name alone."""
    if "qa_outputs.weight" in found:
        return "span"
    if "cls.predictions.bias" in found:
        return "pretraining"
    if "classifier.weight" not in found:
        return "none"
    named = [str(each) for each in told.get("architectures") or ()]
    if "BertForTokenClassification" in named:
        return "tags"
    if "BertForSequenceClassification" in named:
        return "classes"
    raise RegardError(
        f"{path} has a classifier, and config.json does not say of what: architectures must name "
        "BertForSequenceClassification or BertForTokenClassification"
    )


def check_tied(told: Mapping[str, Any], path: Path, embeddings: str) -> None:
    """Refuse a masked LM whose output does not share the token embeddings (named `embeddings`) and the bias."""
    output = "cls.predictions.decoder.weight"
    copies = {output: embeddings, "cls.predictions.decoder.bias": "cls.predictions.bias"}
    try:
        with safe_open(path, "pt") as file:
            stored = set(file.keys())
            own = [copy for copy, name in copies.items() if copy in stored and not same(file, copy, name)]
    except (SafetensorError, OSError) as problem:
        raise RegardError(f"{path} is damaged: {problem}") from None
    if own:
        reason = f"{path}: {own[0]} differs from {copies[own[0]]}"
    elif output not in stored and told.get("tie_word_embeddings", True) is not True:
        reason = f"{path.parent / 'config.json'}: tie_word_embeddings is false"
    else:
        return
    raise RegardError(
        f"{reason}; the output of a masked language model must be tied to its token embeddings. To import the "
        "model without its head, save it with AutoModel of transformers."
    )


def same(file: Any, one: str, other: str) -> bool:
    """Whether two tensors of an open safetensors file are equal; shapes are compared before memory is taken."""
    if file.get_slice(one).get_shape() != file.get_slice(other).get_shape():
        return False
    weight = file.get_tensor(one)
    return torch.equal(weight, file.get_tensor(other).to(weight.dtype))


def theirs_for(ours: str, found: Mapping[str, Any]) -> str:
    """The name of a weight in the checkpoint: with `bert.` before the body or without, gamma or weight."""
    name = ours
    for pattern, replacement in NAMES:
        name = re.sub(pattern, replacement, name, count=1)
    if BODY not in found:
        name = name.removeprefix("bert.")
    if name not in found and ".LayerNorm." in name:
        older = name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta")
        return older if older in found else name
    return name


def passed_over(name: str) -> bool:
    return any(re.fullmatch(pattern, name) for pattern in PASSED_OVER)
