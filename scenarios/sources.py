"""Data behind the scenarios, pooled, before anything is split or hidden: from files, from OpenML, or made."""

import http.client
import os
import zlib
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float64, Int64
from sklearn.datasets import fetch_openml, load_wine

from scenarios.registry import Config, ScenarioError

Labelled = tuple[Float64[np.ndarray, "n d"], Int64[np.ndarray, "n"]]
"""Inputs ``(n, d)`` and classes ``(n,)``, numbered 0..k-1 in the sorted order of their names."""

DATA_VARIABLE = "CONSILIENCE_DATA"
"""Environment variable: a directory that holds data files."""

_HEART_FILES = ("heart.csv",)
_HEART_TARGET = "class"
_GRID_FILES = ("grid_stability.csv", "Data_for_UCI_named.csv")
_GRID_TARGET = "stab"
_GRID_LABEL = "stabf"
_GRID_OPENML = 44973
_CT_FILES = ("slice_localization_data.csv",)
_CT_SCAN, _CT_TARGET = "patientId", "reference"


@dataclass(frozen=True)
class Regression:
    """A pooled regression.

    Attributes
    ----------
    x : ndarray
        ``(n, p)`` inputs, finite.
    y : ndarray
        ``(n,)`` their outcomes, finite.
    features : tuple of str
        Names of the inputs.
    """

    x: Float64[np.ndarray, "n p"]
    y: Float64[np.ndarray, "n"]
    features: tuple[str, ...]


Grouped = tuple[Regression, Float64[np.ndarray, "n"]]
"""A regression, and for each of its rows the number of the part (the scan) it belongs to."""


def wine() -> Labelled:
    """Wine, as scikit-learn ships it: 178 instances, 13 inputs, 3 classes."""
    bunch = load_wine()
    return bunch.data.astype(np.float64), bunch.target.astype(np.int64)


def halfmoon(n: int, noise: float, rng: np.random.Generator) -> Labelled:
    """Two interleaving half circles of radius 1 in the plane, points evenly spaced along each.

    The same curves as `sklearn.datasets.make_moons`, which takes no `Generator`.

    Parameters
    ----------
    n : int
        Number of instances; class 0 has ``n // 2`` of them.
    noise : float
        Standard deviation of the Gaussian noise that is added to both coordinates.
    rng : numpy.random.Generator
        Source of the noise.

    Returns
    -------
    inputs : ndarray
        ``(n, 2)``, the instances of class 0 first.
    classes : ndarray
        ``(n,)``, 0 for the upper and 1 for the lower half moon.
    """
    n_upper = n // 2
    upper, lower = np.linspace(0, np.pi, n_upper), np.linspace(0, np.pi, n - n_upper)
    x = np.concatenate([np.cos(upper), 1 - np.cos(lower)])
    y = np.concatenate([np.sin(upper), 0.5 - np.sin(lower)])
    inputs = np.column_stack([x, y]) + rng.normal(scale=noise, size=(n, 2))
    return inputs, np.repeat(np.arange(2, dtype=np.int64), [n_upper, n - n_upper])


# -- Statlog Heart ----------------------------------------------------------------------------------------------------


def heart(config: Config) -> Labelled:
    """Statlog Heart: 270 instances, 13 inputs, 2 classes (disease absent, present).

    Parameters
    ----------
    config : Config
        Run configuration. Its `data`, a CSV file (may be gzipped) or a directory that holds ``heart.csv`` or
        ``heart.csv.gz``, comes first; then the directory that the environment variable CONSILIENCE_DATA names; then
        OpenML's ``heart-statlog``, version 1.

    Raises
    ------
    ScenarioError
        If `data` names no such file, the file is not a table of numbers with a column ``class``, or there is no file
        and OpenML cannot be reached.
    """
    return read_heart(find_heart(config))


def find_heart(config: Config) -> Path | None:
    """The absolute path of the Heart file that `heart` reads, or None for OpenML.

    Raises
    ------
    ScenarioError
        If `data` is given and names neither a file nor a directory that holds one.
    """
    return _find(config, _HEART_FILES)


def read_heart(path: Path | None) -> Labelled:
    """Statlog Heart from a CSV file (may be gzipped), or from OpenML if `path` is None.

    Raises
    ------
    ScenarioError
        As `heart`.
    """
    if path is None:
        bunch = _from_openml("the Statlog Heart data", "a heart.csv", "heart-statlog", version=1, as_frame=False)
        _, classes = np.unique(bunch.target, return_inverse=True)
        return bunch.data.astype(np.float64), classes.astype(np.int64)
    table = _text(path)
    _check_columns(table.columns, path, (_HEART_TARGET,), n_free=table.shape[1] - 1)
    return _numbers(table.drop(columns=_HEART_TARGET), path), _classes(table[_HEART_TARGET], path)


# -- Electrical Grid Stability ----------------------------------------------------------------------------------------


def find_grid(config: Config) -> Path | None:
    """The absolute path of the file of Electrical Grid Stability Simulated Data, or None for OpenML.

    Looked for as `heart` does: the run configuration's `data`, then the directory of CONSILIENCE_DATA. In a directory
    the file is called ``grid_stability.csv`` or, as at the UCI repository, ``Data_for_UCI_named.csv``; or gzipped,
    with ``.gz`` behind it.

    Raises
    ------
    ScenarioError
        If `data` is given and names neither a file nor a directory that holds one.
    """
    return _find(config, _GRID_FILES)


def read_grid(path: Path | None) -> Regression:
    """Electrical Grid Stability Simulated Data (UCI 471): 10,000 rows, 12 inputs, outcome ``stab``.

    The inputs are all columns but ``stab`` and its sign, ``stabf``.

    Parameters
    ----------
    path : Path or None
        A CSV file, may be gzipped; None: OpenML's ``grid_stability``, number 44973.

    Raises
    ------
    ScenarioError
        If the file is not a table of numbers with a column ``stab``, or OpenML cannot be reached.
    """
    if path is not None:
        data, _ = _regression(path, _GRID_TARGET, ignored=(_GRID_LABEL,))
        return data
    bunch = _from_openml(
        "the Electrical Grid Stability data",
        "the Data_for_UCI_named.csv of https://archive.ics.uci.edu/dataset/471",
        data_id=_GRID_OPENML,
        as_frame=True,
    )
    inputs = bunch.data.drop(columns=_GRID_LABEL, errors="ignore")
    x = np.ascontiguousarray(inputs.to_numpy(np.float64))
    return Regression(x, bunch.target.to_numpy(np.float64), tuple(inputs.columns))


# -- CT slices --------------------------------------------------------------------------------------------------------


def find_ct(config: Config) -> Path | None:
    """The absolute path of the file of CT slices, or None where there is none.

    Looked for as `heart` does: the run configuration's `data`, then the directory of CONSILIENCE_DATA. In a directory
    the file is called ``slice_localization_data.csv``, as at the UCI repository, or has ``.gz`` behind it.

    Raises
    ------
    ScenarioError
        If `data` is given and names neither a file nor a directory that holds one.
    """
    return _find(config, _CT_FILES)


def read_ct(path: Path) -> Grouped:
    """Relative location of CT slices on the axial axis (UCI 206): 53,500 slices of 97 scans, 384 inputs.

    The outcome is ``reference`` (0 at the top of the head, 180 at the soles of the feet), the number of a slice's scan
    is ``patientId``; the inputs are all other columns.

    Raises
    ------
    ScenarioError
        If the file is not a table of numbers with the columns ``patientId`` and ``reference``.
    """
    data, (scans,) = _regression(path, _CT_TARGET, others=(_CT_SCAN,))
    return data, scans


def made_ct(n_scans: int, n_slices: int) -> Grouped:
    """Made data in the shape of the CT slices, with three known groups of scans; nothing in them is anatomy.

    A slice lies at u ~ U(0, 1) of its scan. Each of the 384 inputs is a smooth hump in u, the same in all scans but for
    its height: height_s exp(-((u - center) / 0.15)^2) + N(0, 0.05^2), with the centers evenly spaced from 0 to 1 and
    height_s ~ U(0.8, 1.2) for each scan and input. What differs between the groups is where a slice with these inputs
    lies: ``reference`` is 30 + 50 u in the first group, 70 + 50 u in the second (the same section, higher up by the
    scanner's count), 120 - 50 u in the third (scanned the other way round), plus N(0, 1).

    The same draw in every run, as a file would be.

    Parameters
    ----------
    n_scans : int
        Number of scans.
    n_slices : int
        Slices of each.

    Returns
    -------
    Regression
        The slices, scan by scan.
    scans : ndarray
        ``(n_scans * n_slices,)``, the scan of each slice, from 0.
    """
    p, starts, slopes = 384, np.array([30.0, 70.0, 120.0]), np.array([50.0, 50.0, -50.0])
    centers = np.linspace(0.0, 1.0, p)
    x, y = np.empty((n_scans, n_slices, p)), np.empty((n_scans, n_slices))
    for scan, group in enumerate(made_ct_groups(n_scans)):
        rng = np.random.default_rng([206, scan])
        u = rng.uniform(size=n_slices)
        humps = np.exp(-(((u[:, np.newaxis] - centers) / 0.15) ** 2))
        x[scan] = rng.uniform(0.8, 1.2, size=p) * humps + rng.normal(scale=0.05, size=(n_slices, p))
        y[scan] = starts[group] + slopes[group] * u + rng.normal(size=n_slices)
    scans = np.repeat(np.arange(n_scans, dtype=np.float64), n_slices)
    return Regression(x.reshape(-1, p), y.ravel(), tuple(f"value{j}" for j in range(p))), scans


def made_ct_groups(n_scans: int) -> Int64[np.ndarray, "n_scans"]:
    """The group, 0 to 2, of each scan of `made_ct`: half of them are in the first, a third in the second."""
    return np.resize(np.array([0, 1, 0, 1, 0, 2], np.int64), n_scans)


# -- files and OpenML -------------------------------------------------------------------------------------------------


def _find(config: Config, names: tuple[str, ...]) -> Path | None:
    """The file that `data` names or its directory holds; else the one in CONSILIENCE_DATA's directory, if any."""
    data = str(config.get("data", ""))
    if data:
        path = Path(data).expanduser().resolve()
        found = path if path.is_file() else _in_directory(path, names)
        if found is None:
            spoken = " or ".join(f"{name}[.gz]" for name in names)
            raise ScenarioError(f"data={data!r} is neither a CSV file nor a directory that holds {spoken}")
        return found
    directory = os.environ.get(DATA_VARIABLE, "")
    return _in_directory(Path(directory).expanduser().resolve(), names) if directory else None


def _in_directory(directory: Path, names: tuple[str, ...]) -> Path | None:
    candidates = (directory / f"{name}{suffix}" for name in names for suffix in ("", ".gz"))
    return next((path for path in candidates if path.is_file()), None)


def _from_openml(what: str, file: str, *args: Any, **options: Any) -> Any:
    """A data set of OpenML; `what` it is and which `file` would do instead are for the message."""
    try:
        return fetch_openml(*args, n_retries=1, **options)
    # ValueError covers scikit-learn's OpenMLError and a damaged download.
    except (OSError, ValueError, http.client.HTTPException) as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise ScenarioError(
            f"{what} were found in no file and could not be had from OpenML ({reason}): set the run"
            f" configuration's data to {file}, or {DATA_VARIABLE} to a directory that holds one"
        ) from error


def _regression(
    path: Path, target: str, *, others: tuple[str, ...] = (), ignored: Collection[str] = ()
) -> tuple[Regression, list[Float64[np.ndarray, "n"]]]:
    """A CSV file of numbers as a regression, and the columns `others`, which are no inputs.

    Columns of the names `ignored` may be missing, or hold anything.
    """
    names = _text(path, rows=0).columns
    kept = [place for place, name in enumerate(names) if name not in ignored]
    columns, roles = list(names[kept]), (target, *others)
    _check_columns(names, path, roles, n_free=len(columns) - len(roles))
    numbers = _parsed(path, len(names), kept)
    if numbers is None:
        numbers = _numbers(_text(path).iloc[:, kept], path)
    if not len(numbers):
        raise ScenarioError(f"{path} has no rows below its header")
    inputs = [place for place, name in enumerate(columns) if name not in roles]
    y, *rest = (numbers[:, columns.index(role)].copy() for role in roles)
    return Regression(np.ascontiguousarray(numbers[:, inputs]), y, tuple(columns[place] for place in inputs)), rest


def _parsed(path: Path, width: int, kept: list[int]) -> Float64[np.ndarray, "n d"] | None:
    """Finite numbers below a header of `width` cells, read fast; None where `_text` has to look what is wrong.

    CT slices have 20 million cells: as text they would take gigabytes.
    """
    try:
        # Without the header its cells cannot spoil a column's type; a row longer than the first is an error.
        frame = pd.read_csv(path, header=None, skiprows=1)
    except (OSError, EOFError, ValueError, zlib.error):
        return None
    if frame.shape[1] != width or any(frame.dtypes[place].kind not in "iuf" for place in kept):
        return None
    numbers: Float64[np.ndarray, "n d"] = frame.iloc[:, kept].to_numpy(np.float64)
    return numbers if np.isfinite(numbers).all() else None


def _text(path: Path, rows: int | None = None) -> pd.DataFrame:
    """The cells of a CSV file as text, below the names of its header; `rows`: only so many (None: all)."""
    try:
        # With the header as its first row, a longer row is an error; below a header pandas would take the first field
        # of each row as its name and shift the columns. As text, a message can show what the file holds.
        cells = pd.read_csv(
            path, header=None, dtype=str, keep_default_na=False, nrows=None if rows is None else rows + 1
        ).fillna("")
    except (OSError, EOFError, ValueError, zlib.error) as error:
        reason = " ".join(str(error).split())
        raise ScenarioError(f"{path} cannot be read as CSV: {reason}") from error
    return cells.iloc[1:].reset_index(drop=True).set_axis(cells.iloc[0].str.strip(), axis="columns")


def _check_columns(names: pd.Index, path: Path, roles: Collection[str], n_free: int) -> None:
    """Names are unique, the columns of the roles are there, and one or more beside them."""
    if not names.is_unique:
        raise ScenarioError(f"{path}: two columns of one name in its header")
    for role in roles:
        if role not in names:
            raise ScenarioError(f"{path} has no column {role!r}")
    if n_free < 1:
        raise ScenarioError(f"{path} has no column beside {' and '.join(map(repr, roles))}")


def _numbers(table: pd.DataFrame, path: Path) -> Float64[np.ndarray, "n d"]:
    """All columns as numbers; the first cell in the file that is none is an error."""
    numbers: Float64[np.ndarray, "n d"] = table.apply(pd.to_numeric, errors="coerce").to_numpy(np.float64)
    bad = np.argwhere(~np.isfinite(numbers))
    if len(bad):
        row, column = bad[0]
        cell = str(table.iloc[row, column])
        raise ScenarioError(f"{path}: line {row + 2}, column {table.columns[column]!r}: {cell!r} is no finite number")
    return numbers


def _classes(column: pd.Series, path: Path) -> Int64[np.ndarray, "n"]:
    missing = np.flatnonzero(column.str.strip() == "")
    if len(missing):
        raise ScenarioError(f"{path}: line {missing[0] + 2}, column {_HEART_TARGET!r} is empty")
    numbers = pd.to_numeric(column, errors="coerce")
    classes, names = pd.factorize(column if numbers.isna().any() else numbers, sort=True)
    if len(names) < 2:
        raise ScenarioError(f"{path}: column {_HEART_TARGET!r} holds fewer than two classes")
    return classes.astype(np.int64)
