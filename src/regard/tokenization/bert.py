"""BERT's own WordPiece: text cleaned and split at blanks and punctuation, words into pieces, `##` goes on."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers

from regard.tokenization.subwords import CONTINUES, SubwordTokenizer

BERT_SPECIALS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
LONGEST_WORD = 100
"""A word of more letters is unknown."""


@dataclass(frozen=True)
class BertOptions:
    """How text is cleaned before it is split."""

    lower: bool = True
    strip_accents: bool | None = None
    """None: where letters are made small."""
    cjk: bool = True
    """Chinese characters are words of their own."""

    def normalizer(self) -> normalizers.Normalizer:
        return normalizers.BertNormalizer(
            clean_text=True,
            handle_chinese_chars=self.cjk,
            strip_accents=self.strip_accents,
            lowercase=self.lower,
        )


@dataclass(frozen=True)
class Pieces:
    """A text in pieces: ids, and for each where its letters stand in the text and which word it is of."""

    ids: list[int]
    spans: list[tuple[int, int]]
    words: list[int]


class BertTokenizer(SubwordTokenizer):
    """Pieces of words; [CLS] begins, [SEP] ends, and text that is typed never becomes one of the symbols."""

    def __init__(self, library: tokenizers.Tokenizer) -> None:
        super().__init__(library)
        vocabulary = library.get_vocab()
        ids = [vocabulary[symbol] for symbol in BERT_SPECIALS]
        self.padding, self.unknown, self.begin, self.end, self.mask = ids
        self.specials = frozenset(ids)

    @property
    def kind(self) -> str:
        return "bert"

    @property
    def lower(self) -> bool:
        return bool(getattr(self.library.normalizer, "lowercase", False))

    def pieces(self, texts: Sequence[str]) -> list[Pieces]:
        """Each text in pieces that know where they stand."""
        return [self._pieces_of(each) for each in self._encodings(texts, with_words=True)]

    def pieces_of_words(self, sentences: Sequence[Sequence[str]]) -> list[Pieces]:
        """The same for text that is words already; `words` then counts those given."""
        found = self.library.encode_batch(
            [list(words) for words in sentences], is_pretokenized=True, add_special_tokens=False
        )
        return [self._pieces_of(each) for each in found]

    def words(self, ids: Sequence[int]) -> list[list[int]]:
        """A word is a piece and those that go on from it."""
        groups: list[list[int]] = []
        for place, piece in enumerate(self.tokens(ids)):
            if groups and piece.startswith(CONTINUES) and ids[place - 1] not in self.specials:
                groups[-1].append(place)
            else:
                groups.append([place])
        return groups

    def continues(self) -> list[bool]:
        """For each id, whether it goes on with a word."""
        return [piece.startswith(CONTINUES) for piece in self._pieces]

    def decode_batch(self, batch: Sequence[Sequence[int]]) -> list[str]:
        kept = [[one for one in ids if one not in self.specials] for ids in batch]
        return self.library.decode_batch(kept, skip_special_tokens=False)

    def joined(self, first: Sequence[int], second: Sequence[int] | None = None) -> list[int]:
        """[CLS] A [SEP], or [CLS] A [SEP] B [SEP]."""
        rest = [] if second is None else [*second, self.end]
        return [self.begin, *first, self.end, *rest]

    def __reduce__(self) -> tuple[Any, ...]:
        return _from_text, (self.library.to_str(),)

    @staticmethod
    def _pieces_of(encoding: Any) -> Pieces:
        return Pieces(encoding.ids, encoding.offsets, encoding.word_ids)


def bert_tokenizer(pieces: Iterable[str], options: BertOptions) -> BertTokenizer:
    """A tokenizer from its pieces, in the order of their ids; ValueError where they cannot be a vocabulary."""
    vocabulary: dict[str, int] = {}
    for place, piece in enumerate(pieces):
        if piece in vocabulary:
            raise ValueError(f"{piece!r} is there twice, as ids {vocabulary[piece]} and {place}")
        vocabulary[piece] = place
    for symbol in BERT_SPECIALS:
        if symbol not in vocabulary:
            raise ValueError(f"the symbol {symbol} is missing")
    library = tokenizers.Tokenizer(
        models.WordPiece(vocabulary, unk_token="[UNK]", max_input_chars_per_word=LONGEST_WORD)
    )
    library.add_special_tokens(list(BERT_SPECIALS))
    library.normalizer, library.pre_tokenizer = options.normalizer(), pre_tokenizers.BertPreTokenizer()
    library.decoder = decoders.WordPiece(prefix=CONTINUES, cleanup=True)
    return BertTokenizer(library)


def bert_from_json(content: dict[str, Any]) -> BertTokenizer:
    """From a tokenizer.json; ValueError where it is not BERT's way of cutting text."""
    model, normalizer = content["model"], content.get("normalizer")
    cut = (content.get("pre_tokenizer") or {}).get("type")
    if not isinstance(normalizer, dict) or normalizer.get("type") != "BertNormalizer":
        raise ValueError("its text is not cleaned as BERT does it (normalizer BertNormalizer)")
    if cut != "BertPreTokenizer":
        raise ValueError(f"its text is split by {cut}, not by BertPreTokenizer")
    if model.get("unk_token") != "[UNK]" or model.get("continuing_subword_prefix") != CONTINUES:
        raise ValueError("its pieces are not BERT's: unknown is [UNK], and ## goes on")
    ids = model.get("vocab")
    if not isinstance(ids, dict) or not all(type(one) is int for one in ids.values()):
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
    """Whether the model of a tokenizer.json is a WordPiece with BERT's symbols."""
    vocabulary = model.get("vocab")
    return model.get("type") == "WordPiece" and isinstance(vocabulary, dict) and "[CLS]" in vocabulary


def _from_text(text: str) -> BertTokenizer:
    return BertTokenizer(tokenizers.Tokenizer.from_str(text))
