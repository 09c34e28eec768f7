"""Subwords lose nothing: what is encoded is what is decoded, and training repeats to the byte."""

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
def pretokenised(request) -> Tokenizer:
    return train(request.param, ALPHABET, size=450, pretokenised=True)


@settings(deadline=None)
@given(text=st.text(alphabet=SEEN))
def test_seen_characters_come_back(trained: Tokenizer, text: str) -> None:
    assert trained.decode(trained.encode(text)) == text.strip()


@settings(deadline=None)
@given(text=st.text(alphabet=SEEN + "\n\t"))
def test_tokenised_text_comes_back_with_single_blanks(pretokenised: Tokenizer, text: str) -> None:
    assert pretokenised.decode(pretokenised.encode(text)) == " ".join(text.split())


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_any_character_comes_back_through_bytes(kind: str) -> None:
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
def test_normal_forms_come_back_normalised(text: str, normal: str) -> None:
    tokenizer = _NORMAL[normal]
    assert tokenizer.decode(tokenizer.encode(text)) == tokenizer.normalize(text)


_NORMAL = {form: train("bpe", ALPHABET, size=450, normal=form, lower=True) for form in ("nfc", "nfkc")}


def test_unseen_characters_become_unknown_on_request() -> None:
    tokenizer = train("bpe", ALPHABET, size=200, unseen="unknown")
    assert tokenizer.tokens(tokenizer.encode("日")) == ["▁", "<unk>"]
    wordpiece = train("wordpiece", ALPHABET, size=200)
    assert wordpiece.tokens(wordpiece.encode("dogs日 play")) == [
        "<unk>",
        *wordpiece.tokens(wordpiece.encode("play")),
    ]


def test_typed_specials_are_text(trained: Tokenizer, pretokenised: Tokenizer) -> None:
    typed = "<s> a </s><blank> b<unk> <0x41>"
    for tokenizer in (trained, pretokenised):
        assert min(tokenizer.encode(typed)) > 3
        assert tokenizer.decode(tokenizer.encode(typed)) == typed
        assert tokenizer.decode([0, *tokenizer.encode("a b"), 3, 1, 2]) == "a b"


@pytest.mark.parametrize("pretokenised", [False, True])
@pytest.mark.parametrize("kind", SUBWORDS)
def test_typed_specials_are_text_even_when_learned(kind: str, pretokenised: bool) -> None:
    texts = ["the <unk> of <s> and </s> <blank>x<unk>y<0x41>"] * 50
    tokenizer = train(kind, texts, size=400, pretokenised=pretokenised)
    assert min(tokenizer.encode(texts[0])) > 3
    assert tokenizer.decode(tokenizer.encode(texts[0])) == texts[0]


def test_words_gather_their_pieces(trained: Tokenizer) -> None:
    ids = [0, *trained.encode('He said: "blond-haired" dogs play.'), 1]
    groups = trained.words(ids)
    pieces = trained.tokens(ids)
    read = ["".join(pieces[place].removeprefix("##") for place in group) for group in groups]
    assert [place for group in groups for place in group] == list(range(len(ids)))
    assert [word.strip("▁") for word in read] == (
        ["<s>", "He", "said", ":", '"', "blond-haired", '"', "dogs", "play", ".", "</s>"]
    )


@pytest.mark.parametrize("kind", SUBWORDS)
def test_training_repeats_to_the_byte(sentences: list[str], tmp_path, kind: str) -> None:
    for name in ("one", "two", "three"):
        train(kind, iter(sentences), size=500).save(tmp_path / name)
    one = (tmp_path / "one").read_bytes()
    assert one == (tmp_path / "two").read_bytes() == (tmp_path / "three").read_bytes()


@pytest.mark.parametrize("kind", ["bpe", "unigram", "wordpiece"])
def test_training_on_captions_repeats_to_the_byte(multi30k, tmp_path, kind: str) -> None:
    lines = multi30k("train", "de")[:4000]
    for name in ("one", "two"):
        train(kind, lines, size=3000).save(tmp_path / name)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


@pytest.mark.parametrize("kind", SUBWORDS)
def test_saved_is_loaded_here_and_in_the_library(sentences: list[str], tmp_path, kind: str) -> None:
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


def test_a_copy_for_a_worker_still_reads_specials_as_text(trained: Tokenizer) -> None:
    copy = pickle.loads(pickle.dumps(trained))
    assert copy.encode("<s> a") == trained.encode("<s> a")


def test_size_is_kept(multi30k) -> None:
    lines = multi30k("train", "en")[:3000]
    assert {kind: train(kind, lines, size=2000).size for kind in SUBWORDS} == dict.fromkeys(SUBWORDS, 2000)


def test_empty_texts_are_empty(trained: Tokenizer) -> None:
    assert trained.encode_batch(["", "  ", "a"])[:2] == [[], []]
    assert trained.decode([]) == ""
    assert trained.encode_batch([]) == []


def test_half_a_character_is_one_sentence(trained: Tokenizer) -> None:
    with pytest.raises(RegardError, match="not valid Unicode"):
        trained.encode("a \ud800")


@pytest.mark.parametrize("kind", ["words", *SUBWORDS])
def test_training_on_half_a_character_is_one_sentence(kind: str) -> None:
    with pytest.raises(RegardError, match="not valid Unicode"):
        train(kind, ["a b", "a \ud800"])
