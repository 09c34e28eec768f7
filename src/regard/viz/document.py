"""A page of sections: text, tables and pictures in one file, without a script; text is only ever text."""

import base64
import io
from collections.abc import Iterable, Sequence
from html import escape

from matplotlib.figure import Figure

from regard.viz.figure import save_into
from regard.viz.page import NOTHING_ELSE, filled, hashed, read


class Document:
    """Grows from top to bottom; `html` gives what has grown."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.parts: list[str] = []
        self.open = False

    def section(self, title: str, hint: str = "") -> None:
        """What follows stands under this heading."""
        self.parts.append(("</section>" if self.open else "") + f"<section><h2>{escape(title)}</h2>")
        self.open = True
        if hint:
            self.parts.append(f'<p class="hint">{escape(hint)}</p>')

    def paragraph(self, text: str) -> None:
        self.parts.append(f'<p dir="auto">{escape(text)}</p>')

    def code(self, text: str) -> None:
        """Text in which blanks and line ends count."""
        self.parts.append(f'<pre tabindex="0">{escape(text)}</pre>')

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        """Without column names, the first cell of a row names it."""
        head = "".join(f'<th scope="col">{escape(name)}</th>' for name in columns)
        body = "".join(f"<tr>{self.row(cells, named=not columns)}</tr>" for cells in rows)
        top = f"<thead><tr>{head}</tr></thead>" if columns else ""
        self.parts.append(
            f'<div class="scroller free" tabindex="0"><table>{top}<tbody>{body}</tbody></table></div>'
        )

    def row(self, cells: Sequence[str], *, named: bool) -> str:
        first, *others = (f'<td dir="auto">{escape(cell)}</td>' for cell in cells)
        return "".join([f'<th scope="row">{escape(cells[0])}</th>' if named else first, *others])

    def picture(self, figure: Figure, told: str, *, small: bool = False) -> None:
        """A figure as SVG; `told` says in words what it shows."""
        content = io.BytesIO()
        save_into(figure, content)
        address = f"data:image/svg+xml;base64,{base64.b64encode(content.getvalue()).decode()}"
        kind = "picture small" if small else "picture"
        self.parts.append(f'<div class="{kind}"><img src="{address}" alt="{escape(told)}"></div>')

    def html(self) -> str:
        style = "".join(map(read, ("theme.css", "style.css", "document.css")))
        return filled(
            "document.html",
            policy=f"{NOTHING_ELSE}; style-src {hashed(style)}; img-src data:",
            style=style,
            title=escape(self.title),
            body="\n".join(self.parts) + ("</section>" if self.open else ""),
        )
