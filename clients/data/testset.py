"""The center's own files in a simulation on own data, beside the parties': the test rows of ``_test``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from jaxtyping import Float64, Shaped

from clients.data.files import ENDINGS, read_table, site_name
from clients.data.table import DataError, numeric, setting


def center_columns(config: Mapping[str, object]) -> dict[str, Float64[np.ndarray, "t"]]:
    """Its columns of numbers by name; empty where there is no such file (and always in deployment).

    Raises
    ------
    DataError
        If the file cannot be read, lacks the column that `target` names, or has an empty cell in a column of numbers.
    """
    path = center_file(config, "_test")
    if path is None:
        return {}
    table = read_table(path)
    target = setting(config, "target")
    if target:
        numeric(table, target, allow_missing=False)
    return {
        name: numeric(table, name, allow_missing=False)
        for name, values in table.columns.items()
        if values.dtype.kind in "iuf"
    }


def center_queries(config: Mapping[str, object]) -> dict[str, Shaped[np.ndarray, "t"]]:
    """Columns of the center's file of query points by name: of numbers, and what names the points.

    It is the file that ``gp.queries`` names, else ``_test`` as in `center_columns`; empty where there is none. The
    column that `target` names need not be there: it holds what was measured at the points. An empty cell in another
    column is NaN: nobody knows yet which of them are inputs.

    Raises
    ------
    DataError
        If the file cannot be read or has no row, a column of numbers holds an infinity, or the target is no number in
        some row.
    """
    named = setting(config, "gp.queries")
    path = Path(named).expanduser() if named else center_file(config, "_test")
    if path is None:
        return {}
    table = read_table(path, own=False)
    if not table.n:
        raise DataError(f"{path}: has no rows, which are the points to predict at", "too-few-rows")
    target = setting(config, "target")
    columns: dict[str, Shaped[np.ndarray, "t"]] = {
        name: numeric(table, name, allow_missing=name != target)
        for name, values in table.columns.items()
        if values.dtype.kind in "iuf" or name == target
    }
    names = setting(config, "id")
    if names in table.columns:
        columns[names] = table.columns[names].astype(str)
    return columns


def center_file(config: Mapping[str, object], name: str) -> Path | None:
    """The center's own file of that name in the folder of a simulation on own data; None where there is none.

    Raises
    ------
    DataError
        If there are several, which differ in their endings.
    """
    folder = setting(config, "data")
    if not folder or not Path(folder).expanduser().is_dir():
        return None
    beside = sorted(Path(folder).expanduser().iterdir())
    paths = [p for p in beside if site_name(p) == name and p.name.lower().endswith(ENDINGS) and p.is_file()]
    if len(paths) > 1:
        raise DataError(f"{folder}: holds {' and '.join(p.name for p in paths)}; keep one", "bad-configuration")
    return paths[0] if paths else None
