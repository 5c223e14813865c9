"""Results of an earlier run, and checks of their ``arrays.npz`` before a run or command uses it.

A protocol's `ProtocolReport.saved_arrays` has a rule for every array: its type, then its dimensions. ``beta_#m`` stands
for as many arrays as m has entries, ``place<k`` for indices below k, ``50`` for that size, ``_`` for any size and ``*``
for any shape.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
from jaxtyping import Shaped

from server.report.data import Arrays, Report, ResultsError
from server.report.protocol import report_of
from server.results import load

_TYPES: Mapping[str, Callable[[np.ndarray, int], bool]] = {
    "bytes": lambda array, _: array.dtype == np.uint8,
    "count": lambda array, _: array.dtype == np.int64 and bool((array >= 1).all()),
    "flag": lambda array, _: array.dtype == bool,
    "float": lambda array, _: array.dtype == np.float64,
    "fraction": lambda array, _: _is_number(array) and bool(((array > 0) & (array <= 1)).all()),
    "label": lambda array, size: array.dtype == np.int64 and bool(((array >= -1) & (array < size)).all()),
    "names": lambda array, _: _is_text(array) and len(np.unique(array)) == array.size,
    "number": lambda array, _: _is_number(array),
    "place": lambda array, size: array.dtype == np.int64 and bool(((array >= 0) & (array < size)).all()),
    "positive": lambda array, _: _is_number(array) and bool((array > 0).all()),
    "share": lambda array, _: _is_number(array) and bool((array >= 0).all()),
    "text": lambda array, _: _is_text(array),
}
"""By type, whether an array has it; the size is that of the dimension after ``<``."""
_ANY = 2**62


def read_results(path: str, key: str, protocol: str) -> tuple[Report, dict[str, Shaped[np.ndarray, "..."]]]:
    """Return report and arrays of an earlier run of this protocol; `key` names the path in the run configuration.

    Raises
    ------
    ResultsError
        If there are no such results, or they are of another protocol.
    """
    report, arrays = load(Path(path).expanduser())
    if report.protocol != protocol:
        raise ResultsError(f"{key}: {path} are results of {report.protocol}, not of {protocol}")
    return report, arrays


def check_saved(folder: str | Path, protocol: str, arrays: Arrays) -> None:
    """Refuse arrays that this version of the protocol does not write: the file was changed, or is older.

    Parameters
    ----------
    folder : str or Path
        Results directory, for the message.
    protocol : str
        Protocol of the run.
    arrays : Mapping[str, ndarray]
        Arrays of the run.

    Raises
    ------
    ResultsError
        Naming the first array that is missing or has another type or shape.
    """
    sizes: dict[str, int] = {}
    for pattern, rule in report_of(protocol).saved_arrays.items():
        kind, *dims = rule.split()
        stem, _, counted = pattern.partition("#")
        for name in [f"{stem}{place}" for place in range(sizes[counted])] if counted else [stem]:
            if name not in arrays or not _fits(arrays[name], kind, dims, sizes):
                raise ResultsError(
                    f"{folder}: {name} in arrays.npz is not what this version of {protocol} writes there; use the"
                    " results as the run left them, or run it again"
                )


def _fits(array: Shaped[np.ndarray, "..."], kind: str, dims: list[str], sizes: dict[str, int]) -> bool:
    """Return whether an array has these dimensions and this type; a new dimension's size is added to `sizes`."""
    if dims != ["*"]:
        if array.ndim != len(dims):
            return False
        for dim, size in zip(dims, array.shape, strict=True):
            if dim != "_" and sizes.setdefault(dim, int(dim) if dim.isdigit() else size) != size:
                return False
    name, _, among = kind.partition("<")
    return _TYPES[name](array, sizes.get(among, _ANY))


def _is_number(array: Shaped[np.ndarray, "..."]) -> bool:
    return array.dtype == np.float64 and bool(np.isfinite(array).all())


def _is_text(array: Shaped[np.ndarray, "..."]) -> bool:
    return array.dtype.kind == "U" or not array.size  # NumPy makes an empty list an array of numbers
