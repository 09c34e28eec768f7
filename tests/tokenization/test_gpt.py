"""Tokens that lose nothing: characters, bytes, GPT-2's byte-level BPE, and the symbols of fine-tuning."""

import json
import pickle
from pathlib import Path

import pytest

from regard import tokenization
from regard.errors import RegardError
from regard.tokenization import GptTokenizer, MarkedTokenizer, gpt_tokenizer
from regard.tokenization.gpt import END, byte_letters

LINES = [
    "Vor dem Gesetz\nsteht ein Türhüter.\n\n",
    "  zwei Blanks,\ttab — 漢字 🙂\r\n",
    "<|endoftext|> <s> [START]",
]


@pytest.mark.parametrize("kind", ["characters", "bytes", "gpt"])
def test_text_comes_back_as_it_was_also_from_a_file(kind: str, tmp_path: Path) -> None:
    made = tokenization.train(kind, LINES, size=300)
    made.save(tmp_path / "tokenizer.json")
    again = tokenization.load(tmp_path / "tokenizer.json")
    for line in LINES:
        ids = made.encode(line)
        assert again.encode(line) == ids == pickle.loads(pickle.dumps(made)).encode(line)
        assert again.decode(ids) == line
        assert len(made.tokens(ids)) == len(ids)
        assert [place for group in made.words(ids) for place in group] == list(range(len(ids)))
    assert (again.kind, again.size) == (kind, made.size)
    first = (tmp_path / "tokenizer.json").read_bytes()
    again.save(tmp_path / "tokenizer.json")
    assert (tmp_path / "tokenizer.json").read_bytes() == first


def test_what_was_never_seen() -> None:
    characters, spelled = tokenization.train("characters", ["abc"]), tokenization.train("bytes", ["abc"])
    assert characters.encode("abz") == [4, 5, characters.unknown]
    assert spelled.decode(spelled.encode("zß")) == "zß"
    assert (characters.size, spelled.size) == (7, 260)
    assert spelled.decode(spelled.encode("ß")[:1]) == "\ufffd"


def test_nobody_types_the_symbol_between_texts() -> None:
    made = tokenization.train("gpt", LINES, size=300)
    assert isinstance(made, GptTokenizer)
    assert made.end not in made.encode(END)
    assert made.decode([*made.encode("ein"), made.end]) == "ein"


def test_frequent_runs_are_joined_and_lower_case_is_kept_to() -> None:
    made = tokenization.train("gpt", ["Hello hello hello"] * 9, size=270, lower=True)
    assert made.tokens(made.encode("Hello hello")) == ["hello", "▁hello"]
    assert made.normalize("HELLO") == "hello"


@pytest.mark.parametrize("kind", ["characters", "bytes", "gpt"])
def test_there_must_be_text(kind: str) -> None:
    with pytest.raises(RegardError, match="no text that a tokenizer could be trained on"):
        tokenization.train(kind, [""], size=300)


def test_symbols_stand_around_texts_and_beside_every_vocabulary() -> None:
    made = MarkedTokenizer(tokenization.train("gpt", LINES, size=300))
    one, other = made.encode("ein"), made.encode(" Blank")
    ids = made.joined(one, other)
    assert made.tokens([ids[0], ids[len(one) + 1], ids[-1]]) == ["[START]", "[DELIM]", "[EXTRACT]"]
    size = made.inner.size
    assert made.joined(one) == [size, *one, size + 2]
    assert made.decode(ids) == "ein Blank"
    assert [place for group in made.words(ids) for place in group] == list(range(len(ids)))
    assert (made.size, made.padding) == (size + 3, -1)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"kind": "runes"}, "its kind is 'runes'"),
        ({"letters": "aab"}, "each stands once"),
        ({"letters": ""}, "characters are told by its letters"),
        ({"version": 2}, "version is 2"),
    ],
)
def test_a_damaged_file_of_letters_is_told(changes: dict[str, object], sentence: str, tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    tokenization.train("characters", ["abc"]).save(path)
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
    with pytest.raises(RegardError) as told:
        tokenization.load(path)
    assert sentence in str(told.value)


def test_a_vocabulary_that_is_none_is_told() -> None:
    whole = {letter: place for place, letter in enumerate([END, *byte_letters().values()])}
    assert gpt_tokenizer(whole, []).decode(gpt_tokenizer(whole, []).encode("größer")) == "größer"
    for wrong, sentence in (
        ({**whole, END: 400}, "without a gap"),
        ({letter: place for place, letter in enumerate(byte_letters().values())}, "is missing"),
        (
            {letter: place for place, letter in enumerate([END, *list(byte_letters().values())[1:]])},
            "the byte that",
        ),
    ):
        with pytest.raises(ValueError, match=sentence):
            gpt_tokenizer(wrong, [])
    with pytest.raises(ValueError, match="tokenizers library"):
        gpt_tokenizer(whole, [("a", "nothing")])
