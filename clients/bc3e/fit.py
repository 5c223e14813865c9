"""Whether files fit bc3e: labels of classifiers and clusterings."""

from __future__ import annotations

from fnmatch import fnmatchcase

from clients.data.proposal import Proposal, Tables


def propose(tables: Tables, target: str) -> Proposal | None:
    """Return settings for these files; None if some has no column of class labels."""
    if not all(any(fnmatchcase(name, "class_*") for name in table.columns) for table in tables.values()):
        return None
    truth = next((name for name in ("truth", target) if name and all(name in t.columns for t in tables.values())), "")
    return Proposal(1.0, "all files have columns class_*", {"truth": truth} if truth else {})
