"""`regard report` as a user runs it."""

from pathlib import Path

from support.console import Command


def test_a_report_is_one_file(translation_run: Path, command: Command, tmp_path: Path) -> None:
    code, out, err = command("report", str(translation_run), "-o", "made/report.html")
    assert (code, out) == (0, "report: made/report.html\n")
    assert "test sentences ..." in err
    page = (tmp_path / "made" / "report.html").read_text("utf-8")
    assert "<h1>Training report: run</h1>" in page
    assert page.count('<svg class="heat"') == 3
    assert page.count("data-chart=") == 6


def test_other_suffixes_are_refused(translation_run: Path, command: Command) -> None:
    code, out, err = command("report", str(translation_run), "-o", "report.md")
    assert (code, out) == (2, "")
    assert err == "regard: report.md: a report is written as .html\n"
