"""Checks that hold for every figure of a report, and figures by name."""

from __future__ import annotations

from unittest.mock import patch

import numpy as np

from server.figures import Figure, figures
from server.report.data import Report

PNG = b"\x89PNG\r\n\x1a\n"


def width(image: bytes) -> int:
    """Pixels from left to right."""
    return int.from_bytes(image[16:20])


def draw(report: Report, arrays: dict[str, np.ndarray]) -> dict[str, bytes]:
    """Images of the figures by name."""
    return {figure.name: figure.image for figure in figures(report, arrays)}


def alt_text(report: Report, name: str, arrays: dict[str, np.ndarray] | None = None) -> str:
    """Alternative text of a figure."""
    return _without_image(report, name, arrays or {}).alt


def caption(report: Report, name: str, arrays: dict[str, np.ndarray] | None = None) -> str:
    """Caption of a figure."""
    return _without_image(report, name, arrays or {}).caption


def _without_image(report: Report, name: str, arrays: dict[str, np.ndarray]) -> Figure:
    """A figure with an empty image, since rendering takes most of the time."""
    with patch("matplotlib.figure.Figure.savefig"):
        return {figure.name: figure for figure in figures(report, arrays)}[name]


def assert_drawn(
    report: Report, arrays: dict[str, np.ndarray], names: list[str], *, twice: bool = False
) -> dict[str, bytes]:
    """Check names, images and texts of all figures, which are the same if drawn `twice`; return the images by name."""
    drawn = figures(report, arrays)
    assert [figure.name for figure in drawn] == names
    for figure in drawn:
        assert figure.image.startswith(PNG)
        assert b"tEXt" not in figure.image, "no date and no software"
        assert width(figure.image) == 960, "6.4 inches: letters that a narrow screen can show"
        for text in (figure.alt, figure.caption):
            assert not text[0].islower()
            assert text.endswith(".")
            assert ".." not in text
            assert "nan" not in text.split()
        assert any(map(str.isdigit, figure.alt)), "what is seen, in numbers"
        assert f"{len(report.sites)} site" in figure.caption
    assert not twice or figures(report, arrays) == drawn
    return {figure.name: figure.image for figure in drawn}
