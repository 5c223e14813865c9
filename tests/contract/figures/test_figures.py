"""Figures of all protocols: the same content gives the same bytes; and figures of classes."""

import numpy as np

from numerics.shared.classification import class_arrays
from server.figures import figures
from server.figures.classification import classification_figures
from server.report.classification import reliability_of
from tests.support.sample_report import ARRAYS, make


def test_figures_are_reproducible_png_images():
    report = make(metrics=make().metrics | {"accuracy_$x^{$": 0.5})
    drawn = figures(report, ARRAYS)
    assert [figure.name for figure in drawn] == ["accuracy", "bound"]
    again = figures(report, ARRAYS)
    assert drawn == again
    for figure, same in zip(drawn, again, strict=True):
        assert figure.image.startswith(b"\x89PNG\r\n\x1a\n")
        assert b"tEXt" not in figure.image
        assert figure.image.svg == same.image.svg
    header, *rows = drawn[1].image.data.splitlines()
    assert header == "panel,kind,series,x,y,value"
    assert len(rows) == len(ARRAYS["bounds"]), "the numbers that the figure shows"
    assert drawn[1] != figures(report, {"bounds": np.array([1.0])})[0]


def test_a_run_without_anything_to_draw_has_no_figures():
    assert figures(make(metrics={"accuracy": 1.0}), {}) == []
    assert figures(make(protocol="unheard-of"), {}) == []


def test_figures_of_classes_say_what_they_show() -> None:
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(3), 200)
    y = (rng.random((200, 1)) > p.cumsum(axis=1)).sum(axis=1)
    arrays = class_arrays(("a", "b", "c"), p, y)
    curve, matrix = classification_figures(arrays, "on held-out rows", "all sites")
    assert curve.image.startswith(b"\x89PNG")
    assert matrix.image.startswith(b"\x89PNG")
    error = 100 * reliability_of(arrays).error()
    assert f"Expected calibration error {error:.3g} %" in curve.alt
    assert f"{np.trace(arrays['confusion'])} of 200 rows in the predicted class" in matrix.alt
    assert classification_figures({}, "", "") == []
    many = class_arrays([str(i) for i in range(30)], np.eye(30), np.arange(30))
    assert "names are left out" in classification_figures(many, "", "")[1].caption
