"""Robot arms, simulated and real: regressions that come with rows to test with."""

from __future__ import annotations

import zlib
from pathlib import Path

import numpy as np
from jaxtyping import Float64

from scenarios.registry import Config, ScenarioError
from scenarios.sources.files import (
    DATA_VARIABLE,
    Divided,
    Regression,
    find_file,
    openml_regression,
    read_marks,
    read_regression,
)

# -- Pumadyn ----------------------------------------------------------------------------------------------------------

_PUMADYN_FILES = ("pumadyn32nm.csv",)
_PUMADYN_TARGET = "y"


def find_pumadyn(config: Config) -> Path:
    """The absolute path of the file of pumadyn-32nm, ``pumadyn32nm.csv`` in a directory; looked for as `find_airfoil`.

    OpenML has other members of the family (``pumadyn32nh`` and ``puma8NH``, of much noise), and not this one.

    Raises
    ------
    ScenarioError
        If there is none.
    """
    path = find_file(config, _PUMADYN_FILES)
    if path is None:
        raise ScenarioError(
            "the Pumadyn data were found in no file: set the run configuration's data to a pumadyn32nm.csv"
            " (of https://www.cs.toronto.edu/~delve/data/pumadyn/desc.html, with a column y), or"
            f" {DATA_VARIABLE} to a directory that holds it"
        )
    return path


def read_pumadyn(path: Path) -> Divided:
    """Pumadyn-32nm of DELVE: 8192 rows of a simulated robot arm, 32 inputs, outcome ``y``, little noise.

    Parameters
    ----------
    path : Path
        A CSV file, may be gzipped; a column ``split``, if there is one, says ``train`` or ``test`` of each row.

    Raises
    ------
    ScenarioError
        If the file is not a table of numbers with a column ``y``, or ``split`` holds something else.
    """
    return read_regression(path, _PUMADYN_TARGET, ignored=("split",))[0], read_marks(path)


# -- SARCOS -----------------------------------------------------------------------------------------------------------

_SARCOS_FILES = ("sarcos_inv.mat", "sarcos.csv")
_SARCOS_OPENML, _SARCOS_INPUTS = 44976, 21
_SARCOS_TARGET, _SARCOS_OTHER_TORQUES = "V22", tuple(f"V{j}" for j in range(23, 29))


def find_sarcos(config: Config) -> Path | None:
    """The absolute path of the file of SARCOS, or None for OpenML.

    Looked for as `find_airfoil` does; the file is called ``sarcos_inv.mat``, as at its source, with
    ``sarcos_inv_test.mat`` beside it, or ``sarcos.csv``.

    Raises
    ------
    ScenarioError
        As `find_airfoil`.
    """
    return find_file(config, _SARCOS_FILES)


def read_sarcos(path: Path | None) -> Divided:
    """SARCOS: 44,484 rows of a robot arm to learn from and 4449 to test with, 21 inputs, the first joint's torque.

    Positions, velocities and accelerations of seven joints (Rasmussen and Williams 2006). Most of the test rows are
    among those to learn from, so that an error on them says little of other rows.

    Parameters
    ----------
    path : Path or None
        ``sarcos_inv.mat`` of http://www.gaussianprocess.org/gpml/data with ``sarcos_inv_test.mat`` beside it, or a CSV
        file of columns ``V1`` to ``V22`` (``V28``), may be gzipped; a column ``split``, if there is one, says ``train``
        or ``test`` of each row. None: OpenML's ``sarcos``, number 44976, which does not say it.

    Raises
    ------
    ScenarioError
        If a file is missing or not such a table, or OpenML cannot be reached.
    """
    if path is None:
        what, file = "the SARCOS data", "the sarcos_inv.mat of http://www.gaussianprocess.org/gpml/data"
        return openml_regression(_SARCOS_OPENML, what, file, _SARCOS_INPUTS, _SARCOS_TARGET), None
    if path.suffix != ".mat":
        ignored = ("split", *_SARCOS_OTHER_TORQUES)
        return read_regression(path, _SARCOS_TARGET, ignored=ignored)[0], read_marks(path)
    learnt, tested = _matlab(path), _matlab(path.with_name("sarcos_inv_test.mat"))
    rows = np.concatenate([learnt, tested])
    inputs = tuple(f"V{j + 1}" for j in range(_SARCOS_INPUTS))
    data = Regression(np.ascontiguousarray(rows[:, :_SARCOS_INPUTS]), rows[:, _SARCOS_INPUTS].copy(), inputs)
    return data, np.arange(len(rows)) >= len(learnt)


def _matlab(path: Path) -> Float64[np.ndarray, "n c"]:
    """The array of a MATLAB file that is called as the file is."""
    if not path.is_file():
        raise ScenarioError(f"there is no {path}")
    from scipy.io import loadmat
    from scipy.io.matlab import MatReadError

    try:
        rows = np.asarray(loadmat(path, variable_names=[path.stem])[path.stem], np.float64)
    except (
        OSError,
        EOFError,
        ValueError,
        TypeError,
        LookupError,
        NotImplementedError,
        MatReadError,
        zlib.error,
    ) as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise ScenarioError(f"{path} cannot be read as a MATLAB file of an array {path.stem}: {reason}") from error
    if rows.ndim != 2 or rows.shape[1] <= _SARCOS_INPUTS or not np.isfinite(rows).all():
        raise ScenarioError(
            f"{path}: {path.stem} is no table of {_SARCOS_INPUTS + 1} columns of finite numbers or more"
        )
    return rows
