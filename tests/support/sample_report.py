"""A small report of a run, for tests of what is made of it."""

from dataclasses import replace

import numpy as np

from server.figures import figures
from server.report.data import Report
from server.report.summary import ledger_summary

HOSTILE = '<script>alert("&")</script>'


def line(round_, direction, site, payload, size, shape=(3,)):
    return {
        "round": round_,
        "direction": direction,
        "site": site,
        "lane": "0",
        "payload": payload,
        "fields": {"alpha": {"shape": shape, "dtype": "float64", "bytes": size}},
        "bytes": size,
    }


LINES = [
    line(number, direction, site, payload, size)
    for number in (1, 2)
    for site in ("a", "b")
    for direction, payload, size in (("to_site", "EStep", 24), ("from_site", "Statistics", 40))
]


ARRAYS = {"bounds": np.array([-300.5, -250.25])}
"""Of the results of `make`."""


def make(**changes):
    report = Report(
        scenario="bc3e-wine",
        protocol="bc3e",
        seed=3,
        sites=["a", "b"],
        rounds=14,
        seconds=125.25,
        metrics={
            "bound": -1234.5678,
            "accuracy_se": 0.004,
            "accuracy": 0.9421,
            "accuracy_majority": 0.897,
            "accuracy_tree": 0.81,
        },
        published={"accuracy": 0.935},
        table=[{"repetition": 1, "accuracy": 0.9, "accuracy_se": 0.02}, {"repetition": 2, "note": None}],
        ledger=ledger_summary(LINES),
        versions={"python": "3.12"},
        missing={"b": ["round 3: no answer within 600 s"]},
        config={"seed": 3, "bc3e.distribution": "row"},
        command="flwr run . --stream --run-config 'seed=3'",
        overview={"question": "What class is each?", "data": "Wine.", "holdings": "Rows.", "disclosure": "Sums."},
        convergence=[{"round": 1, "bound": -300.5, "bytes": 64}, {"round": 2, "bound": -250.25, "bytes": 64}],
    )
    return replace(report, **changes)


def draw_figures(report):
    """Draw the figures, add their texts to the report, and return their images by name."""
    drawn = figures(report, ARRAYS)
    report.figures = [figure.texts for figure in drawn]
    return {figure.name: figure.image for figure in drawn}
