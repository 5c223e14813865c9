"""Checks that hold for every figure of a report, and figures by name.

A figure is laid out and encoded only in `assert_drawn`, which takes four times as long as drawing its pixels.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from unittest.mock import patch

import numpy as np

from protocols import registry
from server.figures import Figure, drawing, figures
from server.report.data import Report

PNG = b"\x89PNG\r\n\x1a\n"
WIDTH = 960
"""Pixels from left to right: 6.4 inches, letters that a narrow screen can show."""

Arrays = dict[str, np.ndarray]


def height(pixels: bytes) -> int:
    """Number of rows of pixels, red, green, blue and alpha each."""
    return len(pixels) // (4 * WIDTH)


def draw(report: Report, arrays: Arrays) -> dict[str, bytes]:
    """Pixels of the figures by name, not laid out; their texts are checked."""
    figure_names(report, arrays)
    return {figure.name: _pixels(render) for figure, render in _figures(report, arrays)}


def pixels(report: Report, name: str, arrays: Arrays) -> bytes:
    """Pixels of one figure, not laid out."""
    return _pixels({figure.name: render for figure, render in _figures(report, arrays)}[name])


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
    """Check names, images and texts of all figures; their pixels are the same if drawn `twice`; return the images."""
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


def _pixels(render: Callable[[], bytes]) -> bytes:
    """Render without a layout, with pixels in place of a PNG file and without the SVG file."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure as Drawing

    def write(canvas: FigureCanvasAgg, image: object, **_: object) -> None:
        canvas.draw()
        image.write(bytes(canvas.buffer_rgba()))

    with (
        patch.object(Drawing, "set_layout_engine"),
        patch.object(FigureCanvasAgg, "print_png", write),
        patch.object(FigureCanvasSVG, "print_svg"),
    ):
        return render()
