"""Lossless tokenizers (characters, bytes, GPT-2's byte-level BPE), and the special tokens of fine-tuning."""

import json
import pickle
from pathlib import Path

import pytest

from regard import tokenization
from regard.errors import RegardError
from regard.tokenization import GptTaskTokenizer, GptTokenizer, gpt_tokenizer
from regard.tokenization.gpt import END_OF_TEXT, bytes_to_unicode

LINES = [
    "Vor dem Gesetz\nsteht ein Türhüter.\n\n",
    "  zwei Blanks,\ttab — 漢字 🙂\r\n",
    "<|endoftext|> <s> [START]",
]


@pytest.mark.parametrize("kind", ["characters", "bytes", "gpt"])
def test_text_round_trips_before_and_after_saving(kind: str, tmp_path: Path) -> None:
    made = tokenization.train(kind, LINES, size=300)
    made.save(tmp_path / "tokenizer.json")
    again = tokenization.load(tmp_path / "tokenizer.json")
    for line in LINES:
        ids = made.encode(line)
        assert again.encode(line) == ids == pickle.loads(pickle.dumps(made)).encode(line)
        assert again.decode(ids) == line
        assert len(made.tokens(ids)) == len(ids)
        assert [number for group in made.word_groups(ids) for number in group] == list(range(len(ids)))
    assert (again.kind, again.size) == (kind, made.size)
    first = (tmp_path / "tokenizer.json").read_bytes()
    again.save(tmp_path / "tokenizer.json")
    assert (tmp_path / "tokenizer.json").read_bytes() == first


def test_unseen_characters() -> None:
    characters, spelled = tokenization.train("characters", ["abc"]), tokenization.train("bytes", ["abc"])
    assert characters.encode("abz") == [4, 5, characters.unknown]
    assert spelled.decode(spelled.encode("zß")) == "zß"
    assert (characters.size, spelled.size) == (7, 260)
    assert spelled.decode(spelled.encode("ß")[:1]) == "\ufffd"


def test_text_never_encodes_to_end_of_text() -> None:
    made = tokenization.train("gpt", LINES, size=300)
    assert isinstance(made, GptTokenizer)
    assert made.end not in made.encode(END_OF_TEXT)
    assert made.decode([*made.encode("ein"), made.end]) == "ein"


def test_merges_and_lowercase() -> None:
    made = tokenization.train("gpt", ["Hello hello hello"] * 9, size=270, lowercase=True)
    assert made.tokens(made.encode("Hello hello")) == ["hello", "▁hello"]
    assert made.normalize("HELLO") == "hello"


@pytest.mark.parametrize("kind", ["characters", "bytes", "gpt"])
def test_empty_texts_are_refused(kind: str) -> None:
    with pytest.raises(RegardError, match="no text to train a tokenizer on"):
        tokenization.train(kind, [""], size=300)


def test_task_tokens() -> None:
    made = GptTaskTokenizer(tokenization.train("gpt", LINES, size=300))
    one, other = made.encode("ein"), made.encode(" Blank")
    ids = made.with_special_tokens(one, other)
    assert made.tokens([ids[0], ids[len(one) + 1], ids[-1]]) == ["[START]", "[DELIM]", "[EXTRACT]"]
    size = made.inner.size
    assert made.with_special_tokens(one) == [size, *one, size + 2]
    assert made.decode(ids) == "ein Blank"
    assert [number for group in made.word_groups(ids) for number in group] == list(range(len(ids)))
    assert (made.size, made.padding) == (size + 3, -1)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"kind": "runes"}, "its kind is 'runes'"),
        ({"letters": "aab"}, "distinct characters"),
        ({"letters": ""}, "it needs letters if its kind is characters"),
        ({"version": 2}, "version is 2"),
    ],
)
def test_damaged_characters_file_is_refused(changes: dict[str, object], sentence: str, tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    tokenization.train("characters", ["abc"]).save(path)
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
    with pytest.raises(RegardError) as error:
        tokenization.load(path)
    assert sentence in str(error.value)


def test_invalid_vocabulary_is_refused() -> None:
    whole = {letter: number for number, letter in enumerate([END_OF_TEXT, *bytes_to_unicode().values()])}
    assert gpt_tokenizer(whole, []).decode(gpt_tokenizer(whole, []).encode("größer")) == "größer"
    for wrong, sentence in (
        ({**whole, END_OF_TEXT: 400}, "without a gap"),
        ({letter: number for number, letter in enumerate(bytes_to_unicode().values())}, "is missing"),
        (
            {
                letter: number
                for number, letter in enumerate([END_OF_TEXT, *list(bytes_to_unicode().values())[1:]])
            },
            "the byte that",
        ),
    ):
        with pytest.raises(ValueError, match=sentence):
            gpt_tokenizer(wrong, [])
    with pytest.raises(ValueError, match="tokenizers library"):
        gpt_tokenizer(whole, [("a", "nothing")])
