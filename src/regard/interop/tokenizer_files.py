"""Our subwords as the tokenizer files of a Hugging Face folder, and back."""

import json
from pathlib import Path
from typing import Any, cast

from tokenizers import Tokenizer as Library
from tokenizers import processors

from regard import storage, tokenization
from regard.errors import RegardError
from regard.tokenization import SPECIAL_TOKENS, Tokenizer
from regard.tokenization.subwords import SubwordTokenizer

TOKENIZER, SETTINGS = "tokenizer.json", "tokenizer_config.json"


def check(source: Tokenizer, target: Tokenizer) -> SubwordTokenizer:
    """The one tokenizer of both languages, if `transformers` can have it; else a sentence."""
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


def write(tokenizer: SubwordTokenizer, folder: Path, max_length: int) -> None:
    """tokenizer.json, which ends each text with `</s>`, and what `AutoTokenizer` must know of it."""
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
        "split_special_tokens": True,  # "<s>" that somebody types is three characters
        "clean_up_tokenization_spaces": False,
    }
    storage.write_text(folder / SETTINGS, json.dumps(settings, indent=2) + "\n")


def read_tokenizer(folder: Path) -> SubwordTokenizer:
    """The tokenizer without what `write` added to it."""
    if not (folder / TOKENIZER).exists():
        raise RegardError(f"{folder} has no {TOKENIZER}")
    found = tokenization.load(storage.inside(folder, TOKENIZER))
    if not isinstance(found, SubwordTokenizer):
        raise RegardError(f"{folder / TOKENIZER} is a {found.kind} vocabulary; expected were subwords")
    found.library.post_processor = None
    return SubwordTokenizer(found.library)
