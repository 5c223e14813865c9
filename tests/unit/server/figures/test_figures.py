"""Figures of all protocols: the same content gives the same bytes."""

import numpy as np

from server.figures import figures
from tests.support.sample_report import ARRAYS, make


def test_figures_are_reproducible_png_images():
    report = make(metrics=make().metrics | {"accuracy_$x^{$": 0.5})
    drawn = figures(report, ARRAYS)
    assert [figure.name for figure in drawn] == ["bound", "accuracy"]
    assert drawn == figures(report, ARRAYS)
    for figure in drawn:
        assert figure.image.startswith(b"\x89PNG\r\n\x1a\n")
        assert b"tEXt" not in figure.image
    assert drawn[0] != figures(report, {"bounds": np.array([1.0])})[0]


def test_a_run_without_anything_to_draw_has_no_figures():
    assert figures(make(metrics={"accuracy": 1.0}), {}) == []
    assert figures(make(protocol="unheard-of"), {}) == []
