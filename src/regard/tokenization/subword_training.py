"""Training of subword vocabularies; the same texts give a byte-identical tokenizer.json."""

import json
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from regard.errors import RegardError
from regard.tokenization.bert import BERT_SPECIAL_TOKENS, BertOptions, BertTokenizer, bert_tokenizer
from regard.tokenization.subwords import BLANK, CONTINUATION, SubwordTokenizer
from regard.tokenization.tokenizer import SPECIAL_TOKENS

BYTES = tuple(f"<0x{byte:02X}>" for byte in range(256))


def train_subwords(
    kind: str,
    texts: Iterable[str],
    *,
    size: int,
    min_count: int,
    lowercase: bool,
    normalization: str,
    pretokenized: bool,
    unseen: str,
) -> SubwordTokenizer:
    """Train bpe, wordpiece or unigram.

    Args:
        kind: One of the three.
        texts: The training texts.
        size: Vocabulary size.
        min_count: Minimum frequency of a merged pair.
        lowercase: Whether to lowercase text.
        normalization: none, nfc or nfkc.
        pretokenized: Whether to split the texts at blanks only.
        unseen: With "bytes" (bpe, unigram), 256 ids are byte tokens, which encode characters that are not in
            the texts (byte fallback); with "unknown", and always in WordPiece, these become <unk>.
    """
    normalizer, splitter = _normalizer(lowercase, normalization, pretokenized), _splitter(pretokenized)
    byte_tokens = BYTES if unseen == "bytes" and kind != "wordpiece" else ()
    texts = list(texts) if kind == "wordpiece" else texts  # WordPiece needs the alphabet first
    alphabet = _alphabet(texts, normalizer) if kind == "wordpiece" else []
    trained = Tokenizer(_MODELS[kind]())
    trained.normalizer, trained.pre_tokenizer = normalizer, splitter
    trainer = _trainer(kind, size - len(byte_tokens), min_count, alphabet)
    try:
        trained.train_from_iterator(_non_empty(texts, normalizer), trainer)
    except Exception as problem:  # Unigram's trainer builds the alphabet itself, and raises a plain Exception
        if "not large enough" not in str(problem):
            raise
        raise RegardError(
            f"size={size} is too small for {kind}: special tokens, {len(byte_tokens)} bytes and "
            "each letter need an id"
        ) from None
    model = _final_model(kind, json.loads(trained.to_str())["model"], byte_tokens)
    return SubwordTokenizer(_assemble(model, normalizer, splitter, kind, size))


def train_bert(texts: Iterable[str], *, size: int, min_count: int, lowercase: bool) -> BertTokenizer:
    """Train BERT's WordPiece; ids are the special tokens, the alphabet, then the merged pieces."""
    options = BertOptions(lowercase=lowercase)
    normalizer = options.normalizer()
    texts = list(texts)
    alphabet = _alphabet(texts, normalizer)
    trained = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    trained.normalizer, trained.pre_tokenizer = normalizer, pre_tokenizers.BertPreTokenizer()
    first = [*BERT_SPECIAL_TOKENS, *(CONTINUATION + letter for letter in alphabet)]
    trainer = trainers.WordPieceTrainer(
        vocab_size=max(size, len(first)),
        min_frequency=min_count,
        special_tokens=first,
        initial_alphabet=alphabet,
        show_progress=False,
    )
    trained.train_from_iterator(_non_empty(texts, normalizer), trainer)
    if trained.get_vocab_size() > size:
        raise RegardError(
            f"size={size} is too small for bert: special tokens and letters alone need "
            f"{len(first) + len(alphabet)} ids"
        )
    ids = trained.get_vocab()
    return bert_tokenizer(sorted(ids, key=ids.__getitem__), options)


_MODELS: dict[str, Any] = {"bpe": models.BPE, "wordpiece": models.WordPiece, "unigram": models.Unigram}


def _trainer(kind: str, size: int, min_count: int, alphabet: list[str]) -> Any:
    """The library's trainer; a size too small for the alphabet is refused after training, when it is known."""
    size = max(len(SPECIAL_TOKENS) + 1, size)
    shared: dict[str, Any] = {
        "vocab_size": size,
        "initial_alphabet": [BLANK, *alphabet],
        "show_progress": False,
    }
    special_tokens = list(SPECIAL_TOKENS)
    if kind == "unigram":
        return trainers.UnigramTrainer(
            special_tokens=list(SPECIAL_TOKENS), unk_token=SPECIAL_TOKENS[3], **shared
        )
    if kind == "bpe":
        return trainers.BpeTrainer(special_tokens=special_tokens, min_frequency=min_count, **shared)
    # Continuation letters are passed in order: the library by itself numbers them at random.
    first = [*SPECIAL_TOKENS, *(CONTINUATION + letter for letter in alphabet)]
    return trainers.WordPieceTrainer(special_tokens=first, min_frequency=min_count, **shared)


def _alphabet(texts: Iterable[str], normalizer: normalizers.Normalizer) -> list[str]:
    return sorted({letter for text in texts for letter in normalizer.normalize_str(text)} - {" "})


def _non_empty(texts: Iterable[str], normalizer: normalizers.Normalizer) -> Iterator[str]:
    """The texts, refused if all are empty, on which the library's trainers fail with unclear errors."""
    checked = []
    rest = iter(texts)
    for text in rest:
        checked.append(text)
        if normalizer.normalize_str(text):
            return chain(checked, rest)
    raise RegardError("the texts are empty: there is no text to train a tokenizer on")


def _normalizer(lowercase: bool, normalization: str, pretokenized: bool) -> normalizers.Normalizer:
    steps: list[Any] = []
    if normalization != "none":
        steps.append(normalizers.NFC() if normalization == "nfc" else normalizers.NFKC())
    if lowercase:
        steps.append(normalizers.Lowercase())
    steps.append(normalizers.Replace(BLANK, " "))  # a typed ▁ would decode to a blank anyway
    if pretokenized:
        steps.append(normalizers.Replace(Regex(r"\s+"), " "))
    return normalizers.Sequence([*steps, normalizers.Strip()])


def _splitter(pretokenized: bool) -> pre_tokenizers.PreTokenizer:
    """The pre-tokenizer; no chunk can contain a special token or a byte token (`<0x41>`).

    Natural text is split into letters with inner apostrophes, digits, and punctuation, each with the blank
    before it; `#` is a chunk by itself, so that none begins with WordPiece's `##`. Tokenized text is split at
    blanks, and at a `<` that could begin a special or byte token.
    """
    if pretokenized:
        rule = r"▁?[^▁<]+|▁?<(?=/?[a-z]+>|0x..>)|▁?<[^▁<]*|▁"
    else:
        rule = r"▁?[\p{L}\p{M}]+(?:['’][\p{L}\p{M}]+)*|▁?\p{N}+|▁?[^▁\p{L}\p{M}\p{N}#]+|▁?#|▁"
    blanks = pre_tokenizers.Metaspace(split=False)
    return pre_tokenizers.Sequence([blanks, pre_tokenizers.Split(Regex(rule), "isolated")])


def _final_model(kind: str, trained: dict[str, Any], byte_tokens: tuple[str, ...]) -> models.Model:
    """The model to save: special tokens, byte tokens, then the trained pieces."""
    if kind == "wordpiece":
        return models.WordPiece(trained["vocab"], unk_token=SPECIAL_TOKENS[3], max_input_chars_per_word=1000)
    if kind == "unigram":
        scored = [
            *((piece, 0.0) for piece in (*SPECIAL_TOKENS, *byte_tokens)),
            *_deterministic_scores(trained["vocab"][len(SPECIAL_TOKENS) :]),
        ]
        return models.Unigram(scored, unk_id=3, byte_fallback=bool(byte_tokens))
    pieces = sorted(trained["vocab"], key=trained["vocab"].__getitem__)[len(SPECIAL_TOKENS) :]
    vocabulary = {piece: number for number, piece in enumerate((*SPECIAL_TOKENS, *byte_tokens, *pieces))}
    merges = [(left, right) for left, right in trained["merges"]]
    return models.BPE(vocabulary, merges, unk_token=SPECIAL_TOKENS[3], byte_fallback=bool(byte_tokens))


def _deterministic_scores(scored: list[tuple[str, float]]) -> list[tuple[str, float]]:
    """Unigram scores rounded and sorted, so that they do not depend on the library's random hash order.

    The library sums in the order of a randomly seeded hash table, which changes the last digits. In that order
    it also gives the letters that it had to add scores in steps of 0.0001 above the lowest one.
    """
    lowest = min(score for _, score in scored)
    added = lowest + 0.0001 * sum(len(piece) == 1 for piece, _ in scored)
    scores = (
        (piece, round(lowest if len(piece) == 1 and score <= added else score, 6)) for piece, score in scored
    )
    return sorted(scores, key=lambda entry: (-entry[1], entry[0]))


def _assemble(
    model: Any, normalizer: normalizers.Normalizer, splitter: pre_tokenizers.PreTokenizer, kind: str, size: int
) -> Tokenizer:
    tokenizer = Tokenizer(model)
    if tokenizer.get_vocab_size() > size:
        raise RegardError(
            f"size={size} is too small for {kind}: special tokens, bytes and letters alone need "
            f"{tokenizer.get_vocab_size()} ids"
        )
    tokenizer.add_special_tokens(list(SPECIAL_TOKENS))
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizer, splitter
    first: Any = (
        decoders.Replace(Regex(f"^{CONTINUATION}"), "") if kind == "wordpiece" else decoders.ByteFallback()
    )
    tokenizer.decoder = decoders.Sequence([first, decoders.Metaspace()])
    return tokenizer
