"""Named, reproducible worlds: where the data come from, how they are split over sites, what the paper reports."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from numerics.gp.measurements import Queries
from numerics.residual.columns_and_outcomes import Outcomes
from protocols.registry import names

Config = Mapping[str, bool | int | float | str]
"""Run configuration, checked by `server.config`."""


class ScenarioError(ValueError):
    """A scenario that cannot be built here; the message says what to do."""


@dataclass(frozen=True)
class Cell:
    """One row of a scenario's table.

    Attributes
    ----------
    labels : Mapping
        What sets this row apart, by the heading it is shown under, e.g. ``{"p": 5, "SNR": 16}``.
    settings : Mapping
        Keys of the run configuration that have another value in this row.
    published : Mapping[str, float]
        The paper's figures for this row, by metric name.
    defaults : Mapping
        Keys that have this value where the run configuration leaves them empty (``""`` or 0): what makes the row the
        paper's, and a user may try otherwise.
    """

    labels: Mapping[str, int | float | str]
    settings: Mapping[str, bool | int | float | str]
    published: Mapping[str, float] = field(default_factory=dict)
    defaults: Mapping[str, bool | int | float | str] = field(default_factory=dict)


def no_cells(config: Config) -> Sequence[Cell]:
    """The cells of a scenario that is no table."""
    return ()


@dataclass(frozen=True)
class Scenario:
    """One world.

    Attributes
    ----------
    name : str
        As typed after ``scenario=``.
    protocol : str
        Which of the protocols it runs.
    sites : int
        Number of sites it has when the user names none.
    any_number : bool
        Whether it can be split over another number of sites.
    source : str
        Where its data come from, in a few words.
    summary : str
        One line for `consilience list`.
    shards : Callable[[Config, int, int], list]
        ``shards(config, seed, n_sites)``: the private shards, one a site, in the order of the sites' names. The same
        arguments give the same shards in every process.
    baselines : Callable[[Config, int], Mapping[str, float]]
        ``baselines(config, seed)``: metrics of what a user would do instead, computed on the pooled data.
    published : Mapping[str, float]
        The paper's figures by metric name.
    truth : Callable[[Config, int, int], list] or None
        ``truth(config, seed, n_sites)``: for every site, in the order of the sites' names, what only the maker of the
        world knows (of `sec`, a learner's true cluster); used to judge the result, never to reach it. It gives None
        where nobody knows: with the user's own file in place of a made sample.
    outcome : Callable[[Config, int], Outcomes] or None
        ``outcome(config, seed)``: the outcomes that the fusion center holds (of `residual`); its rows are those of
        every shard.
    queries : Callable[[Config, int], Queries] or None
        ``queries(config, seed)``: the points at which the fusion center wants to know the output (of `gp`), and what
        was measured there.
    cells : Callable[[Config], Sequence[Cell]]
        The rows of its table, worked on side by side in one run; none: the run has one result and no table.
    at_once : int
        Repetitions that share their rounds (0: all of them): as many as a site can answer for within a round.
    shown : tuple of str
        Metrics that the table shows, in this order; empty: all.
    derived : Callable[[Mapping[str, float]], Mapping[str, float]] or None
        ``derived(metrics)``: further metrics of a repetition, from its own metrics, costs and baselines, e.g. its cost
        relative to a baseline's; leaves out what those at hand do not give.
    """

    name: str
    protocol: str
    sites: int
    any_number: bool
    source: str
    summary: str
    shards: Callable[[Config, int, int], list[Any]]
    baselines: Callable[[Config, int], Mapping[str, float]]
    published: Mapping[str, float] = field(default_factory=dict)
    truth: Callable[[Config, int, int], list[int] | None] | None = None
    outcome: Callable[[Config, int], Outcomes] | None = None
    queries: Callable[[Config, int], Queries] | None = None
    cells: Callable[[Config], Sequence[Cell]] = no_cells
    at_once: int = 0
    shown: tuple[str, ...] = ()
    derived: Callable[[Mapping[str, float]], Mapping[str, float]] | None = None


def chosen_cells(scenario: Scenario, config: Config) -> list[Cell]:
    """The rows of a scenario's table that the run configuration's `cells` names: all, or those with these labels.

    Their `defaults` are among their `settings` where they hold; where one does not, their published figures, which are
    of other settings, are left out.

    Raises
    ------
    ScenarioError
        If no row has them; the message says what labels there are.
    """
    pairs = (each.partition("=") for each in str(config.get("cells", "")).replace(",", " ").split())
    wanted = {name: _spelled(value) for name, _, value in pairs}
    cells = [_with_defaults(cell, config) for cell in scenario.cells(config)]
    if not wanted:
        return cells
    told = [{name: _spelled(value) for name, value in cell.labels.items()} for cell in cells]
    chosen = [cell for cell, labels in zip(cells, told, strict=True) if wanted.items() <= labels.items()]
    if not chosen:
        choices: dict[str, list[str]] = {}
        for labels in told:
            for name, value in labels.items():
                choices.setdefault(name, []).append(value)
        listed = "; ".join(f"{name}={', '.join(dict.fromkeys(values))}" for name, values in choices.items())
        problem = f"no row of {scenario.name} is called so; there are: {listed}"
        raise ScenarioError(f"cells={config['cells']!r}: {problem if cells else f'{scenario.name} is no table'}")
    return chosen


def _with_defaults(cell: Cell, config: Config) -> Cell:
    own = {key: config[key] for key in cell.defaults if config.get(key)}
    defaults = {key: value for key, value in cell.defaults.items() if key not in own}
    as_published = all(value == cell.defaults[key] for key, value in own.items())
    return replace(cell, settings={**defaults, **cell.settings}, published=cell.published if as_published else {})


def _spelled(label: int | float | str) -> str:
    """A label as the table shows it: whole numbers without a fraction, however they are typed."""
    try:
        number = float(label)
    except ValueError:
        return str(label)
    return str(int(number)) if number.is_integer() else str(number)


_SCENARIOS: dict[str, Scenario] = {}


def register(scenario: Scenario) -> Scenario:
    """Add a scenario; two of one name are refused."""
    if scenario.name in _SCENARIOS:
        raise ValueError(f"scenario {scenario.name!r} is registered twice")
    _SCENARIOS[scenario.name] = scenario
    return scenario


def scenarios() -> dict[str, Scenario]:
    """All scenarios by name, in the order of their names."""
    for protocol in names():
        importlib.import_module(f"scenarios.{protocol}")  # registers its scenarios
    return dict(sorted(_SCENARIOS.items()))


def find(name: str) -> Scenario:
    """The scenario of that name.

    Raises
    ------
    ScenarioError
        If there is none; the message lists the names.
    """
    known = scenarios()
    if name not in known:
        raise ScenarioError(f"unknown scenario {name!r}; there are: {', '.join(known)}")
    return known[name]
