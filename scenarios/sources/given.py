"""Data sets that others gathered: shipped with scikit-learn, in a file, or of OpenML."""

from pathlib import Path

import numpy as np
import pandas as pd
from jaxtyping import Int64
from sklearn.datasets import load_wine

from scenarios.registry import Config, ScenarioError
from scenarios.sources.files import (
    Grouped,
    Labelled,
    Regression,
    check_columns,
    find_file,
    from_openml,
    of_frames,
    read_regression,
    read_text,
    to_numbers,
)

_HEART_FILES = ("heart.csv",)
_HEART_TARGET = "class"
_GRID_FILES = ("grid_stability.csv", "Data_for_UCI_named.csv")
_GRID_TARGET = "stab"
_GRID_LABEL = "stabf"
_GRID_OPENML = 44973
_CONCRETE_FILES = ("concrete.csv",)
_CONCRETE_TARGET = "strength_mpa"
_CONCRETE_OPENML = 44959
_CT_FILES = ("slice_localization_data.csv",)
_CT_SCAN, _CT_TARGET = "patientId", "reference"


def wine() -> Labelled:
    """Wine, as scikit-learn ships it: 178 instances, 13 inputs, 3 classes."""
    bunch = load_wine()
    return bunch.data.astype(np.float64), bunch.target.astype(np.int64)


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
    return find_file(config, _HEART_FILES)


def read_heart(path: Path | None) -> Labelled:
    """Statlog Heart from a CSV file (may be gzipped), or from OpenML if `path` is None.

    Raises
    ------
    ScenarioError
        As `heart`.
    """
    if path is None:
        bunch = from_openml("the Statlog Heart data", "a heart.csv", "heart-statlog", version=1, as_frame=False)
        _, classes = np.unique(bunch.target, return_inverse=True)
        return bunch.data.astype(np.float64), classes.astype(np.int64)
    table = read_text(path)
    check_columns(table.columns, path, (_HEART_TARGET,), n_free=table.shape[1] - 1)
    return to_numbers(table.drop(columns=_HEART_TARGET), path), _classes(table[_HEART_TARGET], path)


def _classes(column: pd.Series, path: Path) -> Int64[np.ndarray, "n"]:
    missing = np.flatnonzero(column.str.strip() == "")
    if len(missing):
        raise ScenarioError(f"{path}: line {missing[0] + 2}, column {_HEART_TARGET!r} is empty")
    numbers = pd.to_numeric(column, errors="coerce")
    classes, names = pd.factorize(column if numbers.isna().any() else numbers, sort=True)
    if len(names) < 2:
        raise ScenarioError(f"{path}: column {_HEART_TARGET!r} holds fewer than two classes")
    return classes.astype(np.int64)


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
    return find_file(config, _GRID_FILES)


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
        data, _ = read_regression(path, _GRID_TARGET, ignored=(_GRID_LABEL,))
        return data
    bunch = from_openml(
        "the Electrical Grid Stability data",
        "the Data_for_UCI_named.csv of https://archive.ics.uci.edu/dataset/471",
        data_id=_GRID_OPENML,
        as_frame=True,
    )
    inputs = bunch.data.drop(columns=_GRID_LABEL, errors="ignore")
    return of_frames(inputs, bunch.target)


# -- Concrete Compressive Strength ------------------------------------------------------------------------------------


def find_concrete(config: Config) -> Path | None:
    """The absolute path of the file of Concrete Compressive Strength, or None for OpenML.

    Looked for as `heart` does: the run configuration's `data`, then the directory of CONSILIENCE_DATA. In a directory
    the file is called ``concrete.csv``, or has ``.gz`` behind it.

    Raises
    ------
    ScenarioError
        If `data` is given and names neither a file nor a directory that holds one.
    """
    return find_file(config, _CONCRETE_FILES)


def read_concrete(path: Path | None) -> Regression:
    """Concrete Compressive Strength (UCI 165): 1030 rows, 8 inputs, outcome ``strength_mpa`` in megapascals.

    Parameters
    ----------
    path : Path or None
        A CSV file, may be gzipped; None: OpenML's ``concrete_compressive_strength``, number 44959, which names the same
        columns otherwise.

    Raises
    ------
    ScenarioError
        If the file is not a table of numbers with a column ``strength_mpa``, or OpenML cannot be reached.
    """
    if path is not None:
        data, _ = read_regression(path, _CONCRETE_TARGET)
        return data
    bunch = from_openml(
        "the Concrete Compressive Strength data",
        f"a concrete.csv (https://archive.ics.uci.edu/dataset/165, with a column {_CONCRETE_TARGET})",
        data_id=_CONCRETE_OPENML,
        as_frame=True,
    )
    return of_frames(bunch.data, bunch.target)


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
    return find_file(config, _CT_FILES)


def read_ct(path: Path) -> Grouped:
    """Relative location of CT slices on the axial axis (UCI 206): 53,500 slices of 97 scans, 384 inputs.

    The outcome is ``reference`` (0 at the top of the head, 180 at the soles of the feet), the number of a slice's scan
    is ``patientId``; the inputs are all other columns.

    Raises
    ------
    ScenarioError
        If the file is not a table of numbers with the columns ``patientId`` and ``reference``.
    """
    data, (scans,) = read_regression(path, _CT_TARGET, others=(_CT_SCAN,))
    return data, scans
