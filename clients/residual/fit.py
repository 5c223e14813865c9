"""Whether files fit residual: other columns of the same entities, and an outcome at one of the sites."""

from __future__ import annotations

from clients.data.inspection import misleading
from clients.data.proposal import Proposal, Tables, identifier_of, target_of


def propose(tables: Tables, target: str) -> Proposal | None:
    """Return settings for these files; None if they do not name the same entities, or more than one has the outcome."""
    if len(tables) < 2 or not (name := identifier_of(tables)):
        return None
    own = [column for table in tables.values() for column in table.columns if column != name]
    if len(set(own)) < len(own):  # a column of two files
        return None
    outcome = target_of(tables, target, own)
    if not outcome:
        return None
    roles = {"id": name, "target": outcome}
    left_out = {column: why for table in tables.values() for column, why in misleading(table, roles).items()}
    settings = dict(roles)
    if left_out:
        used = [
            column
            for table in tables.values()
            for column, cells in table.columns.items()
            if cells.dtype.kind in "iuf" and column not in left_out and column not in roles.values()
        ]
        settings["features"] = " ".join(used)
    return Proposal(
        0.9,
        f"the files have other columns of the same {name!r}, and one has the outcome {outcome!r}",
        settings,
        left_out,
    )
