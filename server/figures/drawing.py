"""Drawing of figures: PNG and SVG images whose bytes depend on their content alone, and their data as CSV."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from server.figures.plotted_data import plotted_data
from server.report.formatting import printable
from server.report.image import Image

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BLUE, VERMILION, GREEN, ORANGE = "#0072B2", "#D55E00", "#009E73", "#E69F00"
PALETTE = (BLUE, VERMILION, GREEN, ORANGE, "#CC79A7", "#56B4E9", "#666666")
"""Colors of Okabe and Ito, which color-blind readers can tell apart (gray for black, without yellow)."""
SHAPES = ("o", "^", "s", "D", "v", "P", "X")
"""Markers beside the colors, so that nothing differs by color alone."""
INK, QUIET = "#333333", "#666666"
"""Colors of references and legends."""

WIDTH = 6.4
"""Width of every figure in inches: on a screen of 360 pixels its smallest letters are seven pixels high."""
_LETTERS, _TITLES, _TICKS, _LEGEND = 11, 10.5, 10, 10
"""Font sizes in points."""
_ABREAST = 2
"""Panels in a row."""


def png(draw: Callable[[Axes], None], height: float) -> Image:
    """Return a drawing of this height in inches, without date, software, and settings of the user's own matplotlib."""
    return png_panels(lambda panels: draw(panels[0]), 1, height)


def png_panels(
    draw: Callable[[Sequence[Axes]], None],
    n: int,
    height: float,
    *,
    same_x: bool = True,
    same_y: bool = True,
    abreast: int = _ABREAST,
) -> Image:
    """Return a drawing of `n` panels as `png` does; `height` is that of a row of `abreast` panels."""
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    rows, columns = -(-n // abreast), min(n, abreast)
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rc("font", size=_LETTERS)
        mpl.rc("svg", hashsalt="consilience")
        mpl.rc("axes", titlesize=_TITLES)
        mpl.rc("xtick", labelsize=_TICKS)
        mpl.rc("ytick", labelsize=_TICKS)
        figure = Figure(figsize=(WIDTH, height * rows), dpi=150, layout="constrained")
        canvas: Any = FigureCanvasAgg(figure)
        panels = figure.subplots(rows, columns, sharex=same_x, sharey=same_y, squeeze=False).ravel().tolist()
        for axes in panels[n:]:
            axes.remove()
        for axes in panels[:n]:
            axes.tick_params(labelbottom=True)
            axes.grid(color="#dddddd", linewidth=0.6)
            axes.set_axisbelow(True)
            axes.spines[["top", "right"]].set_visible(False)
        draw(panels[:n])
        image = io.BytesIO()
        # Unlike `savefig`, it lays the figure out while it draws, instead of drawing twice.
        canvas.print_png(image, metadata={"Software": None})
        figure.set_layout_engine("none")  # it has been laid out
        vector = io.BytesIO()
        vector_canvas: Any = FigureCanvasSVG(figure)
        vector_canvas.print_svg(vector, metadata={"Date": None, "Creator": None})
        return Image(image.getvalue(), vector.getvalue(), plotted_data(panels[:n]))


def plain(text: object, most: int = 24) -> str:
    """Return text on one line, with dollar signs escaped, which start mathematics.

    Of text longer than `most` characters the middle is left out: the names of sites often differ at the end.
    """
    line, start = printable(str(text)), most // 2
    return (line if len(line) <= most else f"{line[:start]}…{line[start + 1 - most :]}").replace("$", r"\$")


def explain(axes: Axes, handles: Sequence[Any], labels: Sequence[str], abreast: int = 0) -> None:
    """Draw a legend above the figure, where it covers no data, with `abreast` entries in a row (0: all)."""
    labels = [
        f" {label}" if label.startswith("_") else label for label in labels
    ]  # matplotlib leaves out labels with an underscore
    ncols = min(abreast or len(labels), len(labels))
    axes.figure.legend(
        handles, labels, loc="outside upper center", ncols=ncols, frameon=False, fontsize=_LEGEND, columnspacing=1.4,
        handletextpad=0.5,
    )  # fmt: skip


def leftmost(panels: Sequence[Axes], label: str) -> None:
    """Label the common y axis of `png_panels`, once a row."""
    for axes in panels[::_ABREAST]:
        axes.set_ylabel(label)


def scale(axes: Axes, which: str, values: Sequence[float]) -> None:
    """Make an axis logarithmic, with numbers written out, if its values span a power of ten or more."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    if not values or min(values) <= 0 or max(values) < 10 * min(values):
        return
    axes.set(**{f"{which}scale": "log"})
    axis = axes.xaxis if which == "x" else axes.yaxis
    axis.set_major_locator(LogLocator(subs=(1, 2, 5) if max(values) < 1000 * min(values) else (1,)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def whole(axes: Axes, which: str = "x") -> None:
    """Set ticks at whole numbers only."""
    from matplotlib.ticker import MaxNLocator

    (axes.xaxis if which == "x" else axes.yaxis).set_major_locator(MaxNLocator("auto", integer=True))


def component(which: str, share: float, unit: str) -> str:
    """Return the label of the axis of a principal component with this share of the variance; 0: nothing varies."""
    order = "first" if which == "x" else "second"
    variance = f"{100 * share:.3g} % of the variance, " if share > 0 else ""
    return f"{order} principal component\n({variance}{unit})"
