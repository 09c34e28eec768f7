"""The text side of a BERT folder: the vocabulary's files, and those that say what a text's vector is."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from tokenizers import Tokenizer as Library
from tokenizers import processors

from regard import disk, text
from regard.errors import RegardError
from regard.exchange.folders import read_json, read_text
from regard.text import BertOptions, BertTokenizer, bert_tokenizer
from regard.text.bert import BERT_SPECIALS


@dataclass(frozen=True)
class Vectors:
    """What is said of text vectors, as sentence-transformers reads it."""

    normal: bool
    """Whether they are meant to have length 1."""
    longest: int
    """The most tokens that they are meant for; 0 where nothing is said."""


def read_tokenizer(folder: Path) -> BertTokenizer:
    """From tokenizer.json, else from vocab.txt and what tokenizer_config.json says of it."""
    if (folder / "tokenizer.json").exists():
        found = text.load(disk.inside(folder, "tokenizer.json"))
        if not isinstance(found, BertTokenizer):
            raise RegardError(f"{folder / 'tokenizer.json'} is a {found.kind} tokenizer, not BERT's WordPiece")
        return found
    if not (folder / "vocab.txt").exists():
        raise RegardError(f"{folder} has no vocabulary: neither tokenizer.json nor vocab.txt is there")
    path = disk.inside(folder, "vocab.txt")
    told = read_json(folder, "tokenizer_config.json") if (folder / "tokenizer_config.json").exists() else {}
    options = BertOptions(
        lower=bool(told.get("do_lower_case", True)),
        strip_accents=told.get("strip_accents"),
        cjk=bool(told.get("tokenize_chinese_chars", True)),
    )
    try:
        return bert_tokenizer(read_text(path).removesuffix("\n").split("\n"), options)
    except ValueError as problem:
        raise RegardError(f"{path} is not BERT's vocabulary: {problem}") from None


def vectors_of(folder: Path) -> Vectors:
    """Whether text vectors have length 1, and how many tokens are read, where the folder says so.

    Only the mean of the tokens' vectors is known here; another way of pooling is refused.
    """
    if not (folder / "modules.json").exists():
        return Vectors(normal=True, longest=0)
    modules = read_json(folder, "modules.json", list)
    kinds = [str(each.get("type", "")).rsplit(".", 1)[-1] for each in modules if isinstance(each, dict)]
    if "Pooling" in kinds and (folder / "1_Pooling" / "config.json").exists():
        pooling = read_json(folder / "1_Pooling", "config.json")
        if not pooling.get("pooling_mode_mean_tokens", True):
            raise RegardError(f"{folder / '1_Pooling'}: vectors are pooled in another way than by their mean")
    longest = 0
    if (folder / "sentence_bert_config.json").exists():
        longest = int(read_json(folder, "sentence_bert_config.json").get("max_seq_length") or 0)
    return Vectors("Normalize" in kinds, longest)


def theirs_of_text(tokenizer: BertTokenizer, longest: int) -> dict[str, object]:
    """Their JSON files of the vocabulary, by name."""
    specials = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")
    told = {
        "tokenizer_class": "BertTokenizer",
        "do_lower_case": tokenizer.lower,
        "model_max_length": longest,
        **dict(zip(specials, BERT_SPECIALS, strict=True)),
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


def pooled(vectors: Vectors, size: int) -> dict[str, object]:
    """The files from which sentence-transformers knows that a text's vector is the mean of its tokens'."""
    kinds = [("", "Transformer"), ("1_Pooling", "Pooling"), *([("2_Normalize", "Normalize")] * vectors.normal)]
    modules = [
        {"idx": place, "name": str(place), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for place, (path, kind) in enumerate(kinds)
    ]
    pooling = {
        "word_embedding_dimension": size,
        "pooling_mode_cls_token": False,
        "pooling_mode_mean_tokens": True,
    }
    told: dict[str, object] = {"modules.json": modules, "1_Pooling/config.json": pooling}
    if vectors.longest:
        told["sentence_bert_config.json"] = {"max_seq_length": vectors.longest, "do_lower_case": False}
    return told


def write_vocabulary(folder: Path, tokenizer: BertTokenizer) -> None:
    pieces = tokenizer.tokens(range(tokenizer.size))
    disk.write_text(folder / "vocab.txt", "".join(f"{each}\n" for each in pieces))
