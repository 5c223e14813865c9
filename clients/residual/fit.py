"""Whether files fit residual: each has other columns about the same entities, and one has an outcome."""

from __future__ import annotations

from clients.data.categories import categories_of
from clients.data.column_selection import patterns_text
from clients.data.inspection import misleading, suggested_categories
from clients.data.preparation import prepare
from clients.data.proposal import Proposal, Tables, describe_text, has_gaps, identifier_of, target_of


def propose(tables: Tables, target: str) -> Proposal | None:
    """Return settings for these files; None if they do not name the same entities, or more than one has the outcome."""
    if len(tables) < 2 or not (name := identifier_of(tables)):
        return None
    own = [column for table in tables.values() for column in table.columns if column != name]
    if len(set(own)) < len(own):  # a column of two files
        return None
    outcome = target_of(tables, target, own)
    if outcome in ("", name):
        return None
    roles = {"id": name, "target": outcome}
    settings = dict(roles)
    if any(has_gaps(table, roles) for table in tables.values()):
        settings["missing"] = "impute"
    left_out: dict[str, str] = {}
    used, categories = [], set()
    for table in (prepare(table, settings, whole=False).table for table in tables.values()):
        left_out |= misleading(table, roles)
        categories |= {each.column for each in categories_of({"categories": suggested_categories([table], roles)})}
        for column in table.columns.keys() - left_out.keys() - set(roles.values()):
            if table.columns[column].dtype.kind in "iuf" or column in categories:
                used.append(column)
            else:
                left_out[column] = describe_text(tables, column)
    if left_out or categories:
        settings["features"] = patterns_text(column for column in own if column in used)
    return Proposal(
        0.9,
        f"the files have other columns of the same {name!r}, and one has the outcome {outcome!r}",
        settings,
        left_out,
    )
