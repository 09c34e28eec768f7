"""The text side of a BERT folder: the files of the vocabulary, and those of sentence-transformers."""

import json
from pathlib import Path
from typing import Any, cast

from tokenizers import Tokenizer as Library
from tokenizers import processors

from regard import storage, tokenization
from regard.config.models import EmbedConfig, Pooling
from regard.errors import RegardError
from regard.interop.folders import read_json, read_text
from regard.tokenization import BertOptions, BertTokenizer, bert_tokenizer
from regard.tokenization.bert import BERT_SPECIAL_TOKENS

WITHOUT_MODULES = "To import the BERT alone, with mean pooling, use a copy of the folder without modules.json."
"""How to import what sentence-transformers would make into other vectors."""

POOLING_KEYS = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
"""Keys of 1_Pooling/config.json before sentence-transformers 6, and the values of `pooling_mode` since."""


def read_tokenizer(folder: Path) -> BertTokenizer:
    """From tokenizer.json, else from vocab.txt and what tokenizer_config.json says of it."""
    if (folder / "tokenizer.json").exists():
        found = tokenization.load(storage.inside(folder, "tokenizer.json"))
        if not isinstance(found, BertTokenizer):
            raise RegardError(f"{folder / 'tokenizer.json'} is a {found.kind} tokenizer, not BERT's WordPiece")
        return found
    if not (folder / "vocab.txt").exists():
        raise RegardError(f"{folder} has no vocabulary: neither tokenizer.json nor vocab.txt is there")
    path = storage.inside(folder, "vocab.txt")
    told = read_json(folder, "tokenizer_config.json") if (folder / "tokenizer_config.json").exists() else {}
    options = BertOptions(
        lowercase=bool(told.get("do_lower_case", True)),
        strip_accents=told.get("strip_accents"),
        split_cjk=bool(told.get("tokenize_chinese_chars", True)),
    )
    try:
        return bert_tokenizer(read_text(path).removesuffix("\n").split("\n"), options)
    except ValueError as problem:
        raise RegardError(f"{path} is not BERT's vocabulary: {problem}") from None


def embed_of(folder: Path, positions: int) -> EmbedConfig:
    """How sentence-transformers makes a text vector from this folder; `positions`: as many as the model has.

    Without modules.json, or with a Transformer alone in it, nothing is said of vectors: the defaults.
    """
    if not (folder / "modules.json").exists():
        return EmbedConfig()
    modules = read_json(folder, "modules.json", list)
    kinds = [kind_of_module(each) for each in modules]
    if kinds == ["Transformer"]:
        return EmbedConfig()
    if kinds[:2] != ["Transformer", "Pooling"] or kinds[2:] not in ([], ["Normalize"]):
        raise RegardError(
            f"{folder / 'modules.json'}: its modules are {', '.join(kinds) or 'none'}; allowed are "
            f"Transformer, Pooling and, after these, Normalize. {WITHOUT_MODULES}"
        )
    pooling = pooling_of(folder, str(modules[1].get("path", "1_Pooling")))
    return EmbedConfig(pooling, "Normalize" in kinds, max_length_of(folder, positions))


def kind_of_module(module: object) -> str:
    """The class of a module; one that is not of sentence-transformers keeps its package's name."""
    kind = str(module.get("type", "")) if isinstance(module, dict) else ""
    return kind.rsplit(".", 1)[-1] if kind.startswith("sentence_transformers.") else kind or repr(module)


def pooling_of(folder: Path, path: str) -> Pooling:
    """The one pooling mode of a Pooling module's config.json; mean where none is named."""
    name = f"{path}/config.json"
    told = read_json(folder, name)
    modes = told.get("pooling_mode")
    if modes is None:
        older = [key for key, value in told.items() if key.startswith("pooling_mode_") and value]
        modes = [POOLING_KEYS.get(key, key) for key in older] or "mean"
    match modes if isinstance(modes, list) else [modes]:
        case ["mean" | "cls" | "max" as mode]:
            return cast(Pooling, mode)
        case other:
            raise RegardError(
                f"{folder / name}: the pooling mode is {' + '.join(map(str, other)) or 'missing'}; allowed is "
                f"one of mean, cls and max. {WITHOUT_MODULES}"
            )


def max_length_of(folder: Path, positions: int) -> int:
    """The most tokens that sentence-transformers reads; 0 for as many as the model has positions.

    Since version 6 it is the tokenizer's own `model_max_length`.
    """
    places = {"sentence_bert_config.json": "max_seq_length", "tokenizer_config.json": "model_max_length"}
    for name, key in places.items():
        value = read_json(folder, name).get(key) if (folder / name).exists() else None
        if isinstance(value, int) and value > 0:
            return value if value < positions else 0
    return 0


def theirs_of_text(tokenizer: BertTokenizer, max_length: int) -> dict[str, object]:
    """Their JSON files of the vocabulary, by name."""
    specials = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")
    told = {
        "tokenizer_class": "BertTokenizer",
        "do_lower_case": tokenizer.lowercase,
        "model_max_length": max_length,
        **dict(zip(specials, BERT_SPECIAL_TOKENS, strict=True)),
    }
    return {"tokenizer_config.json": told, "tokenizer.json": json.loads(joining(tokenizer).to_str())}


def joining(tokenizer: BertTokenizer) -> Library:
    """Their tokenizer: it puts [CLS] and [SEP] around a text by itself."""
    library = Library.from_str(tokenizer.library.to_str())
    begin, end = ("[CLS]", tokenizer.begin), ("[SEP]", tokenizer.end)
    library.post_processor = cast(
        Any,
        processors.TemplateProcessing(
            single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[begin, end]
        ),
    )
    return library


def pooled(embed: EmbedConfig, size: int) -> dict[str, object]:
    """The files from which sentence-transformers makes the same text vectors."""
    kinds = [("", "Transformer"), ("1_Pooling", "Pooling"), *([("2_Normalize", "Normalize")] * embed.normalize)]
    modules = [
        {"idx": place, "name": str(place), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for place, (path, kind) in enumerate(kinds)
    ]
    modes = {key: mode == embed.pooling for key, mode in POOLING_KEYS.items()}
    pooling = {"word_embedding_dimension": size, **modes}
    told: dict[str, object] = {"modules.json": modules, "1_Pooling/config.json": pooling}
    if embed.max_length:
        told["sentence_bert_config.json"] = {"max_seq_length": embed.max_length, "do_lower_case": False}
    return told


def write_vocabulary(folder: Path, tokenizer: BertTokenizer) -> None:
    pieces = tokenizer.tokens(range(tokenizer.size))
    storage.write_text(folder / "vocab.txt", "".join(f"{each}\n" for each in pieces))
