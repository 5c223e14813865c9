"""The Python interface: run, load, check, list."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from common.settings import Value
from consilience.finished_run import Run
from consilience.local_engine import engine
from consilience.run_request import simulated_run

if TYPE_CHECKING:
    import pandas as pd


def run(scenario: str, *, sites: int | None = None, output_dir: str | Path | None = None, **settings: Value) -> Run:
    """Run a scenario in this process.

    Examples
    --------
    >>> import consilience as cs
    >>> cs.run("bc3e-wine", sites=3, seed=1).metrics["n_instances"]  # doctest: +SKIP
    178.0
    """
    keep = None
    if output_dir is None:
        keep = tempfile.TemporaryDirectory(prefix="consilience-")
        output_dir = keep.name
    assignments = [f"{key.replace('_', '-')}={value}" for key, value in settings.items()]
    request = simulated_run(assignments, {"scenario": scenario, "output-dir": str(output_dir)}, sites, 0.0)
    return Run(engine.run(request.settings, request.sites), keep)


def load(path: str | Path) -> Run:
    """Return a run whose results lie in a directory."""
    return Run(Path(path).expanduser().absolute())


def scenarios() -> pd.DataFrame:
    """Return the scenarios: protocol, number of sites, summary and source, by name."""
    import pandas as pd

    from scenarios.registry import scenarios as registered

    rows = [
        {
            "scenario": each.name,
            "protocol": each.protocol,
            "sites": each.sites,
            "summary": each.summary,
            "source": each.source,
        }
        for each in registered().values()
    ]
    return pd.DataFrame(rows).set_index("scenario").sort_index()
