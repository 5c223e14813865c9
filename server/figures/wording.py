"""What captions and alternative texts of all protocols share: what is drawn, sizes, numbers that may be missing."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Shaped

from server.report.formatting import counted

if TYPE_CHECKING:
    from server.results import Report

Arrays = Mapping[str, Shaped[np.ndarray, "..."]]
"""A run's arrays by documented name."""
Row = Mapping[str, Any]
"""Of a result table."""

BARS = "bars are standard errors"
CROSSES = "crosses are the paper's figures"


def several(report: Report) -> bool:
    """Whether what is drawn is the first repetition's, and the metrics are means over them."""
    return int(report.config.get("repetitions", 1)) > 1


def compares(report: Report) -> bool:
    """Whether this is a table of several settings."""
    return report.metrics.get("n_cells", 1) > 1


def finite(value: object, unknown: float = math.nan) -> float:
    """A finite number as it is, anything else as `unknown`."""
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else unknown


def measured(report: Report, **sizes: str) -> str:
    """Sizes that the metrics tell, in words: ``n_rows="row"`` gives ``400 rows``; then the number of sites."""
    told = [counted(report.metrics[name], thing) for name, thing in sizes.items() if name in report.metrics]
    return ", ".join([*told, counted(len(report.sites), "site")])


def sentences(*parts: str | Iterable[str]) -> str:
    """Parts as sentences, each with a capital letter and a full stop; empty ones are left out."""
    flat = [part for each in parts for part in ([each] if isinstance(each, str) else each) if part]
    return " ".join(f"{part[0].upper()}{part[1:]}{'' if part[-1] in '.:' else '.'}" for part in flat)
