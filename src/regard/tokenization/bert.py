"""BERT's WordPiece: cleaned text, split at blanks and punctuation, then into pieces (`##` in a word)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers

from regard.tokenization.subwords import CONTINUATION, SubwordTokenizer

BERT_SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
MAX_WORD_LENGTH = 100
"""Longer words, in characters, are [UNK]."""


@dataclass(frozen=True)
class BertOptions:
    """Normalisation of text before it is split."""

    lowercase: bool = True
    strip_accents: bool | None = None
    """None: only with `lowercase`."""
    split_cjk: bool = True
    """Whether each Chinese character is a word."""

    def normalizer(self) -> normalizers.Normalizer:
        return normalizers.BertNormalizer(
            clean_text=True,
            handle_chinese_chars=self.split_cjk,
            strip_accents=self.strip_accents,
            lowercase=self.lowercase,
        )


@dataclass(frozen=True)
class Encoding:
    """A tokenized text with the origin of each token."""

    ids: list[int]
    offsets: list[tuple[int, int]]
    """Start and end character of each token in the text."""
    word_ids: list[int]
    """Index of the word that each token belongs to."""


class BertTokenizer(SubwordTokenizer):
    """BERT's WordPiece with [CLS] and [SEP]; text never encodes to a special token."""

    def __init__(self, library: tokenizers.Tokenizer) -> None:
        super().__init__(library)
        vocabulary = library.get_vocab()
        special_ids = [vocabulary[token] for token in BERT_SPECIAL_TOKENS]
        self.padding, self.unknown, self.begin, self.end, self.mask = special_ids
        self.special_ids = frozenset(special_ids)

    @property
    def kind(self) -> str:
        return "bert"

    @property
    def lowercase(self) -> bool:
        """Whether text is lowercased first."""
        return bool(getattr(self.library.normalizer, "lowercase", False))

    def encode_with_offsets(self, texts: Sequence[str]) -> list[Encoding]:
        """Tokens of each text with their offsets and words."""
        return [self._encoding(encoding) for encoding in self._encodings(texts, with_words=True)]

    def encode_pretokenized(self, sentences: Sequence[Sequence[str]]) -> list[Encoding]:
        """Tokens of sentences that are split into words; `word_ids` refers to those words."""
        encodings = self.library.encode_batch(
            [list(words) for words in sentences], is_pretokenized=True, add_special_tokens=False
        )
        return [self._encoding(encoding) for encoding in encodings]

    def word_groups(self, ids: Sequence[int]) -> list[list[int]]:
        """A word is a piece with the continuation pieces after it."""
        groups: list[list[int]] = []
        for position, piece in enumerate(self.tokens(ids)):
            if groups and piece.startswith(CONTINUATION) and ids[position - 1] not in self.special_ids:
                groups[-1].append(position)
            else:
                groups.append([position])
        return groups

    def continuation_mask(self) -> list[bool]:
        """For each id of the vocabulary, whether it continues a word."""
        return [piece.startswith(CONTINUATION) for piece in self._pieces]

    def decode_batch(self, batch: Sequence[Sequence[int]]) -> list[str]:
        texts = [[token_id for token_id in ids if token_id not in self.special_ids] for ids in batch]
        return self.library.decode_batch(texts, skip_special_tokens=False)

    def with_special_tokens(self, first: Sequence[int], second: Sequence[int] | None = None) -> list[int]:
        """[CLS] A [SEP], or [CLS] A [SEP] B [SEP]."""
        rest = [] if second is None else [*second, self.end]
        return [self.begin, *first, self.end, *rest]

    @staticmethod
    def _encoding(encoding: Any) -> Encoding:
        return Encoding(encoding.ids, encoding.offsets, encoding.word_ids)


def bert_tokenizer(pieces: Iterable[str], options: BertOptions) -> BertTokenizer:
    """A tokenizer from its vocabulary.

    Args:
        pieces: Pieces in the order of their ids.
        options: Normalisation.

    Raises:
        ValueError: A piece occurs twice, or a special token is missing.
    """
    vocabulary: dict[str, int] = {}
    for number, piece in enumerate(pieces):
        if piece in vocabulary:
            raise ValueError(f"{piece!r} is there twice, as ids {vocabulary[piece]} and {number}")
        vocabulary[piece] = number
    for token in BERT_SPECIAL_TOKENS:
        if token not in vocabulary:
            raise ValueError(f"the token {token} is missing")
    library = tokenizers.Tokenizer(
        models.WordPiece(vocabulary, unk_token="[UNK]", max_input_chars_per_word=MAX_WORD_LENGTH)
    )
    library.add_special_tokens(list(BERT_SPECIAL_TOKENS))
    library.normalizer, library.pre_tokenizer = options.normalizer(), pre_tokenizers.BertPreTokenizer()
    library.decoder = decoders.WordPiece(prefix=CONTINUATION, cleanup=True)
    return BertTokenizer(library)


def bert_from_json(content: dict[str, Any]) -> BertTokenizer:
    """A tokenizer from the content of a tokenizer.json.

    Raises:
        ValueError: It does not normalise and split text as BERT does, or its vocabulary is invalid.
    """
    model, normalizer = content["model"], content.get("normalizer")
    splitter = (content.get("pre_tokenizer") or {}).get("type")
    if not isinstance(normalizer, dict) or normalizer.get("type") != "BertNormalizer":
        raise ValueError("its normalizer is not BertNormalizer")
    if splitter != "BertPreTokenizer":
        raise ValueError(f"its pre-tokenizer is {splitter}, not BertPreTokenizer")
    if model.get("unk_token") != "[UNK]" or model.get("continuing_subword_prefix") != CONTINUATION:
        raise ValueError("its pieces are not BERT's: the unknown token must be [UNK], the prefix ##")
    ids = model.get("vocab")
    if not isinstance(ids, dict) or not all(type(token_id) is int for token_id in ids.values()):
        raise ValueError("its vocabulary is missing")
    if set(ids.values()) != set(range(len(ids))):
        raise ValueError("its ids do not run from 0 without a gap")
    options = BertOptions(
        bool(normalizer.get("lowercase", True)),
        normalizer.get("strip_accents"),
        bool(normalizer.get("handle_chinese_chars", True)),
    )
    return bert_tokenizer(sorted(ids, key=ids.__getitem__), options)


def is_bert(model: dict[str, Any]) -> bool:
    """Whether the model of a tokenizer.json is a WordPiece with BERT's special tokens."""
    vocabulary = model.get("vocab")
    return model.get("type") == "WordPiece" and isinstance(vocabulary, dict) and "[CLS]" in vocabulary
