"""The error that ends a run of the fusion center."""

from __future__ import annotations


class FusionError(RuntimeError):
    """Error: a run cannot go on. The message is one line: which sites, why, what to do."""
