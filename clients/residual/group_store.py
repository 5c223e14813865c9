"""Groups of neighboring values that a site keeps from run to run, while its file grows."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float64

from common.files import locked_directory, replacing, write_arrays
from numerics.residual.columns_and_outcomes import Columns
from numerics.shared.value_groups import ValueGroups
from protocols.wire.faults import Fault, SiteFault

NAME = "value-groups.npz"
_GROWTH = 2
"""Ratio of the number of groups of the present rows to that of the groups in use, from which on these are made anew."""


@dataclass(frozen=True, eq=False)
class _Column:
    """Groups of one column, as in `ValueGroups`, and the fewest rows of a group when they were made."""

    least: int
    edges: Float64[np.ndarray, "_"]
    means: Float64[np.ndarray, "_"]

    def suits(self, other: _Column, values: Float64[np.ndarray, "n"]) -> bool:
        """Return whether these groups tell the values apart half as finely as groups of the values themselves."""
        in_use = len(np.unique(np.searchsorted(self.edges, values, side="right")))
        return self.least >= other.least and len(other.means) < _GROWTH * in_use


def group_values(directory: Path | None, columns: Columns, least: int) -> ValueGroups:
    """Return the groups of all rows of a site's file, or those of an earlier run until the rows have about doubled.

    Groups of a file that grows have other means each time: of 120 rows, and 5 more before each run, a center that lies
    could solve them for most values after 13 runs. So new rows join the groups that there are.

    Parameters
    ----------
    directory : Path or None
        The site's own; None: no groups are kept.
    columns : Columns
        All rows of the file.
    least : int
        Fewest rows of a group.

    Raises
    ------
    SiteFault
        ``OUTPUT_NOT_WRITTEN`` if the file of the groups cannot be read or written.

    Examples
    --------
    >>> columns = Columns(np.arange(6.0)[:, None], ("age",))
    >>> group_values(None, columns, 3).means
    (array([1., 4.]),)
    """
    fresh = ValueGroups.of(columns.x, least)
    if directory is None or not columns.features:
        return fresh
    path = directory / NAME
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        with locked_directory(directory):
            known = _read(path)
            used, n_new = [], 0
            for name, values, *own in zip(columns.features, columns.x.T, fresh.edges, fresh.means, strict=True):
                column = _Column(least, *own)
                if not (name in known and known[name].suits(column, values)):
                    known[name], n_new = column, n_new + 1
                used.append(known[name])
            if n_new:
                _write(path, known)
    except (OSError, ValueError, KeyError) as error:
        raise SiteFault(Fault.OUTPUT_NOT_WRITTEN, f"{path} cannot be read or written: {error}") from error
    return ValueGroups(tuple(each.edges for each in used), tuple(each.means for each in used))


def _read(path: Path) -> dict[str, _Column]:
    if not path.exists():
        return {}
    with np.load(path, allow_pickle=False) as stored:
        names, least, sizes = stored["names"].tolist(), stored["least"].tolist(), stored["sizes"]
        means = np.split(stored["means"], np.cumsum(sizes)[:-1])
        edges = np.split(stored["edges"], np.cumsum(sizes - 1)[:-1])
    return {name: _Column(*each) for name, *each in zip(names, least, edges, means, strict=True)}


def _write(path: Path, columns: dict[str, _Column]) -> None:
    every = list(columns.values())
    arrays = {
        "names": np.array(list(columns)),
        "least": np.array([each.least for each in every]),
        "sizes": np.array([len(each.means) for each in every]),
        "edges": np.concatenate([each.edges for each in every]),
        "means": np.concatenate([each.means for each in every]),
    }
    with replacing(path) as temporary:
        write_arrays(temporary, arrays)
