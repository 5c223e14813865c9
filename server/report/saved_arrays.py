"""What a run has written into ``arrays.npz``, held to what it must be before a later run or command uses it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
from jaxtyping import Shaped

from server.results import ResultsError

Arrays = Mapping[str, Shaped[np.ndarray, "..."]]

_USED: Mapping[str, Mapping[str, str]] = {
    "bc3e": {"alpha": "positive k", "clusterings": "names m", "beta_#m": "share k _"},
    "coreset": {
        "features": "names d",
        "scale": "positive d",
        "centers": "number k d",
        "balance": "fraction",
        "colours": "names H",
        "points": "number n d",
        "point_colours": "place<H n",
        "point_clusters": "place<k n",
    },
    "gp": {
        "features": "names d",
        "kernel": "text",
        "theta": "number t",
        "log_likelihood": "float",
        "max_expert_rows": "place",
        "input_mean": "number d",
        "input_scale": "positive d",
        "output_mean": "number",
        "output_scale": "positive",
        "expert_site": "text M",
        "expert_rows": "count M",
        "centroids": "number M d",
        "covariances": "number M d d",
        "expert_y_mean": "number M",
        "expert_y_variance": "share M",
        "network": "number *",
    },
    "residual": {"agents": "names D", "holder": "text", "beta": "float D", "mean": "float"},
    "sec": {
        "learners": "names L",
        "methods": "text L",
        "features": "names p",
        "labels": "label<L L",
        "newcomer": "flag L",
        "n": "count L",
        "errors": "float L",
        "mean_#L": "number q",
        "scatter_#L": "number q q",
        "model_#L": "bytes _",
    },
}
"""By protocol, the arrays that are used later: what each holds, and its dimensions; ``_`` is any size, ``*`` any shape.

``NAME_#m`` are as many arrays as m has entries, and ``place<k`` are places among k.
"""

_HOLDS: Mapping[str, Callable[[np.ndarray, int], bool]] = {
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
_ANY = 2**62


def check_saved(folder: str | Path, protocol: str, arrays: Arrays) -> None:
    """Refuse arrays that no run of this protocol writes: of a file that was changed, or of another version.

    Parameters
    ----------
    folder : str or Path
        What the message calls the results.
    protocol : str
        Of the run.
    arrays : Mapping[str, ndarray]
        Its ``arrays.npz``.

    Raises
    ------
    ResultsError
        Naming the first that is not there, or not what it must be.
    """
    sizes: dict[str, int] = {}
    for pattern, rule in _USED[protocol].items():
        kind, *dims = rule.split()
        stem, _, counted = pattern.partition("#")
        for name in [f"{stem}{place}" for place in range(sizes[counted])] if counted else [stem]:
            if name not in arrays or not _fits(arrays[name], kind, dims, sizes):
                raise ResultsError(
                    f"{folder}: {name} in arrays.npz is not what this version of {protocol} writes there; take the"
                    " results as the run has left them, or run it again"
                )


def _fits(array: Shaped[np.ndarray, "..."], kind: str, dims: list[str], sizes: dict[str, int]) -> bool:
    """Whether it has these dimensions, and holds what `kind` says; a size that was not known is put into `sizes`."""
    if dims != ["*"]:
        if array.ndim != len(dims):
            return False
        if any(dim != "_" and sizes.setdefault(dim, size) != size for dim, size in zip(dims, array.shape, strict=True)):
            return False
    holds, _, among = kind.partition("<")
    return _HOLDS[holds](array, sizes.get(among, _ANY))


def _is_number(array: Shaped[np.ndarray, "..."]) -> bool:
    return array.dtype == np.float64 and bool(np.isfinite(array).all())


def _is_text(array: Shaped[np.ndarray, "..."]) -> bool:
    return array.dtype.kind == "U" or not array.size  # of no texts NumPy makes numbers
