"""Make a tokenizer: trained on texts, or read from a file."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import tokenizers

from regard.errors import RegardError
from regard.tokenization.bert import bert_from_json, is_bert
from regard.tokenization.gpt import gpt_from_json, is_gpt, train_gpt
from regard.tokenization.letters import FORMAT as LETTERS
from regard.tokenization.letters import LETTER_KINDS, letters_from_json, train_letters
from regard.tokenization.subword_training import train_bert, train_subwords
from regard.tokenization.subwords import SUBWORD_KINDS, SubwordTokenizer
from regard.tokenization.tokenizer import SPECIALS, Tokenizer, refuse_surrogates
from regard.tokenization.words import FORMAT, WORD_KINDS, WordOptions, train_words, words_from_json

KINDS = (*WORD_KINDS, *SUBWORD_KINDS, "bert", "gpt", *LETTER_KINDS)
DEFAULT_SUBWORDS = 8000


def train(
    kind: str,
    texts: Iterable[str],
    *,
    size: int | None = None,
    min_count: int = 2,
    lower: bool = False,
    normal: str = "none",
    language: str | None = None,
    pretokenised: bool = False,
    unseen: str = "bytes",
) -> Tokenizer:
    """Learn a vocabulary from texts; the same texts give the same file to the byte.

    size: ids in all; None is every frequent word, or 8,000 subwords.
    min_count: how often a word (words, spacy, space) or a merged pair (bpe, wordpiece) must have been seen.
    normal: none, nfc or nfkc. language: spaCy's rules to use. pretokenised: subwords of text already tokenized,
    which is split at blanks only. unseen: a character not in the texts is spelled in bytes, or unknown. The
    kinds bert and gpt clean and split text in those models' own ways; of these they ask size, min_count and
    lower. characters and bytes ask none of them.
    """
    _refuse_other("kind", kind, KINDS)
    _refuse_other("normal", normal, ("none", "nfc", "nfkc"))
    _refuse_other("unseen", unseen, ("bytes", "unknown"))
    if size is not None and size <= len(SPECIALS):
        raise RegardError(
            f"size={size} leaves no room for text; the special symbols alone take {len(SPECIALS)}"
        )
    texts = _valid(texts)
    if kind in WORD_KINDS:
        options = WordOptions(kind, language if kind == "spacy" else None, lower, normal)
        return train_words(options, texts, size=size, min_count=min_count)
    if kind in LETTER_KINDS:
        return train_letters(kind, texts)
    size = DEFAULT_SUBWORDS if size is None else size
    if kind == "bert":
        return train_bert(texts, size=size, min_count=min_count, lower=lower)
    if kind == "gpt":
        return train_gpt(texts, size=size, min_count=min_count, lower=lower)
    return train_subwords(
        kind,
        texts,
        size=size,
        min_count=min_count,
        lower=lower,
        normal=normal,
        pretokenised=pretokenised,
        unseen=unseen,
    )


def load(path: str | Path) -> Tokenizer:
    """The tokenizer that `save` wrote: regard's own JSON for words, tokenizer.json for subwords."""
    try:
        return _from_json(_read_json(Path(path)))
    except ValueError as problem:
        raise RegardError(f"{path} is not a tokenizer that regard can use: {problem}") from None


def _refuse_other(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise RegardError(f"{name}={value!r} is not known; allowed are {', '.join(allowed)}")


def _valid(texts: Iterable[str]) -> Iterator[str]:
    for text in texts:
        refuse_surrogates(text)
        yield text


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as problem:
        raise RegardError(f"{path} cannot be read: {problem.strerror}") from None
    except UnicodeDecodeError:
        raise ValueError("it is not UTF-8 text") from None
    except json.JSONDecodeError as problem:
        raise ValueError(f"it is not JSON (line {problem.lineno}: {problem.msg})") from None
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(content, dict):
        raise ValueError("it holds no JSON object")
    return content


def _from_json(content: dict[str, Any]) -> Tokenizer:
    if content.get("format") == FORMAT:
        return words_from_json(content)
    if content.get("format") == LETTERS:
        return letters_from_json(content)
    model = content.get("model")
    if not isinstance(model, dict):
        raise ValueError(f'it has neither "format": "{FORMAT}" nor the "model" of a tokenizer.json')
    if model.get("type") not in SUBWORD_KINDS.values():
        raise ValueError(f"its model is {model.get('type')!r}, allowed are {', '.join(SUBWORD_KINDS.values())}")
    if is_bert(model):
        return bert_from_json(content)
    if is_gpt(content):
        return gpt_from_json(content)
    _check_ids(_ids(model))
    return SubwordTokenizer(_opened(json.dumps(content)))


def _ids(model: dict[str, Any]) -> dict[Any, Any]:
    """Piece to id; Unigram writes its pieces as a list in the order of the ids."""
    vocabulary = model.get("vocab")
    if isinstance(vocabulary, dict):
        return vocabulary
    if isinstance(vocabulary, list) and all(
        isinstance(entry, list) and len(entry) == 2 for entry in vocabulary
    ):
        return {str(piece): place for place, (piece, _) in enumerate(vocabulary)}
    raise ValueError("its vocabulary is missing")


def _check_ids(ids: dict[Any, Any]) -> None:
    for place, symbol in enumerate(SPECIALS):
        if ids.get(symbol) != place:
            raise ValueError(f"its vocabulary does not begin with {', '.join(SPECIALS)} as ids 0 to 3")
    if not all(type(one) is int for one in ids.values()) or set(ids.values()) != set(range(len(ids))):
        raise ValueError("its ids do not run from 0 without a gap")


def _opened(text: str) -> tokenizers.Tokenizer:
    try:
        library = tokenizers.Tokenizer.from_str(text)
    except Exception as problem:  # the library raises plain Exception
        raise ValueError(f"the tokenizers library says: {str(problem).rstrip('.')}") from None
    except BaseException as problem:
        if type(problem).__name__ != "PanicException":  # a panic in Rust is no Exception
            raise
        raise ValueError("the tokenizers library cannot make sense of it") from None
    if library.get_vocab_size() != library.get_vocab_size(with_added_tokens=False):
        raise ValueError("it adds symbols beyond its vocabulary")
    return library
