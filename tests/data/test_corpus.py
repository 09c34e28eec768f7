"""What is written is read, and what cannot be read is refused in one sentence."""

import csv
import gzip
import io
import json
import random
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from regard.data import text_files
from regard.data.corpus import CorpusError, read_lines, read_pairs

BLANKS = " \t\r"
# every character of UTF-8 except the one that ends a line, with those other tools split at well represented
sentence = st.text(
    st.one_of(
        st.sampled_from("\u2028\u2029\x85\x0b\x0c\x1c\x1e\ufeff \t\"',"),
        st.characters(exclude_categories=["Cs"], exclude_characters="\n"),
    ),
    max_size=20,
)
sentences = st.lists(sentence, min_size=1, max_size=20)
same_folder = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def write(path: Path, content: bytes) -> Path:
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


@pytest.mark.parametrize("name", ["text.de", "text.de.gz"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("bom", [b"", b"\xef\xbb\xbf"])
@same_folder
@given(texts=sentences)
def test_any_lines_come_back(tmp_path, name, end, bom, texts):
    path = write(tmp_path / name, bom + "".join(text + end for text in texts).encode())
    expected = [text.rstrip(BLANKS) for text in texts]
    if not bom:
        expected[0] = texts[0].removeprefix("\ufeff").rstrip(BLANKS)  # a file cannot say whether it is a mark
    assert list(read_lines(path)) == expected


@same_folder
@given(rows=st.lists(st.tuples(sentence, sentence), min_size=1, max_size=10))
def test_any_pairs_come_back_from_json_lines(tmp_path, rows):
    content = "".join(json.dumps({"de": de, "en": en}) + "\n" for de, en in rows)
    path = write(tmp_path / "pairs.jsonl", content.encode())
    assert list(read_pairs(path, source_column="de", target_column="en")) == [
        (de.rstrip(BLANKS), en.rstrip(BLANKS)) for de, en in rows
    ]


@same_folder
@given(rows=st.lists(st.tuples(sentence, sentence), min_size=1, max_size=10))
def test_any_pairs_come_back_from_csv(tmp_path, rows):
    out = io.StringIO()
    csv.writer(out, quoting=csv.QUOTE_ALL).writerows([("de", "en"), *rows])
    path = write(tmp_path / "pairs.csv.gz", out.getvalue().encode())
    assert list(read_pairs(path, source_column="de", target_column="en")) == [
        (de.rstrip(BLANKS), en.rstrip(BLANKS)) for de, en in rows
    ]


@same_folder
@given(rows=st.lists(st.tuples(sentence, sentence), min_size=1, max_size=10))
def test_any_pairs_come_back_from_tsv(tmp_path, rows):
    rows = [(de.replace("\t", " "), en.replace("\t", " ").rstrip("\r") + ".") for de, en in rows]
    path = write(tmp_path / "pairs.tsv", "".join(f"x\t{de}\t{en}\n" for de, en in rows).encode())
    assert list(read_pairs(path, source_column=2, target_column="3")) == [
        (de.rstrip(BLANKS), en) for de, en in rows
    ]


def test_columns_are_found_by_name_in_any_order(tmp_path):
    path = write(tmp_path / "pairs.TSV.gz", b"id\ten\tde \r\n1\tA \xc2\xa0b \tEin\r\n\r\n2\t\tZwei\r\n")
    assert list(read_pairs(path, source_column="de", target_column="en")) == [("Ein", "A \xa0b"), ("Zwei", "")]
    assert list(read_lines(path, "id")) == ["1", "2"]


def test_a_key_inside_a_key_is_reached_with_a_dot(tmp_path):
    path = write(tmp_path / "pairs.jsonl", b'{"translation": {"de": "Ein", "en": "A"}, "id": 1}\n\n')
    assert list(read_pairs(path, source_column="translation.de", target_column="translation.en")) == [
        ("Ein", "A")
    ]


def test_a_line_end_inside_a_cell_becomes_a_space(tmp_path):
    path = write(tmp_path / "pairs.csv", b'de,en\r\n"Ein\r\nHund","A\ndog"\r\n')
    assert list(read_pairs(path, source_column="de", target_column="en")) == [("Ein Hund", "A dog")]


def test_a_quotation_mark_in_tsv_is_a_letter(tmp_path):
    path = write(tmp_path / "pairs.tsv", b'"Ja\tYes\n5"\tfive inches\n')
    assert list(read_pairs(path, source_column=1, target_column=2)) == [('"Ja', "Yes"), ('5"', "five inches")]


def test_a_last_line_without_an_end_counts(tmp_path):
    source, target = write(tmp_path / "a.de", b"eins\nzwei"), write(tmp_path / "a.en.gz", b"one\r\ntwo \t\r\n")
    assert list(read_pairs(source, target)) == [("eins", "one"), ("zwei", "two")]


def test_one_side_of_a_table_can_stand_beside_a_plain_file(tmp_path):
    source, target = write(tmp_path / "a.tsv", b"de\nEin\n"), write(tmp_path / "a.en", b"A\n")
    assert list(read_pairs(source, target, source_column="de")) == [("Ein", "A")]


def test_reading_takes_the_same_memory_whatever_the_size(tmp_path):
    peaks = []
    for count in (2_000, 40_000):
        source = write(tmp_path / f"{count}.de.gz", "ein Satz von üblicher Länge\n".encode() * count)
        target = write(tmp_path / f"{count}.en", b"a sentence of usual length\n" * count)
        tracemalloc.start()
        assert sum(1 for _ in read_pairs(source, target)) == count
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.5 * peaks[0]


TRUNCATED = gzip.compress(random.Random(1).randbytes(4000).hex().encode() + b"\n", mtime=0)[:-2000]
FLIPPED = bytearray(gzip.compress(b"one\ntwo\n", mtime=0))
FLIPPED[-6] ^= 0xFF  # the checksum at the end

BAD_FILES = [
    ("bad.de", b"gut\nschlecht\xff\n", "{file}, line 2: byte 0xff at position 9 is not UTF-8; convert the file to UTF-8"),
    ("bad.de", b"caf\xe9\n", "{file}, line 1: byte 0xe9 at position 4 is not UTF-8; convert the file to UTF-8"),
    ("bad.de", "Ä\n".encode("utf-16"), "{file}, line 1: this is UTF-16 text; convert the file to UTF-8"),
    ("bad.de", gzip.compress(b"x", mtime=0), "{file}, line 1: this is a gzip file; its name must end in .gz"),
    ("bad.de", b"", "{file} is empty; it must have at least one line"),
    ("bad.de", b"\xef\xbb\xbf", "{file} is empty; it must have at least one line"),
    ("bad.de.gz", gzip.compress(b"", mtime=0), "{file} is empty; it must have at least one line"),
    ("bad.de.gz", b"plain\n", "{file} is not a gzip file, although its name ends in .gz; rename or compress it"),
    ("bad.de.gz", TRUNCATED, "{file} is truncated after line 0: the gzip stream ends early; download it again"),
    ("bad.de.gz", bytes(FLIPPED), "{file} is damaged after line 2: gzip checksum mismatch; download it again"),
    ("bad.json", b"[]", "{file} is a .json file; allowed are plain text, .tsv, .csv and .jsonl (JSON lines), each also as .gz"),
    ("bad.tar.gz", b"x", "{file} is a .tar file; allowed are plain text, .tsv, .csv and .jsonl (JSON lines), each also as .gz"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "content", "sentence"), BAD_FILES)
def test_a_bad_file_is_refused_in_one_sentence(tmp_path, name, content, sentence):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(CorpusError) as caught:
        list(read_lines(path))
    assert str(caught.value) == sentence.format(file=path)


BAD_TABLES = [
    ("a.tsv", b"de\ten\nEin\n", "{file}, line 2: 1 column where the first row has 2"),
    ("a.tsv", b"de\ten\nEin\tA\nZwei\tTwo\tx\n", "{file}, line 3: 3 columns where the first row has 2"),
    ("a.tsv", b"german\teng\nEin\tA\n", "{file}: no column de; the columns are german, eng"),
    ("a.tsv", b"den\tenglish\nEin\tA\n", "{file}: no column de; the columns are den, english; did you mean den"),
    ("a.tsv", b"de\ten\n", "{file} has no rows; it must have at least one"),
    ("a.csv", b"", "{file} is empty; it must have at least one line"),
    ("a.csv", b'de,en\n"Ein,A\n', "{file}, line 2: not valid CSV (unexpected end of data)"),
    ("a.csv", b"de,en\nEin,A,B\n", "{file}, line 2: 3 columns where the first row has 2"),
    ("a.jsonl", b'{"de": "a", "en": "b"}\n{"de": "a",\n', "{file}, line 2: not valid JSON at column 12 (Expecting property name enclosed in double quotes); one object per line"),
    ("a.jsonl", b"[1]\n", '{file}, line 1: a JSON list; each line must be an object such as {{"de": "...", "en": "..."}}'),
    ("a.jsonl", b'{"de": 3, "en": "b"}\n', "{file}, line 1: de is a JSON number; it must be a string"),
    ("a.jsonl", b'{"de": null, "en": "b"}\n', "{file}, line 1: de is a JSON null; it must be a string"),
    ("a.jsonl", b'{"De": "a", "en": "b"}\n', "{file}, line 1: no column de; the columns are De, en; did you mean De"),
    ("a.jsonl", b'{"de": "\\ud800", "en": "b"}\n', "{file}, line 1: de has half a surrogate pair, which is not text"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "content", "sentence"), BAD_TABLES)
def test_a_bad_table_is_refused_in_one_sentence(tmp_path, name, content, sentence):
    path = write(tmp_path / name, content)
    with pytest.raises(CorpusError) as caught:
        list(read_pairs(path, source_column="de", target_column="en"))
    assert str(caught.value) == sentence.format(file=path)


def test_deep_json_is_refused(tmp_path):
    path = write(tmp_path / "a.jsonl", b"[" * 200_000)
    with pytest.raises(CorpusError, match="line 1: not usable JSON"):
        list(read_pairs(path, source_column="de", target_column="en"))


BAD_REQUESTS = [
    ({}, "{file}: name the columns to read, by name or number: de, en"),
    ({"source_column": 1, "target_column": 3}, "{file}: no column 3; the columns are 1, 2"),
    ({"source_column": 0, "target_column": 1}, "{file}: no column 0; the columns are 1, 2"),
    ({"source_column": 1, "target_column": "en"}, "{file}: columns 1 and en mix names and numbers; use names (first row is a header) or numbers from 1 (no header)"),
]  # fmt: skip


@pytest.mark.parametrize(("columns", "sentence"), BAD_REQUESTS)
def test_columns_that_cannot_be_read_are_refused(tmp_path, columns, sentence):
    path = write(tmp_path / "a.tsv", b"de\ten\nEin\tA\n")
    with pytest.raises(CorpusError) as caught:
        list(read_pairs(path, **columns))
    assert str(caught.value) == sentence.format(file=path)


FIRST_TEN = ", ".join(f"c{number}" for number in range(10))
WIDE = [
    ({"source_column": "c3", "target_column": "e"}, f"no column e; the columns are {FIRST_TEN} and 999,990 more"),
    ({"source_column": 1, "target_column": 0}, "no column 0; the columns are 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 and 999,990 more"),
    ({}, f"name the columns to read, by name or number: {FIRST_TEN} and 999,990 more"),
]  # fmt: skip


@pytest.mark.parametrize(("columns", "sentence"), WIDE)
def test_a_million_columns_are_not_all_listed(tmp_path, columns, sentence):
    path = write(tmp_path / "a.tsv", "\t".join(f"c{number}" for number in range(1_000_000)).encode())
    with pytest.raises(CorpusError) as caught:
        list(read_pairs(path, **columns))
    assert str(caught.value) == f"{path}: {sentence}"


def test_a_long_column_name_is_cut(tmp_path):
    path = write(tmp_path / "a.tsv", b"x" * 100_000 + b"\ten\n")
    with pytest.raises(CorpusError) as caught:
        list(read_pairs(path, source_column="de", target_column="en"))
    assert str(caught.value) == f"{path}: no column de; the columns are {'x' * 40}..., en"


@pytest.mark.parametrize(("left", "right"), [(3, 5), (5, 3), (3, 4)])
def test_unequal_files_are_refused_with_both_counts(tmp_path, left, right):
    source, target = write(tmp_path / "a.de", b"x\n" * left), write(tmp_path / "a.en.gz", b"y\n" * right)
    with pytest.raises(CorpusError) as caught:
        list(read_pairs(source, target))
    assert str(caught.value) == (
        f"{source} has {left} lines and {target} has {right}; line-aligned files must have the same number"
    )


def test_a_missing_file_names_the_one_that_was_meant(tmp_path):
    with pytest.raises(CorpusError, match=r"no such file: .*a\.de$"):
        list(read_lines(tmp_path / "a.de"))
    write(tmp_path / "a.de.gz", b"x\n")
    with pytest.raises(CorpusError, match=r"no such file: .*a\.de; did you mean .*a\.de\.gz$"):
        list(read_lines(tmp_path / "a.de"))


def test_a_folder_is_not_a_file(tmp_path):
    with pytest.raises(CorpusError, match="is a folder; a text file is needed"):
        list(read_lines(tmp_path))


def test_one_plain_file_is_one_side_only(tmp_path):
    with pytest.raises(CorpusError, match="holds one side only; give the target file too"):
        read_pairs(write(tmp_path / "a.de", b"x\n"))


def test_a_plain_file_has_no_columns(tmp_path):
    with pytest.raises(CorpusError, match="has no columns, so no de"):
        list(read_lines(write(tmp_path / "a.txt", b"x\n"), "de"))


def test_a_file_without_line_ends_does_not_fill_the_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(text_files, "LONGEST_LINE", 100)
    assert list(read_lines(write(tmp_path / "a", b"x" * 99 + b"\n"))) == ["x" * 99]
    with pytest.raises(CorpusError, match="line 1: longer than 100 bytes; a line holds one sentence"):
        list(read_lines(write(tmp_path / "a", b"x" * 101)))
