"""Word vocabularies: order, counts, special tokens, and known sizes with spaCy."""

import sys

import pytest

from regard.errors import RegardError
from regard.tokenization import SPECIAL_TOKENS, load, train


def test_most_frequent_first_then_alphabetical() -> None:
    tokenizer = train("space", ["b a c c", "a b d"], min_count=1)
    assert tokenizer.tokens(range(tokenizer.size)) == [*SPECIAL_TOKENS, "a", "b", "c", "d"]


def test_rare_words_are_unknown() -> None:
    tokenizer = train("words", ["A dog, a dog.", "A cat."])
    assert tokenizer.tokens(tokenizer.encode("A cat, a dog.")) == ["A", "<unk>", "<unk>", "<unk>", "dog", "."]


def test_size_cuts_the_tail() -> None:
    assert train("space", ["a a a b b c"], min_count=1, size=6).encode("a b c") == [4, 5, 3]


def test_special_ids() -> None:
    tokenizer = train("space", ["a"], min_count=1)
    assert (tokenizer.begin, tokenizer.end, tokenizer.padding, tokenizer.unknown) == (0, 1, 2, 3)
    assert tokenizer.tokens([0, 1, 2, 3]) == ["<s>", "</s>", "<blank>", "<unk>"]


@pytest.mark.parametrize("kind", ["words", "space"])
def test_special_tokens_in_text_are_text(kind: str) -> None:
    tokenizer = train(kind, ["a <s> b </s> <blank> <s> </s> <blank>"], min_count=1)
    ids = tokenizer.encode("a <s> b </s> <blank>")
    assert not {tokenizer.begin, tokenizer.end, tokenizer.padding} & set(ids)


def test_decoding_drops_specials_and_joins() -> None:
    tokenizer = train("words", ["He message: don't go (now)."], min_count=1)
    ids = tokenizer.encode("He message: don't go (now).")
    assert tokenizer.decode([0, *ids, 1, 2, 2]) == "He message: don't go (now)."


def test_pretokenized_text_is_unchanged() -> None:
    tokenizer = train("space", ["do n't go , now ."], min_count=1)
    assert tokenizer.decode(tokenizer.encode("do n't  go , now .")) == "do n't go , now ."


def test_lowercase_and_normalization() -> None:
    tokenizer = train("words", ["CAFE\u0301 ﬁne"], min_count=1, lowercase=True, normalization="nfkc")
    assert tokenizer.decode(tokenizer.encode("Café FINE")) == "café fine"


def test_every_word_is_its_own_group() -> None:
    tokenizer = train("words", ["a b ."], min_count=1)
    assert tokenizer.word_groups(tokenizer.encode("a b .")) == [[0], [1], [2]]


def test_round_trip_of_all_sentences(sentences: list[str]) -> None:
    tokenizer = train("words", sentences, min_count=1)
    assert tokenizer.decode_batch(tokenizer.encode_batch(sentences)) == sentences


@pytest.mark.parametrize(("language", "size"), [("de", 8316), ("en", 6384)])
def test_spacy_vocabularies_of_multi30k(multi30k, tmp_path, language: str, size: int) -> None:
    pytest.importorskip("spacy", reason="spaCy, an extra, is not installed")
    lines = [line for part in ("train", "val", "test_2016_flickr") for line in multi30k(part, language)]
    tokenizer = train("spacy", lines, min_count=2, language=language)
    assert tokenizer.size == size
    assert train("spacy", (line + "\n" for line in lines), language=language).size == size
    tokenizer.save(tmp_path / "words.json")
    assert load(tmp_path / "words.json").encode_batch(lines[:100]) == tokenizer.encode_batch(lines[:100])


@pytest.mark.parametrize("language", ["de", "en"])
def test_spacy_captions_round_trip(multi30k, language: str) -> None:
    pytest.importorskip("spacy", reason="spaCy, an extra, is not installed")
    lines = [line.strip() for line in multi30k("val", language)[:1000]]
    tokenizer = train("spacy", lines, min_count=1, language=language)
    back = tokenizer.decode_batch(tokenizer.encode_batch(lines))
    assert sum(a == b for a, b in zip(lines, back, strict=True)) >= 980


def test_missing_spacy_is_reported(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "spacy", None)
    with pytest.raises(RegardError, match=r"not installed: pip install 'regard\[spacy\]'"):
        train("spacy", ["a"], language="xx")


def test_spacy_needs_a_language() -> None:
    with pytest.raises(RegardError, match="needs a language"):
        train("spacy", ["a"])


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"kind": "sentencepiece"}, "allowed are words, spacy, space, bpe, wordpiece, unigram"),
        ({"normalization": "nfd"}, "allowed are none, nfc, nfkc"),
        ({"unseen": "drop"}, "allowed are bytes, unknown"),
        ({"size": 4}, "leaves no ids for text"),
        ({"texts": []}, "no word"),
        ({"kind": "bpe", "texts": ["", " "]}, "no text"),
        ({"kind": "unigram", "texts": ["▁"]}, "no text"),
        ({"kind": "unigram", "size": 262}, "size=262 is too small for unigram"),
        ({"kind": "wordpiece", "size": 6}, "size=6 is too small for wordpiece"),
        ({"kind": "bpe", "size": 100}, r"size=100 is too small for bpe: .* need 26\d ids"),
    ],
)
def test_invalid_options_are_refused(wrong: dict, message: str) -> None:
    config = {"kind": "words", "texts": ["a b"], **wrong}
    with pytest.raises(RegardError, match=message):
        train(config.pop("kind"), config.pop("texts"), **config)
