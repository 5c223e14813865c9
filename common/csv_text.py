"""Text of CSV files: numbers are read back exactly, and no text is a formula.

A spreadsheet takes a cell that begins with ``=``, ``+``, ``-``, ``@``, a tab or a carriage return for a formula, and
names of rows, columns and sites come from outside. Such a cell gets an apostrophe before it, unless it is a number.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Shaped

_FORMULA = tuple("=+-@\t\r")

Column = Shaped[np.ndarray, "n"] | Sequence[object]


def escape(cell: Any) -> Any:
    """Put an apostrophe before text that a spreadsheet would take for a formula; other cells stay as they are.

    Examples
    --------
    >>> escape("=1+1"), escape("-5"), escape(-5), escape("bed 7")
    ("'=1+1", '-5', -5, 'bed 7')
    """
    return f"'{cell}" if isinstance(cell, str) and _is_formula(cell.lstrip("'")) else cell


def unescape(cell: Any) -> Any:
    """Undo `escape`.

    Examples
    --------
    >>> [unescape(escape(cell)) for cell in ("=1+1", "'=1+1", "-5", "'quoted'")]
    ['=1+1', "'=1+1", '-5', "'quoted'"]
    """
    return cell[1:] if isinstance(cell, str) and cell[:1] == "'" and _is_formula(cell.lstrip("'")) else cell


def csv_text(columns: Mapping[str, Column]) -> str:
    r"""Return the text of a CSV file.

    Parameters
    ----------
    columns : mapping of str to array or sequence
        By name, each of ``n`` cells.

    Examples
    --------
    >>> csv_text({"entity": ["a", "@b"], "class": np.array([0, 1])})
    "entity,class\na,0\n'@b,1\n"
    """
    return _write([[escape(name) for name in columns]]) + csv_rows(columns.values())


def csv_rows(columns: Iterable[Column]) -> str:
    r"""Return the lines of a CSV file for columns of the same length, without a header.

    Examples
    --------
    >>> csv_rows([["a", "b"], [1, 2]])
    'a,1\nb,2\n'
    """
    return _write(zip(*map(_cells, columns), strict=True))


def _cells(column: Column) -> Sequence[object]:
    if isinstance(column, np.ndarray):
        cells: list[object] = column.tolist()
        if column.dtype.kind in "biuf":
            return cells
        column = cells
    return [escape(cell) for cell in column]


def _is_formula(text: str) -> bool:
    if not text.startswith(_FORMULA):
        return False
    try:
        float(text)
    except ValueError:
        return True
    return text[0] in "\t\r"


def _write(rows: Iterable[Iterable[object]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()
