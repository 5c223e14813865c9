"""Plan of a run, made before any site is asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from common.results import results_name
from common.settings import Config
from scenarios.registry import Cell, Scenario
from server.report.data import Arrays
from server.versions import versions

_WITHOUT_EFFECT = {"max-payload-mb", "min-sites", "output-dir", "resume-from", "round-timeout"}
"""Keys that a resumed run may change, since they do not affect the result."""


@dataclass(frozen=True)
class CenterData:
    """The fusion center's own data, read once.

    Attributes
    ----------
    files : Mapping
        Data of its own files, as arguments of `strategies.fusion.Reference`.
    earlier : Mapping[str, np.ndarray]
        Arrays of the earlier run that this one uses; may be empty.
    """

    files: Mapping[str, Any] = field(default_factory=dict)
    earlier: Arrays = field(default_factory=dict)


@dataclass(frozen=True)
class RunPlan:
    """Plan of a run; `server.preflight.preflight` makes it.

    Attributes
    ----------
    typed : Config
        Run configuration as the user typed it.
    config : Config
        Run configuration in effect; in a prediction, that of the earlier run with the keys that the user has typed.
    scenario : Scenario or None
        Scenario of the run; None: the sites' own data.
    protocol : str
        Protocol of the run.
    cells : Sequence of Cell
        Rows of the scenario's table; empty for a scenario without a table.
    n_sites : int
        Number of sites; 0: not known yet.
    center : CenterData
        The fusion center's own data.
    notes : tuple of str
        Notes for the user on the sites' data.
    prepared, cautions : tuple of str
        For simulated sites: the preparation of their rows, and warnings of errors that would look too small.
    """

    typed: Config
    config: Config
    scenario: Scenario | None
    protocol: str
    cells: Sequence[Cell]
    n_sites: int
    center: CenterData = field(default_factory=CenterData, repr=False, compare=False)
    notes: tuple[str, ...] = field(default=(), compare=False)
    prepared: tuple[str, ...] = field(default=(), repr=False, compare=False)
    cautions: tuple[str, ...] = field(default=(), repr=False, compare=False)

    @property
    def configs(self) -> list[Config]:
        """Run configuration of every row of the scenario's table, or of the run."""
        return [{**self.config, **cell.settings} for cell in self.cells] or [self.config]

    @property
    def name(self) -> str:
        """Name of the results."""
        return results_name(self.config)

    @property
    def simulated(self) -> bool:
        """Whether the number of sites is fixed, because they divide one set of data; real sites may come and go."""
        return self.scenario is not None or bool(self.config["data"])

    @property
    def identity(self) -> Mapping[str, Any]:
        """Values that a run must share to resume this one."""
        same = {key: value for key, value in self.config.items() if key not in _WITHOUT_EFFECT}
        same["consilience"] = versions()["consilience"]
        # With another number of sites, each would hold other data.
        return same | {"sites": self.n_sites} if self.simulated else same
