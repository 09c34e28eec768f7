"""HTML report: sections with text, tables, charts and heat maps in one file."""

from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher
from html import escape

from regard.viz.html_page import BASE_POLICY, csp_hash, fill_template, read_viewer_file


class Markup(str):
    """Text that is HTML already and is not escaped again."""


class HtmlReport:
    """A report built from top to bottom; `html` returns the page. All text is escaped, but for `Markup`."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.parts: list[str] = []
        self.in_section = False
        self.has_charts = False

    def section(self, title: str, hint: str = "") -> None:
        """Start a section; later parts belong to it."""
        self.parts.append(("</section>" if self.in_section else "") + f"<section><h2>{escape(title)}</h2>")
        self.in_section = True
        if hint:
            self.parts.append(f'<p class="hint">{escape(hint)}</p>')

    def paragraph(self, text: str) -> None:
        self.parts.append(f'<p dir="auto">{as_html(text)}</p>')

    def code(self, text: str, summary: str = "") -> None:
        """Preformatted text; folded if it has a summary."""
        text = f'<pre tabindex="0">{escape(text)}</pre>'
        self.parts.append(f"<details><summary>{escape(summary)}</summary>{text}</details>" if summary else text)

    def facts(self, facts: Iterable[tuple[str, str, str]]) -> None:
        """Name, value and note of each fact, side by side."""
        items = "".join(
            f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd><dd>{escape(note)}</dd></div>"
            for name, value, note in facts
        )
        self.parts.append(f'<dl class="facts">{items}</dl>')

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[str]], caption: str = "") -> None:
        """A table with column headers, or without any: then the first cell of each row is its header."""
        head = "".join(f'<th scope="col">{escape(name)}</th>' for name in columns)
        body = "".join(f"<tr>{_table_row(cells, with_header=not columns)}</tr>" for cells in rows)
        top = f"<thead><tr>{head}</tr></thead>" if columns else ""
        title = f"<caption>{escape(caption)}</caption>" if caption else ""
        css_class = "scroller free" if columns else "scroller free sentence"
        self.parts.append(
            f'<div class="{css_class}" tabindex="0"><table>{title}{top}<tbody>{body}</tbody></table></div>'
        )

    def charts(self, charts: Iterable[str]) -> None:
        """Charts of `regard.viz.html_chart`, in as many columns as fit."""
        self.parts.append(f'<div class="charts">{"".join(charts)}</div>')
        self.has_charts = True

    def heat_map(self, picture: str) -> None:
        """A heat map of `regard.viz.html_chart`."""
        self.parts.append(f'<div class="scroller free" tabindex="0">{picture}</div>')

    def html(self) -> str:
        style = "".join(map(read_viewer_file, ("theme.css", "style.css", "report.css")))
        script = read_viewer_file("report.js") if self.has_charts else ""
        return fill_template(
            "report.html",
            policy=f"{BASE_POLICY}; style-src {csp_hash(style)}"
            + (f"; script-src {csp_hash(script)}" if script else ""),
            style=style,
            title=escape(self.title),
            body="\n".join(self.parts) + ("</section>" if self.in_section else ""),
            script=f"<script>{script}</script>\n" if script else "",
        )


def as_html(text: str) -> str:
    return text if isinstance(text, Markup) else escape(text)


def mark_changes(text: str, other: str) -> Markup:
    """The text, with the words that differ from those of another text highlighted."""
    words, others = text.split(), other.split()
    parts = []
    for operation, start, end, _, _ in SequenceMatcher(None, words, others, autojunk=False).get_opcodes():
        if start < end:
            piece = escape(" ".join(words[start:end]))
            parts.append(piece if operation == "equal" else f"<mark>{piece}</mark>")
    return Markup(" ".join(parts))


def _table_row(cells: Sequence[str], *, with_header: bool) -> str:
    first, *others = (f'<td dir="auto">{as_html(cell)}</td>' for cell in cells)
    return "".join([f'<th scope="row">{as_html(cells[0])}</th>' if with_header else first, *others])
