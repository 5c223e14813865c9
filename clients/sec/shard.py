"""A site's data in sec: the rows of its learner."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from clients.data import DataError, Table, cell_name, load, setting
from clients.data.columns import Tables, check_alike
from clients.data.regression import input_names, regression_rows
from clients.data.target import check_targets
from clients.data.testset import check_center_inputs
from numerics.shared.candidates import ROW_MODELS, Candidate, CandidateError, parse_candidates
from numerics.shared.folds import of_rows
from numerics.shared.regression_rows import RegressionRows
from protocols.sec.settings import Settings

FEWEST_HELD_OUT = 5
"""Fewest held-out rows whose error may leave the site: the error on one row would be that row's error."""

MOST_ROWS = 20_000
"""Most rows that a learner uses. On so many, each method of `numerics.shared.regressors` takes a minute or so to be
chosen and fitted; and no run learns about other rows."""


def sample_rows(rows: RegressionRows) -> RegressionRows:
    """Return the rows that a learner uses: all of them, or a sample of `MOST_ROWS`, the same in all runs.

    Errors on different samples of one file would differ by single rows, and their mean would have less of the noise by
    which errors leave the site (numerics/sec/disclosure.py). So neither a run nor its seed draws the sample. Each row
    gets a number by its place, whatever the number of rows, and those with the least numbers are used: rows that are
    added at the end of the file only replace some.

    Examples
    --------
    >>> def rows(n):
    ...     return RegressionRows(np.zeros((n, 1)), np.arange(float(n)), np.zeros((0, 1)), np.zeros(0), ("x",))
    >>> first, later = sample_rows(rows(40_000)).y, sample_rows(rows(41_000)).y
    >>> len(first), len(np.intersect1d(first, later)) > 19_000
    (20000, True)
    """
    if rows.n <= MOST_ROWS:
        return rows
    numbers = np.random.default_rng(0).random(rows.n)
    used = np.sort(np.argpartition(numbers, MOST_ROWS)[:MOST_ROWS])
    y, classes = rows.y[used], rows.classes
    if classes:  # a rare one may have no row in the sample
        present, places = np.unique(y, return_inverse=True)
        y, classes = places.astype(np.float64), tuple(classes[int(place)] for place in present)
    return replace(rows, x=rows.x[used], y=y, classes=classes, person=of_rows(rows.person, used))


def open_shard(config: Mapping[str, object]) -> RegressionRows:
    """Read the site's own rows.

    Parameters
    ----------
    config : Mapping
        Run configuration overridden by the node configuration: ``data``, ``sec.holdout``, and the keys of
        `clients.data.regression.regression_rows`.

    Raises
    ------
    DataError
        As `clients.data.load` and `regression_rows`; or if fewer than two rows remain after some are held out.
    """
    return rows_of(load(config), config)


def check_columns(tables: Tables, config: Mapping[str, object]) -> None:
    """Refuse tables of sites that cannot learn together: all need the same inputs, and the same kind of target."""
    check_alike(tables, lambda table: input_names(table, config))
    check_targets(tables, config, Settings.tasks)


def check_together(
    shards: Mapping[str, RegressionRows], center: Mapping[str, Any], config: Mapping[str, object]
) -> None:
    """Refuse test rows without the sites' inputs, and candidates that cannot predict the target."""
    rows = next(iter(shards.values()))
    check_center_inputs(center["test"], rows.features, "the test file")
    candidates_of(config, classes=bool(rows.classes))


def candidates_of(config: Mapping[str, object], *, classes: bool) -> tuple[Candidate, ...]:
    """Return the site's own candidates, or those of the run; a `DataError` if none can be read, or is allowed."""
    own = setting(config, "candidates")
    text = own or setting(config, "sec.candidates") or Settings.candidates
    try:
        candidates = parse_candidates(text, classes=classes, own=bool(own))
    except CandidateError as error:
        raise DataError(f"configuration: {error}", "bad-configuration") from error
    if not allows_row_models(config) and all(each.method in ROW_MODELS for each in candidates):
        raise DataError(
            "configuration: all candidate methods (knn, svr) make models that hold rows; name others, or set"
            " allow-row-models (sec.allow-row-models in a simulation)",
            "bad-configuration",
        )
    return candidates


def allows_row_models(config: Mapping[str, object]) -> bool:
    """Return whether candidates may be models that hold rows: by the site's key, or in a simulation by the run's."""
    return bool(config.get("allow-row-models", config.get("sec.allow-row-models", False)))


def rows_of(table: Table, config: Mapping[str, object]) -> RegressionRows:
    """Return the rows of a site's table.

    Parameters and errors are those of `open_shard`.

    Examples
    --------
    >>> import numpy as np
    >>> table = Table("records", {"y": np.arange(6.0), "x": np.arange(6.0)})
    >>> rows_of(table, {"target": "y"}).features
    ('x',)
    """
    rows = regression_rows(table, config, Settings.tasks)
    n_test = n_held_out(len(rows.persons), config)
    if len(rows.persons) < 2 <= rows.n:
        raise DataError(
            f"{cell_name(table, setting(config, 'group'), 0)}: all rows are about one person; a model is selected on"
            " others than it is fitted to",
            "too-few-rows",
        )
    if len(rows.persons) - n_test < 2:
        raise DataError(
            f"{cell_name(table, str(config['target']), rows.n - 1)}: is the last of {rows.n} rows, and sec.holdout"
            f" takes {n_test} of them; at least two must remain to select a model on",
            "too-few-rows",
        )
    return rows


def n_held_out(n: int, config: Mapping[str, object], step: int = 1) -> int:
    """Return how many of `n` rows or persons are held out, a multiple of `step`: none if so few would reveal rows.

    Examples
    --------
    >>> n_held_out(100, {"sec.holdout": 0.2}), n_held_out(20, {"sec.holdout": 0.2})
    (20, 0)
    >>> n_held_out(120, {"sec.holdout": 0.2}, step=5)
    20
    """
    n_test = round(float(str(config.get("sec.holdout", 0.0))) * n)
    return n_test - n_test % step if n_test >= FEWEST_HELD_OUT else 0
