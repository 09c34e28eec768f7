"""Train a tokenizer on texts, or load one from a file."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import tokenizers

from regard.errors import RegardError
from regard.tokenization.bert import bert_from_json, is_bert
from regard.tokenization.characters import CHARACTER_KINDS, characters_from_json, train_characters
from regard.tokenization.characters import FORMAT as CHARACTERS_FORMAT
from regard.tokenization.gpt import gpt_from_json, is_gpt, train_gpt
from regard.tokenization.subword_training import train_bert, train_subwords
from regard.tokenization.subwords import SUBWORD_KINDS, SubwordTokenizer
from regard.tokenization.tokenizer import SPECIAL_TOKENS, Tokenizer, refuse_surrogates
from regard.tokenization.words import FORMAT as WORDS_FORMAT
from regard.tokenization.words import WORD_KINDS, WordOptions, train_words, words_from_json

KINDS = (*WORD_KINDS, *SUBWORD_KINDS, "bert", "gpt", *CHARACTER_KINDS)
DEFAULT_VOCABULARY_SIZE = 8000


def train(
    kind: str,
    texts: Iterable[str],
    *,
    size: int | None = None,
    min_count: int = 2,
    lowercase: bool = False,
    normalization: str = "none",
    language: str | None = None,
    pretokenized: bool = False,
    unseen: str = "bytes",
) -> Tokenizer:
    """Train a tokenizer; the same texts give a byte-identical file.

    The kinds bert and gpt normalise and split text as those models do, and use `size`, `min_count` and
    `lowercase` only; characters and bytes use no option.

    Args:
        kind: One of `KINDS`.
        texts: The training texts.
        size: Number of ids; None: all words with `min_count`, or 8,000 subwords.
        min_count: Minimum frequency of a word (words, spacy, space) or of a merged pair (bpe, wordpiece).
        lowercase: Whether to lowercase text.
        normalization: Unicode normalisation: none, nfc or nfkc.
        language: Language of spaCy's rules.
        pretokenized: Whether the texts are tokenized already: subwords are then split at blanks only.
        unseen: Characters that are not in the texts become "bytes" (byte fallback) or "unknown".

    Raises:
        RegardError: An option is invalid, or the texts are empty.
    """
    _check_choice("kind", kind, KINDS)
    _check_choice("normalization", normalization, ("none", "nfc", "nfkc"))
    _check_choice("unseen", unseen, ("bytes", "unknown"))
    if size is not None and size <= len(SPECIAL_TOKENS):
        raise RegardError(
            f"size={size} leaves no ids for text; the special tokens alone take {len(SPECIAL_TOKENS)} ids"
        )
    texts = _check_unicode(texts)
    if kind in WORD_KINDS:
        options = WordOptions(kind, language if kind == "spacy" else None, lowercase, normalization)
        return train_words(options, texts, size=size, min_count=min_count)
    if kind in CHARACTER_KINDS:
        return train_characters(kind, texts)
    size = DEFAULT_VOCABULARY_SIZE if size is None else size
    if kind == "bert":
        return train_bert(texts, size=size, min_count=min_count, lowercase=lowercase)
    if kind == "gpt":
        return train_gpt(texts, size=size, min_count=min_count, lowercase=lowercase)
    return train_subwords(
        kind,
        texts,
        size=size,
        min_count=min_count,
        lowercase=lowercase,
        normalization=normalization,
        pretokenized=pretokenized,
        unseen=unseen,
    )


def load(path: str | Path) -> Tokenizer:
    """Load a tokenizer that `save` wrote: a tokenizer.json for subwords, regard's own JSON for other kinds.

    Raises:
        RegardError: The file cannot be read or is not such a tokenizer.
    """
    try:
        return _from_json(_read_json(Path(path)))
    except ValueError as problem:
        raise RegardError(f"{path} is not a tokenizer that regard can use: {problem}") from None


def _check_choice(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise RegardError(f"{name}={value!r} is not known; allowed are {', '.join(allowed)}")


def _check_unicode(texts: Iterable[str]) -> Iterator[str]:
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
    if content.get("format") == WORDS_FORMAT:
        return words_from_json(content)
    if content.get("format") == CHARACTERS_FORMAT:
        return characters_from_json(content)
    model = content.get("model")
    if not isinstance(model, dict):
        raise ValueError(f'it has neither "format": "{WORDS_FORMAT}" nor the "model" of a tokenizer.json')
    if model.get("type") not in SUBWORD_KINDS.values():
        raise ValueError(f"its model is {model.get('type')!r}, allowed are {', '.join(SUBWORD_KINDS.values())}")
    if is_bert(model):
        return bert_from_json(content)
    if is_gpt(content):
        return gpt_from_json(content)
    _check_ids(_ids(model))
    return SubwordTokenizer(_parse_tokenizer(json.dumps(content)))


def _ids(model: dict[str, Any]) -> dict[Any, Any]:
    """Ids by piece; a Unigram model stores its pieces as a list in the order of their ids."""
    vocabulary = model.get("vocab")
    if isinstance(vocabulary, dict):
        return vocabulary
    if isinstance(vocabulary, list) and all(
        isinstance(entry, list) and len(entry) == 2 for entry in vocabulary
    ):
        return {str(piece): number for number, (piece, _) in enumerate(vocabulary)}
    raise ValueError("its vocabulary is missing")


def _check_ids(ids: dict[Any, Any]) -> None:
    for number, token in enumerate(SPECIAL_TOKENS):
        if ids.get(token) != number:
            raise ValueError(f"its vocabulary does not begin with {', '.join(SPECIAL_TOKENS)} as ids 0 to 3")
    integers = all(type(token_id) is int for token_id in ids.values())
    if not integers or set(ids.values()) != set(range(len(ids))):
        raise ValueError("its ids do not run from 0 without a gap")


def _parse_tokenizer(text: str) -> tokenizers.Tokenizer:
    try:
        library = tokenizers.Tokenizer.from_str(text)
    except Exception as problem:  # the library raises plain Exception
        raise ValueError(f"the tokenizers library reports: {str(problem).rstrip('.')}") from None
    except BaseException as problem:
        if type(problem).__name__ != "PanicException":  # a panic in Rust is not an Exception
            raise
        raise ValueError("the tokenizers library cannot parse it") from None
    if library.get_vocab_size() != library.get_vocab_size(with_added_tokens=False):
        raise ValueError("it adds tokens beyond its vocabulary")
    return library
