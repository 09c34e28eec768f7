"""A token store whose files were altered or cut: refused with one sentence, or rebuilt, and never trained from."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import regard
from regard.data import token_store as stores
from regard.data.batch_order import Cursor
from regard.data.batches import Batches
from regard.data.language_modeling import TokenWindows
from regard.data.masked_lm import MaskedLmExamples, MaskingSymbols, TokenMasking
from regard.data.text_files import CorpusError
from regard.data.token_store import TokenStore, open_or_build

PAIRS = [(" ".join(["a"] * (1 + i % 7)), " ".join(["ä"] * (1 + i % 5))) for i in range(40)]
SIZES = (20, 15)
Alter = Callable[[Path], None]


def encode(texts: list[str]) -> list[list[int]]:
    return [[10 + place for place in range(len(text.split()))] for text in texts]


def built(folder: Path) -> TokenStore:
    return open_or_build(folder, lambda: PAIRS, encode, encode, SIZES, part=10)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    built(tmp_path / "store")
    return tmp_path / "store"


def put(name: str, position: int, value: int) -> Alter:
    """Replace one number of a file of part 1."""

    def alter(folder: Path) -> None:
        path = folder / "00001" / name
        numbers = np.fromfile(path, np.uint32 if name.endswith("ids") else np.int64)
        numbers[position] = value
        numbers.tofile(path)

    return alter


def cut(name: str, size: int) -> Alter:
    def alter(folder: Path) -> None:
        path = folder / "00001" / name
        path.write_bytes(path.read_bytes()[:size])

    return alter


def tell(**values: object) -> Alter:
    def alter(folder: Path) -> None:
        path = folder / "store.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | values))

    return alter


def text_that_is_none(folder: Path) -> None:
    (folder / "00001" / "target.text").write_bytes(b"\xff" * (folder / "00001" / "target.text").stat().st_size)


DAMAGE = {
    "source id": (
        put("source.ids", 17, 90210),
        "00001/source.ids is damaged: token id 90,210 at position 17, the vocabulary has 20",
    ),
    "id that just fits the other side": (
        put("target.ids", 3, 15),
        "00001/target.ids is damaged: token id 15 at position 3, the vocabulary has 15",
    ),
    "negative id": (put("target.ids", 0, 2**32 - 1), "token id 4,294,967,295 at position 0"),
    "negative offset": (put("source.starts", 4, -5), "source.starts is damaged: offset -5 at position 4 follows"),
    "offset beyond the data": (put("target.starts", 4, 2**62), "at position 5 follows 4,611,686,018,427,387,904"),
    "offsets not in order": (put("source.starts", 4, 1), "source.starts is damaged: offset 1 at position 4 follows"),
    "first offset": (put("source.starts", 0, 2), "offsets from 2 to 43, the data is from 0 to 43"),
    "last offset": (put("target.starts", -1, 999), "offsets from 0 to 999, the data is from 0 to 30"),
    "offset of a text": (put("source.text-starts", 3, 10**9), "source.text-starts is damaged: offset"),
    "ids cut": (cut("source.ids", 12), "source.starts is damaged: offsets from 0 to 43, the data is from 0 to 3"),
    "ids cut within one": (cut("source.ids", 13), "source.ids is damaged"),
    "no ids": (cut("target.ids", 0), "target.starts is damaged: offsets from 0 to 30, the data is from 0 to 0"),
    "offsets cut": (cut("source.starts", 40), "source.starts is damaged: 5 offsets for 10 sentences"),
    "no offsets": (cut("target.starts", 0), "target.starts is damaged: 0 offsets for 10 sentences"),
    "a file gone": (lambda folder: (folder / "00001" / "target.ids").unlink(), "target.ids is damaged"),
    "more pairs": (tell(pairs=41), "store.json is damaged: 41 pairs, 10 per part, in 4 parts"),
    "pairs without end": (tell(pairs=10**15, part=1), "store.json is damaged: 1,000,000,000,000,000 pairs"),
    "fewer pairs": (tell(pairs=39), "00003/source.starts is damaged: 11 offsets for 9 sentences"),
    "no size": (tell(part=0), "store.json is damaged: 40 pairs, 0 per part"),
    "infinite": (tell(pairs=float("inf")), "store.json is damaged"),
}  # fmt: skip


def one_epoch(store: TokenStore) -> list[list[int]]:
    rows: list[list[int]] = []
    for batch, after in Batches(store, tokens=60, pool=20).stream(Cursor()):
        pairs = zip(batch.source.split(), batch.labels.split(), strict=True)
        rows.extend([*source.tolist(), *target.tolist()] for source, target in pairs)
        if after.epoch:
            return rows
    raise AssertionError


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_file_is_one_sentence(folder: Path, damage: str) -> None:
    alter, sentence = DAMAGE[damage]
    alter(folder)
    with pytest.raises(CorpusError) as caught:
        one_epoch(TokenStore(folder, SIZES))
    assert sentence in str(caught.value)
    assert str(caught.value).endswith(f"; delete {folder} and start again, which rebuilds it from the corpus")
    assert caught.value.code == 2


@pytest.mark.parametrize("damage", DAMAGE)
def test_opening_rebuilds_it(folder: Path, tmp_path: Path, damage: str) -> None:
    DAMAGE[damage][0](folder)
    assert one_epoch(built(folder)) == one_epoch(built(tmp_path / "other"))


def test_only_the_damaged_part_is_rebuilt(folder: Path) -> None:
    put("source.ids", 17, 90210)(folder)
    encoded: list[str] = []

    def noted(texts: list[str]) -> list[list[int]]:
        encoded.extend(texts)
        return encode(texts)

    open_or_build(folder, lambda: PAIRS, noted, encode, SIZES, part=10)
    assert encoded == [source for source, _ in PAIRS[10:20]]


def test_nothing_outside_the_store_is_removed(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "precious").mkdir()
    tell(bytes={"../precious/file": 1, "file": 1})(folder)
    assert len(built(folder)) == 40
    assert (tmp_path / "precious").is_dir()


def test_parts_beyond_those_checked_at_opening_are_checked_when_they_are_read(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stores, "OPEN", 1)
    put("source.ids", 17, 90210)(folder)
    store = built(folder)
    assert store.source.sentence(9).tolist() == [10, 11, 12]
    with pytest.raises(CorpusError, match="token id 90,210 at position 17"):
        store.source.sentence(10)


def test_text_that_is_not_utf_8(folder: Path) -> None:
    text_that_is_none(folder)
    sampled = (lambda texts, seed: encode(texts), lambda texts, seed: encode(texts))
    with pytest.raises(CorpusError, match=r"00001/target.text is damaged: sentence \d of it is not UTF-8"):
        list(zip(range(50), Batches(TokenStore(folder, SIZES), resample=sampled).stream(), strict=False))


def test_running_text_is_checked_too(folder: Path) -> None:
    put("source.ids", 17, 90210)(folder)
    with pytest.raises(CorpusError, match="token id 90,210 at position 17"):
        TokenWindows(TokenStore(folder, SIZES), 8)


@pytest.mark.parametrize(
    ("alter", "sentence"),
    [
        (put("source.ids", 17, 90210), "00001/source.ids is damaged: token id 90,210 at position 17"),
        (
            put("target.starts", 3, 2),
            "00001/target.starts is damaged: a sentence has no document number, or several",
        ),
    ],
)
def test_documents_are_checked_too(tmp_path: Path, alter: Alter, sentence: str) -> None:
    folder, sizes = tmp_path / "documents", (20, 2**32)
    open_or_build(folder, lambda: PAIRS, encode, lambda texts: [[7] for _ in texts], sizes, part=10)
    alter(folder)
    with pytest.raises(CorpusError, match=sentence):
        MaskedLmExamples(
            TokenStore(folder, sizes),
            8,
            MaskingSymbols(2, 3, 4, np.arange(5, 20), np.zeros(20, bool)),
            TokenMasking(),
        )


@pytest.mark.parametrize("side", ["source", "target"])
def test_a_training_on_altered_ids_gives_what_it_gave(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, side: str
) -> None:
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    lines = [" ".join(rng.choice(["eins", "zwei", "drei", "vier"], 1 + i % 6)) for i in range(400)]
    for name in ("n.de", "n.en"):
        (tmp_path / name).write_text("\n".join(lines), "utf-8")

    def train(out: str) -> float:
        return regard.train("translation", tmp_path / out, overrides={
            "data.source": "n.de", "data.target": "n.en", "tokenizer.kind": "words",
            "data.source_language": "de", "data.target_language": "en", "tokenizer.min_count": 1,
            "model.encoder_layers": 1, "model.decoder_layers": 1, "model.d_model": 16,
            "model.heads": 2, "model.d_ff": 32, "model.max_length": 16, "train.steps": 2,
            "train.batch_tokens": 256,
        }).loss  # fmt: skip

    first = train("first")
    [path] = (tmp_path / "cache" / "stores").glob(f"*/00000/{side}.ids")
    ids = np.fromfile(path, np.uint32)
    ids[::3] = 900_000_000
    ids.tofile(path)
    assert train("second") == first
