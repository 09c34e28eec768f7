"""Hostile and broken archives are refused, and nothing is left behind."""

import io
import stat
import tarfile
import warnings
import zipfile

import pytest

from regard.data import archive as archive_module
from regard.data.archive import ArchiveError, unpack


def make_zip(path, *members):
    with warnings.catch_warnings(), zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as out:
        warnings.simplefilter("ignore")  # a doubled name
        for info, content in members:
            out.writestr(info, content)
    return path


def make_tar(path, *members):
    with tarfile.open(path, "w:gz") as out:
        for info, content in members:
            info = tarfile.TarInfo(info) if isinstance(info, str) else info
            info.size = len(content)
            out.addfile(info, io.BytesIO(content))
    return path


def zip_link(name):
    info = zipfile.ZipInfo(name)
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    return info


def tar_special(name, kind):
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, "/etc/passwd"
    return info


@pytest.fixture(params=[make_zip, make_tar], ids=["zip", "tar"])
def make(request):
    return request.param


def test_a_member_comes_out_as_it_went_in(tmp_path, make):
    content = bytes(range(256)) * 10_000
    archive = make(tmp_path / "a", ("folder/text", content), ("other", b"x"))
    assert unpack(archive, "folder/text", tmp_path / "deep" / "out").read_bytes() == content
    assert [file.name for file in (tmp_path / "deep").iterdir()] == ["out"]


def test_a_zip_inside_a_tar_does_not_pass_for_the_whole(tmp_path):
    inner = make_zip(tmp_path / "inner.zip", ("text", b"hello"))
    outer = make_tar(tmp_path / "outer.tar.gz", ("data/inner.zip", inner.read_bytes()))
    assert (
        unpack(unpack(outer, "data/inner.zip", tmp_path / "x"), "text", tmp_path / "y").read_bytes() == b"hello"
    )


@pytest.mark.parametrize("name", ["/etc/passwd", "../up", "a/../../up", "..\\up", "C:\\up", "a\0b", ""])
def test_a_name_that_leaves_the_archive_is_refused(tmp_path, make, name):
    archive = make(tmp_path / "a", ("x", b"x")) if not name else make(tmp_path / "a", (name, b"x"))
    with pytest.raises(ArchiveError, match="leaves the archive; it must be a path inside it"):
        unpack(archive, name, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "kind",
    [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE, tarfile.DIRTYPE],
)
def test_tar_links_devices_and_folders_are_refused(tmp_path, kind):
    archive = make_tar(tmp_path / "a.tar.gz", (tar_special("text", kind), b""))
    with pytest.raises(ArchiveError, match="text is a link, folder or device; only a plain file is unpacked"):
        unpack(archive, "text", tmp_path / "out")


@pytest.mark.parametrize("member", [zip_link("text"), zipfile.ZipInfo("text/")])
def test_zip_links_and_folders_are_refused(tmp_path, member):
    archive = make_zip(tmp_path / "a.zip", (member, b"/etc/passwd"))
    with pytest.raises(ArchiveError, match="is a link, folder or device; only a plain file is unpacked"):
        unpack(archive, member.filename, tmp_path / "out")


def test_a_bomb_is_refused_before_it_is_unpacked(tmp_path, make):
    archive = make(tmp_path / "a", ("text", bytes(1_000_000)))
    with pytest.raises(ArchiveError, match="text unpacks to 1,000,000 bytes; allowed are 999,999"):
        unpack(archive, "text", tmp_path / "out", largest=999_999)
    assert unpack(archive, "text", tmp_path / "out", largest=1_000_000).stat().st_size == 1_000_000


def test_a_zip_that_lies_about_its_size_is_refused(tmp_path):
    archive = make_zip(tmp_path / "a.zip", ("text", bytes(1_000_000)))
    content = archive.read_bytes().replace((1_000_000).to_bytes(4, "little"), (10).to_bytes(4, "little"))
    archive.write_bytes(content)
    with pytest.raises(ArchiveError, match="damaged"):
        unpack(archive, "text", tmp_path / "out", largest=1000)
    assert [file.name for file in tmp_path.iterdir()] == ["a.zip"]


def test_a_tar_that_hides_a_bomb_before_the_member_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(archive_module, "MAX_SCANNED_BYTES", 1000)
    archive = make_tar(tmp_path / "a.tar.gz", ("bomb", bytes(2000)), ("text", b"x"))
    with pytest.raises(ArchiveError, match="unpacks to more than 1,000 bytes, which is refused"):
        unpack(archive, "text", tmp_path / "out")


def test_a_doubled_name_is_refused(tmp_path, make):
    archive = make(tmp_path / "a", ("text", b"one"), ("text", b"two"))
    with pytest.raises(ArchiveError, match="holds text 2 times; it must hold it once"):
        unpack(archive, "text", tmp_path / "out")


def test_a_missing_member_is_named(tmp_path, make):
    with pytest.raises(ArchiveError, match=r"a has no member text$"):
        unpack(make(tmp_path / "a", ("other", b"x")), "text", tmp_path / "out")


def test_a_damaged_archive_leaves_nothing_behind(tmp_path, make):
    archive = make(tmp_path / "a", ("text", bytes(range(256)) * 1000))
    content = bytearray(archive.read_bytes())
    for place in range(60, 400):
        content[place] ^= 0x5A
    archive.write_bytes(content)
    with pytest.raises(ArchiveError):
        unpack(archive, "text", tmp_path / "out")
    assert [file.name for file in tmp_path.iterdir()] == ["a"]


@pytest.mark.parametrize("content", [b"", b"no archive at all", b"\x1f\x8bno", b"PK\x03\x04no"])
def test_what_is_no_archive_is_refused(tmp_path, content):
    (tmp_path / "a").write_bytes(content)
    with pytest.raises(ArchiveError):
        unpack(tmp_path / "a", "text", tmp_path / "out")


def test_a_missing_archive_is_one_sentence(tmp_path):
    with pytest.raises(ArchiveError, match="No such file"):
        unpack(tmp_path / "a.zip", "text", tmp_path / "out")
