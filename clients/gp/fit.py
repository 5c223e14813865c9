"""Whether files of rows fit gp: the same few inputs everywhere, and a measured output."""

from __future__ import annotations

from clients.data.proposal import Proposal, Tables, cleaning, common_columns, target_of

_MOST_INPUTS = 4
"""Most inputs of a surface."""


def propose(tables: Tables, target: str) -> Proposal | None:
    """Return settings for these files; None if they have no output, many inputs, or different columns."""
    columns = common_columns(tables)
    if len(tables) < 2 or not (name := target_of(tables, target, columns)) or name not in columns:
        return None
    settings, left_out = cleaning(tables, columns, {"target": name})
    n_inputs = len(columns) - 1 - len(left_out)
    if not 1 <= n_inputs <= _MOST_INPUTS or any(table.columns[name].dtype == object for table in tables.values()):
        return None
    why = f"all files have the same {n_inputs} inputs, and the output {name!r}: a surface with its uncertainty"
    return Proposal(0.5, why, {"target": name, **settings}, left_out)
