"""Results of an earlier run, for a run that uses them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from jaxtyping import Shaped

from server.report.data import Report, ResultsError
from server.results import load


def read_results(path: str, key: str, protocol: str) -> tuple[Report, dict[str, Shaped[np.ndarray, "..."]]]:
    """Return report and arrays of a run of this protocol.

    Parameters
    ----------
    path : str
        Results directory.
    key : str
        Key of the run configuration that names it.
    protocol : str
        Protocol that the run must have.

    Raises
    ------
    ResultsError
        If there are no such results, or they are of another protocol.
    """
    report, arrays = load(Path(path).expanduser())
    if report.protocol != protocol:
        raise ResultsError(f"{key}: {path} are results of {report.protocol}, not of {protocol}")
    return report, arrays
