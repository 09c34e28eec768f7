"""The URL of a source archive, from pip's configuration and the index page, without running pip."""

import json
from pathlib import Path

import pytest

from regard.data.package_index import PUBLIC_INDEX, Link, find_files, indexes

FILE = "nmt-0.0.6.tar.gz"


@pytest.mark.parametrize(
    ("page", "link"),
    [
        ('<a href="/files/nmt-0.0.6.tar.gz#sha256=abc">nmt</a>', ("/files/nmt-0.0.6.tar.gz", "abc")),
        ('<a href="../../files/nmt-0.0.6.tar.gz">nmt</a>', ("/files/nmt-0.0.6.tar.gz", None)),
        ('<a href="/f/nmt-0.0.6.tar.gz#md5=abc">nmt</a>', ("/f/nmt-0.0.6.tar.gz", None)),
        (
            '<a href="/f/nmt-0.0.3.tar.gz#sha256=x">a</a><A data-yanked="" HREF="/f/nmt-0.0.6.tar.gz?a=1&amp;b=2#sha256=y">b</A>',
            ("/f/nmt-0.0.6.tar.gz?a=1&b=2", "y"),
        ),
        (
            '<head><base href="/other/"></head><a href="nmt-0.0.6.tar.gz#sha256=z">b</a>',
            ("/other/nmt-0.0.6.tar.gz", "z"),
        ),
    ],
)
def test_an_html_page_is_read(site, own_pip, page, link):
    site.add("/simple/nmt/", page.encode(), kind="text/html")
    own_pip.setenv("PIP_INDEX_URL", site.address + "/simple")
    assert find_files("nmt", FILE) == ([Link(site.address + link[0], link[1])], [])


def test_a_json_page_is_read(site, own_pip):
    files = [
        {"filename": "nmt-0.0.3.tar.gz", "url": "/f/nmt-0.0.3.tar.gz", "hashes": {}},
        {"filename": FILE, "url": f"/f/{FILE}", "hashes": {"sha256": "abc"}},
    ]
    kind = "application/vnd.pypi.simple.v1+json"
    site.add("/simple/nmt/", json.dumps({"files": files}).encode(), kind=kind)
    own_pip.setenv("PIP_INDEX_URL", site.address + "/simple/")
    assert find_files("nmt", FILE) == ([Link(f"{site.address}/f/{FILE}", "abc")], [])
    assert kind in site.headers[0]["Accept"]


def test_an_index_in_a_folder_is_read(tmp_path, own_pip):
    (tmp_path / "nmt").mkdir()
    (tmp_path / "nmt" / "index.html").write_text(f'<a href="../files/{FILE}#sha256=abc">x</a>')
    own_pip.setenv("PIP_INDEX_URL", tmp_path.as_uri())
    ((link,), failures) = find_files("nmt", FILE)
    assert (Path(link.url.removeprefix("file://")), link.sha256) == (tmp_path / "files" / FILE, "abc")
    assert failures == []


def test_every_index_is_asked_and_every_failure_said(site, tmp_path, own_pip):
    site.add("/one/nmt/", b"<a href='/f/nmt-0.0.3.tar.gz'>", kind="text/html")
    site.add("/two/nmt/", b"{}", kind="application/json")
    site.add("/four/nmt/", f"<a href='/f/{FILE}'>".encode(), kind="text/html")
    own_pip.setenv("PIP_INDEX_URL", site.address + "/one")
    extra = [site.address + "/two", site.address + "/three", site.address + "/four", tmp_path.as_uri()]
    own_pip.setenv("PIP_EXTRA_INDEX_URL", " ".join(extra))
    links, failures = find_files("nmt", FILE)
    assert links == [Link(f"{site.address}/f/{FILE}", None)]
    assert failures[:3] == [
        f"{site.address}/one/nmt/ (it does not list {FILE})",
        f"{site.address}/two/nmt/ (its JSON page is not a simple index)",
        f"{site.address}/three/nmt/ (HTTP 404 Not Found)",
    ]
    assert "no such file" in failures[3].lower()


def test_a_password_in_the_index_address_reaches_the_file_but_no_message(site, own_pip):
    site.add("/simple/nmt/", b"<a href='../x/nmt-0.0.6.tar.gz'>", kind="text/html")
    secret = site.address.replace("http://", "http://me:hush@")
    own_pip.setenv("PIP_INDEX_URL", secret + "/simple")
    own_pip.setenv("PIP_EXTRA_INDEX_URL", secret + "/none")
    links, failures = find_files("nmt", FILE)
    assert links == [Link(f"{secret}/simple/x/{FILE}", None)]
    assert "hush" not in failures[0]


@pytest.mark.parametrize(
    ("settings", "environment", "expected"),
    [
        ("", {}, [PUBLIC_INDEX]),
        ("[global]\nindex-url = https://a/simple\n", {}, ["https://a/simple"]),
        ("[global]\nindex_url = https://a/simple\n", {}, ["https://a/simple"]),
        ("[global]\nindex-url = https://a/%simple\n", {}, ["https://a/%simple"]),
        (
            "[global]\nextra-index-url =\n  https://b\n  https://c\n",
            {},
            [PUBLIC_INDEX, "https://b", "https://c"],
        ),
        ("[global]\nindex-url = https://a\n[download]\nindex-url = https://d\n", {}, ["https://d"]),
        ("[global]\nindex-url = https://a\n", {"PIP_INDEX_URL": "https://e"}, ["https://e"]),
        ("[global]\nno-index = true\n", {}, []),
        ("not a settings file", {}, [PUBLIC_INDEX]),
    ],
)
def test_pip_settings_decide_the_indexes(tmp_path, own_pip, settings, environment, expected):
    (tmp_path / "pip.conf").write_text(settings)
    own_pip.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))
    own_pip.setattr("regard.data.package_index._pip_files", lambda: iter([tmp_path / "pip.conf"]))
    for name, value in environment.items():
        own_pip.setenv(name, value)
    assert indexes() == expected


def test_the_file_that_the_user_names_comes_last(tmp_path, own_pip):
    from regard.data.package_index import _pip_files

    own_pip.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))
    assert list(_pip_files())[-1] == tmp_path / "pip.conf"
    own_pip.setenv("PIP_CONFIG_FILE", "/dev/null")
    assert list(_pip_files()) == []
