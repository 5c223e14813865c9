"""Cells of a column as numbers or text: how people write numbers, units and missing values."""

from __future__ import annotations

import re

import numpy as np
from jaxtyping import Float64, Shaped

from clients.data.table import NUMBER, UNKNOWN

Cells = Shaped[np.ndarray, "n"]
_THOUSANDS = re.compile(r"[+-]?\d{1,3}(,\d{3})+(\.\d+)?", re.ASCII)
_COMMA = re.compile(r"[+-]?\d+,\d+", re.ASCII)
_UNIT = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*([^\W\d_][^\d]*|%)", re.ASCII)
TRUTH_WORDS = {"true": 1.0, "yes": 1.0, "y": 1.0, "false": 0.0, "no": 0.0, "n": 0.0}


def number_of(cell: str) -> float | None:
    """Return the number that a person means by a cell; None if it is none.

    Examples
    --------
    >>> [number_of(cell) for cell in ("1,234.5", "45 y", "yes", "3,7", "north")]
    [1234.5, 45.0, 1.0, 3.7, None]
    """
    text = cell.strip()
    if NUMBER.fullmatch(text):
        return float(text)
    if text.lower() in TRUTH_WORDS:
        return TRUTH_WORDS[text.lower()]
    if _THOUSANDS.fullmatch(text):
        return float(text.replace(",", ""))
    if _COMMA.fullmatch(text):
        return float(text.replace(",", "."))
    if unit := _UNIT.fullmatch(text):
        return float(unit[1])
    return None


def numbers_of(cells: Cells) -> Float64[np.ndarray, "n"] | None:
    """Return a column of text as numbers, NaN where unknown; None if some known cell is no number, or units differ.

    Some cells may lack the unit that others have after a blank; of `3` and `3a` both are codes.

    Examples
    --------
    >>> numbers_of(np.array(["45 y", "NA", "50 y"], object)).tolist()
    [45.0, nan, 50.0]
    >>> numbers_of(np.array(["45 y", "61"], object)).tolist()
    [45.0, 61.0]
    >>> [numbers_of(np.array(cells, object)) for cells in (["45 y", "3 kg"], ["3", "3a"])]
    [None, None]
    """
    if cells.dtype == np.bool_:
        return cells.astype(np.float64)
    if cells.dtype != object:
        return None
    read: dict[str, float] = {}
    units, apart = set(), True
    for cell in {cell for cell in cells.tolist() if cell is not None}:
        if cell.strip().lower() in UNKNOWN:
            read[cell] = np.nan
            continue
        number = number_of(cell)
        if number is None:
            return None
        read[cell] = number
        unit = _UNIT.fullmatch(cell.strip())
        units.add(unit[2].strip().lower() if unit else "")
        apart = apart and (unit is None or unit[2] == "%" or bool(re.search(r"\s", cell.strip())))
    if not units or len(units - {""}) > 1 or (len(units) > 1 and not apart):
        return None
    return np.array([np.nan if cell is None else read[cell] for cell in cells.tolist()], np.float64)


def example_of(cells: Cells, numbers: Float64[np.ndarray, "n"]) -> tuple[int, str]:
    """Return the first row whose cell is no plain number, and how it is read: ``'45 y' as 45``."""
    for row, cell in enumerate(cells.tolist()):
        if isinstance(cell, str) and not NUMBER.fullmatch(cell):
            value = "missing" if np.isnan(numbers[row]) else f"{numbers[row]:g}"
            return row, f"{cell!r} as {value}"
        if isinstance(cell, bool):
            return row, f"{cell} as {numbers[row]:g}"
    return 0, ""


def text_of(cells: Cells) -> list[str]:
    """Return the cells of a category as text: whole numbers without a fraction, empty for a missing cell."""
    texts = []
    for cell in cells.tolist():
        if cell is None or (isinstance(cell, float) and np.isnan(cell)):
            texts.append("")
        else:
            whole = isinstance(cell, float) and cell.is_integer()
            text = str(int(cell) if whole else cell).strip()
            texts.append("" if text.lower() in UNKNOWN else text)
    return texts
