"""Tables in Markdown, readable numbers, and standard errors."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

_MILLISECOND = 1e-3


def table_head(headings: Sequence[str]) -> list[str]:
    """Return the first two lines of a table."""
    return [table_row(headings), table_row(["---"] * len(headings))]


def table_row(cells: Iterable[str]) -> str:
    """Return a line of a table; cells hold no bars."""
    return f"| {' | '.join(cells)} |"


def format_number(value: float, digits: int) -> str:
    """Return a number with `digits` significant digits and no power of ten; "" if it is not finite."""
    if not math.isfinite(value):
        return ""
    if value == 0:
        return "0"
    after = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    return f"{value:,.{after}f}"


def format_seconds(value: float) -> str:
    """Return seconds with three digits, not below milliseconds."""
    if not math.isfinite(value):
        return ""
    return (
        format_number(value, 3) if value >= 1 else f"{value:.3f}" if value >= _MILLISECOND or value == 0 else "< 0.001"
    )


def format_size(count: float) -> str:
    """Return bytes in the unit in which they have one to three digits before the point."""
    if not math.isfinite(count):
        return ""
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= factor:
            return f"{format_number(count / factor, 3)} {unit}"
    return f"{count:.0f} B" if count else "0"


def standard_error(values: Any) -> Any:
    """Return the standard error of the mean over the first axis, the draws; NaN for a single draw."""
    draws = np.asarray(values)
    if len(draws) < 2:
        return np.full(draws.shape[1:], np.nan)[()]
    return draws.std(axis=0, ddof=1) / np.sqrt(len(draws))


def means_and_errors(values: Any) -> list[str]:
    """Return the cells of a table, mean ± standard error, from rows of draws and columns of measures."""
    errors = standard_error(values)
    return [f"{mean:.3f} ± {error:.3f}" for mean, error in zip(np.mean(values, axis=0), errors, strict=True)]
