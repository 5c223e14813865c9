"""The tables that a site alone holds, kept by run, to predict with."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from functools import partial

import numpy as np
from jaxtyping import Float64

from clients.site import Site, model_file
from common.files import write_arrays
from protocols.wire.faults import Fault, SiteFault

Tables = Mapping[str, Float64[np.ndarray, "k _"]]
"""By clustering, its beta."""


def keep_tables(site: Site, run: str, tables: Tables) -> None:
    """Write ``models/RUN.npz``, also where there is no table: none was held then is not the same as lost.

    A run that has no name could not be asked for later: of that nothing is kept.

    Raises
    ------
    SiteFault
        If the run's name could lead elsewhere, or the file cannot be written.
    """
    if run:
        site.write(model_file(run, "npz"), partial(write_arrays, arrays=tables))


def recall_tables(site: Site, run: str, k: int) -> Tables:
    """The tables that the site has kept of a run: in a simulation in the results that ``from`` names, else in its own.

    Parameters
    ----------
    site : Site
        Whose they are.
    run : str
        Session of the run that has learnt.
    k : int
        Classes of that run.

    Raises
    ------
    SiteFault
        ``NO_SAVED_MODEL``: there is no such file, or it holds something else. ``MALFORMED_ASK`` as `keep_tables`.
    """
    path = site.earlier_files("from") / model_file(run, "npz")
    try:
        with np.load(path, allow_pickle=False) as file:
            tables = {name: file[name] for name in file.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise SiteFault(Fault.NO_SAVED_MODEL, f"{path}: {error}") from error
    for name, table in tables.items():
        if not _is_table(table, k):
            raise SiteFault(Fault.NO_SAVED_MODEL, f"{path}: {name} is no table of {k} classes")
    return tables


def _is_table(table: np.ndarray, k: int) -> bool:
    sound = table.dtype == np.float64 and table.ndim == 2 and len(table) == k and table.shape[1] >= 1
    return sound and bool((np.isfinite(table) & (table >= 0)).all())
