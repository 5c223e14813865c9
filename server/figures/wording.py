"""Words that the captions and alternative texts of all protocols share."""

from __future__ import annotations

import math
from collections.abc import Iterable

from server.report.data import Report
from server.report.formatting import counted

BARS = "bars are standard errors"
CROSSES = "crosses are the paper's figures"


def several(report: Report) -> bool:
    """Return whether there are several repetitions: figures then show the first, metrics are means over all."""
    return int(report.config.get("repetitions", 1)) > 1


def is_table(report: Report) -> bool:
    """Return whether the run is a scenario's table of several rows."""
    return report.metrics.get("n_cells", 1) > 1


def finite(value: object, unknown: float = math.nan) -> float:
    """Return a finite number as it is, anything else as `unknown`."""
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else unknown


def measured(report: Report, **sizes: str) -> str:
    """Return sizes in words: ``n_rows="row"`` gives ``400 rows``; then the number of sites."""
    words = [counted(report.metrics[name], thing) for name, thing in sizes.items() if name in report.metrics]
    return ", ".join([*words, counted(len(report.sites), "site")])


def sentences(*parts: str | Iterable[str]) -> str:
    """Return parts as sentences, with capital letters and full stops; empty ones are left out.

    Examples
    --------
    >>> sentences("bars are standard errors", "", ["crosses are published"])
    'Bars are standard errors. Crosses are published.'
    """
    flat = [part for each in parts for part in ([each] if isinstance(each, str) else each) if part]
    return " ".join(f"{part[0].upper()}{part[1:]}{'' if part[-1] in '.:' else '.'}" for part in flat)
