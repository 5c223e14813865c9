"""Entities of a site's table: their names as text, and the secret with which sites hash these names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NoReturn

import numpy as np
from jaxtyping import Bool, Shaped

from clients.data.column_selection import cell_name
from clients.data.table import DataError, Table, setting
from common.entity_keys import KEY_FILE, SecretError, read_secret

_EXACT = 2.0**53  # from here on neighboring whole numbers are one float64


def configured_secret(config: Mapping[str, object]) -> bytes:
    """Return the secret in the file of ``align-key-file``; empty if the key is not set.

    Raises
    ------
    DataError
        If the file cannot be read, or holds fewer than 16 bytes.
    """
    try:
        return read_secret(setting(config, KEY_FILE))
    except SecretError as error:
        raise DataError(str(error), "bad-configuration") from error


def entity_names(table: Table, column: str) -> tuple[Shaped[np.ndarray, "n"], str]:
    """Return the entities' names as text, so that ``12`` of one file and ``"12"`` of another are the same entity.

    Parameters
    ----------
    table : Table
        One row an entity.
    column : str
        Column of the names: whole numbers or text.

    Returns
    -------
    names : ndarray
        ``(n,)`` text, each name once.
    kind : str
        ``number`` or ``text``: what the column holds. Where it differs between two sites, names such as ``012`` do not
        match.

    Raises
    ------
    DataError
        For the first row without a name, with a number that cannot be a name, or with the name of an earlier row.

    Examples
    --------
    >>> names, kind = entity_names(Table("records", {"case": np.array([12.0, 7.0])}), "case")
    >>> names.tolist(), kind
    (['12', '7'], 'number')
    """
    cells = table.column(column)
    number = cells.dtype.kind in "fi"
    missing = np.array([cell is None for cell in cells]) if cells.dtype == object else np.isnan(cells.astype(float))
    for row in np.flatnonzero(missing)[:1]:
        raise DataError(f"{cell_name(table, column, int(row))}: is empty; every row needs a name", "missing-value")
    names = np.array([str(cell) for cell in (_whole(table, column) if cells.dtype.kind == "f" else cells).tolist()])
    # A set of strings is many times faster than their sort, and its order is not used.
    if len(set(names.tolist())) < table.n:
        _refuse_duplicate(table, column, names)
    return names, "number" if number else "text"


def _whole(table: Table, column: str) -> Shaped[np.ndarray, "n"]:
    """Return whole numbers that came as floating-point numbers."""
    cells = table.column(column)
    _refuse(table, column, ~np.isfinite(cells) | (cells != np.floor(cells)), "a name is a whole number or text")
    _refuse(table, column, np.abs(cells) >= _EXACT, "numbers so large are rounded; store the names as text")
    return cells.astype(np.int64)


def _refuse(table: Table, column: str, bad: Bool[np.ndarray, "n"], why: str) -> None:
    for row in np.flatnonzero(bad)[:1]:
        cell = table.column(column)[row]
        raise DataError(f"{cell_name(table, column, int(row))}: {cell:.15g} is no name; {why}", "bad-shape")


def _refuse_duplicate(table: Table, column: str, names: Shaped[np.ndarray, "n"]) -> NoReturn:
    first = {name: row for row, name in reversed(list(enumerate(names.tolist())))}
    row, name = next((row, name) for row, name in enumerate(names.tolist()) if first[name] != row)
    raise DataError(
        f"{cell_name(table, column, row)}: {name[:20]!r} is the name of {table.where(first[name])} already; a row "
        "needs a name of its own",
        "duplicate-entity",
    )
