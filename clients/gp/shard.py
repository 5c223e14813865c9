"""A site's data in gp: the rows of its experts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from clients.data import Table, load
from clients.data.columns import Tables, check_alike
from clients.data.regression import input_names, regression_rows
from clients.data.target import check_targets
from clients.data.testset import check_center_inputs
from numerics.gp.measurements import Measurements
from protocols.gp.settings import Settings


def open_shard(config: Mapping[str, object]) -> Measurements:
    """Read the site's own rows.

    Parameters
    ----------
    config : Mapping
        Run configuration overridden by the node configuration: ``data``, and the keys of
        `clients.data.regression.regression_rows`.

    Raises
    ------
    DataError
        As `clients.data.load` and `regression_rows`.
    """
    return measurements_of(load(config), config)


def check_columns(tables: Tables, config: Mapping[str, object]) -> None:
    """Refuse tables of sites that cannot learn together: all need the same inputs, and the same kind of target."""
    check_alike(tables, lambda table: input_names(table, config))
    check_targets(tables, config, Settings.tasks)


def check_together(shards: Mapping[str, Measurements], center: Mapping[str, Any], config: Mapping[str, object]) -> None:
    """Refuse query points without the sites' inputs."""
    check_center_inputs(center["test"], next(iter(shards.values())).features, "the file of query points")


def measurements_of(table: Table, config: Mapping[str, object]) -> Measurements:
    """Return the rows of a site's table.

    Parameters and errors are those of `open_shard`.

    Examples
    --------
    >>> import numpy as np
    >>> table = Table("soundings", {"depth": np.array([3.0, 5.0]), "x": np.array([0.0, 1.0])})
    >>> measurements_of(table, {"target": "depth"}).features
    ('x',)
    """
    rows = regression_rows(table, config, Settings.tasks)
    return Measurements(rows.x, rows.y, rows.features, person=rows.person, classes=rows.classes)


def lone_queries(n_rows: int) -> int:
    """Return how many answers of a run may rest on few rows, where a site sets no ``max-lone-queries``: a tenth."""
    return max(1, n_rows // 10)
