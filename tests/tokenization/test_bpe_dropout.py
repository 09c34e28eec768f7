"""BPE-dropout: other pieces of the same text, reproducible with a seed."""

from collections import Counter
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.errors import RegardError
from regard.tokenization import Tokenizer, train


@pytest.fixture(scope="module")
def bpe(sentences: list[str]) -> Tokenizer:
    return train("bpe", sentences, size=600)


def lengths(batch: list[list[int]]) -> int:
    return sum(map(len, batch))


def test_dropout_0_is_plain_encoding(bpe: Tokenizer, sentences: list[str]) -> None:
    assert bpe.encode_batch(sentences, dropout=0.0, seed=5) == bpe.encode_batch(sentences)
    assert bpe.encode_batch(sentences, dropout=1e-300, seed=5) == bpe.encode_batch(sentences)


def test_merging_equals_the_library(bpe: Tokenizer, sentences: list[str]) -> None:
    """With every merge passing, the merge loop itself must give the library's pieces."""
    for encoding in bpe.library.encode_batch(sentences, add_special_tokens=False):
        characters = bpe._merges._split_characters(tuple(encoding.ids))
        words: dict[int, list[int]] = {}
        for one, word in zip(encoding.ids, encoding.word_ids, strict=True):
            words.setdefault(word, []).append(one)
        merged = [
            piece
            for word in words.values()
            for piece in bpe._merges._merge(bpe._merges._split_characters(tuple(word)), 10**9, 0.5, lambda: 0.0)
        ]
        assert merged == encoding.ids
        assert len(characters) > len(merged)


def test_dropout_1_gives_characters(bpe: Tokenizer, sentences: list[str]) -> None:
    for ids, text in zip(bpe.encode_batch(sentences, dropout=1.0), sentences, strict=True):
        assert bpe.tokens(ids) == list("▁" + text.replace(" ", "▁"))


def test_text_is_unchanged_and_length_grows(bpe: Tokenizer, sentences: list[str]) -> None:
    sampled = [bpe.encode_batch(sentences, dropout=p, seed=1) for p in (0.0, 0.1, 0.4, 0.8, 1.0)]
    assert all(bpe.decode_batch(batch) == sentences for batch in sampled)
    grown = [lengths(batch) for batch in sampled]
    assert grown == sorted(set(grown))


def test_seed_and_index_determine_the_pieces(bpe: Tokenizer, sentences: list[str]) -> None:
    whole = bpe.encode_batch(sentences, dropout=0.2, seed=7)
    assert whole == bpe.encode_batch(sentences, dropout=0.2, seed=7)
    assert whole[100:] == bpe.encode_batch(sentences[100:], dropout=0.2, seed=7, start=100)
    assert whole != bpe.encode_batch(sentences, dropout=0.2, seed=8)
    assert len(set(map(tuple, bpe.encode_batch(sentences[:1] * 50, dropout=0.2)))) > 10


def test_equal_on_every_machine() -> None:
    tokenizer = train("bpe", ["abab abab ab"], size=300, min_count=1)
    pieces = [tokenizer.tokens(ids) for ids in tokenizer.encode_batch(["abab"] * 4, dropout=0.5, seed=3)]
    assert pieces == PINNED


PINNED = [["▁", "a", "b", "a", "b"], ["▁ab", "a", "b"], ["▁", "a", "b", "ab"], ["▁", "a", "b", "ab"]]


def test_distribution_is_the_papers() -> None:
    """At every step each possible merge is struck out with probability p, and the best one left is done."""
    tokenizer = train("bpe", ["abcdab cdab abcd"] * 9, size=290)
    merges = tokenizer._merges._pairs
    characters = tokenizer.encode_batch(["abcd"], dropout=1.0)[0]
    random, defined = Random(1), Counter()
    for _ in range(DRAWS):
        word = list(characters)
        while left := [
            (*merges[pair], position)
            for position, pair in enumerate(pairwise(word))
            if pair in merges and random.random() >= 0.3
        ]:
            _, made, position = min(left, key=lambda merge: (merge[0], merge[2]))
            word[position : position + 2] = [made]
        defined[tuple(word)] += 1
    drawn = Counter(map(tuple, tokenizer.encode_batch(["abcd"] * DRAWS, dropout=0.3, seed=1)))
    assert len(defined) > 3
    assert all(abs(drawn[word] - defined[word]) < 0.03 * DRAWS for word in drawn | defined)


DRAWS = 5000


@settings(deadline=None)
@given(text=st.text(), dropout=st.floats(0.01, 1), seed=st.integers())
def test_any_text_decodes(bpe: Tokenizer, text: str, dropout: float, seed: int) -> None:
    ids = bpe.encode_batch([text], dropout=dropout, seed=seed)[0]
    assert bpe.decode(ids) == bpe.normalize(text)


@pytest.mark.parametrize("kind", ["words", "space", "wordpiece", "unigram"])
def test_other_kinds_refuse_dropout(sentences: list[str], kind: str) -> None:
    tokenizer = train(kind, sentences, size=600)
    with pytest.raises(RegardError, match=rf"dropout=0\.1 needs a bpe tokenizer; this one is of kind {kind}"):
        tokenizer.encode_batch(["a"], dropout=0.1)


@pytest.mark.parametrize("dropout", [-0.1, 1.5, float("nan")])
def test_dropout_must_be_a_probability(bpe: Tokenizer, dropout: float) -> None:
    with pytest.raises(RegardError, match="allowed is 0 to 1"):
        bpe.encode_batch(["a"], dropout=dropout)
