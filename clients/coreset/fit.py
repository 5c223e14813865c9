"""Whether files of rows fit coreset: the same columns everywhere, and a group that clusters should be fair to."""

from __future__ import annotations

import re

from clients.data.cells import text_of
from clients.data.proposal import Proposal, Tables, cleaning, common_columns

_SENSITIVE = re.compile(r"sex|gender|race|ethnic|religion|nationality|marital", re.IGNORECASE)
_MOST_GROUPS = 10


def propose(tables: Tables, target: str) -> Proposal | None:
    """Return settings for these files; None if no column looks like a group, or the columns differ."""
    columns = common_columns(tables)
    group = next(
        (
            name
            for name in columns
            if _SENSITIVE.search(name)
            and 1 < len({value for table in tables.values() for value in text_of(table.columns[name])}) <= _MOST_GROUPS
        ),
        "",
    )
    if not group or any("" in text_of(table.columns[group]) for table in tables.values()):
        return None
    roles = {"sensitive": group, **({"target": target} if target in columns else {})}
    settings, left_out = cleaning(tables, columns, roles)
    return Proposal(0.3, f"all files have the same columns, {group!r} among them", {**roles, **settings}, left_out)
