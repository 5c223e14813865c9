"""Labelled data behind the scenarios: inputs and known classes, pooled, before anything is split or hidden."""

import http.client
import os
import zlib
from pathlib import Path

import numpy as np
import pandas as pd
from jaxtyping import Float64, Int64
from sklearn.datasets import fetch_openml, load_wine

from scenarios.registry import Config, ScenarioError

Labelled = tuple[Float64[np.ndarray, "n d"], Int64[np.ndarray, "n"]]
"""Inputs ``(n, d)`` and classes ``(n,)``, numbered 0..k-1 in the sorted order of their names."""

DATA_VARIABLE = "CONSILIENCE_DATA"
"""Environment variable: a directory that holds data files."""

_HEART_FILES = ("heart.csv", "heart.csv.gz")
_HEART_TARGET = "class"


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
    data = str(config.get("data", ""))
    if data:
        path = Path(data).expanduser().resolve()
        found = path if path.is_file() else _heart_in(path)
        if found is None:
            raise ScenarioError(f"data={data!r} is neither a CSV file nor a directory that holds heart.csv[.gz]")
        return found
    directory = os.environ.get(DATA_VARIABLE, "")
    return _heart_in(Path(directory).expanduser().resolve()) if directory else None


def read_heart(path: Path | None) -> Labelled:
    """Statlog Heart from a CSV file (may be gzipped), or from OpenML if `path` is None.

    Raises
    ------
    ScenarioError
        As `heart`.
    """
    return _from_openml() if path is None else _from_csv(path)


def _heart_in(directory: Path) -> Path | None:
    return next((directory / name for name in _HEART_FILES if (directory / name).is_file()), None)


def _from_openml() -> Labelled:
    try:
        bunch = fetch_openml("heart-statlog", version=1, as_frame=False, n_retries=1)
    # ValueError covers scikit-learn's OpenMLError and a damaged download.
    except (OSError, ValueError, http.client.HTTPException) as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise ScenarioError(
            f"the Statlog Heart data were found in no file and could not be had from OpenML ({reason}): set the run"
            f" configuration's data to a heart.csv, or {DATA_VARIABLE} to a directory that holds one"
        ) from error
    _, classes = np.unique(bunch.target, return_inverse=True)
    return bunch.data.astype(np.float64), classes.astype(np.int64)


def _from_csv(path: Path) -> Labelled:
    try:
        # With the header as its first row, a longer row is an error; below a header pandas would take the first field
        # of each row as its name and shift the columns. As text, a message can show what the file holds.
        cells = pd.read_csv(path, header=None, dtype=str, keep_default_na=False).fillna("")
    except (OSError, EOFError, ValueError, zlib.error) as error:
        reason = " ".join(str(error).split())
        raise ScenarioError(f"{path} cannot be read as CSV: {reason}") from error
    table = cells.iloc[1:].reset_index(drop=True).set_axis(cells.iloc[0].str.strip(), axis="columns")
    if not table.columns.is_unique:
        raise ScenarioError(f"{path}: two columns of one name in its header")
    if _HEART_TARGET not in table.columns:
        raise ScenarioError(f"{path} has no column {_HEART_TARGET!r}")
    return _inputs(table.drop(columns=_HEART_TARGET), path), _classes(table[_HEART_TARGET], path)


def _inputs(table: pd.DataFrame, path: Path) -> Float64[np.ndarray, "n d"]:
    """All columns as numbers; the first cell in the file that is none is an error."""
    if table.shape[1] == 0:
        raise ScenarioError(f"{path} has no column beside {_HEART_TARGET!r}")
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
