"""Subword tokenizers are lossless, and training them is reproducible."""

import pickle

import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.errors import RegardError
from regard.tokenization import Tokenizer, load, train

SUBWORDS = ["bpe", "wordpiece", "unigram"]
SEEN = "abcdefghijklmnopqrstuvwxyzABCÄÖÜäöüß0123456789.,;:!?'\"()#<>/-„“_ "
ALPHABET = [
    " ".join(SEEN) + " " + SEEN,
    "Two dogs play.",
    "The dogs don't play in the snow.",
    "Zwei Hunde spielen.",
] * 3


@pytest.fixture(scope="module", params=SUBWORDS)
def trained(request) -> Tokenizer:
    return train(request.param, ALPHABET, size=450)


@pytest.fixture(scope="module", params=SUBWORDS)
def pretokenized(request) -> Tokenizer:
    return train(request.param, ALPHABET, size=450, pretokenized=True)


@settings(deadline=None)
@given(text=st.text(alphabet=SEEN))
def test_seen_characters_round_trip(trained: Tokenizer, text: str) -> None:
    assert trained.decode(trained.encode(text)) == text.strip()


@settings(deadline=None)
@given(text=st.text(alphabet=SEEN + "\n\t"))
def test_pretokenized_text_round_trips_with_single_blanks(pretokenized: Tokenizer, text: str) -> None:
    assert pretokenized.decode(pretokenized.encode(text)) == " ".join(text.split())


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_any_character_round_trips_with_byte_fallback(kind: str) -> None:
    tokenizer = train(kind, ALPHABET, size=450)

    @settings(deadline=None)
    @given(st.text())
    def comes_back(text: str) -> None:
        ids = tokenizer.encode(text)
        assert tokenizer.decode(ids) == tokenizer.normalize(text)
        assert tokenizer.unknown not in ids

    comes_back()


@settings(deadline=None)
@given(text=st.text(alphabet=SEEN + "é▁日\u0301\n"), normal=st.sampled_from(["nfc", "nfkc"]))
def test_text_round_trips_in_its_normal_form(text: str, normal: str) -> None:
    tokenizer = _NORMAL[normal]
    assert tokenizer.decode(tokenizer.encode(text)) == tokenizer.normalize(text)


_NORMAL = {
    form: train("bpe", ALPHABET, size=450, normalization=form, lowercase=True) for form in ("nfc", "nfkc")
}


def test_unseen_characters_become_unknown_on_request() -> None:
    tokenizer = train("bpe", ALPHABET, size=200, unseen="unknown")
    assert tokenizer.tokens(tokenizer.encode("日")) == ["▁", "<unk>"]
    wordpiece = train("wordpiece", ALPHABET, size=200)
    assert wordpiece.tokens(wordpiece.encode("dogs日 play")) == [
        "<unk>",
        *wordpiece.tokens(wordpiece.encode("play")),
    ]


def test_special_tokens_in_text_are_text(trained: Tokenizer, pretokenized: Tokenizer) -> None:
    typed = "<s> a </s><blank> b<unk> <0x41>"
    for tokenizer in (trained, pretokenized):
        assert min(tokenizer.encode(typed)) > 3
        assert tokenizer.decode(tokenizer.encode(typed)) == typed
        assert tokenizer.decode([0, *tokenizer.encode("a b"), 3, 1, 2]) == "a b"


@pytest.mark.parametrize("pretokenized", [False, True])
@pytest.mark.parametrize("kind", SUBWORDS)
def test_special_tokens_in_training_texts_are_text(kind: str, pretokenized: bool) -> None:
    texts = ["the <unk> of <s> and </s> <blank>x<unk>y<0x41>"] * 50
    tokenizer = train(kind, texts, size=400, pretokenized=pretokenized)
    assert min(tokenizer.encode(texts[0])) > 3
    assert tokenizer.decode(tokenizer.encode(texts[0])) == texts[0]


def test_word_groups(trained: Tokenizer) -> None:
    ids = [0, *trained.encode('He said: "blond-haired" dogs play.'), 1]
    groups = trained.word_groups(ids)
    pieces = trained.tokens(ids)
    read = ["".join(pieces[position].removeprefix("##") for position in group) for group in groups]
    assert [position for group in groups for position in group] == list(range(len(ids)))
    assert [word.strip("▁") for word in read] == (
        ["<s>", "He", "said", ":", '"', "blond-haired", '"', "dogs", "play", ".", "</s>"]
    )


@pytest.mark.parametrize("kind", SUBWORDS)
def test_training_is_byte_identical(sentences: list[str], tmp_path, kind: str) -> None:
    for name in ("one", "two", "three"):
        train(kind, iter(sentences), size=500).save(tmp_path / name)
    one = (tmp_path / "one").read_bytes()
    assert one == (tmp_path / "two").read_bytes() == (tmp_path / "three").read_bytes()


@pytest.mark.parametrize("kind", ["bpe", "unigram", "wordpiece"])
def test_training_on_captions_is_byte_identical(multi30k, tmp_path, kind: str) -> None:
    lines = multi30k("train", "de")[:4000]
    for name in ("one", "two"):
        train(kind, lines, size=3000).save(tmp_path / name)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


@pytest.mark.parametrize("kind", SUBWORDS)
def test_saved_file_loads_here_and_in_the_library(sentences: list[str], tmp_path, kind: str) -> None:
    tokenizer = train(kind, sentences, size=500)
    tokenizer.save(tmp_path / "tokenizer.json")
    again = load(tmp_path / "tokenizer.json")
    again.save(tmp_path / "again.json")
    expected = tokenizer.encode_batch(sentences)
    library = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    assert (again.kind, again.size) == (kind, tokenizer.size)
    assert again.encode_batch(sentences) == expected
    assert (tmp_path / "again.json").read_bytes() == (tmp_path / "tokenizer.json").read_bytes()
    assert [encoding.ids for encoding in library.encode_batch(sentences)] == expected
    assert library.decode_batch(expected) == sentences


def test_pickled_copy_encodes_special_tokens_as_text(trained: Tokenizer) -> None:
    copy = pickle.loads(pickle.dumps(trained))
    assert copy.encode("<s> a") == trained.encode("<s> a")


def test_size_is_an_upper_limit(multi30k) -> None:
    lines = multi30k("train", "en")[:3000]
    assert {kind: train(kind, lines, size=2000).size for kind in SUBWORDS} == dict.fromkeys(SUBWORDS, 2000)


def test_empty_texts_are_empty(trained: Tokenizer) -> None:
    assert trained.encode_batch(["", "  ", "a"])[:2] == [[], []]
    assert trained.decode([]) == ""
    assert trained.encode_batch([]) == []


def test_lone_surrogate_is_refused(trained: Tokenizer) -> None:
    with pytest.raises(RegardError, match="not valid Unicode"):
        trained.encode("a \ud800")


@pytest.mark.parametrize("kind", ["words", *SUBWORDS])
def test_training_on_a_lone_surrogate_is_refused(kind: str) -> None:
    with pytest.raises(RegardError, match="not valid Unicode"):
        train(kind, ["a b", "a \ud800"])
