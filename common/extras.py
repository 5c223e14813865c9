"""Optional libraries: the extra that installs each, and the message if one is missing."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping

from common.settings import SettingError

EXTRA_OF: Mapping[str, str] = {
    "gpytorch": "gpytorch",
    "matplotlib": "report",
    "numba": "coreset",
    "ortools": "coreset",
    "psycopg": "postgres",
    "pyarrow": "parquet",
    "ray": "simulation",
    "torch": "gpytorch",
}
"""By library, the extra that installs it; all other libraries are installed with consilience."""


class MissingLibraryError(SettingError):
    """A library that is not installed; one line that names the extra to install."""


def is_installed(library: str) -> bool:
    """Return whether a library can be imported, without importing it.

    Examples
    --------
    >>> is_installed("numpy")
    True
    """
    try:
        return importlib.util.find_spec(library) is not None
    except ImportError:
        return False


def require(library: str, purpose: str) -> None:
    """Refuse to go on without a library of an extra.

    Parameters
    ----------
    library : str
        One of `EXTRA_OF`.
    purpose : str
        What it is needed for, as the message begins.

    Raises
    ------
    MissingLibraryError
        If it is not installed.

    Examples
    --------
    >>> require("ortools", "fair clustering")
    """
    if not is_installed(library):
        raise MissingLibraryError(f"{purpose} needs {library}: pip install 'consilience[{EXTRA_OF[library]}]'")
