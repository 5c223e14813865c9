"""How figures are drawn: as PNG images whose bytes depend on what is drawn alone."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BLUE, VERMILION, GREEN, ORANGE = "#0072B2", "#D55E00", "#009E73", "#E69F00"
"""Of Okabe and Ito's palette, told apart by colour-blind readers too."""

_ABREAST = 3
"""Panels in a row."""


def png(draw: Callable[[Axes], None], height: float, width: float = 6.4) -> bytes:
    """A drawing, sizes in inches, without date and software, whatever the user's own matplotlib settings are."""
    return png_panels(lambda panels: draw(panels[0]), 1, height, width)


def png_panels(
    draw: Callable[[Sequence[Axes]], None],
    n: int,
    height: float,
    width: float = 6.4,
    *,
    same_x: bool = True,
    same_y: bool = True,
) -> bytes:
    """As `png`, `n` panels of the same axes, or each with its own; `height` is that of a row of them."""
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    rows, columns = -(-n // _ABREAST), min(n, _ABREAST)
    with mpl.rc_context():
        mpl.rcdefaults()
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
    """Text as it is, cut to `most` characters: a dollar sign would start matplotlib's mathematics."""
    shown = str(text)
    return (shown if len(shown) <= most else shown[: most - 1] + "…").replace("$", r"\$")


def explain(axes: Axes, handles: Sequence[Any], labels: Sequence[str], abreast: int = 0) -> None:
    """A legend above the figure, where it covers no data; `abreast` entries in a row, 0: all of them."""
    axes.figure.legend(
        handles, labels, loc="outside upper center", ncols=abreast or len(labels), frameon=False, fontsize=9
    )


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
