"""How figures are drawn: as PNG images whose bytes depend on what is drawn alone."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from server.report.formatting import printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BLUE, VERMILION, GREEN, ORANGE = "#0072B2", "#D55E00", "#009E73", "#E69F00"
PALETTE = (BLUE, VERMILION, GREEN, ORANGE, "#CC79A7", "#56B4E9", "#666666")
"""Of Okabe and Ito's palette, told apart by colour-blind readers too (grey for its black, without its yellow)."""
SHAPES = ("o", "^", "s", "D", "v", "P", "X")
"""Markers beside the colours, that none is told by its colour alone."""
INK, QUIET = "#333333", "#666666"
"""Of what is no colour: references, legends."""

WIDTH = 6.4
"""Of every figure, in inches: on the narrowest screens (360 pixels) its smallest letters are still seven high."""
_LETTERS, _TITLES, _TICKS, _LEGEND = 11, 10.5, 10, 10
"""Sizes in points."""
_ABREAST = 2
"""Panels in a row."""


def png(draw: Callable[[Axes], None], height: float, width: float = WIDTH) -> bytes:
    """A drawing, sizes in inches, without date and software, whatever the user's own matplotlib settings are."""
    return png_panels(lambda panels: draw(panels[0]), 1, height, width)


def png_panels(
    draw: Callable[[Sequence[Axes]], None],
    n: int,
    height: float,
    width: float = WIDTH,
    *,
    same_x: bool = True,
    same_y: bool = True,
    abreast: int = _ABREAST,
) -> bytes:
    """As `png`, `n` panels of the same axes, or each with its own; `height` is that of a row of `abreast` of them."""
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    rows, columns = -(-n // abreast), min(n, abreast)
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rc("font", size=_LETTERS)
        mpl.rc("axes", titlesize=_TITLES)
        mpl.rc("xtick", labelsize=_TICKS)
        mpl.rc("ytick", labelsize=_TICKS)
        figure = Figure(figsize=(width, height * rows), dpi=150, layout="constrained")
        FigureCanvasAgg(figure)
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
        figure.savefig(image, format="png", metadata={"Software": None})
    return image.getvalue()


def plain(text: object, most: int = 24) -> str:
    """Text on one line, cut to `most` characters: a dollar sign would start matplotlib's mathematics."""
    shown = printable(str(text))
    return (shown if len(shown) <= most else shown[: most - 1] + "…").replace("$", r"\$")


def explain(axes: Axes, handles: Sequence[Any], labels: Sequence[str], abreast: int = 0) -> None:
    """A legend above the figure, where it covers no data; `abreast` entries in a row, 0: all of them."""
    labels = [f" {label}" if label.startswith("_") else label for label in labels]  # matplotlib leaves such ones out
    ncols = min(abreast or len(labels), len(labels))
    axes.figure.legend(
        handles, labels, loc="outside upper center", ncols=ncols, frameon=False, fontsize=_LEGEND, columnspacing=1.4,
        handletextpad=0.5,
    )  # fmt: skip


def leftmost(panels: Sequence[Axes], label: str) -> None:
    """What the common y axis of `png_panels` says, once a row."""
    for axes in panels[::_ABREAST]:
        axes.set_ylabel(label)


def scale(axes: Axes, which: str, values: Sequence[float]) -> None:
    """A logarithmic axis, with numbers written out, for values that span a power of ten or more."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    if not values or min(values) <= 0 or max(values) < 10 * min(values):
        return
    axes.set(**{f"{which}scale": "log"})
    axis = axes.xaxis if which == "x" else axes.yaxis
    axis.set_major_locator(LogLocator(subs=(1, 2, 5) if max(values) < 1000 * min(values) else (1,)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def whole(axes: Axes, which: str = "x") -> None:
    """Ticks of an axis that counts."""
    from matplotlib.ticker import MaxNLocator

    (axes.xaxis if which == "x" else axes.yaxis).set_major_locator(MaxNLocator("auto", integer=True))


def component(which: str, share: float, unit: str) -> str:
    """What the axis of a principal component says that has this share of the variance; 0: nothing varies."""
    order = "first" if which == "x" else "second"
    told = f"{100 * share:.3g} % of the variance, " if share > 0 else ""
    return f"{order} principal component\n({told}{unit})"
