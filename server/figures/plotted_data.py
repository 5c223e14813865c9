"""What a figure shows, as a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from common.csv_text import csv_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLUMNS = ("panel", "kind", "series", "x", "y", "value")
_MOST = 20_000
"""Most rows of a table; of larger figures the first ones are kept, as many of each panel."""

Row = tuple[Any, ...]


def plotted_data(panels: Sequence[Axes]) -> str:
    """Return lines, points, bars and cells of the panels of a figure as CSV text.

    Parameters
    ----------
    panels : sequence of Axes
        matplotlib's axes, after they were drawn.
    """
    each = max(1, _MOST // max(1, len(panels)))
    rows: list[Row] = []
    for place, axes in enumerate(panels):
        title = axes.get_title() or str(place + 1)
        rows += [(title, *row) for row, _ in zip(_rows(axes), range(each), strict=False)]
    return csv_text(dict(zip(COLUMNS, zip(*rows, strict=True), strict=True))) if rows else ""


def _rows(axes: Axes) -> Iterator[Row]:
    from matplotlib.patches import Rectangle

    for line in axes.lines:
        yield from _points("line", line, np.asarray(line.get_xdata()), np.asarray(line.get_ydata()))
    for collection in axes.collections:
        offsets = np.asarray(collection.get_offsets(), float).reshape(-1, 2)
        if len(offsets) > 1 or offsets.any():
            yield from _points("points", collection, offsets[:, 0], offsets[:, 1])
        elif (cells := collection.get_array()) is not None and cells.ndim == 2:
            yield from _cells(np.asarray(cells))
    for bar in axes.patches:
        if isinstance(bar, Rectangle):
            x, y = bar.get_x() + bar.get_width(), bar.get_y() + bar.get_height()
            yield "bar", _name(bar), float(x), float(y), ""
    for image in axes.images:
        if (cells := image.get_array()) is not None and cells.ndim == 2:
            yield from _cells(np.asarray(cells))


def _points(kind: str, artist: Any, x: Any, y: Any) -> Iterator[Row]:
    for a, b in zip(x.tolist(), y.tolist(), strict=True):
        yield kind, _name(artist), a, b, ""


def _cells(cells: Any) -> Iterator[Row]:
    for (row, column), value in np.ndenumerate(cells):
        yield "cell", "", column, row, float(value)


def _name(artist: Any) -> str:
    """Return a label; matplotlib's own ones begin with an underscore."""
    label = str(artist.get_label())
    return "" if label.startswith("_") else label
