"""Labelled texts, tagged words, questions with answers: reading, and errors with file and line."""

import gzip
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.data.conll import distinct_tags, read_conll
from regard.data.labelled_text import (
    LabelledColumns,
    check_labels,
    distinct_labels,
    label_distribution,
    read_labelled,
)
from regard.data.squad import read_squad
from regard.data.text_files import CorpusError


def put(folder: Path, name: str, content: str) -> Path:
    path = folder / name
    path.write_bytes(gzip.compress(content.encode()) if name.endswith(".gz") else content.encode())
    return path


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.tsv", "good film\tpos\nbad film\tneg\n"),
        ("a.tsv.gz", "good film\tpos\nbad film\tneg\n"),
        ("b.tsv", "id\tSentence\tlabel\n7\tgood film\tpos\n8\tbad film\tneg\n"),
        ("c.csv", 'label,text\npos,"good\nfilm"\nneg,bad film\n'),
        ("d.jsonl", '{"text": "good film", "label": "pos"}\n\n{"text": "bad film", "label": "neg"}\n'),
    ],
)
def test_texts_and_labels_are_found(tmp_path: Path, name: str, content: str) -> None:
    found = list(read_labelled(put(tmp_path, name, content)))
    assert [(each.text, each.pair, each.label) for each in found] == [
        ("good film", None, "pos"),
        ("bad film", None, "neg"),
    ]


def test_labels_may_be_numbers_in_json(tmp_path: Path) -> None:
    path = put(tmp_path, "a.jsonl", '{"premise": "a", "hypothesis": "b", "label": 1}\n')
    (found,) = read_labelled(path, pairs=True)
    assert (found.text, found.pair, found.label, found.line) == ("a", "b", "1", 1)


def test_columns_may_be_told(tmp_path: Path) -> None:
    path = put(tmp_path, "a.tsv", "x\tgood film\tpos\ny\tbad film\tneg\n")
    found = list(read_labelled(path, LabelledColumns("2", None, "3")))
    assert [each.label for each in found] == ["pos", "neg"]
    assert distinct_labels(found, path) == ["neg", "pos"]


@pytest.mark.parametrize(
    ("content", "columns", "sentence"),
    [
        ("good\tpos\n \tneg\n", LabelledColumns(), "a.tsv, line 2: the text is empty"),
        ("good\tpos\nbad\t\n", LabelledColumns(), "a.tsv, line 2: the label is empty"),
        ("good\tpos\nbad\tneg\tmore\n", LabelledColumns(), "a.tsv, line 2: 3 columns where the first row has 2"),
        ("a\tb\tc\td\n", LabelledColumns(), "a.tsv: name the columns to read (data.text=..., data.label=...); the columns are a, b, c, d"),
        ("\t".join("abcdefghijkl"), LabelledColumns(), "a.tsv: name the columns to read (data.text=..., data.label=...); the columns are a, b, c, d, e, f, g, h, i, j and 2 more"),
        ("a\tb\n", LabelledColumns(text="1"), "a.tsv: name the column of the label too: data.label=..."),
        ("text\tlabel\nx\ty\n", LabelledColumns("text", None, "labels"), "a.tsv: no column labels; the columns are text, label; did you mean label"),
    ],
)  # fmt: skip
def test_bad_tables_are_one_sentence(
    tmp_path: Path, content: str, columns: LabelledColumns, sentence: str
) -> None:
    path = put(tmp_path, "a.tsv", content)
    with pytest.raises(CorpusError) as caught:
        list(read_labelled(path, columns))
    assert str(caught.value) == f"{tmp_path}/{sentence}"


def test_one_class_and_unseen_labels_are_refused(tmp_path: Path) -> None:
    path = put(tmp_path, "a.tsv", "x\tpos\ny\tpos\n")
    found = list(read_labelled(path))
    with pytest.raises(CorpusError, match=r"a\.tsv, lines 1 to 2: all examples have the label 'pos'"):
        distinct_labels(found, path)
    with pytest.raises(
        CorpusError,
        match=r"a\.tsv, line 1: the label 'pos' was not among .* which are neg, poss; did you mean poss",
    ):
        check_labels(found, ["neg", "poss"], path)


def test_imbalance_is_told(tmp_path: Path) -> None:
    path = put(tmp_path, "a.tsv", "x\tpos\ny\tpos\nz\tneg\n")
    assert (
        label_distribution(list(read_labelled(path)))
        == "2 x pos, 1 x neg; the most frequent is 2.0 times the rarest"
    )


def test_real_tables(real_data: Path) -> None:
    sst = list(read_labelled(real_data / "sst2" / "train.tsv.gz"))
    assert len(sst) == 6_920
    assert {each.label for each in sst} == {"0", "1"}
    sick = list(read_labelled(real_data / "sick" / "train.tsv.gz", pairs=True))
    assert len(sick) == 4_500
    assert distinct_labels(sick, real_data) == ["CONTRADICTION", "ENTAILMENT", "NEUTRAL"]
    assert sick[0].text.startswith("A group of kids is playing in a yard")


def test_conll_columns(tmp_path: Path) -> None:
    content = "-DOCSTART- -X- O\n\nEmpire NN B-place\nState NN I-place\n\n\n. . O"
    found = list(read_conll(put(tmp_path, "a.conll", content)))
    assert [(each.words, each.tags, each.line) for each in found] == [
        (("Empire", "State"), ("B-place", "I-place"), 3),
        ((".",), ("O",), 7),
    ]
    assert distinct_tags(found, tmp_path) == ["O", "B-place", "I-place"]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("a\tO\nb\n", "a.conll, line 2: 'b' has no tag; a line is a word, a tab and its tag"),
        ("a\tO\nb\tX\tO\n", "a.conll, line 2: 3 columns where the first word has 2"),
        ("a\tO\nb\tE-x\n", "a.conll, line 2: 'E-x' is not a tag; tags are O, B-name and I-name"),
        ("a\tO\n\tO\n", "a.conll, line 2: the word is empty"),
        ("\n \n", "a.conll has no words; a line is a word, a tab and its tag"),
    ],
)
def test_ragged_columns_are_one_sentence(tmp_path: Path, content: str, sentence: str) -> None:
    with pytest.raises(CorpusError) as caught:
        list(read_conll(put(tmp_path, "a.conll", content)))
    assert str(caught.value) == f"{tmp_path}/{sentence}"


WORDS = st.text(st.characters(whitelist_categories=["L", "N", "P"]), min_size=1, max_size=6)
TAGS = st.sampled_from(["O", "B-x", "I-x", "B-y", "I-y"])


@given(st.lists(st.lists(st.tuples(WORDS, TAGS), min_size=1, max_size=5), min_size=1, max_size=5))
def test_what_is_written_in_columns_is_read(tmp_path_factory: pytest.TempPathFactory, rows: list) -> None:
    content = "\n\n".join("\n".join(f"{word}\t{tag}" for word, tag in sentence) for sentence in rows)
    path = put(tmp_path_factory.getbasetemp(), "written.conll", content)
    found = list(read_conll(path))
    assert [list(zip(each.words, each.tags, strict=True)) for each in found] == rows


def test_real_columns(real_data: Path) -> None:
    train = list(read_conll(real_data / "wnut17" / "train.conll.gz"))
    assert len(train) == 3_394
    assert len(distinct_tags(train, real_data)) == 13
    assert len(list(read_conll(real_data / "wnut17" / "dev.conll.gz"))) == 1_009


def squad(**changes: object) -> dict:
    asked = {"id": "q1", "question": "Who ran?", "answers": [{"text": "A dog", "answer_start": 0}], **changes}
    return {"data": [{"paragraphs": [{"context": "A dog ran.", "qas": [asked]}]}]}


def test_questions_are_read(tmp_path: Path) -> None:
    (found,) = read_squad(put(tmp_path, "a.json.gz", json.dumps(squad())))
    assert (found.number, found.question, found.context) == ("q1", "Who ran?", "A dog ran.")
    assert (found.answers[0].text, found.answers[0].start) == ("A dog", 0)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (squad(answers=[{"text": "A cat", "answer_start": 0}]), "(question q1): the answer 'A cat' is not at position 0 of its paragraph"),
        (squad(answers=[{"text": "dog", "answer_start": -8}]), "(question q1): the answer 'dog' is not at position -8 of its paragraph"),
        (squad(answers=[]), "(question q1): there is no answer; each question must have one in its paragraph"),
        (squad(question=" "), "(question q1): the question is empty"),
        (squad(answers=[{"text": "A dog"}]), "(question q1): there is no 'answer_start'; the file must have the format of SQuAD 1.1"),
    ],
)  # fmt: skip
def test_bad_answers_are_one_sentence(tmp_path: Path, content: dict, sentence: str) -> None:
    raw = json.dumps(content, indent=1)
    line = raw[: raw.index('"q1"')].count("\n") + 1
    with pytest.raises(CorpusError) as caught:
        read_squad(put(tmp_path, "a.json", raw))
    assert str(caught.value) == f"{tmp_path}/a.json, line {line} {sentence}"


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ('{"data":\n [}', "a.json, line 2: not valid JSON (Expecting value)"),
        ("[]", "a.json: there is no 'data'; the file must have the format of SQuAD 1.1"),
        ('{"data": []}', "a.json holds no question"),
        (
            '{"data": [{}]}',
            "a.json, article 1: there is no 'paragraphs'; the file must have the format of SQuAD 1.1",
        ),
    ],
)
def test_other_json_is_one_sentence(tmp_path: Path, content: str, sentence: str) -> None:
    with pytest.raises(CorpusError) as caught:
        read_squad(put(tmp_path, "a.json", content))
    assert str(caught.value) == f"{tmp_path}/{sentence}"


def test_real_questions(real_data: Path) -> None:
    found = read_squad(real_data / "xquad" / "en.json.gz")
    assert len(found) == 1_190
    assert len({each.article for each in found}) == 48
