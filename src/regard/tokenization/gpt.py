"""GPT-2's byte-level BPE, and the special tokens for fine-tuning a GPT."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

from regard.errors import RegardError
from regard.tokenization.bpe_dropout import merge_pair
from regard.tokenization.subwords import SubwordTokenizer
from regard.tokenization.tokenizer import Tokenizer, refuse_dropout

END_OF_TEXT = "<|endoftext|>"
TASK_TOKENS = ("[START]", "[DELIM]", "[EXTRACT]")
"""Special tokens around the texts of a classification example."""


class GptTokenizer(SubwordTokenizer):
    """Byte-level BPE; the only special token is <|endoftext|>, and text never encodes to it."""

    def __init__(self, library: tokenizers.Tokenizer) -> None:
        super().__init__(library)
        self.end = library.get_vocab()[END_OF_TEXT]
        self.begin = self.padding = self.unknown = self.end

    @property
    def kind(self) -> str:
        return "gpt"

    def encode_batch(
        self, texts: Sequence[str], *, dropout: float = 0.0, seed: int = 0, start: int = 0
    ) -> list[list[int]]:
        refuse_dropout(self.kind, dropout)
        return [encoding.ids for encoding in self._encodings(texts)]

    def tokens(self, ids: Iterable[int]) -> list[str]:
        """Readable pieces; bytes that are not a whole character are written as `<0x..>`."""
        return [self._readable_pieces[token_id] for token_id in ids]

    def word_groups(self, ids: Sequence[int]) -> list[list[int]]:
        """A word begins with a blank or with a character that is no letter or digit."""
        groups: list[list[int]] = []
        pieces = self.tokens(ids)
        for position, piece in enumerate(pieces):
            continues = piece[:1].isalnum() or piece.startswith("<0x")
            if groups and continues and ids[position - 1] != self.end and pieces[position - 1][-1:] != "⏎":
                groups[-1].append(position)
            else:
                groups.append([position])
        return groups

    def decode_batch(self, batch: Sequence[Sequence[int]]) -> list[str]:
        without_end = [[token_id for token_id in ids if token_id != self.end] for ids in batch]
        return self.library.decode_batch(without_end, skip_special_tokens=False)

    @cached_property
    def _readable_pieces(self) -> list[str]:
        """One readable piece per id."""
        byte_of = {character: byte for byte, character in bytes_to_unicode().items()}
        readable = []
        for piece in self._pieces:
            raw = bytes(byte_of[character] for character in piece if character in byte_of)
            try:
                text = piece if piece == END_OF_TEXT else raw.decode()
            except UnicodeDecodeError:
                text = "".join(f"<0x{byte:02X}>" for byte in raw)
            readable.append(text.replace(" ", "▁").replace("\n", "⏎"))
        return readable


class GptTaskTokenizer(Tokenizer):
    """A tokenizer with three more special tokens, for fine-tuning a GPT (Radford et al. 2018, section 3.3).

    Their ids follow those of the vocabulary; text never encodes to them.
    """

    def __init__(self, inner: Tokenizer) -> None:
        self.inner = inner
        self.begin, self.end, self.unknown = inner.begin, inner.end, inner.unknown
        self.padding = -1  # the pre-trained vocabulary has no id for padding

    @property
    def kind(self) -> str:
        return self.inner.kind

    @property
    def size(self) -> int:
        return self.inner.size + len(TASK_TOKENS)

    def normalize(self, text: str) -> str:
        return self.inner.normalize(text)

    def encode_batch(
        self, texts: Sequence[str], *, dropout: float = 0.0, seed: int = 0, start: int = 0
    ) -> list[list[int]]:
        return self.inner.encode_batch(texts, dropout=dropout, seed=seed, start=start)

    def offsets(self, text: str) -> list[tuple[int, int]]:
        return self.inner.offsets(text)

    def with_special_tokens(self, first: Sequence[int], second: Sequence[int] | None = None) -> list[int]:
        """[START] A [EXTRACT], or [START] A [DELIM] B [EXTRACT]."""
        start, delimiter, extract = range(self.inner.size, self.size)
        rest = [] if second is None else [delimiter, *second]
        return [start, *first, *rest, extract]

    def tokens(self, ids: Iterable[int]) -> list[str]:
        first = self.inner.size
        return [
            TASK_TOKENS[token_id - first] if token_id >= first else self.inner.tokens([token_id])[0]
            for token_id in ids
        ]

    def word_groups(self, ids: Sequence[int]) -> list[list[int]]:
        """The inner tokenizer's words; each special token is a group of its own."""
        groups: list[list[int]] = []
        begin = 0
        for position, token_id in enumerate([*ids, self.inner.size]):
            if token_id >= self.inner.size:
                words = self.inner.word_groups(ids[begin:position])
                groups += [[begin + offset for offset in word] for word in words]
                groups += [[position]] if position < len(ids) else []
                begin = position + 1
        return groups

    def decode_batch(self, batch: Sequence[Sequence[int]]) -> list[str]:
        size = self.inner.size
        return self.inner.decode_batch([[token_id for token_id in ids if token_id < size] for ids in batch])

    def save(self, path: str | Path) -> None:
        self.inner.save(path)


def bytes_to_unicode() -> dict[int, str]:
    """GPT-2's printable character for each byte: the byte's own character, or else one from 256 on."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    return {**{byte: chr(byte) for byte in printable}, **{byte: chr(256 + n) for n, byte in enumerate(others)}}


def gpt_tokenizer(
    vocabulary: Mapping[str, int], merges: Sequence[tuple[str, str]], *, lowercase: bool = False
) -> GptTokenizer:
    """A tokenizer from a vocabulary and merges.

    Args:
        vocabulary: Id of each piece.
        merges: Pairs of pieces, by rank.
        lowercase: Whether text is lowercased first.

    Raises:
        ValueError: Ids have gaps, or a byte, the end symbol or a merged piece is missing.
    """
    if set(vocabulary.values()) != set(range(len(vocabulary))):
        raise ValueError("its ids do not run from 0 without a gap")
    if END_OF_TEXT not in vocabulary:
        raise ValueError(f"the token {END_OF_TEXT} is missing")
    for character in bytes_to_unicode().values():
        if character not in vocabulary:
            raise ValueError(f"the byte that {character!r} represents is missing")
    try:
        model = models.BPE(dict(vocabulary), list(merges))
    except Exception as problem:  # the library raises plain Exception
        raise ValueError(f"the tokenizers library reports: {str(problem).rstrip('.')}") from None
    library = tokenizers.Tokenizer(model)
    library.add_special_tokens([END_OF_TEXT])
    return GptTokenizer(_with_byte_level(library, lowercase))


def train_gpt(texts: Iterable[str], *, size: int, min_count: int, lowercase: bool) -> GptTokenizer:
    """Train byte-level BPE; ids are <|endoftext|>, the bytes, then the merged pieces."""
    if size < 257:
        raise RegardError(f"size={size} is too small for gpt: {END_OF_TEXT} and the bytes alone need 257 ids")
    learner = _with_byte_level(tokenizers.Tokenizer(models.BPE()), lowercase)
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        min_frequency=min_count,
        special_tokens=[END_OF_TEXT],
        initial_alphabet=list(bytes_to_unicode().values()),
        show_progress=False,
    )
    counted = _CountedTexts(texts)
    learner.train_from_iterator(counted, trainer)
    if not counted.characters:
        raise RegardError("the texts are empty: there is no text to train a tokenizer on")
    return GptTokenizer(learner)


class _CountedTexts:
    """An iterable of texts that counts their characters."""

    def __init__(self, texts: Iterable[str]) -> None:
        self.texts, self.characters = texts, 0

    def __iter__(self) -> Iterator[str]:
        for text in self.texts:
            self.characters += len(text)
            yield text


def _with_byte_level(library: tokenizers.Tokenizer, lowercase: bool) -> tokenizers.Tokenizer:
    """Set GPT-2's pre-tokenizer (words with the blank before them, numbers, the rest) and decoder."""
    if lowercase:
        library.normalizer = normalizers.Lowercase()
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    library.decoder = decoders.ByteLevel()
    return library


def is_gpt(content: dict[str, Any]) -> bool:
    """Whether the content of a tokenizer.json is a byte-level BPE."""
    splitter = content.get("pre_tokenizer")
    if content["model"].get("type") != "BPE" or not isinstance(splitter, dict):
        return False
    return splitter.get("type") == "ByteLevel"


def gpt_from_json(content: dict[str, Any]) -> GptTokenizer:
    """A tokenizer from the content of a tokenizer.json.

    Raises:
        ValueError: It does not normalise and split text as GPT-2 does, or its vocabulary is invalid.
    """
    model, splitter, normalizer = content["model"], content["pre_tokenizer"], content.get("normalizer")
    if splitter.get("add_prefix_space"):
        raise ValueError("it adds a blank before each text (add_prefix_space)")
    if normalizer is not None and normalizer.get("type") != "Lowercase":
        raise ValueError(f"its normalizer is {normalizer.get('type')}; allowed is Lowercase")
    ids, merges = model.get("vocab"), model.get("merges")
    if not isinstance(ids, dict) or not all(type(token_id) is int for token_id in ids.values()):
        raise ValueError("its vocabulary is missing")
    for added in content.get("added_tokens") or ():
        ids = {**ids, str(added.get("content")): added.get("id")}
    if not isinstance(merges, list):
        raise ValueError("its merges are missing")
    return gpt_tokenizer(ids, [merge_pair(merge) for merge in merges], lowercase=normalizer is not None)
