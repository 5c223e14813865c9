"""Whether files of rows fit sec: the same columns everywhere, and an outcome."""

from __future__ import annotations

from clients.data.proposal import Proposal, Tables, cleaning, common_columns, target_of


def propose(tables: Tables, target: str) -> Proposal | None:
    """Return settings for these files; None if they have no outcome, or different columns."""
    columns = common_columns(tables)
    if len(tables) < 2 or not (name := target_of(tables, target, columns)) or name not in columns:
        return None
    settings, left_out = cleaning(tables, columns, {"target": name})
    return Proposal(
        0.8, f"all files have the same columns, and the outcome {name!r}", {"target": name, **settings}, left_out
    )
