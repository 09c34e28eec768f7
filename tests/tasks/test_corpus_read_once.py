"""A corpus is read once before the first step; the splits follow their definition."""

import gzip
import shutil
import zlib
from collections import Counter
from hashlib import sha256
from pathlib import Path

import pytest

import regard
from regard.config.data import PairDataConfig
from regard.config.schema import parse_assignments
from regard.data import text_files
from regard.data.parallel import ParallelCorpus

SMALL = [
    "model.size=tiny", "model.encoder_layers=1", "model.decoder_layers=1", "model.d_model=16", "model.d_ff=16",
    "model.heads=2", "train.steps=4", "train.checkpoint_every=2", "train.validate_every=4",
    "train.batch_tokens=256", "train.validate_sentences=2", "decode.beam=1", "tokenizer.vocab_size=320", "train.minutes=9",
]  # fmt: skip


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each file of a corpus is opened."""
    counts: Counter[str] = Counter()
    open_file = text_files._open

    def counting_open(path: Path):  # type: ignore[no-untyped-def]
        counts[path.name] += 1
        return open_file(path)

    monkeypatch.setattr(text_files, "_open", counting_open)
    return counts


def write(folder: Path, name: str, pairs: list[tuple[str, str]]) -> None:
    (folder / f"{name}.de").write_text("".join(f"{source}\n" for source, _ in pairs), "utf-8")
    (folder / f"{name}.en").write_text("".join(f"{target}\n" for _, target in pairs), "utf-8")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    numbers = ["eins", "zwei", "drei", "vier", "fünf", "sechs"]
    pairs = [(f"{numbers[n % 6]} {numbers[n // 6 % 6]} Satz {n}", f"sentence number {n}") for n in range(900)]
    write(tmp_path, "all", pairs)
    write(tmp_path, "valid", pairs[:9])
    write(tmp_path, "test", pairs[9:19])
    (tmp_path / "all.de.gz").write_bytes(gzip.compress((tmp_path / "all.de").read_bytes()))
    (tmp_path / "all.tsv").write_text("de\ten\n" + "".join(f"{a}\t{b}\n" for a, b in pairs), "utf-8")
    return tmp_path


OWN_FILES = ["valid.de", "valid.en", "test.de", "test.en"]
KEYS = [
    f"data.{name.split('.')[0]}_{'source' if name.endswith('de') else 'target'}={name}" for name in OWN_FILES
]


@pytest.mark.parametrize(
    ("data", "files"),
    [
        (["data.source=all.de", "data.target=all.en"], ["all.de", "all.en"]),
        (["data.source=all.de.gz", "data.target=all.en", "tokenizer.joint=false", "model.tie_embeddings=output"],
         ["all.de.gz", "all.en"]),
        (["data.source=all.tsv", "data.source_column=de", "data.target_column=en", "tokenizer.kind=words"],
         ["all.tsv"]),
        (["data.source=all.de", "data.target=all.en", *KEYS], ["all.de", "all.en", *OWN_FILES]),
        (["data.source=all.de", "data.target=all.en", *KEYS[2:]], ["all.de", "all.en", *OWN_FILES[2:]]),
    ],
    ids=["two files", "gzip, two vocabularies", "a table of words", "files for all", "a file for the test"],
)  # fmt: skip
def test_every_file_is_opened_once(
    folder: Path, opened: Counter[str], data: list[str], files: list[str]
) -> None:
    keys = [f"data.path={folder}", *data, *SMALL]
    run = regard.train("translation", folder / "run", overrides=parse_assignments(keys))
    assert opened == dict.fromkeys(files, 1)
    opened.clear()
    assert run is not None
    (folder / "run" / "config.json").unlink()  # as if it were not finished
    shutil.rmtree(folder / "run" / "checkpoints" / "4")
    regard.train("translation", folder / "run", overrides=parse_assignments(keys), resume=True)
    assert opened == dict.fromkeys(files, 1)


def test_evaluation_reads_the_corpus_once(folder: Path, opened: Counter[str]) -> None:
    keys = [f"data.path={folder}", "data.source=all.de", "data.target=all.en", *SMALL]
    regard.train("translation", folder / "run", overrides=parse_assignments(keys))
    opened.clear()
    assert regard.load(folder / "run").test_pairs()
    assert opened == {"all.de": 1, "all.en": 1}


@pytest.mark.parametrize("pairs_wanted", [0, 100])
@pytest.mark.parametrize("held_out", [20, 1000])
def test_splits_report_and_fingerprint_are_those_of_the_definition(
    tmp_path: Path, held_out: int, pairs_wanted: int
) -> None:
    pairs = [(f"Satz {n} " * (1 + n % 5), f"sentence {n}") for n in range(1500)]
    pairs[40:1400:90] = [("", "nothing")] * len(pairs[40:1400:90])
    write(tmp_path, "all", pairs)
    tidied = [(source.rstrip(), target) for source, target in pairs]
    share = min(held_out / 1500, 0.05)
    names = {0: "valid", 1: "test"}
    split: dict[str, list[tuple[str, str]]] = {"train": [], "valid": [], "test": []}
    for pair in tidied:
        bucket = int(zlib.crc32(pair[0].encode()) % (1 << 20) / (1 << 20) / share)
        split[names.get(bucket, "train")].append(pair)
    kept = [(a, b) for a, b in split["train"] if a and len(a.split()) <= 8]
    data = PairDataConfig(
        path=str(tmp_path),
        source="all.de",
        target="all.en",
        max_length=8,
        held_out=held_out,
        pairs=pairs_wanted,
    )
    corpus = ParallelCorpus(data)
    kept = kept[: pairs_wanted or None]
    assert list(corpus.train()) == kept
    assert corpus.valid == [pair for pair in split["valid"] if pair[0]]
    assert corpus.test == [pair for pair in split["test"] if pair[0]]
    assert corpus.fingerprint() == sha256("".join(f"{a}\n{b}\n" for a, b in kept).encode()).hexdigest()
    read = split["train"][: split["train"].index(kept[-1]) + 1] if pairs_wanted else split["train"]
    assert (corpus.report.read, corpus.report.kept) == (len(read), len(kept))
    assert corpus.report.empty == sum(1 for a, _ in read if not a)
    assert corpus.report.long == sum(1 for a, _ in read if len(a.split()) > 8)


def test_with_a_known_count_a_process_reads_only_the_same_training_pairs(
    folder: Path, opened: Counter[str]
) -> None:
    data = PairDataConfig(path=str(folder), source="all.de", target="all.en", held_out=30, pairs=700)
    first = ParallelCorpus(data)
    assert first.count == 900
    opened.clear()
    other = ParallelCorpus(data, first.count)
    assert not opened
    assert list(other.train()) == list(first.train())
    assert opened == {"all.de": 1, "all.en": 1}
    assert other.valid == other.test == []
