"""A site's data in Select-Exchange-Cluster: the rows of its learner."""

from __future__ import annotations

from collections.abc import Mapping

from clients.data import DataError, Table, cell_name, load
from clients.data.columns import Tables, check_alike
from clients.data.regression import input_names, regression_rows
from numerics.shared.regression_rows import RegressionRows

FEWEST_HELD_OUT = 5
"""Held-out rows below which their error does not leave the site: the mean over one row is that row's."""


def open_shard(config: Mapping[str, object]) -> RegressionRows:
    """Return a site's own rows.

    Parameters
    ----------
    config : Mapping
        Run configuration overridden by the node configuration: ``data``, ``sec.holdout``, and as for
        `clients.data.regression.regression_rows`.

    Raises
    ------
    DataError
        As `clients.data.load` and `regression_rows`; or if there are too few rows to hold some out and select a model
        on the rest.
    """
    return rows_of(load(config), config)


def check_columns(tables: Tables, config: Mapping[str, object]) -> None:
    """Refuse tables of sites that cannot learn together: all need the target, and the same inputs."""
    check_alike(tables, lambda table: input_names(table, config))


def rows_of(table: Table, config: Mapping[str, object]) -> RegressionRows:
    """Return the rows of a site's table; errors as of `open_shard`."""
    rows = regression_rows(table, config)
    held = n_held_out(rows.n, config)
    if rows.n - held < 2:
        raise DataError(
            f"{cell_name(table, str(config['target']), rows.n - 1)}: is the last of {rows.n} rows, of which"
            f" sec.holdout takes {held}; at least two must remain to select a model on",
            "too-few-rows",
        )
    return rows


def n_held_out(n: int, config: Mapping[str, object]) -> int:
    """Return how many of n rows are held out; none where an error on so few would reveal single rows."""
    held = round(float(str(config.get("sec.holdout", 0.0))) * n)
    return held if held >= FEWEST_HELD_OUT else 0
