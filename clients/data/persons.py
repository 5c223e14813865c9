"""Persons of a site's rows, such as patients with several visits; the setting ``group`` names their column.

Their numbers stay at the site. Rows of one person never lie on both sides of a hold-out, and statistics count persons.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from jaxtyping import Int64

from clients.data.cells import text_of
from clients.data.column_selection import cell_name, split_patterns
from clients.data.table import DataError, Table, setting


def persons_of(table: Table, config: Mapping[str, object]) -> Int64[np.ndarray, "n"] | None:
    """Return the number of each row's person, in the order in which persons appear; None if ``group`` is not set.

    Raises
    ------
    DataError
        If there is no such column, it is also the target or one of the features by name, or a cell is empty.

    Examples
    --------
    >>> table = Table("visits.csv", {"patient": np.array([7, 3, 7]), "y": np.arange(3.0)})
    >>> persons_of(table, {"group": "patient"}), persons_of(table, {})
    (array([0, 1, 0]), None)
    """
    name = setting(config, "group")
    if not name:
        return None
    column = table.column(name)
    if name == setting(config, "target") or name in split_patterns(setting(config, "features")):
        raise DataError(
            f"configuration: column {name!r} is named as group and as target or one of features; it can be one only",
            "bad-configuration",
        )
    names = text_of(column)
    for row in [row for row, text in enumerate(names) if not text][:1]:
        raise DataError(f"{cell_name(table, name, row)}: is empty; every row needs its person", "missing-value")
    number = {text: place for place, text in enumerate(dict.fromkeys(names))}
    return np.array([number[text] for text in names], np.int64)


def person_lines(table: Table, config: Mapping[str, object]) -> list[str]:
    """Return the line of `consilience check` on persons; none without ``group``.

    Examples
    --------
    >>> table = Table("visits.csv", {"patient": np.array([7, 3, 7]), "y": np.arange(3.0)})
    >>> person_lines(table, {"group": "patient"})
    ["persons: 2 in 'patient', with 2 rows at most; all rows of one are held out together, and min-rows counts persons"]
    """
    person = persons_of(table, config)
    if person is None:
        return []
    sizes, name = np.bincount(person), setting(config, "group")
    return [
        f"persons: {len(sizes)} in {name!r}, with {sizes.max()} rows at most; all rows of one are held out together,"
        " and min-rows counts persons"
    ]
