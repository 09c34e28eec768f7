"""`regard data`: results on standard output, messages on standard error, errors in one line."""

import gzip
import json

import pytest
from typer.testing import CliRunner

from regard.cli.data import app
from regard.errors import RegardError


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))

    def call(*arguments):
        result = CliRunner().invoke(app, [str(argument) for argument in arguments])
        if isinstance(result.exception, RegardError):
            raise result.exception
        return result

    return call


@pytest.fixture
def folder(tmp_path):
    for language in ("de", "en"):
        content = "".join(f"{language} {number}\n" for number in range(9))
        (tmp_path / f"train.{language}.gz").write_bytes(gzip.compress(content.encode()))
    return tmp_path


def test_list_has_every_data_set(run):
    result = run("list")
    lines = result.stdout.splitlines()
    assert lines[0].split() == ["name", "languages", "pairs", "licence", "here", "origin"]
    assert [line.split()[0] for line in lines[1:]] == ["picturebook", "multi30k", "tatoeba-eng-fra"]
    assert "31,014" in lines[2]
    assert "  no  " in lines[2]


def test_list_as_json(run):
    records = {record["name"]: record for record in json.loads(run("list", "--json").stdout)}
    assert records["multi30k"]["pairs"] == {"train": 29_000, "valid": 1_014, "test": 1_000}
    assert records["multi30k"]["languages"] == ["de", "en", "fr", "cs"]
    assert (records["picturebook"]["here"], records["tatoeba-eng-fra"]["here"]) == (True, False)


def test_show_prints_pairs(run, folder):
    assert run("show", "multi30k", "--path", folder, "-n", 2).stdout == "de 0\ten 0\nde 1\ten 1\n"
    assert len(run("show", "multi30k", "--path", folder).stdout.splitlines()) == 5
    swapped = run("show", "multi30k", "--path", folder, "-n", 1, "--source", "en", "--target", "de", "--json")
    assert json.loads(swapped.stdout) == {"source": "en 0", "target": "de 0"}


def test_get_of_the_embedded_data_set_downloads_nothing(run):
    result = run("get", "picturebook")
    assert result.exit_code == 0
    assert result.stdout == ""
    assert "nothing to download" in result.stderr


def test_get_prints_files_or_their_folder(run, tmp_path):
    kept = tmp_path / "cache" / "tatoeba-eng-fra" / "fra.tsv"
    kept.parent.mkdir(parents=True)
    kept.write_text("Go.\tVa !\tx\n")
    assert run("get", "tatoeba-eng-fra").stdout == f"{kept}\n"
    assert run("get", "tatoeba-eng-fra", "--path").stdout == f"{kept.parent}\n"
    assert run("get", "tatoeba-eng-fra", "--path", "--cache", tmp_path / "cache").stdout == f"{kept.parent}\n"


@pytest.mark.parametrize("command", ["get", "show"])
def test_an_unknown_name_is_refused(run, command):
    with pytest.raises(RegardError, match=r"unknown data set 'tatoeba'; .*; did you mean tatoeba-eng-fra"):
        run(command, "tatoeba")


@pytest.mark.parametrize("command", ["list", "get", "show"])
def test_help_has_an_example(run, command):
    assert f"Example: regard data {command}" in run(command, "--help").stdout
