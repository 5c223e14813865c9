"""What ends a run of the fusion center with a line for its user."""

from __future__ import annotations


class FusionError(RuntimeError):
    """A run that cannot go on. The message is one line: which sites, why, what to do."""
