"""What every figure of a report promises."""

from __future__ import annotations

import numpy as np

from server.figures import alt_text, figures
from server.results import Report

PNG = b"\x89PNG\r\n\x1a\n"


def assert_drawn(report: Report, arrays: dict[str, np.ndarray], names: list[str]) -> dict[str, bytes]:
    """These figures, each with a text of its own; the same again from the same content."""
    drawn = figures(report, arrays)
    assert list(drawn) == names
    for name, image in drawn.items():
        assert image.startswith(PNG)
        assert b"tEXt" not in image, "no date and no software"
        text = alt_text(report, name)
        assert not text.startswith("Figure:")
        assert text.endswith(".")
    assert figures(report, arrays) == drawn
    return drawn
