"""Static HTML report: sections with text, tables and figures in one file, without scripts."""

import base64
import io
from collections.abc import Iterable, Sequence
from html import escape

from matplotlib.figure import Figure

from regard.viz.figure import save_into
from regard.viz.html_page import BASE_POLICY, csp_hash, fill_template, read_viewer_file


class HtmlReport:
    """A report built from top to bottom; `html` returns the page. All text is escaped."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.parts: list[str] = []
        self.in_section = False

    def section(self, title: str, hint: str = "") -> None:
        """Start a section; later parts belong to it."""
        self.parts.append(("</section>" if self.in_section else "") + f"<section><h2>{escape(title)}</h2>")
        self.in_section = True
        if hint:
            self.parts.append(f'<p class="hint">{escape(hint)}</p>')

    def paragraph(self, text: str) -> None:
        self.parts.append(f'<p dir="auto">{escape(text)}</p>')

    def code(self, text: str) -> None:
        """Preformatted text."""
        self.parts.append(f'<pre tabindex="0">{escape(text)}</pre>')

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        """A table with column headers, or without any: then the first cell of each row is its header."""
        head = "".join(f'<th scope="col">{escape(name)}</th>' for name in columns)
        body = "".join(f"<tr>{_table_row(cells, with_header=not columns)}</tr>" for cells in rows)
        top = f"<thead><tr>{head}</tr></thead>" if columns else ""
        self.parts.append(
            f'<div class="scroller free" tabindex="0"><table>{top}<tbody>{body}</tbody></table></div>'
        )

    def picture(self, figure: Figure, alt: str, *, small: bool = False) -> None:
        """A figure as SVG; `alt` describes it for screen readers."""
        content = io.BytesIO()
        save_into(figure, content)
        url = f"data:image/svg+xml;base64,{base64.b64encode(content.getvalue()).decode()}"
        css_class = "picture small" if small else "picture"
        self.parts.append(f'<div class="{css_class}"><img src="{url}" alt="{escape(alt)}"></div>')

    def html(self) -> str:
        style = "".join(map(read_viewer_file, ("theme.css", "style.css", "report.css")))
        return fill_template(
            "report.html",
            policy=f"{BASE_POLICY}; style-src {csp_hash(style)}; img-src data:",
            style=style,
            title=escape(self.title),
            body="\n".join(self.parts) + ("</section>" if self.in_section else ""),
        )


def _table_row(cells: Sequence[str], *, with_header: bool) -> str:
    first, *others = (f'<td dir="auto">{escape(cell)}</td>' for cell in cells)
    return "".join([f'<th scope="row">{escape(cells[0])}</th>' if with_header else first, *others])
