"""GPT-2's byte-level BPE: a text is bytes, frequent runs of them are tokens, and nothing is unknown."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

from regard.errors import RegardError
from regard.tokenization.subwords import SubwordTokenizer
from regard.tokenization.tokenizer import refuse_dropout

END = "<|endoftext|>"


class GptTokenizer(SubwordTokenizer):
    """Runs of bytes; one symbol stands between texts, and typed text never becomes it."""

    def __init__(self, library: tokenizers.Tokenizer) -> None:
        super().__init__(library)
        self.end = library.get_vocab()[END]
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
        """Readable pieces: the bytes of one character that are apart are shown as bytes."""
        return [self._shown[one] for one in ids]

    def words(self, ids: Sequence[int]) -> list[list[int]]:
        """A word begins with a blank, or with what is no letter."""
        groups: list[list[int]] = []
        pieces = self.tokens(ids)
        for place, piece in enumerate(pieces):
            goes_on = piece[:1].isalnum() or piece.startswith("<0x")
            if groups and goes_on and ids[place - 1] != self.end and pieces[place - 1][-1:] != "⏎":
                groups[-1].append(place)
            else:
                groups.append([place])
        return groups

    def decode_batch(self, batch: Sequence[Sequence[int]]) -> list[str]:
        kept = [[one for one in ids if one != self.end] for ids in batch]
        return self.library.decode_batch(kept, skip_special_tokens=False)

    @cached_property
    def _shown(self) -> list[str]:
        """One readable piece an id."""
        spelled = {letter: byte for byte, letter in byte_letters().items()}
        found = []
        for piece in self._pieces:
            raw = bytes(spelled[letter] for letter in piece if letter in spelled)
            try:
                text = piece if piece == END else raw.decode()
            except UnicodeDecodeError:
                text = "".join(f"<0x{byte:02X}>" for byte in raw)
            found.append(text.replace(" ", "▁").replace("\n", "⏎"))
        return found

    def __reduce__(self) -> tuple[Any, ...]:
        return _from_text, (self.library.to_str(),)


def byte_letters() -> dict[int, str]:
    """The letter that stands for each byte in a vocabulary: itself where it can be seen, else a later one."""
    seen = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [byte for byte in range(256) if byte not in seen]
    return {**{byte: chr(byte) for byte in seen}, **{byte: chr(256 + n) for n, byte in enumerate(hidden)}}


def gpt_tokenizer(
    vocabulary: Mapping[str, int], merges: Sequence[tuple[str, str]], *, lower: bool = False
) -> GptTokenizer:
    """A tokenizer from pieces with their ids and merges; ValueError where they cannot be a vocabulary."""
    if set(vocabulary.values()) != set(range(len(vocabulary))):
        raise ValueError("its ids do not run from 0 without a gap")
    if END not in vocabulary:
        raise ValueError(f"the symbol {END} is missing")
    for letter in byte_letters().values():
        if letter not in vocabulary:
            raise ValueError(f"the byte that {letter!r} stands for is missing")
    try:
        model = models.BPE(dict(vocabulary), list(merges))
    except Exception as problem:  # the library raises plain Exception
        raise ValueError(f"the tokenizers library says: {str(problem).rstrip('.')}") from None
    library = tokenizers.Tokenizer(model)
    library.add_special_tokens([END])
    return GptTokenizer(_cutting(library, lower))


def train_gpt(texts: Iterable[str], *, size: int, min_count: int, lower: bool) -> GptTokenizer:
    """Learn frequent runs of bytes: the end symbol, the bytes, then the pieces learned."""
    if size < 257:
        raise RegardError(f"size={size} is too small for gpt: {END} and the bytes alone need 257 ids")
    learner = _cutting(tokenizers.Tokenizer(models.BPE()), lower)
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        min_frequency=min_count,
        special_tokens=[END],
        initial_alphabet=list(byte_letters().values()),
        show_progress=False,
    )
    counted = _Counted(texts)
    learner.train_from_iterator(counted, trainer)
    if not counted.letters:
        raise RegardError("there is no text that a tokenizer could be trained on")
    return GptTokenizer(learner)


class _Counted:
    """Texts, and how many letters went by."""

    def __init__(self, texts: Iterable[str]) -> None:
        self.texts, self.letters = texts, 0

    def __iter__(self) -> Any:
        for text in self.texts:
            self.letters += len(text)
            yield text


def _cutting(library: tokenizers.Tokenizer, lower: bool) -> tokenizers.Tokenizer:
    """Text is cut where GPT-2 cuts it: words with the blank before, numbers, the rest."""
    if lower:
        library.normalizer = normalizers.Lowercase()
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    library.decoder = decoders.ByteLevel()
    return library


def is_gpt(content: dict[str, Any]) -> bool:
    """Whether a tokenizer.json cuts text into bytes."""
    cut = content.get("pre_tokenizer")
    return content["model"].get("type") == "BPE" and isinstance(cut, dict) and cut.get("type") == "ByteLevel"


def gpt_from_json(content: dict[str, Any]) -> GptTokenizer:
    """From a tokenizer.json; ValueError where it is not GPT-2's way of cutting text."""
    model, cut, normalizer = content["model"], content["pre_tokenizer"], content.get("normalizer")
    if cut.get("add_prefix_space"):
        raise ValueError("it puts a blank before each text (add_prefix_space)")
    if normalizer is not None and normalizer.get("type") != "Lowercase":
        raise ValueError(f"its text is changed by {normalizer.get('type')} before it is cut")
    ids, merges = model.get("vocab"), model.get("merges")
    if not isinstance(ids, dict) or not all(type(one) is int for one in ids.values()):
        raise ValueError("its vocabulary is missing")
    for added in content.get("added_tokens") or ():
        ids = {**ids, str(added.get("content")): added.get("id")}
    if not isinstance(merges, list):
        raise ValueError("its merges are missing")
    return gpt_tokenizer(ids, [two_pieces(each) for each in merges], lower=normalizer is not None)


def two_pieces(merge: Any) -> tuple[str, str]:
    """A merge, which older files write with a blank between."""
    parts = merge.split(" ") if isinstance(merge, str) else merge
    if not isinstance(parts, list) or len(parts) != 2 or not all(isinstance(part, str) for part in parts):
        raise ValueError("a merge of it is not of two pieces")
    return parts[0], parts[1]


def _from_text(text: str) -> GptTokenizer:
    return GptTokenizer(tokenizers.Tokenizer.from_str(text))
