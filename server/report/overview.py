"""Overview of a run: its question, who holds what, what left the sites."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from common.data_places import GIVEN_IN_PYTHON, is_function, paths_by_site
from server.report.data import Arrays
from server.report.formatting import counted, listed
from server.report.protocol import Config, ProtocolReport, report_of


def overview(
    protocol: str,
    config: Config,
    cells: Sequence[Config],
    n_sites: int,
    scenario: str,
    payloads: Collection[str],
    arrays: Arrays,
) -> dict[str, str]:
    """Return the texts of the page's first section, for a reader who has not read the paper.

    Parameters
    ----------
    protocol : str
        Protocol of the run.
    config : Mapping
        Run configuration.
    cells : Sequence of Mapping
        Settings of the rows of a scenario's table. The text on disclosure is about the row that discloses most.
    n_sites : int
        Number of sites that were asked.
    scenario : str
        Description of the scenario; empty: the sites' own data.
    payloads : Collection of str
        Names of the payloads that crossed the wire.
    arrays : Mapping[str, ndarray]
        Arrays of the results.

    Returns
    -------
    dict
        ``question``, ``data``, ``holdings``, ``disclosure`` and ``earlier``, without empty ones.
    """
    known = report_of(protocol)
    texts = {
        "question": known.question,
        "data": scenario or _own_data(known, config, n_sites),
        "holdings": known.holdings(config, arrays),
        "disclosure": known.disclosure([{**config, **cell} for cell in cells] or [config], payloads),
        "earlier": next((f"{text}: {config[key]}." for key, text in known.earlier_keys.items() if config.get(key)), ""),
    }
    return {name: text for name, text in texts.items() if text}


def _own_data(known: ProtocolReport, config: Config, n_sites: int) -> str:
    """Return the origin of the sites' data, and the columns in use."""
    sites = f"Own data of {counted(n_sites, 'site')}"
    if not config.get("data"):
        return f"{sites}, each with its file and columns in its own configuration."
    columns = [f"{words} {config[key]}" for key, words in known.column_keys.items() if str(config.get(key, "")).strip()]
    return f"{sites}, {_origin(str(config['data']))}.{f' Columns: {listed(columns)}.' if columns else ''}"


def _origin(data: str) -> str:
    """Return the origin of a simulation's data."""
    if data.startswith(GIVEN_IN_PYTHON):
        return "given in Python"
    if is_function(data):
        return f"from the function {data}"
    if paths := paths_by_site(data):
        return f"one file each: {listed(paths.values())}"
    return f"one file each in {data}"
