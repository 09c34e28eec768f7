"""Downloads from a real server with broken connections, wrong content, missing files and redirects."""

import errno
import hashlib
import os
import random
import threading
from pathlib import Path

import pytest

from regard.data import download, http_client
from regard.data.download import DownloadError, Remote, RetryPolicy, fetch, intact
from regard.errors import RegardError
from regard.storage import cache_folder

CONTENT = random.Random(1).randbytes(300_000)
SHA256 = hashlib.sha256(CONTENT).hexdigest()
QUICK = RetryPolicy(timeout=5, attempts=3, pause=0, sleep=lambda seconds: None)


def remote(*mirrors, **known):
    return Remote("corpus.gz", mirrors, **{"sha256": SHA256, **known})


def files(folder: Path) -> set[str]:
    return {file.name for file in folder.iterdir()} - {".lock"}


def test_a_file_arrives_once_and_is_put_in_place(site, tmp_path):
    wanted = remote(site.add("/corpus.gz", CONTENT))
    assert fetch(wanted, tmp_path / "cache").read_bytes() == CONTENT
    assert fetch(wanted, tmp_path / "cache").read_bytes() == CONTENT
    assert site.asked == [("/corpus.gz", None)]
    assert files(tmp_path / "cache") == {"corpus.gz"}


def test_a_part_from_earlier_is_continued(site, tmp_path):
    (tmp_path / "corpus.gz.part").write_bytes(CONTENT[:100_000])
    assert fetch(remote(site.add("/corpus.gz", CONTENT)), tmp_path).read_bytes() == CONTENT
    assert site.asked == [("/corpus.gz", "bytes=100000-")]


def test_a_server_that_ignores_the_range_sends_all_again(site, tmp_path):
    (tmp_path / "corpus.gz.part").write_bytes(CONTENT[:100_000])
    assert fetch(remote(site.add("/corpus.gz", CONTENT, ranges=False)), tmp_path).read_bytes() == CONTENT
    assert site.asked == [("/corpus.gz", "bytes=100000-")]


def test_a_part_that_is_already_whole_is_only_checked(site, tmp_path):
    (tmp_path / "corpus.gz.part").write_bytes(CONTENT)
    assert fetch(remote(site.add("/corpus.gz", CONTENT)), tmp_path).read_bytes() == CONTENT
    assert site.asked == [("/corpus.gz", "bytes=300000-")]


@pytest.mark.parametrize("part", [b"something else", CONTENT + b"too much"])
def test_a_part_of_another_file_is_thrown_away(site, tmp_path, part):
    (tmp_path / "corpus.gz.part").write_bytes(part)
    assert fetch(remote(site.add("/corpus.gz", CONTENT)), tmp_path, retry=QUICK).read_bytes() == CONTENT
    assert site.asked[-1] == ("/corpus.gz", None)


def test_a_connection_cut_in_the_middle_is_continued(site, tmp_path):
    url = site.add("/corpus.gz", CONTENT, cut=[70_000, 70_000])
    assert fetch(remote(url), tmp_path, retry=QUICK).read_bytes() == CONTENT
    assert site.asked == [("/corpus.gz", None), ("/corpus.gz", "bytes=70000-"), ("/corpus.gz", "bytes=140000-")]


def test_a_connection_cut_each_time_says_how_far_it_came_and_keeps_the_part(site, tmp_path):
    url = site.add("/corpus.gz", CONTENT, cut=[10, 10, 10])
    with pytest.raises(DownloadError, match=r"the connection ended after 30 of 300,000 bytes"):
        fetch(remote(url), tmp_path, retry=QUICK)
    assert (tmp_path / "corpus.gz.part").read_bytes() == CONTENT[:30]
    assert fetch(remote(url), tmp_path, retry=QUICK).read_bytes() == CONTENT


def test_a_busy_server_is_asked_again_after_a_growing_pause(site, tmp_path):
    pauses = []
    retry = RetryPolicy(attempts=4, pause=0.5, sleep=pauses.append)
    fetch(remote(site.add("/corpus.gz", CONTENT, errors=[503, 429, 500])), tmp_path, retry=retry)
    assert pauses == [0.5, 1.0, 2.0]


def test_a_missing_file_is_not_asked_for_again_but_at_the_next_mirror(site, tmp_path):
    good = site.add("/corpus.gz", CONTENT)
    assert fetch(remote(site.address + "/gone", good), tmp_path, retry=QUICK).read_bytes() == CONTENT
    assert site.asked == [("/gone", None), ("/corpus.gz", None)]


def test_a_wrong_checksum_sends_us_to_the_next_mirror(site, tmp_path):
    bad, good = site.add("/bad", b"x" * 1000), site.add("/good", CONTENT)
    assert fetch(remote(bad, good), tmp_path, retry=QUICK).read_bytes() == CONTENT
    assert site.asked == [("/bad", None), ("/good", None)]  # nothing of the bad file is continued


def test_all_failures_are_in_one_sentence(site, tmp_path):
    bad = site.add("/bad", b"x")
    tried = remote(site.address + "/gone", bad, "http://example.com/x", "http://127.0.0.1:9/x")
    with pytest.raises(DownloadError) as caught:
        fetch(tried, tmp_path, retry=QUICK)
    sentence = str(caught.value)
    assert sentence.startswith("corpus.gz could not be downloaded; tried ")
    assert f"{site.address}/gone (HTTP 404 Not Found)" in sentence
    assert f"{bad} (its SHA-256 is 2d711642b726…, expected {SHA256[:12]}…)" in sentence
    assert "http://example.com/x (http is not allowed, only https)" in sentence
    assert "http://127.0.0.1:9/x (connection refused)" in sentence
    assert "\n" not in sentence
    assert files(tmp_path) == set()


def test_a_damaged_file_in_the_cache_is_replaced(site, tmp_path):
    (tmp_path / "corpus.gz").write_bytes(CONTENT[:-1] + b"?")
    assert fetch(remote(site.add("/corpus.gz", CONTENT)), tmp_path).read_bytes() == CONTENT


def test_an_md5_is_checked_where_it_is_all_that_is_known(site, tmp_path):
    url = site.add("/corpus.gz", CONTENT)
    with pytest.raises(DownloadError, match="its MD5 is"):
        fetch(remote(url, sha256=None, md5="0" * 32), tmp_path, retry=QUICK)
    good = remote(url, sha256=None, md5=hashlib.md5(CONTENT).hexdigest())
    assert fetch(good, tmp_path, retry=QUICK).read_bytes() == CONTENT


def test_an_unknown_digest_is_recorded_at_first_and_demanded_afterwards(site, tmp_path, capsys):
    url = site.add("/corpus.gz", CONTENT)
    unknown = remote(url, sha256=None)
    fetch(unknown, tmp_path, retry=QUICK)
    assert "its SHA-256 is recorded now and required from here on" in capsys.readouterr().err
    assert (tmp_path / "corpus.gz.sha256").read_text() == f"{SHA256}  corpus.gz\n"

    (tmp_path / "corpus.gz").write_bytes(b"damaged")
    assert not intact(unknown, tmp_path)
    assert fetch(unknown, tmp_path, retry=QUICK).read_bytes() == CONTENT

    (tmp_path / "corpus.gz").unlink()
    site.add("/corpus.gz", b"another file")
    with pytest.raises(
        DownloadError, match=r"not the one recorded at the first download; delete .*corpus\.gz\.sha256"
    ):
        fetch(unknown, tmp_path, retry=QUICK)


def test_without_a_digest_two_mirrors_are_never_mixed(site, tmp_path):
    first, second = site.add("/1", b"a" * 1000, cut=[10] * 3), site.add("/2", b"b" * 1000)
    assert fetch(remote(first, second, sha256=None), tmp_path, retry=QUICK).read_bytes() == b"b" * 1000


def test_content_that_fails_its_check_is_not_kept(site, tmp_path):
    def refuse(path):
        raise RegardError("this is a log-in page")

    with pytest.raises(DownloadError, match=r"\(this is a log-in page\)"):
        fetch(remote(site.add("/x", b"<html>"), sha256=None, check=refuse), tmp_path, retry=QUICK)
    assert files(tmp_path) == set()


def test_an_endless_file_is_stopped(site, tmp_path):
    with pytest.raises(DownloadError, match="larger than the 1,000 bytes allowed"):
        fetch(remote(site.add("/x", CONTENT), largest=1000), tmp_path, retry=QUICK)


def test_a_silent_server_is_given_up(tmp_path):
    import socket

    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}/x"
        with pytest.raises(DownloadError, match="no answer in time"):
            fetch(remote(url), tmp_path, retry=RetryPolicy(timeout=0.2, attempts=2, pause=0))


def test_redirects_are_followed_but_never_to_an_open_line(site, tmp_path):
    moved = site.add("/moved", status=302, location="/corpus.gz")
    site.add("/corpus.gz", CONTENT)
    assert fetch(remote(moved), tmp_path, retry=QUICK).read_bytes() == CONTENT
    open_line = site.add("/open", status=302, location="http://example.com/corpus.gz")
    with pytest.raises(DownloadError, match="http is not allowed, only https"):
        fetch(remote(open_line, sha256="0" * 64), tmp_path, retry=QUICK)


def test_a_password_is_sent_to_its_host_and_never_shown(site, tmp_path):
    secret = site.address.replace("http://", "http://me:hush%21@")
    with pytest.raises(DownloadError) as caught:
        fetch(remote(secret + "/gone?token=hush"), tmp_path, retry=QUICK)
    assert site.headers[0]["Authorization"] == "Basic bWU6aHVzaCE="
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (errno.ENOSPC, "the disk is full"),
        (errno.EDQUOT, "the disk is full"),
        (errno.EROFS, "read-only file system"),
    ],
)
def test_a_disk_that_takes_no_more_is_one_sentence(site, tmp_path, monkeypatch, fault, words):
    def fail(*args):
        raise OSError(fault, os.strerror(fault))

    monkeypatch.setattr(download, "_write", fail)
    with pytest.raises(DownloadError, match=f"{tmp_path} cannot be written: {words}; choose another folder"):
        fetch(remote(site.add("/x", CONTENT)), tmp_path, retry=QUICK)


def test_a_cache_that_is_a_file_is_one_sentence(site, tmp_path):
    (tmp_path / "cache").write_text("")
    with pytest.raises(DownloadError, match="cannot be written"):
        fetch(remote(site.add("/x", CONTENT)), tmp_path / "cache" / "inner", retry=QUICK)


def test_processes_side_by_side_download_once(site, tmp_path):
    wanted = remote(site.add("/corpus.gz", CONTENT, delay=0.3))  # so that all have begun
    threads = [threading.Thread(target=fetch, args=(wanted, tmp_path)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (tmp_path / "corpus.gz").read_bytes() == CONTENT
    assert site.asked == [("/corpus.gz", None)]


def test_progress_goes_to_standard_error_only(site, tmp_path, capsys):
    fetch(remote(site.add("/corpus.gz", CONTENT)), tmp_path)
    out, err = capsys.readouterr()
    assert out == ""
    assert err == "corpus.gz: 0.3 of 0.3 MB (100%)\n"


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"REGARD_CACHE": "/r", "XDG_CACHE_HOME": "/x", "HOME": "/h"}, "/r"),
        ({"XDG_CACHE_HOME": "/x", "HOME": "/h"}, "/x/regard"),
        ({"XDG_CACHE_HOME": "relative", "HOME": "/h"}, "/h/.cache/regard"),
        ({"HOME": "/h"}, "/h/.cache/regard"),
        ({"REGARD_CACHE": "~/r", "HOME": "/h"}, "/h/r"),
    ],
)
def test_the_cache_is_where_the_environment_says(monkeypatch, environment, expected):
    for name in ("REGARD_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert cache_folder() == Path(expected)


def test_an_unknown_host_is_not_waited_for(monkeypatch):
    import socket

    failed = http_client.http_error(socket.gaierror(socket.EAI_NONAME, "unknown"))
    assert (str(failed), failed.transient) == ("the host name cannot be resolved", False)
