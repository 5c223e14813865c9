"""Plan of a run: the run configuration, checked and resolved before any site is asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flwr.serverapp import Grid

from clients.data.simulated_sites import simulated_sites
from common.results import results_name
from common.settings import Config, ConfigError
from protocols.prediction import resolved
from protocols.settings import check_libraries, check_sums, checked, declared
from scenarios.registry import Cell, Scenario, ScenarioError, find, select_cells
from server.report.commands import flwr_command
from server.versions import versions
from strategies.exchange import wait_for_nodes

_WITHOUT_EFFECT = {"max-payload-mb", "min-sites", "output-dir", "resume-from", "round-timeout"}
"""Keys that a resumed run may change, since they do not affect the result."""


@dataclass(frozen=True)
class RunPlan:
    """What a run is going to do.

    Attributes
    ----------
    typed : Config
        Run configuration as the user typed it.
    config : Config
        Run configuration that is used: for a prediction, that of the earlier run with what the user has typed.
    scenario : Scenario or None
        Scenario of the run; None: the sites' own data.
    protocol : str
        Protocol of the run.
    cells : Sequence of Cell
        Rows of the scenario's table; empty for a scenario without a table.
    n_sites : int
        Number of connected sites.
    """

    typed: Config
    config: Config
    scenario: Scenario | None
    protocol: str
    cells: Sequence[Cell]
    n_sites: int

    @property
    def name(self) -> str:
        """Name of the results."""
        return results_name(self.config)

    @property
    def simulated(self) -> bool:
        """Whether the sites share out one set of data; real sites may come and go."""
        return self.scenario is not None or bool(self.config["data"])

    @property
    def identity(self) -> dict[str, Any]:
        """What must be the same in a run that resumes this one."""
        same = {key: value for key, value in self.config.items() if key not in _WITHOUT_EFFECT}
        same["consilience"] = versions()["consilience"]
        # With another number of sites, each would hold other data.
        return same | {"sites": self.n_sites} if self.simulated else same


def resolve(grid: Grid, run_config: Mapping[str, Any]) -> RunPlan:
    """Check the run configuration, and wait for the sites.

    Parameters
    ----------
    grid : Grid
        Flower's connection to the sites.
    run_config : Mapping
        Run configuration as Flower has it.

    Raises
    ------
    ConfigError, MissingLibraryError, PredictionError, ScenarioError, DataError, FusionError
        If the configuration cannot be used, the run needs a library that is not installed, or the number of connected
        sites is not the one it needs.
    """
    typed = checked(run_config)
    config = checked(resolved(typed))
    scenario = None if config["protocol"] else find(str(config["scenario"]))
    if scenario is None and config["cells"]:
        raise ConfigError("cells are rows of a scenario's table, and own data have none: leave it out")
    protocol = str(config["protocol"]) if scenario is None else scenario.protocol
    check_sums(config, protocol)
    cells = [] if scenario is None else select_cells(scenario, config)
    if scenario is not None:
        _check_cells(scenario, cells, config)
    for settings in [cell.settings for cell in cells] or [{}]:
        check_libraries({**config, **settings}, protocol)
    return RunPlan(typed, config, scenario, protocol, cells, _number_of_sites(grid, typed, config, scenario))


def _check_cells(scenario: Scenario, cells: Sequence[Cell], config: Config) -> None:
    """Refuse keys that every row of the table sets itself."""
    defaults = declared()
    for cell in cells:
        for key in cell.settings.keys() - cell.defaults.keys():
            if config[key] != defaults[key]:
                label, value = next(iter(cell.labels.items()))
                raise ScenarioError(
                    f"{key} is set by the rows of {scenario.name}; choose among them, as in cells='{label}={value}'"
                )


def _number_of_sites(grid: Grid, typed: Config, config: Config, scenario: Scenario | None) -> int:
    """Return the number of connected sites, if the run can use that many."""
    n_nodes = wait_for_nodes(grid, int(config["min-sites"]), float(config["round-timeout"]))
    if scenario is None:
        if not config["data"]:
            return n_nodes
        needed, owner = simulated_sites(str(config["data"])).number, config["data"]
    else:
        needed, owner = None if scenario.any_number else scenario.sites, scenario.name
    if needed is not None and n_nodes != needed:
        raise ScenarioError(
            f"{owner} has {needed} sites, the federation has {n_nodes}; type: {flwr_command(typed, needed)}"
        )
    return n_nodes
