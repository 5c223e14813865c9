"""Cells of a column as numbers or text: how people write numbers, units and missing values."""

from __future__ import annotations

import re

import numpy as np
from jaxtyping import Float64, Shaped

from clients.data.table import NUMBER, UNKNOWN

Cells = Shaped[np.ndarray, "n"]
_THOUSANDS = re.compile(r"[+-]?\d{1,3}(,\d{3})+(\.\d+)?", re.ASCII)
_COMMA = re.compile(r"[+-]?\d+,\d+", re.ASCII)
_GROUPED = re.compile(r"[+-]?[1-9]\d{0,2}(\.\d{3})+(,\d+)?", re.ASCII)
"""A number with points between thousands (`1.234`, `1.234,5`), in a column or file of decimal commas."""
_COMMA_COLUMN = re.compile(r"[+-]?\d{1,3}(\.\d{3})+,\d+(\D.*)?", re.ASCII)
"""A cell that only a column of decimal commas has."""
_POINT_COLUMN = re.compile(r"[+-]?\d{1,3}(,\d{3})+\.\d+(\D.*)?", re.ASCII)
"""A cell that only a column of decimal points has."""
_APART = re.compile(r"(?<=\d)[\u00a0\u202f\u2009'\u2019](?=\d{3}(?!\d))")
"""A blank or apostrophe between thousands."""
_CURRENCY = re.compile(r"([+-]?)\s*(EUR|USD|GBP|CHF|JPY|CAD|AUD|SEK|NOK|DKK|PLN|CZK|[€$£])\s*(?=[+-]?\d)")
_NEGATIVE = re.compile(r"\((\d[\d.,]*)\)|(\d+[.,][\d.,]*\d)-", re.ASCII)
"""A negative number as accounts have it: `(1,234.50)`, `12,00-`."""
_UNIT = re.compile(r"([+-]?(?:[\d.,]*\d\.?)(?:[eE][+-]?\d+)?)\s*([^\W\d_][^\d]*|[%€$£])", re.ASCII)
_CODE = re.compile(r"[+-]?0\d", re.ASCII)
TRUTH_WORDS = {"true": 1.0, "yes": 1.0, "y": 1.0, "false": 0.0, "no": 0.0, "n": 0.0}


def number_of(cell: str, *, commas: bool = False) -> float | None:
    """Return the number that a person means by a cell; None if it is none.

    Parameters
    ----------
    cell : str
        The cell.
    commas : bool
        Whether the column has decimal commas, and so points between thousands.

    Examples
    --------
    >>> [number_of(cell) for cell in ("1,234.5", "45 y", "yes", "3,7", "north")]
    [1234.5, 45.0, 1.0, 3.7, None]
    >>> [number_of(cell) for cell in ("CHF 1'234.50", "(1,234.50)", "12.00-")]
    [1234.5, -1234.5, -12.0]
    >>> [number_of(cell, commas=True) for cell in ("1.234,5", "1.234", "1.234,50 €", "3,725")]
    [1234.5, 1234.0, 1234.5, 3.725]
    """
    text = _without_marks(cell)
    if commas and (_GROUPED.fullmatch(text) or _COMMA.fullmatch(text)):
        return float(text.replace(".", "").replace(",", "."))
    if NUMBER.fullmatch(text):
        return float(text)
    if text.lower() in TRUTH_WORDS:
        return TRUTH_WORDS[text.lower()]
    if _THOUSANDS.fullmatch(text):
        return float(text.replace(",", ""))
    if _COMMA.fullmatch(text):
        return float(text.replace(",", "."))
    if unit := _UNIT.fullmatch(text):
        return number_of(unit[1], commas=commas)
    return None


def without_points(cells: Cells) -> Cells:
    """Return a column of text of a file with decimal commas: numbers with points between thousands as plain numbers.

    A column in which some known cell is no number is returned as it is.

    Examples
    --------
    >>> without_points(np.array(["1.234", "800", "2.500,5"], object)).tolist()
    [1234.0, 800.0, 2500.5]
    >>> without_points(np.array(["1.234", "n/a"], object)).tolist()
    ['1234', 'n/a']
    """
    texts = [cell.strip() if isinstance(cell, str) else "" for cell in cells.tolist()]
    known = [text for text in texts if text.lower() not in UNKNOWN]
    plain = all(_GROUPED.fullmatch(text) or re.fullmatch(r"[+-]?(0|[1-9]\d*)(,\d+)?", text) for text in known)
    if not plain or not any(map(_GROUPED.fullmatch, known)):
        return cells
    numbers = {text: text.replace(".", "").replace(",", ".") for text in known}
    read = np.array([numbers.get(text, text) or None for text in texts], object)
    return read.astype(np.float64) if all(text in numbers or not text for text in texts) else read


def numbers_of(cells: Cells) -> Float64[np.ndarray, "n"] | None:
    """Return a column of text as numbers, NaN where unknown; None if some known cell is no number, or units differ.

    Some cells may lack the unit that others have after a blank, or the currency; of `3` and `3a` both are codes, and
    so are numbers beside one with leading zeros.

    Examples
    --------
    >>> numbers_of(np.array(["45 y", "NA", "50 y"], object)).tolist()
    [45.0, nan, 50.0]
    >>> numbers_of(np.array(["45 y", "61"], object)).tolist()
    [45.0, 61.0]
    >>> [numbers_of(np.array(cells, object)) for cells in (["4 y", "3 kg"], ["€ 3", "$ 3"], ["3", "3a"], ["1", "02"])]
    [None, None, None, None]
    """
    if cells.dtype == np.bool_:
        return cells.astype(np.float64)
    if cells.dtype != object:
        return None
    read: dict[str, float] = {}
    units, apart = set(), True
    texts = {cell: _without_marks(cell) for cell in cells.tolist() if cell is not None}
    commas = any(map(_COMMA_COLUMN.fullmatch, texts.values()))
    if commas and any(map(_POINT_COLUMN.fullmatch, texts.values())):
        return None
    for cell, text in texts.items():
        if cell.strip().lower() in UNKNOWN:
            read[cell] = np.nan
            continue
        number = number_of(cell, commas=commas)
        unit, currency = _UNIT.fullmatch(text), _CURRENCY.search(cell)
        if number is None or (not (unit or currency) and _CODE.match(text)):
            return None
        read[cell] = number
        units.add(unit[2].strip().lower() if unit else currency[2].lower() if currency else "")
        apart = apart and (unit is None or unit[2] == "%" or bool(re.search(r"\s", text)))
    if not units or len(units - {""}) > 1 or (len(units) > 1 and not apart):
        return None
    return np.array([np.nan if cell is None else read[cell] for cell in cells.tolist()], np.float64)


def _without_marks(cell: str) -> str:
    """Return a cell without currency, and blanks and apostrophes between thousands; a negative number by its minus."""
    text = cell.strip()
    if NUMBER.fullmatch(text) or not any(map(str.isdigit, text)):
        return text
    text = _CURRENCY.sub(r"\1", _APART.sub("", text.replace("\u2212", "-")), count=1)
    negative = _NEGATIVE.fullmatch(text)
    return f"-{negative[1] or negative[2]}" if negative else text


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
