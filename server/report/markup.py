"""HTML without scripts and without anything from the network; every value is escaped."""

from __future__ import annotations

import base64
import html
import re
from collections.abc import Iterable, Mapping, Sequence

from server.report.formatting import number, printable
from server.report.image import svg_of
from server.report.style import STYLE

_MOST_ROWS = 400
"""Rows of a table on a page, by default."""
_NUMBER = r"[-+−]?\d[\d,]*(\.\d+)?(e[+-]?\d+)?"
_NUMERIC = re.compile(rf"{_NUMBER}( ± {_NUMBER})?( ([kMGT]?B|m?s|%))?$")
_MANY = 9
"""Most columns of a table in full size on paper."""
_LONG = 40
"""Most characters of a cell that may be narrow on a phone."""
_SHORT = 16
"""Most characters of a cell that stays on one line."""


class Html(str):
    """Text that is HTML; all other text is escaped when it enters the page.

    Examples
    --------
    >>> text("a < b"), text(Html("<b>bold</b>"))
    ('a &lt; b', '<b>bold</b>')
    """

    __slots__ = ()


def text(value: object) -> Html:
    """Return `value` as escaped text."""
    return value if isinstance(value, Html) else Html(html.escape(number(value)))


def joined(parts: Iterable[Html]) -> Html:
    """Return several pieces of HTML as one."""
    return Html("".join(parts))


def paragraph(value: object, kind: str = "") -> Html:
    """Return a paragraph."""
    return Html(f"<p{_of_class(kind)}>{text(value)}</p>\n")


def bullets(values: Iterable[object]) -> Html:
    r"""Return a list; empty without values.

    Examples
    --------
    >>> bullets(["one"])
    '<ul>\n<li>one</li>\n</ul>\n'
    """
    items = "".join(f"<li>{text(each)}</li>\n" for each in values)
    return Html(f"<ul>\n{items}</ul>\n" if items else "")


def facts(values: Mapping[str, object]) -> Html:
    """Return short facts side by side, each with a name and a value."""
    pairs = "".join(f"<div><dt>{text(name)}</dt><dd>{text(value)}</dd></div>\n" for name, value in values.items())
    return Html(f'<dl class="facts">\n{pairs}</dl>\n')


def definitions(values: Mapping[str, object]) -> Html:
    """Return terms with their descriptions, one below the other; terms without a description are left out."""
    pairs = "".join(f"<dt>{text(name)}</dt><dd>{text(value)}</dd>\n" for name, value in values.items() if value)
    return Html(f'<dl class="terms">\n{pairs}</dl>\n' if pairs else "")


def code(value: str) -> Html:
    """Return a block of code that scrolls in its own box; control characters are escaped."""
    lines = "\n".join(printable(line) for line in value.split("\n"))
    return Html(f'<pre tabindex="0"><code>{html.escape(lines)}</code></pre>\n')


def small(value: object) -> Html:
    """Return text in small type."""
    return Html(f'<span class="small">{text(value)}</span>')


def named(words: object, name: str) -> Html:
    """Return plain words with the name that files use, in a wide cell."""
    return Html(f'<span class="wide">{text(words)} <code class="name">{html.escape(number(name))}</code></span>')


def folded_away(summary: str, content: Html) -> Html:
    """Return content that a click unfolds; in print it is visible."""
    return Html(f"<details>\n<summary>{text(summary)}</summary>\n{content}</details>\n")


def table(
    caption: str,
    header: Sequence[object],
    rows: Sequence[Sequence[object]],
    *,
    tall: bool = False,
    where: str = "",
    most: int = _MOST_ROWS,
) -> Html:
    """Return a table whose first column names its rows, in a box that scrolls if the page is too narrow.

    Parameters
    ----------
    caption : str
        Title of the table.
    header : Sequence
        Headings of the columns.
    rows : Sequence of Sequence
        Cells; columns of numbers are aligned to the right.
    tall : bool
        Whether the box also scrolls vertically.
    where : str
        File that has all rows, if the page does not show them all.
    most : int
        Largest number of rows; of more, the first and the last ones are shown.
    """
    left_out = len(rows) - most
    lines = list(rows) if left_out <= 0 else [*rows[: most // 2], *rows[-(most // 2) :]]
    right = _numeric_columns(lines, len(header))
    head = "".join(
        f'<th scope="col"{_of_class("n" if place in right else "")}>{text(name)}</th>'
        for place, name in enumerate(header)
    )
    body = [_row(row, right) for row in lines]
    if left_out > 0:
        note = f"{left_out:,} rows are left out here{f': all are in {where}' if where else ''}"
        body.insert(most // 2, f'<tr><td colspan="{len(header)}">{text(note)}</td></tr>\n')
    # Above the box, since a <caption> is as wide as the table, and the box would cut it off on a phone.
    name = f"t-{_identifier(caption)}"
    return Html(
        f'<p class="label" id="{name}">{text(caption)}</p>\n'
        f'<div class="box{" tall" if tall else ""}" role="region" tabindex="0" aria-labelledby="{name}">\n'
        f'<table aria-labelledby="{name}"{_of_class("many" if len(header) > _MANY else "")}>\n'
        f"<thead><tr>{head}</tr></thead>\n"
        f"<tbody>\n{''.join(body)}</tbody>\n</table>\n</div>\n"
    )


def _numeric_columns(rows: Sequence[Sequence[object]], width: int) -> set[int]:
    """Return the indices of columns, without the first, that hold numbers or nothing."""
    return {
        place
        for place in range(1, width)
        if all(not (cell := _first_line(row[place])) or _NUMERIC.match(cell) for row in rows)
    }


def _first_line(cell: object) -> str:
    """Return the first line of a cell, without HTML."""
    return re.sub(r"<br>.*|<[^>]*>", "", text(cell))


def _row(row: Sequence[object], right: set[int]) -> str:
    texts = [text(cell) for cell in row]
    kinds = [
        "n" if place in right else "s" if 0 < len(each) <= _SHORT and " " in each else "t" if len(each) > _LONG else ""
        for place, each in enumerate(texts)
    ]
    cells = "".join(f"<td{_of_class(kind)}>{each}</td>" for kind, each in zip(kinds[1:], texts[1:], strict=True))
    return f'<tr><th scope="row"{_of_class(kinds[0])}>{texts[0]}</th>{cells}</tr>\n'


def figure(image: bytes, alt: str, caption: str, shades: bool) -> Html:
    """Return an image, as SVG if it has that, embedded in the page, with its alternative text and its caption.

    A dark page inverts it, unless its shades have a meaning.
    """
    svg = svg_of(image)
    data, kind = base64.b64encode(svg or image).decode("ascii"), "svg+xml" if svg else "png"
    width, height = int.from_bytes(image[16:20], "big"), int.from_bytes(image[20:24], "big")
    size = f' width="{width}" height="{height}"' if image.startswith(b"\x89PNG") else ""
    meaning = _of_class("shades" if shades else "")
    return Html(
        f'<figure><img{meaning} src="data:image/{kind};base64,{data}"{size} alt="{text(alt)}">'
        f"<figcaption>{text(caption)}</figcaption></figure>\n"
    )


def section(title: str, content: Html) -> tuple[str, Html]:
    """Return a section's title and its HTML, which is empty without content."""
    name = _identifier(title)
    block = (
        f'<section id="{name}" aria-labelledby="h-{name}">\n<h2 id="h-{name}">{text(title)}</h2>\n{content}</section>\n'
    )
    return title, Html(block if content else "")


def document(title: str, header: Html, sections: Sequence[tuple[str, Html]], footer: str) -> str:
    """Return a whole page with a list of its sections."""
    present = [(name, content) for name, content in sections if content]
    links = "".join(f'<li><a href="#{_identifier(name)}">{text(name)}</a></li>\n' for name, _ in present)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; img-src data:; '
        f"style-src 'unsafe-inline'\">\n<title>{text(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
        '<a class="skip" href="#main">Skip to the report</a>\n'
        f'<header>\n{header}</header>\n<nav aria-label="Contents">\n<ul>\n{links}</ul>\n</nav>\n'
        f'<main id="main">\n{joined(content for _, content in present)}</main>\n'
        f"<footer>\n<p>{text(footer)}</p>\n</footer>\n</body>\n</html>\n"
    )


def _identifier(title: str) -> str:
    """Return a title as the id of an element."""
    return re.sub(r"[^a-z]+", "-", title.lower()).strip("-")


def unbroken(value: object) -> Html:
    """Return text whose numbers stay on one line with their errors and units."""
    return Html(re.sub(r"(?<=[\d.)]) (?=[±%])|(?<=±) ", "&nbsp;", text(value)))


def _of_class(kind: str) -> str:
    return f' class="{kind}"' if kind else ""
