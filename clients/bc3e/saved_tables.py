"""The beta tables that only one site holds, saved by run, to predict with."""

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
"""By clustering, its beta."""


def save_tables(site: Site, run: str, tables: Tables) -> None:
    """Write ``models/RUN.npz``, also without a table: to have held none is not the same as to have lost it.

    Nothing is saved of a run without a name, which nobody could ask for later. Raises as `clients.model_store`.
    """
    if run:
        save_model(site, run, "npz", partial(write_arrays, arrays=tables))


def load_tables(site: Site, run: str, k: int) -> Tables:
    """Return the tables that the site has saved of a run.

    Parameters
    ----------
    site : Site
        Whose they are.
    run : str
        Session of the run that has learned.
    k : int
        Classes of that run.

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
            raise ModelFileError(f"{name} is no table of {k} classes")
    return tables


def _is_table(table: np.ndarray, k: int) -> bool:
    sound = table.dtype == np.float64 and table.ndim == 2 and len(table) == k and table.shape[1] >= 1
    return sound and bool((np.isfinite(table) & (table >= 0)).all())
