"""Remarks on the installation at the fusion center, for the user who starts a run."""

from __future__ import annotations

import os
from pathlib import Path

from common.extras import MissingLibraryError, require

_FLOWERS_OWN = "runtime-envs"
"""Folder in Flower's directory that holds the environments of single runs."""


def remarks() -> list[str]:
    """Return remarks on the installation, with which a run's log begins."""
    return [remark for remark in (_temporary_environment(), missing_figures()) if remark]


def missing_figures() -> str:
    """Return the reason why a report has no figures; empty if it has figures."""
    try:
        require("matplotlib", "a report with figures")
    except MissingLibraryError as error:
        return str(error)
    return ""


def _temporary_environment() -> str:
    """Return a remark if Flower has built an environment for this run alone, else an empty text."""
    environment = Path(os.environ.get("VIRTUAL_ENV", ""))
    if environment.parent.name != _FLOWERS_OWN:
        return ""
    return (
        f"Flower installed an environment for this run alone, {environment}: to use what is installed already, set "
        "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION=1 before flwr run, flower-superlink and flower-supernode"
    )
