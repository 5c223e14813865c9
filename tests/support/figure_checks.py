"""Checks that hold for every figure of a report, and figures by name.

A figure is laid out, drawn and encoded only in `assert_drawn`; elsewhere its contents are compared, which is fast.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import numpy as np

from protocols import registry
from server.figures import Figure, drawing, figures
from server.report.data import Report

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure as Drawing

PNG = b"\x89PNG\r\n\x1a\n"
WIDTH = 960
"""Pixels from left to right: 6.4 inches, letters that a narrow screen can show."""

Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Contents:
    """What a figure holds.

    Attributes
    ----------
    height : float
        Pixels from top to bottom.
    artists : tuple
        Shapes, colors and words, a tuple each.
    """

    height: float
    artists: tuple[tuple[object, ...], ...]

    @staticmethod
    def of(figure: Drawing) -> Contents:
        """Return the contents of a figure that is about to be drawn."""
        legends = [text.get_text() for legend in figure.legends for text in legend.get_texts()]
        artists = [artist for axes in figure.axes for artist in _artists(axes)]
        return Contents(figure.get_figheight() * figure.dpi, (*artists, tuple(legends)))


def draw(report: Report, arrays: Arrays) -> dict[str, Contents]:
    """Contents of the figures by name; their texts are checked."""
    figure_names(report, arrays)
    return {figure.name: _contents(render) for figure, render in _figures(report, arrays)}


def contents(report: Report, name: str, arrays: Arrays) -> Contents:
    """Contents of one figure."""
    return _contents({figure.name: render for figure, render in _figures(report, arrays)}[name])


def figure_names(report: Report, arrays: Arrays) -> list[str]:
    """Names of the figures, in order; their texts are checked."""
    drawn = [figure for figure, _ in _figures(report, arrays)]
    for figure in drawn:
        _check_texts(report, figure)
    return [figure.name for figure in drawn]


def alt_text(report: Report, name: str, arrays: Arrays | None = None) -> str:
    """Alternative text of a figure."""
    return _without_image(report, name, arrays or {}).alt


def caption(report: Report, name: str, arrays: Arrays | None = None) -> str:
    """Caption of a figure."""
    return _without_image(report, name, arrays or {}).caption


def assert_drawn(report: Report, arrays: Arrays, names: list[str], *, twice: bool = False) -> dict[str, bytes]:
    """Check names, images and texts of all figures; they are the same if drawn `twice`; return the images."""
    drawn = figures(report, arrays)
    assert [figure.name for figure in drawn] == names
    for figure in drawn:
        assert figure.image.startswith(PNG)
        assert b"tEXt" not in figure.image, "no date and no software"
        assert int.from_bytes(figure.image[16:20]) == WIDTH
        _check_texts(report, figure)
    assert not twice or draw(report, arrays) == draw(report, arrays)
    return {figure.name: figure.image for figure in drawn}


def _check_texts(report: Report, figure: Figure) -> None:
    for text in (figure.alt, figure.caption):
        assert not text[0].islower()
        assert text.endswith(".")
        assert ".." not in text
        assert "nan" not in text.split()
    assert any(map(str.isdigit, figure.alt)), "what is seen, in numbers"
    assert f"{len(report.sites)} site" in figure.caption


def _without_image(report: Report, name: str, arrays: Arrays) -> Figure:
    return {figure.name: figure for figure, _ in _figures(report, arrays)}[name]


def _figures(report: Report, arrays: Arrays) -> Sequence[tuple[Figure, Callable[[], bytes]]]:
    """Figures without images, each with what would render its own."""
    renders: list[Callable[[], bytes]] = []

    def keep(function: Callable[..., bytes], *arguments: object, **options: object) -> bytes:
        renders.append(partial(function, *arguments, **options))
        return str(len(renders) - 1).encode()

    if registry.exists(report.protocol):
        registry.room(report.protocol, "figures")
    with ExitStack() as patches:
        for name, module in list(sys.modules.items()):
            if name.startswith("server.figures.") and module is not drawing:
                for function in (drawing.png, drawing.png_panels):
                    if hasattr(module, function.__name__):
                        patches.enter_context(patch.object(module, function.__name__, partial(keep, function)))
        return [(figure, renders[int(figure.image)]) for figure in figures(report, arrays)]


def _contents(render: Callable[[], bytes]) -> Contents:
    """Fill the panels of a figure, and neither lay them out nor draw them."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    kept: list[Contents] = []
    with (
        patch.object(FigureCanvasAgg, "print_png", lambda canvas, *_, **__: kept.append(Contents.of(canvas.figure))),
        patch.object(FigureCanvasSVG, "print_svg"),
    ):
        render()
    return kept[0]


def _artists(axes: Axes) -> Iterator[tuple[object, ...]]:
    """What was put on a panel: shapes, colors and words."""
    yield axes.get_title(), axes.get_xlabel(), axes.get_ylabel(), axes.get_xscale(), axes.get_yscale()
    yield *axes.get_xlim(), *axes.get_ylim(), *_ticks(axes.xaxis), *_ticks(axes.yaxis)
    for line in axes.lines:
        look = line.get_color(), line.get_linestyle(), line.get_marker(), line.get_label()
        yield _bytes(line.get_xydata(), line.get_transform().transform(line.get_xydata())), *map(str, look)
    for collection in axes.collections:
        paths = [path.vertices for path in collection.get_paths()]
        yield _bytes(collection.get_offsets(), collection.get_facecolor(), collection.get_edgecolor(), *paths)
        yield _bytes(collection.get_array(), getattr(collection, "get_sizes", list)(), *collection.get_clim())
    for patch_ in axes.patches:
        yield _bytes(patch_.get_verts(), patch_.get_facecolor(), patch_.get_edgecolor()), patch_.get_hatch()
    for image in axes.images:
        yield _bytes(image.get_array(), *image.get_clim()), image.get_cmap().name
    for text in axes.texts:
        yield text.get_text(), *text.get_position(), text.get_color()


def _ticks(axis: Axis) -> tuple[object, ...]:
    """Ticks that the figure sets itself."""
    formatter = axis.get_major_formatter()
    return tuple(getattr(axis.get_major_locator(), "locs", ())), tuple(getattr(formatter, "seq", ()))


def _bytes(*values: Any) -> tuple[bytes, ...]:
    return tuple(np.ma.filled(np.ma.asarray(value, float), np.nan).tobytes() for value in values if value is not None)
