"""A site's table as the rows of a learner: an outcome, amount or class, and inputs by name."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from clients.data.cells import numbers_of, text_of
from clients.data.column_selection import holds_numbers, match_columns, numeric, sensitive_columns
from clients.data.copies import copied_rows
from clients.data.persons import persons_of
from clients.data.table import DataError, Table, quote, setting
from clients.data.target import read_target
from numerics.shared.regression_rows import RegressionRows

_ROLES = ("target", "id", "truth", "group")


def input_names(table: Table, config: Mapping[str, object]) -> list[str]:
    """Return the names of a site's inputs, in their order; settings and errors as in `regression_rows`.

    Examples
    --------
    >>> table = Table("records", {"y": np.array([1.0, 2.0]), "b": np.array([3, 4]), "a": np.array([5, 6])})
    >>> input_names(table, {"target": "y"})
    ['a', 'b']
    """
    target = setting(config, "target")
    if not target:
        raise DataError(
            f"configuration: target is not set; name the outcome's column, one of {quote(table.columns)}",
            "bad-configuration",
        )
    table.column(target)
    roles = {setting(config, role) for role in _ROLES} | set(sensitive_columns(table, config))
    patterns = setting(config, "features")
    if patterns:
        names = [name for name in match_columns(table, patterns) if name not in (target, setting(config, "group"))]
    else:
        names = [name for name, values in table.columns.items() if name not in roles and holds_numbers(values)]
    if not names:
        what = f"matches features={patterns!r}" if patterns else "holds numbers"
        texts = [name for name, cells in table.columns.items() if name not in roles and numbers_of(cells) is not None]
        hint = f"; missing=impute or missing=drop reads {quote(texts)} as numbers" if texts and not patterns else ""
        raise DataError(
            f"{table.source}: no column beside the target {what}; it has {quote(table.columns)}{hint}", "missing-column"
        )
    return sorted(names)


def regression_rows(
    table: Table, config: Mapping[str, object], tasks: Collection[str] = ("regression",)
) -> RegressionRows:
    """Return outcome and inputs of a site's table.

    Parameters
    ----------
    table : Table
        The site's own.
    config : Mapping
        Run or node configuration. ``target`` names the outcome, ``features`` the inputs: names or globs; by default
        every column of numbers that has no other role. ``group`` names the column of
        the persons. ``task`` says what the outcome is.
    tasks : collection of str
        Kinds of target of the protocol, as in `clients.data.target.read_target`.

    Returns
    -------
    RegressionRows
        Inputs in the order of their names, which is the same at every site; no test rows. Copies of rows are left out:
        they would lie on both sides of a hold-out, and a Gaussian process would take outputs for exact.

    Raises
    ------
    DataError
        If a column is missing or is no number in some row, or if an outcome or input is empty or infinite; or as
        `read_target`.

    Examples
    --------
    >>> table = Table("records", {"y": np.array([1.0, 2.0]), "b": np.array([3, 4]), "a": np.array([5, 6])})
    >>> rows = regression_rows(table, {"target": "y"})
    >>> rows.features, rows.x.tolist(), rows.y.tolist()
    (('a', 'b'), [[5.0, 3.0], [6.0, 4.0]], [1.0, 2.0])
    """
    names = input_names(table, config)
    y, classes = read_target(table, config, tasks)
    x = np.column_stack([numeric(table, name, allow_missing=False) for name in names])
    none = np.zeros((0, len(names))), np.zeros(0)
    person = persons_of(table, config)
    apart = [
        text_of(table.columns[name]) for role in ("id", "group") if (name := setting(config, role)) in table.columns
    ]
    if (copied := copied_rows(x, y, apart)).any():
        x, y, person = x[~copied], y[~copied], None if person is None else person[~copied]
    return RegressionRows(x, y, *none, tuple(names), classes, person=person)
