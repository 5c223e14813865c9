"""Plan of a run: what it is going to do, before any site is asked."""

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
        Of its own files, as arguments of `strategies.fusion.Reference`.
    earlier : Mapping[str, np.ndarray]
        Arrays of the earlier run that this one uses; empty without one.
    """

    files: Mapping[str, Any] = field(default_factory=dict)
    earlier: Arrays = field(default_factory=dict)


@dataclass(frozen=True)
class RunPlan:
    """What a run is going to do; `server.preflight.preflight` makes it.

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
        Number of sites; 0: not known yet.
    center : CenterData
        What the fusion center has of its own.
    notes : tuple of str
        What the user should know of the sites' data before the run.
    prepared, cautions : tuple of str
        Of simulated sites: what was done to their rows before the run, and what makes its errors look small.
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
    def name(self) -> str:
        """Name of the results."""
        return results_name(self.config)

    @property
    def simulated(self) -> bool:
        """Whether the sites share out one set of data; real sites may come and go."""
        return self.scenario is not None or bool(self.config["data"])

    @property
    def identity(self) -> Mapping[str, Any]:
        """What must be the same in a run that resumes this one."""
        same = {key: value for key, value in self.config.items() if key not in _WITHOUT_EFFECT}
        same["consilience"] = versions()["consilience"]
        # With another number of sites, each would hold other data.
        return same | {"sites": self.n_sites} if self.simulated else same
