"""Named data sets: from a folder or by download, in either direction, with splits that do not leak."""

import gzip
import hashlib
import io
import sys
import tarfile
import zipfile
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import regard.data
from regard.data import catalog, download, multi30k, tatoeba
from regard.errors import RegardError

ROWS = [(f"Sentence {number}.", f"Phrase {number}.") for number in range(400)]
TEXT = "".join(f"{english}\t{french}\tCC-BY 2.0\n" for english, french in ROWS)


def zipped(text: str = TEXT) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("_about.txt", "about")
        archive.writestr("fra.txt", text)
    return out.getvalue()


def sdist(content: bytes) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for name, data in [("setup.py", b"raise SystemExit('never run')"), ("data/fra-eng.zip", content)]:
            info = tarfile.TarInfo(f"nmt-0.0.6/{name}")
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


@pytest.fixture
def small_tatoeba(site, own_pip):
    """The original site gone, and an index with a small source archive."""
    archive = sdist(zipped())
    site.add("/files/nmt-0.0.6.tar.gz", archive)
    site.add("/simple/nmt/", b"<a href='/files/nmt-0.0.6.tar.gz'>nmt</a>", kind="text/html")
    own_pip.setenv("PIP_INDEX_URL", site.address + "/simple")
    own_pip.setattr(tatoeba, "SITE", site.address + "/anki/fra-eng.zip")
    own_pip.setattr(tatoeba, "_SDIST_SHA256", hashlib.sha256(archive).hexdigest())
    own_pip.setattr(tatoeba, "_FEWEST_PAIRS", 100)
    return site


@pytest.fixture
def small_multi30k(tmp_path):
    folder = tmp_path / "mine"
    (folder / "tok").mkdir(parents=True)
    for stem in ("train", "val", "test_2016_flickr"):
        for language in ("de", "en"):
            (folder / f"{stem}.{language}.gz").write_bytes(gzip.compress(f"{stem} {language}. \n".encode()))
            (folder / "tok" / f"{stem}.lc.norm.tok.{language}").write_text(f"{stem} {language} .\n")
    return folder


def test_the_names():
    assert catalog.names() == ("picturebook", "multi30k", "tatoeba-eng-fra")
    assert all(catalog.describe(name).name == name for name in catalog.names())


@pytest.mark.parametrize(
    ("ask", "sentence"),
    [
        (lambda: catalog.describe("multi30"), "unknown data set 'multi30'; allowed: picturebook, multi30k, tatoeba-eng-fra; did you mean multi30k"),
        (lambda: catalog.describe("wmt14"), "unknown data set 'wmt14'; allowed: picturebook, multi30k, tatoeba-eng-fra"),
        (lambda: catalog.pairs("multi30k", "vlaid", path="."), "unknown split 'vlaid'; allowed: train, valid, test; did you mean valid"),
        (lambda: catalog.pairs("multi30k", source="ge"), "unknown language 'ge' in multi30k; allowed: de, en, fr, cs"),
        (lambda: catalog.pairs("multi30k", source="en", target="en"), "multi30k: source and target are both en; choose two of its languages"),
        (lambda: catalog.pairs("tatoeba-eng-fra", form="tok"), "unknown form 'tok' of tatoeba-eng-fra; allowed: raw"),
        (lambda: catalog.fetch("multi30k", languages=["it"]), "unknown language 'it' in multi30k; allowed: de, en, fr, cs"),
        (lambda: catalog.pairs("multi30k", path="/nowhere"), "no such folder: /nowhere; it must hold train.de.gz"),
    ],
)  # fmt: skip
def test_what_there_is_not_is_refused_in_one_sentence(ask, sentence):
    with pytest.raises(RegardError) as caught:
        ask()
    assert str(caught.value) == sentence


@pytest.mark.parametrize(
    ("asked", "direction"),
    [
        ((None, None), ("de", "en")),
        (("en", None), ("en", "de")),
        ((None, "de"), ("en", "de")),
        (("fr", None), ("fr", "en")),
        ((None, "cs"), ("de", "cs")),
        (("cs", "fr"), ("cs", "fr")),
    ],
)
def test_a_direction_is_completed(asked, direction):
    assert catalog.describe("multi30k").direction(*asked) == direction


def test_multi30k_is_read_from_a_folder(small_multi30k):
    read = lambda **how: list(catalog.pairs("multi30k", path=small_multi30k, **how))  # noqa: E731
    assert read() == [("train de.", "train en.")]
    assert read(split="valid", source="en") == [("val en.", "val de.")]
    assert read(split="test", form="tok") == [("test_2016_flickr de .", "test_2016_flickr en .")]
    with pytest.raises(
        RegardError, match=r"has no train\.fr\.gz and no train\.fr, neither directly nor in raw/"
    ):
        read(source="fr")


def test_multi30k_is_downloaded_where_it_is_needed(site, tmp_path, monkeypatch):
    monkeypatch.setattr(multi30k, "_MIRRORS", (site.address + "/gone/", site.address + "/task1/"))
    content = {language: gzip.compress(f"{language}\n".encode()) for language in ("de", "en")}
    for language, zipped_text in content.items():
        site.add(f"/task1/raw/val.{language}.gz", zipped_text)
    monkeypatch.setattr(
        multi30k,
        "_SHA256",
        {f"val.{lang}.gz": hashlib.sha256(data).hexdigest() for lang, data in content.items()},
    )
    assert list(catalog.pairs("multi30k", "valid", cache=tmp_path)) == [("de", "en")]
    assert not catalog.present("multi30k", cache=tmp_path)
    asked = len(site.asked)
    assert list(catalog.pairs("multi30k", "valid", cache=tmp_path)) == [("de", "en")]
    assert list(catalog.pairs("multi30k", "valid", path=tmp_path / "multi30k")) == [("de", "en")]
    assert len(site.asked) == asked


def test_a_page_instead_of_a_tokenised_file_is_refused(site, tmp_path, monkeypatch):
    monkeypatch.setattr(multi30k, "_MIRRORS", (site.address + "/",))
    site.add("/tok/val.lc.norm.tok.de", b"<html>log in</html>\n")
    with pytest.raises(RegardError, match="has 1 lines; the valid split of de has 1,014"):
        catalog.pairs("multi30k", "valid", form="tok", cache=tmp_path)


def test_every_file_of_multi30k_has_a_digest():
    raw = [
        multi30k._remote(split, language, "raw")
        for split in ("train", "valid", "test")
        for language in ("de", "en", "fr", "cs")
    ]
    assert all(remote.sha256 or remote.md5 for remote in raw)
    assert all(url.startswith("https://") for remote in raw for url in remote.mirrors)


def test_tatoeba_comes_from_the_index_when_the_site_is_gone(small_tatoeba, tmp_path):
    (table,) = catalog.fetch("tatoeba-eng-fra", cache=tmp_path)
    assert table.read_text() == TEXT
    assert catalog.present("tatoeba-eng-fra", cache=tmp_path)
    asked = len(small_tatoeba.asked)
    catalog.fetch("tatoeba-eng-fra", cache=tmp_path)
    assert len(small_tatoeba.asked) == asked


def test_tatoeba_comes_from_the_site_when_it_is_there(small_tatoeba, tmp_path):
    small_tatoeba.add("/anki/fra-eng.zip", zipped())
    (table,) = catalog.fetch("tatoeba-eng-fra", cache=tmp_path)
    assert table.read_text() == TEXT
    assert [path for path, _ in small_tatoeba.asked] == ["/anki/fra-eng.zip"]
    assert (table.parent / "fra-eng.zip.sha256").is_file()


@pytest.mark.parametrize("instead", [b"<html>moved</html>", zipped("a\tb\tc\n")], ids=["page", "few"])
def test_a_wrong_file_on_the_site_is_passed_over(small_tatoeba, tmp_path, instead):
    small_tatoeba.add("/anki/fra-eng.zip", instead)
    (table,) = catalog.fetch("tatoeba-eng-fra", cache=tmp_path)
    assert table.read_text() == TEXT


def test_when_every_way_fails_all_are_named(small_tatoeba, tmp_path, monkeypatch):
    del small_tatoeba.pages["/simple/nmt/"]
    with pytest.raises(download.DownloadError) as caught:
        catalog.fetch("tatoeba-eng-fra", cache=tmp_path)
    assert f"{small_tatoeba.address}/anki/fra-eng.zip (HTTP 404 Not Found)" in str(caught.value)
    assert f"{small_tatoeba.address}/simple/nmt/ (HTTP 404 Not Found)" in str(caught.value)
    assert str(caught.value).endswith("; if you have the files, name their folder with --path or data.path")
    assert "\n" not in str(caught.value)


def test_another_file_under_the_same_name_is_refused(small_tatoeba, tmp_path):
    small_tatoeba.add("/files/nmt-0.0.6.tar.gz", sdist(zipped("another text")))
    with pytest.raises(download.DownloadError, match="its SHA-256 is"):
        catalog.fetch("tatoeba-eng-fra", cache=tmp_path)
    small_tatoeba.add("/simple/nmt/", b"<a href='/files/nmt-0.0.6.tar.gz#sha256=00'>nmt</a>", kind="text/html")
    with pytest.raises(download.DownloadError, match="every index lists another file under this name"):
        catalog.fetch("tatoeba-eng-fra", cache=tmp_path)


def test_tatoeba_splits_share_nothing_and_lose_nothing(tmp_path):
    (tmp_path / "fra.txt").write_text(TEXT)
    splits = {
        split: list(catalog.pairs("tatoeba-eng-fra", split, path=tmp_path))
        for split in ("train", "valid", "test")
    }
    assert sorted(pair for split in splits.values() for pair in split) == sorted(ROWS)
    assert all(splits.values())
    assert len(splits["train"]) > 360
    backwards = list(catalog.pairs("tatoeba-eng-fra", "test", path=tmp_path, source="fr"))
    assert backwards == [(french, english) for english, french in splits["test"]]


def test_a_french_sentence_held_out_is_not_trained_on(tmp_path):
    held = next(english for english, _ in ROWS if tatoeba.split_of(english) == "test")
    trained = next(english for english, _ in ROWS if tatoeba.split_of(english) == "train")
    (tmp_path / "fra.tsv").write_text(f"{held}\tOui !\tx\n{trained}\tOui.\tx\n{trained}\tNon.\tx\n")
    assert list(catalog.pairs("tatoeba-eng-fra", "test", path=tmp_path)) == [(held, "Oui !")]
    assert list(catalog.pairs("tatoeba-eng-fra", "train", path=tmp_path)) == [(trained, "Non.")]


@given(st.text(max_size=20))
def test_case_and_punctuation_do_not_move_a_sentence(english):
    assert tatoeba.split_of(english) in ("train", "valid", "test")
    if any(letter.isalnum() for letter in english) and english.isascii():
        assert tatoeba.split_of(english) == tatoeba.split_of(f" {english.upper()}!?")


def test_the_split_of_a_sentence_never_changes():
    known = {"Go.": "train", "Hi.": "valid", "Wait!": "test", "I love you.": "train"}
    assert {sentence: tatoeba.split_of(sentence) for sentence in known} == known


def test_a_zip_of_the_user_is_read(tmp_path):
    (tmp_path / "fra-eng.zip").write_bytes(zipped())
    pairs = catalog.pairs("tatoeba-eng-fra", path=tmp_path, cache=tmp_path / "cache")
    assert set(pairs) <= set(ROWS)


def test_a_folder_without_the_data_says_what_it_should_hold(tmp_path):
    with pytest.raises(RegardError, match=r"holds none of fra\.tsv, fra\.txt and fra-eng\.zip"):
        catalog.pairs("tatoeba-eng-fra", path=tmp_path)


def test_picturebook_is_asked_only_when_it_is_wanted(monkeypatch):
    asked = []

    def pairs(split, count=None, seed=0):
        asked.append(split)
        return iter([("Ein Hund.", "A dog.")])

    book = SimpleNamespace(pairs=pairs)
    monkeypatch.setitem(sys.modules, "regard.data.picturebook", book)
    monkeypatch.setattr(regard.data, "picturebook", book, raising=False)
    assert list(catalog.pairs("picturebook")) == [("Ein Hund.", "A dog.")]
    assert list(catalog.pairs("picturebook", "test", source="en")) == [("A dog.", "Ein Hund.")]
    assert asked == ["train", "test"]


def test_picturebook_needs_no_download(tmp_path):
    first = next(iter(catalog.pairs("picturebook")))
    assert all(first)
    assert next(iter(catalog.pairs("picturebook", source="en"))) == first[::-1]
    assert catalog.present("picturebook", cache=tmp_path)
    assert catalog.fetch("picturebook", cache=tmp_path) == []
    with pytest.raises(RegardError, match="takes no folder"):
        catalog.pairs("picturebook", path=tmp_path)
