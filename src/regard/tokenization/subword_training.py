"""Learn a subword vocabulary: the same texts give the same tokenizer.json, to the byte."""

import json
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from regard.errors import RegardError
from regard.tokenization.bert import BERT_SPECIALS, BertOptions, BertTokenizer, bert_tokenizer
from regard.tokenization.subwords import BLANK, CONTINUES, SubwordTokenizer
from regard.tokenization.tokenizer import SPECIALS

BYTES = tuple(f"<0x{byte:02X}>" for byte in range(256))


def train_subwords(
    kind: str,
    texts: Iterable[str],
    *,
    size: int,
    min_count: int,
    lower: bool,
    normal: str,
    pretokenised: bool,
    unseen: str,
) -> SubwordTokenizer:
    """Train bpe, wordpiece or unigram.

    `unseen="bytes"` (bpe, unigram) spends 256 ids so that a character that training never saw is spelled in
    bytes and nothing is lost; with "unknown", and in WordPiece always, it becomes <unk>.
    """
    normalizer, splitter = _normalizer(lower, normal, pretokenised), _splitter(pretokenised)
    spelled = BYTES if unseen == "bytes" and kind != "wordpiece" else ()
    seen = list(texts) if kind == "wordpiece" else texts  # WordPiece looks at the letters first
    letters = _letters(seen, normalizer) if kind == "wordpiece" else []
    learner = Tokenizer(_EMPTY[kind]())
    learner.normalizer, learner.pre_tokenizer = normalizer, splitter
    trainer = _trainer(kind, size - len(spelled), min_count, letters)
    try:
        learner.train_from_iterator(_some(seen, normalizer), trainer)
    except Exception as problem:  # Unigram's trainer counts the letters itself, and raises a plain Exception
        if "not large enough" not in str(problem):
            raise
        raise RegardError(
            f"size={size} is too small for {kind}: symbols, {len(spelled)} bytes and each letter need an id"
        ) from None
    model = _finished(kind, json.loads(learner.to_str())["model"], spelled)
    return SubwordTokenizer(_assembled(model, normalizer, splitter, kind, size))


def train_bert(texts: Iterable[str], *, size: int, min_count: int, lower: bool) -> BertTokenizer:
    """BERT's WordPiece from texts: its symbols, every letter, then the pieces learned."""
    options = BertOptions(lower=lower)
    normalizer = options.normalizer()
    seen = list(texts)
    letters = _letters(seen, normalizer)
    learner = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    learner.normalizer, learner.pre_tokenizer = normalizer, pre_tokenizers.BertPreTokenizer()
    first = [*BERT_SPECIALS, *(CONTINUES + letter for letter in letters)]
    trainer = trainers.WordPieceTrainer(
        vocab_size=max(size, len(first)),
        min_frequency=min_count,
        special_tokens=first,
        initial_alphabet=letters,
        show_progress=False,
    )
    learner.train_from_iterator(_some(seen, normalizer), trainer)
    if learner.get_vocab_size() > size:
        raise RegardError(
            f"size={size} is too small for bert: special symbols and letters alone need "
            f"{len(first) + len(letters)} ids"
        )
    ids = learner.get_vocab()
    return bert_tokenizer(sorted(ids, key=ids.__getitem__), options)


_EMPTY: dict[str, Any] = {"bpe": models.BPE, "wordpiece": models.WordPiece, "unigram": models.Unigram}


def _trainer(kind: str, size: int, min_count: int, letters: list[str]) -> Any:
    """The library's trainer; a size too small for the letters is refused afterwards, when they are counted."""
    size = max(len(SPECIALS) + 1, size)
    shared: dict[str, Any] = {"vocab_size": size, "initial_alphabet": [BLANK, *letters], "show_progress": False}
    if kind == "unigram":
        return trainers.UnigramTrainer(special_tokens=list(SPECIALS), unk_token=SPECIALS[3], **shared)
    if kind == "bpe":
        return trainers.BpeTrainer(special_tokens=list(SPECIALS), min_frequency=min_count, **shared)
    # Continuing letters are given in order: left to itself the library numbers them at random.
    first = [*SPECIALS, *(CONTINUES + letter for letter in letters)]
    return trainers.WordPieceTrainer(special_tokens=first, min_frequency=min_count, **shared)


def _letters(texts: Iterable[str], normalizer: normalizers.Normalizer) -> list[str]:
    return sorted({letter for text in texts for letter in normalizer.normalize_str(text)} - {" "})


def _some(texts: Iterable[str], normalizer: normalizers.Normalizer) -> Iterator[str]:
    """The texts, if there is anything in them: the library's trainers fail on nothing in ways of their own."""
    passed = []
    rest = iter(texts)
    for text in rest:
        passed.append(text)
        if normalizer.normalize_str(text):
            return chain(passed, rest)
    raise RegardError("there is no text that a tokenizer could be trained on")


def _normalizer(lower: bool, normal: str, pretokenised: bool) -> normalizers.Normalizer:
    steps: list[Any] = []
    if normal != "none":
        steps.append(normalizers.NFC() if normal == "nfc" else normalizers.NFKC())
    if lower:
        steps.append(normalizers.Lowercase())
    steps.append(normalizers.Replace(BLANK, " "))  # the mark itself, typed, would decode to a blank anyway
    if pretokenised:
        steps.append(normalizers.Replace(Regex(r"\s+"), " "))
    return normalizers.Sequence([*steps, normalizers.Strip()])


def _splitter(pretokenised: bool) -> pre_tokenizers.PreTokenizer:
    """Where no piece may reach across; no stretch can hold a special symbol or a spelled byte (`<0x41>`).

    Natural text: letters with their inner apostrophes, digits, punctuation, each with the blank before it. `#`
    is alone, so that no stretch begins with WordPiece's `##`. Tokenized text: at blanks, and after `<s>`'s `<`.
    """
    if pretokenised:
        rule = r"▁?[^▁<]+|▁?<(?=/?[a-z]+>|0x..>)|▁?<[^▁<]*|▁"
    else:
        rule = r"▁?[\p{L}\p{M}]+(?:['’][\p{L}\p{M}]+)*|▁?\p{N}+|▁?[^▁\p{L}\p{M}\p{N}#]+|▁?#|▁"
    blanks = pre_tokenizers.Metaspace(split=False)
    return pre_tokenizers.Sequence([blanks, pre_tokenizers.Split(Regex(rule), "isolated")])


def _finished(kind: str, learned: dict[str, Any], spelled: tuple[str, ...]) -> models.Model:
    """The model as it is saved: special symbols, spelled bytes, then the pieces learned."""
    if kind == "wordpiece":
        return models.WordPiece(learned["vocab"], unk_token=SPECIALS[3], max_input_chars_per_word=1000)
    if kind == "unigram":
        scored = [
            *((piece, 0.0) for piece in (*SPECIALS, *spelled)),
            *_steady(learned["vocab"][len(SPECIALS) :]),
        ]
        return models.Unigram(scored, unk_id=3, byte_fallback=bool(spelled))
    pieces = sorted(learned["vocab"], key=learned["vocab"].__getitem__)[len(SPECIALS) :]
    vocabulary = {piece: place for place, piece in enumerate((*SPECIALS, *spelled, *pieces))}
    merges = [(left, right) for left, right in learned["merges"]]
    return models.BPE(vocabulary, merges, unk_token=SPECIALS[3], byte_fallback=bool(spelled))


def _steady(scored: list[tuple[str, float]]) -> list[tuple[str, float]]:
    """Scores freed of chance.

    The library sums in the order of a randomly seeded hash table, which moves the last digits, and spreads the
    letters it had to add in steps of 0.0001 above the lowest score, in that order too.
    """
    lowest = min(score for _, score in scored)
    added = lowest + 0.0001 * sum(len(piece) == 1 for piece, _ in scored)
    steady = (
        (piece, round(lowest if len(piece) == 1 and score <= added else score, 6)) for piece, score in scored
    )
    return sorted(steady, key=lambda entry: (-entry[1], entry[0]))


def _assembled(
    model: Any, normalizer: normalizers.Normalizer, splitter: pre_tokenizers.PreTokenizer, kind: str, size: int
) -> Tokenizer:
    tokenizer = Tokenizer(model)
    if tokenizer.get_vocab_size() > size:
        raise RegardError(
            f"size={size} is too small for {kind}: special symbols, bytes and letters alone need "
            f"{tokenizer.get_vocab_size()} ids"
        )
    tokenizer.add_special_tokens(list(SPECIALS))
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizer, splitter
    first: Any = (
        decoders.Replace(Regex(f"^{CONTINUES}"), "") if kind == "wordpiece" else decoders.ByteFallback()
    )
    tokenizer.decoder = decoders.Sequence([first, decoders.Metaspace()])
    return tokenizer
