"""The pairs of a recipe in three splits."""

from pathlib import Path

import pytest

from regard.config.data import PairDataConfig
from regard.data.parallel import ParallelCorpus
from regard.errors import RegardError


def write(folder: Path, pairs: list[tuple[str, str]]) -> PairDataConfig:
    (folder / "a.de").write_text("".join(f"{source}\n" for source, _ in pairs), "utf-8")
    (folder / "a.en").write_text("".join(f"{target}\n" for _, target in pairs), "utf-8")
    return PairDataConfig(path=str(folder), source="a.de", target="a.en")


@pytest.mark.parametrize(
    ("settings", "direction"),
    [
        ({"source": "mine.de", "target": "mine.en.gz"}, ("de", "en")),
        ({"source": "mine.de", "target": "mine.txt"}, ("de", "target")),
        ({"source": "mine.de", "target": "mine.en", "source_language": "nds"}, ("nds", "en")),
        ({"source": "all.tsv.gz"}, ("source", "target")),
        ({"source": "all.gz"}, ("source", "target")),
        ({"corpus": "multi30k"}, ("de", "en")),
        ({"corpus": "multi30k", "target_language": "fr"}, ("de", "fr")),
    ],
)
def test_languages_follow_from_the_files(settings: dict[str, str], direction: tuple[str, str]) -> None:
    assert PairDataConfig(**settings).direction == direction  # type: ignore[arg-type]


def test_held_out_pairs_share_no_source_sentence_with_training(tmp_path: Path) -> None:
    pairs = [(f"Satz {number % 900}", f"sentence {number}") for number in range(3000)]
    corpus = ParallelCorpus(write(tmp_path, pairs))
    train = list(corpus.train())
    assert len(train) + len(corpus.valid) + len(corpus.test) == 3000
    splits = [{source for source, _ in split} for split in (train, corpus.valid, corpus.test)]
    assert not splits[0] & splits[1]
    assert not splits[0] & splits[2]
    assert not splits[1] & splits[2]
    assert 60 < len(corpus.valid) < 260


def test_given_files_are_used_and_empty_lines_counted(tmp_path: Path) -> None:
    data = write(
        tmp_path, [("eins", "one"), ("", "two"), ("drei", ""), ("vier " * 30, "four"), ("fünf", "five")]
    )
    (tmp_path / "v.de").write_text("acht\n")
    (tmp_path / "v.en").write_text("eight\n")
    changed = PairDataConfig(
        path=data.path, source="a.de", target="a.en", valid_source="v.de", valid_target="v.en",
        test_source="v.de", test_target="v.en", max_length=20,
    )  # fmt: skip
    corpus = ParallelCorpus(changed)
    assert list(corpus.train()) == [("eins", "one"), ("fünf", "five")]
    assert str(corpus.report) == "5 read, 2 kept; dropped: 2 empty, 1 longer than 20"
    assert corpus.valid == corpus.test == [("acht", "eight")]


def test_one_table_with_named_columns(tmp_path: Path) -> None:
    rows = "".join(f"Satz {number}\tsentence {number}\n" for number in range(500))
    (tmp_path / "all.tsv").write_text("german\tenglish\n" + rows)
    data = PairDataConfig(path=str(tmp_path), source="all.tsv", source_column="german", target_column="english")
    assert next(ParallelCorpus(data).train())[1].startswith("sentence")


@pytest.mark.parametrize(
    ("pairs", "sentence"),
    [
        ([("eins", "one")], "too few pairs to hold some out"),
        ([("", "one")] * 400, "too few pairs to hold some out"),
    ],
)
def test_too_little_is_refused(tmp_path: Path, pairs: list[tuple[str, str]], sentence: str) -> None:
    with pytest.raises(RegardError, match=sentence):
        ParallelCorpus(write(tmp_path, pairs))


def test_nothing_left_to_train_on_is_refused(tmp_path: Path) -> None:
    data = write(tmp_path, [(f"eins zwei drei {number}", "one two three four") for number in range(500)])
    with pytest.raises(RegardError, match="no pair is left to train on"):
        ParallelCorpus(PairDataConfig(path=data.path, source="a.de", target="a.en", max_length=2)).fingerprint()


def test_fingerprint_follows_the_text(tmp_path: Path) -> None:
    pairs = [(f"Satz {number}", f"sentence {number}") for number in range(500)]
    first = ParallelCorpus(write(tmp_path, pairs)).fingerprint()
    assert ParallelCorpus(write(tmp_path, pairs)).fingerprint() == first
    assert ParallelCorpus(write(tmp_path, [*pairs[:-1], ("Satz", "other")])).fingerprint() != first
