"""Labels and metrics of the rows of a table."""

from __future__ import annotations

import math
from itertools import takewhile
from typing import Any

import numpy as np
from jaxtyping import Float64

from server.figures.residual.common import MEASURED
from server.report.data import Arrays, Report, Row


def labels_of(report: Report, row: Row) -> dict[str, Any]:
    """Return the labels of a row: its leading columns, up to the first metric."""

    def label(each: tuple[str, Any]) -> bool:
        name = each[0]
        return not (name in MEASURED or name in report.metrics or name.endswith(("_se", " published")))

    return dict(takewhile(label, row.items()))


def error_of(report: Report) -> str:
    """Return the drawn test error: of the chosen iteration, or of the last one if the published figures are of that."""
    names = ("test_mse", "test_mse_last")
    return next((name for name in names if any(f"{name} published" in row for row in report.table)), names[0])


def name_of(report: Report, row: Row) -> str:
    """Return a row's labels in words: text as it is, a number with its heading."""
    labels = labels_of(report, row)
    return ", ".join(value if isinstance(value, str) else f"{key} = {value}" for key, value in labels.items())


def label_number(value: object) -> float:
    """Return a label as a number; NaN if it is none."""
    try:
        return float(value) if isinstance(value, int | float | str) else math.nan
    except ValueError:
        return math.nan


def over_label(report: Report) -> tuple[str, Float64[np.ndarray, "rows"]] | None:
    """Return the only label that differs between most rows, if it is a number in these; else None."""
    labels = [labels_of(report, row) for row in report.table]
    for name in dict.fromkeys(name for each in labels for name in each):
        values = np.array([label_number(each.get(name)) for each in labels])
        points = np.flatnonzero(np.isfinite(values))
        rest = {tuple(item for item in labels[place].items() if item[0] != name) for place in points}
        if len(points) > max(1, len(labels) / 2) and len(rest) == 1 and len(set(values[points])) == len(points):
            return name, values
    return None


def measures(report: Report, arrays: Arrays, metric: str) -> Float64[np.ndarray, "2 rows"]:
    """Return a metric and its standard error (0: unknown) by row, also if the table lacks it; NaN if unknown."""
    numbers = np.full((2, len(report.table)), math.nan)
    for place, row in enumerate(report.table):
        if row.get(metric) is not None:
            numbers[:, place] = row[metric], row.get(f"{metric}_se", 0.0)
        elif f"cells_{metric}" in arrays:
            values = arrays[f"cells_{metric}"][place]
            numbers[:, place] = values.mean(), values.std(ddof=1) / math.sqrt(len(values)) if len(values) > 1 else 0.0
    return numbers
