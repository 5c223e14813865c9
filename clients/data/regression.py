"""A party's table as the rows of a regression: an outcome, and inputs by name."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from clients.data.table import DataError, Table, match_columns, numeric, quoted, sensitive_columns, setting
from numerics.shared.regression_rows import RegressionRows

_ROLES = ("target", "id", "truth")


def regression_rows(table: Table, config: Mapping[str, object]) -> RegressionRows:
    """Outcome and inputs of a party's table.

    Parameters
    ----------
    table : Table
        The party's own.
    config : Mapping
        Run or node configuration: `target` names the outcome; `features` the inputs (names or globs; default: every
        column of numbers that has no other role).

    Returns
    -------
    RegressionRows
        Inputs in the order of their names, the same at every party whatever the order in its file; no test rows.

    Raises
    ------
    DataError
        If a column is missing, is no number in some row, or an outcome or input is empty or infinite.
    """
    target = setting(config, "target")
    if not target:
        raise DataError(
            f"configuration: target is not set; name the outcome's column, one of {quoted(table.columns)}",
            "bad-configuration",
        )
    y = numeric(table, target, allow_missing=False)
    roles = {setting(config, role) for role in _ROLES} | set(sensitive_columns(table, config))
    patterns = setting(config, "features")
    if patterns:
        names = [name for name in match_columns(table, patterns) if name != target]
    else:
        names = [name for name, values in table.columns.items() if name not in roles and values.dtype.kind in "iuf"]
    if not names:
        what = f"matches features={patterns!r}" if patterns else "holds numbers"
        raise DataError(
            f"{table.source}: no column beside the target {what}; it has {quoted(table.columns)}", "missing-column"
        )
    names.sort()
    x = np.column_stack([numeric(table, name, allow_missing=False) for name in names])
    return RegressionRows(x, y, np.zeros((0, len(names))), np.zeros(0), tuple(names))
