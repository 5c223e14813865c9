"""The fusion center's own files: test rows, and points to predict at."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from jaxtyping import Float64, Shaped

from clients.data.files import ENDINGS, read_table, site_name
from clients.data.table import DataError, numeric, setting


def center_columns(config: Mapping[str, object]) -> dict[str, Float64[np.ndarray, "t"]]:
    """Return the columns of numbers of the center's test rows by name.

    The file is ``_test`` in the folder ``data`` of a simulation. Without such a file, and always in deployment, there
    are no columns.

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


def center_queries(config: Mapping[str, object], file: str) -> dict[str, Shaped[np.ndarray, "t"]]:
    """Return columns of the center's query points by name: those of numbers, and the one that names the points.

    The column that ``target`` names holds what was measured at the points, and may be missing. An empty cell in another
    column is NaN: which of them are inputs is not known yet.

    Parameters
    ----------
    config : Mapping
        Run configuration.
    file : str
        The file of the points; empty: ``_test`` as in `center_columns`. Without a file there are no columns.

    Raises
    ------
    DataError
        If the file cannot be read or has no row, a column of numbers holds an infinity, or the target is no number in
        some row.
    """
    path = Path(file).expanduser() if file else center_file(config, "_test")
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
    """Return the center's own file of that name in the folder of a simulation on own data; None without one.

    Raises
    ------
    DataError
        If there are several files of that name, with different endings.
    """
    folder = setting(config, "data")
    if not folder or not Path(folder).expanduser().is_dir():
        return None
    beside = sorted(Path(folder).expanduser().iterdir())
    paths = [p for p in beside if site_name(p) == name and p.name.lower().endswith(ENDINGS) and p.is_file()]
    if len(paths) > 1:
        raise DataError(f"{folder}: holds {' and '.join(p.name for p in paths)}; keep one", "bad-configuration")
    return paths[0] if paths else None
