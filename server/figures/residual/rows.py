"""What sets the rows of a table apart, for its figures and their words."""

from __future__ import annotations

import math
from itertools import takewhile
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float64

from server.figures.residual.common import MEASURED
from server.figures.wording import Arrays, Row

if TYPE_CHECKING:
    from server.results import Report


def labels_of(report: Report, row: Row) -> dict[str, Any]:
    """What sets a row apart: its leading columns, up to the first that was measured."""

    def label(each: tuple[str, Any]) -> bool:
        name = each[0]
        return not (name in MEASURED or name in report.metrics or name.endswith(("_se", " published")))

    return dict(takewhile(label, row.items()))


def error_of(report: Report) -> str:
    """The test error that is drawn: that of the chosen iterate, or the last one's where the paper's figures are."""
    names = ("test_mse", "test_mse_last")
    return next((name for name in names if any(f"{name} published" in row for row in report.table)), names[0])


def name_of(report: Report, row: Row) -> str:
    """A row's labels in a few words: text as it is, a number with its heading."""
    labels = labels_of(report, row)
    return ", ".join(value if isinstance(value, str) else f"{key} = {value}" for key, value in labels.items())


def label_number(value: object) -> float:
    """A label as a number; NaN if it is none."""
    try:
        return float(value) if isinstance(value, int | float | str) else math.nan
    except ValueError:
        return math.nan


def over_label(report: Report) -> tuple[str, Float64[np.ndarray, "rows"]] | None:
    """The label that most rows have another number in, and nothing else that differs between these; None: no such."""
    labels = [labels_of(report, row) for row in report.table]
    for name in dict.fromkeys(name for each in labels for name in each):
        values = np.array([label_number(each.get(name)) for each in labels])
        points = np.flatnonzero(np.isfinite(values))
        rest = {tuple(item for item in labels[place].items() if item[0] != name) for place in points}
        if len(points) > max(1, len(labels) / 2) and len(rest) == 1 and len(set(values[points])) == len(points):
            return name, values
    return None


def measures(report: Report, arrays: Arrays, metric: str) -> Float64[np.ndarray, "2 rows"]:
    """A metric and its standard error (0: unknown) by row, shown in the table or not; NaN where it is not known."""
    found = np.full((2, len(report.table)), math.nan)
    for place, row in enumerate(report.table):
        if row.get(metric) is not None:
            found[:, place] = row[metric], row.get(f"{metric}_se", 0.0)
        elif f"cells_{metric}" in arrays:
            values = arrays[f"cells_{metric}"][place]
            found[:, place] = values.mean(), values.std(ddof=1) / math.sqrt(len(values)) if len(values) > 1 else 0.0
    return found
