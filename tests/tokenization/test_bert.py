"""BERT's WordPiece: normalisation, splitting and pieces as in BERT; text never encodes to a special token."""

import pickle
from pathlib import Path

import pytest

from regard import tokenization
from regard.errors import RegardError
from regard.tokenization import BertOptions, BertTokenizer, bert_tokenizer

PIECES = [
    "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cafe", "un", "##aff", "##able", ".", ",", "'", "中", "国",
    "run", "##ning", "Café", "[", "]", "sep", "mask",
]  # fmt: skip


def cut(sentence: str, **options: bool) -> list[str]:
    made = bert_tokenizer(PIECES, BertOptions(**options))
    return made.tokens(made.encode(sentence))


@pytest.mark.parametrize(
    ("sentence", "pieces"),
    [
        ("The Café.", ["the", "cafe", "."]),  # lowercase, no accents
        ("unaffable,running", ["un", "##aff", "##able", ",", "run", "##ning"]),  # the longest piece first
        ("中国", ["中", "国"]),  # Chinese characters are words
        ("the\u0000\u200b \tthe\u00a0the", ["the", "the", "the"]),  # control characters are removed
        ("the'the", ["the", "'", "the"]),  # punctuation is separate
        ("xyz", ["[UNK]"]),  # a word without pieces is unknown as a whole
        ("run" * 40, ["[UNK]"]),  # and so is one of more than 100 characters
        ("[SEP] [MASK]", ["[", "sep", "]", "[", "mask", "]"]),  # text is never a special token
        ("", []),
    ],
)
def test_text_is_tokenized_as_by_bert(sentence: str, pieces: list[str]) -> None:
    assert cut(sentence) == pieces


def test_cased() -> None:
    assert cut("Café cafe", lowercase=False) == ["Café", "cafe"]


def test_offsets_and_word_ids() -> None:
    made = bert_tokenizer(PIECES, BertOptions())
    (encoding,) = made.encode_with_offsets(["The unaffable Café"])
    assert [("The unaffable Café")[a:b] for a, b in encoding.offsets] == ["The", "un", "aff", "able", "Café"]
    (words,) = made.encode_pretokenized([["unaffable", "\u200b", "the."]])
    assert words.word_ids == [0, 0, 0, 2, 2]


def test_special_tokens_of_pairs() -> None:
    made = bert_tokenizer(PIECES, BertOptions())
    assert made.with_special_tokens([5], [6]) == [2, 5, 3, 6, 3]
    assert made.word_groups([2, 5, 7, 8, 9, 3]) == [[0], [1], [2, 3, 4], [5]]
    assert made.decode([2, 5, 7, 8, 9, 3]) == "the unaffable"


def test_saved_equals_loaded(tmp_path: Path) -> None:
    made = bert_tokenizer(PIECES, BertOptions(lowercase=False))
    made.save(tmp_path / "t.json")
    for again in (tokenization.load(tmp_path / "t.json"), pickle.loads(pickle.dumps(made))):
        assert isinstance(again, BertTokenizer)
        assert again.encode("the Café, [SEP]") == made.encode("the Café, [SEP]")
        assert (again.padding, again.begin, again.end, again.mask) == (0, 2, 3, 4)
    assert (tmp_path / "t.json").read_bytes() == save_again(tmp_path)


def save_again(folder: Path) -> bytes:
    tokenization.load(folder / "t.json").save(folder / "again.json")
    return (folder / "again.json").read_bytes()


def test_training_is_reproducible(sentences: list[str], tmp_path: Path) -> None:
    for name in ("one", "other"):
        tokenization.train("bert", sentences, size=200, lowercase=True).save(tmp_path / name)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "other").read_bytes()
    made = tokenization.load(tmp_path / "one")
    assert made.size <= 200
    assert made.tokens(range(5)) == ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    assert made.unknown not in [token_id for ids in made.encode_batch(sentences) for token_id in ids]
    assert made.decode(made.encode("Zwei Hunde don't play")) == "zwei hunde don ' t play"


def test_too_small_size_is_refused(sentences: list[str]) -> None:
    with pytest.raises(RegardError, match="size=20 is too small for bert"):
        tokenization.train("bert", sentences, size=20)


@pytest.mark.parametrize(("pieces", "why"), [(PIECES[1:], r"\[PAD\] is missing"), ([*PIECES, "the"], "'the' is there twice")])  # fmt: skip
def test_invalid_vocabulary_is_refused(pieces: list[str], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        bert_tokenizer(pieces, BertOptions())


@pytest.mark.parametrize(
    ("was", "now"),
    [('"BertNormalizer"', '"Lowercase"'), ('"BertPreTokenizer"', '"Whitespace"'), ('"##"', '"@@"')],
)
def test_other_normalization_or_splitting_is_refused(tmp_path: Path, was: str, now: str) -> None:
    bert_tokenizer(PIECES, BertOptions()).save(tmp_path / "t.json")
    changed = (tmp_path / "t.json").read_text("utf-8").replace(was, now)
    (tmp_path / "t.json").write_text(changed, "utf-8")
    with pytest.raises(RegardError, match=r"is not a tokenizer that regard can use"):
        tokenization.load(tmp_path / "t.json")
