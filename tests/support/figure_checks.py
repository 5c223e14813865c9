"""What every figure of a report promises."""

from __future__ import annotations

import numpy as np

from server.figures import alt_text, caption, figures
from server.report.data import Report

PNG = b"\x89PNG\r\n\x1a\n"


def width(image: bytes) -> int:
    """Pixels from left to right."""
    return int.from_bytes(image[16:20])


def assert_drawn(
    report: Report, arrays: dict[str, np.ndarray], names: list[str], *, twice: bool = False
) -> dict[str, bytes]:
    """These figures, each with texts of its own; if they are drawn `twice`, the same again from the same content."""
    drawn = figures(report, arrays)
    assert list(drawn) == names
    for name, image in drawn.items():
        assert image.startswith(PNG)
        assert b"tEXt" not in image, "no date and no software"
        assert width(image) == 960, "6.4 inches: letters that a narrow screen can show"
        for text in (alt_text(report, name), alt_text(report, name, arrays), caption(report, name)):
            assert not text.startswith("Figure:")
            assert not text[0].islower()
            assert text.endswith(".")
            assert ".." not in text
            assert "nan" not in text.split()
        assert any(map(str.isdigit, alt_text(report, name, arrays))), "what is seen, in numbers"
        assert f"{len(report.sites)} site" in caption(report, name)
    assert not twice or figures(report, arrays) == drawn
    return drawn
