"""Tokenizer files: saved equals loaded, and a file that is no tokenizer is refused."""

import json
from pathlib import Path

import pytest

from regard.errors import RegardError
from regard.tokenization import SPECIAL_TOKENS, load, train


@pytest.fixture
def words_file(tmp_path: Path) -> Path:
    train("words", ["Ein Hund, ein „Café“."], min_count=1, lowercase=True, normalization="nfc").save(
        tmp_path / "words.json"
    )
    return tmp_path / "words.json"


@pytest.fixture
def bpe_file(tmp_path: Path) -> Path:
    train("bpe", ["a dog and a dog"], size=300).save(tmp_path / "tokenizer.json")
    return tmp_path / "tokenizer.json"


def test_saved_words_equal_loaded(words_file: Path, tmp_path: Path) -> None:
    tokenizer = load(words_file)
    tokenizer.save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == words_file.read_bytes()
    assert tokenizer.kind == "words"
    assert tokenizer.decode(tokenizer.encode("EIN Hund, ein „Cafe\u0301“.")) == "ein hund, ein „café“."


def test_a_spacy_file_decodes_without_spacy(tmp_path: Path, words_file: Path) -> None:
    content = json.loads(words_file.read_text(encoding="utf-8")) | {"kind": "spacy", "language": "de"}
    (tmp_path / "spacy.json").write_text(json.dumps(content))
    assert load(tmp_path / "spacy.json").decode([4]) == content["words"][0]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\xff\xfe\x00", "not UTF-8"),
        (b"", "not JSON"),
        (b'{"format": "regard.words", "ver', r"not JSON \(line 1"),
        (b"[" * 100_000, "JSON|nested"),
        (b"[1, 2]", "no JSON object"),
        (b'{"weights": []}', "neither"),
        (b'{"model": 3}', "neither"),
        (b'{"model": {"type": "WordLevel", "vocab": {}}}', "allowed are BPE, WordPiece, Unigram"),
        (b'{"model": {"type": "BPE"}}', "vocabulary is missing"),
        (b'{"model": {"type": "Unigram", "vocab": [1]}}', "vocabulary is missing"),
        (b'{"model": {"type": "BPE", "vocab": {"[PAD]": 0}, "merges": []}}', "does not begin with <s>"),
    ],
)
def test_foreign_file_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_bytes(content)
    _check_refused(path, message)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": 2}, "reads version 1"),
        ({"kind": "bpe"}, "its kind is 'bpe'"),
        ({"kind": ["words"]}, "its kind is"),
        ({"lower": "yes"}, "lower"),
        ({"normal": ["nfc"]}, "normal"),
        ({"language": 3}, "language"),
        ({"words": ["a", 5]}, "not a list of strings"),
        ({"words": {"a": 1}}, "not a list of strings"),
        ({"words": ["a", "a"]}, "twice"),
        ({"words": ["<s>"]}, "twice"),
    ],
)
def test_damaged_words_file_is_refused(words_file: Path, change: dict, message: str) -> None:
    words_file.write_text(json.dumps(json.loads(words_file.read_text(encoding="utf-8")) | change))
    _check_refused(words_file, message)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"vocab": dict(zip(SPECIAL_TOKENS, range(4), strict=True)) | {"a": 9}}, "gap"),
        ({"vocab": dict(zip(SPECIAL_TOKENS, range(4), strict=True)) | {"a": "4"}}, "gap"),
        ({"vocab": dict(zip(SPECIAL_TOKENS, range(4), strict=True)) | {"a": [4]}}, "gap"),
        ({"merges": [["no", "such"]]}, "tokenizers library"),
        ({"merges": 7}, "tokenizers library"),
        ({"type": "Unigram", "vocab": [[symbol, "x"] for symbol in SPECIAL_TOKENS]}, "tokenizers library"),
    ],
)
def test_damaged_tokenizer_json_is_refused(bpe_file: Path, change: dict, message: str) -> None:
    content = json.loads(bpe_file.read_text(encoding="utf-8"))
    content["model"] |= change
    bpe_file.write_text(json.dumps(content))
    _check_refused(bpe_file, message)


def test_tokens_beyond_the_vocabulary_are_refused(bpe_file: Path) -> None:
    content = json.loads(bpe_file.read_text(encoding="utf-8"))
    content["added_tokens"].append(content["added_tokens"][0] | {"id": 300, "content": "<extra>"})
    bpe_file.write_text(json.dumps(content))
    _check_refused(bpe_file, "beyond its vocabulary")


def test_truncated_file_is_refused(bpe_file: Path, words_file: Path) -> None:
    for path in (bpe_file, words_file):
        whole = path.read_bytes()
        for length in range(0, len(whole) - 2, max(1, len(whole) // 50)):
            path.write_bytes(whole[:length])
            _check_refused(path, "not JSON|not UTF-8")


def test_missing_file_and_folder_are_refused(tmp_path: Path) -> None:
    _check_refused(tmp_path / "none.json", "No such file")
    _check_refused(tmp_path, "directory")


def _check_refused(path: Path, message: str) -> None:
    with pytest.raises(RegardError, match=message) as refusal:
        load(path)
    sentence = str(refusal.value)
    assert sentence.startswith(str(path))
    assert not sentence.endswith(".")
    assert "\n" not in sentence
