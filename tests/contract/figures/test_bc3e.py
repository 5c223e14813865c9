"""Figures of BC3E: what is drawn for which run, from content alone, and what is said of them in words."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from server.report.data import Report
from tests.support.figure_checks import alt_text, assert_drawn, caption, draw

METRICS = {"accuracy": 0.9, "accuracy_majority": 0.8, "accuracy_best_component": 0.85, "accuracy_$x^{$": 0.85}


def make(**changes: Any) -> Report:
    made: dict[str, Any] = {
        "scenario": "s", "protocol": "bc3e", "seed": 0, "sites": ["a", "b"], "rounds": 3, "seconds": 1.0,
        "metrics": METRICS,
    }  # fmt: skip
    return Report(**{**made, **changes})


def learned() -> dict[str, np.ndarray]:
    """Two classes, one three times as frequent: a clustering that tells them apart, and one that says nothing."""
    return {
        "alpha": np.array([3.0, 1.0]),
        "clusterings": np.array(["idle", "sharp"]),
        "beta_0": np.full((2, 4), 0.25),
        "beta_1": np.array([[1.0, 0.0], [0.0, 1.0]]),
        "bounds": np.array([-50.0, -40.5]),
    }


def test_a_run_shows_its_bound_its_accuracy_and_what_clusterings_tell() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert_drawn(make(), learned(), ["accuracy", "clusterings", "bound"], twice=True)
        assert_drawn(make(metrics={}), {"bounds": learned()["bounds"]}, ["bound"])
        coverage = np.array([[0.0, 1.0, 0.8], [0.9, 0.5, 1.0]])
        assert_drawn(make(metrics={}), {"coverage": coverage}, ["coverage"])
        assert_drawn(make(metrics={}), {"changed": np.array([1.0, 0.25, 0.0])}, ["changed"])
    assert draw(make(metrics={}), {}) == {}


def test_the_texts_tell_numbers_units_and_sizes() -> None:
    report = make()
    assert (
        alt_text(report, "bound", learned()) == "Bound over the steps of the fit: -50 after the first, -40.5 after 2."
    )
    assert "together (BC3E) 90.0 %, majority vote 80.0 %" in alt_text(report, "accuracy")
    assert alt_text(report, "clusterings", learned()) == (
        "Share of instances whose class the cluster predicts: sharp 100 %, idle 75 %; always the commonest class 75 %."
    )
    assert "(nats, the sum over all instances) after every counted step" in caption(report, "bound", learned())
    assert "2 sites, 3 rounds" in caption(report, "bound", learned())
    assert "in the first repetition" in caption(make(config={"repetitions": 4}), "bound", learned())
    assert "means of 4 repetitions" in caption(make(config={"repetitions": 4}), "accuracy")
