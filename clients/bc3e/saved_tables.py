"""Tables (beta) of clusterings that only one site holds: the site saves them by run, for predictions."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path

import numpy as np
from jaxtyping import Float64

from clients.model_store import ModelFileError, load_model, save_model
from clients.site import Site
from common.files import write_arrays

Tables = Mapping[str, Float64[np.ndarray, "k _"]]
"""``(k, k_m)`` beta by clustering."""


def save_tables(site: Site, run: str, tables: Tables) -> None:
    """Write ``models/RUN.npz``, even without a table: a site that held none differs from one that lost its tables.

    A run without a name saves nothing, because no later run could name it. Errors are those of `clients.model_store`.
    """
    if run:
        save_model(site, run, "npz", partial(write_arrays, arrays=tables))


def load_tables(site: Site, run: str, k: int) -> Tables:
    """Return the tables that the site saved in a run.

    Parameters
    ----------
    site : Site
        The site.
    run : str
        Session of the run that learned.
    k : int
        Number of classes of that run.

    Raises
    ------
    SiteFault
        As `clients.model_store.load_model`.
    """
    return load_model(site, run, "npz", partial(_read, k=k))


def _read(path: Path, k: int) -> Tables:
    with np.load(path, allow_pickle=False) as file:
        tables = {name: file[name] for name in file.files}
    for name, table in tables.items():
        if not _is_table(table, k):
            raise ModelFileError(f"{name} is not a table of {k} classes")
    return tables


def _is_table(table: np.ndarray, k: int) -> bool:
    has_shape = table.dtype == np.float64 and table.ndim == 2 and len(table) == k and table.shape[1] >= 1
    return has_shape and bool((np.isfinite(table) & (table >= 0)).all())
