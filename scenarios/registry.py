"""Scenarios by name: data, their split over sites, and the results that the paper reports.

A protocol's scenarios register when its module of the room ``scenarios`` is imported. `find` imports the module of one
protocol, `scenarios` those of all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from common.settings import did_you_mean
from protocols.registry import exists, has_room, names, room

Config = Mapping[str, bool | int | float | str]
"""A checked run configuration."""


class ScenarioError(ValueError):
    """Error: a scenario cannot be built. The message is one line that says what to do."""


@dataclass(frozen=True)
class Cell:
    """One row of a scenario's table.

    Attributes
    ----------
    labels : Mapping
        Labels of the row by column heading, e.g. ``{"p": 5, "SNR": 16}``.
    settings : Mapping
        Keys of the run configuration that the row sets.
    published : Mapping[str, float]
        The paper's results for this row, by metric name.
    defaults : Mapping
        Values of keys that the run configuration leaves empty (``""`` or 0): the paper's settings, which a user may
        replace.

    Examples
    --------
    >>> cell = Cell({"noise": "high"}, {"seed": 7}, published={"accuracy": 0.9})
    >>> cell.labels["noise"], dict(cell.defaults)
    ('high', {})
    """

    labels: Mapping[str, int | float | str]
    settings: Mapping[str, bool | int | float | str]
    published: Mapping[str, float] = field(default_factory=dict)
    defaults: Mapping[str, bool | int | float | str] = field(default_factory=dict)


@dataclass(frozen=True)
class Scenario:
    """A named, reproducible world: data, their split over sites, and the results to compare with.

    Functions of a seed return the same in every process.

    Attributes
    ----------
    name : str
        As typed after ``scenario=``. It begins with the protocol's name and a hyphen.
    protocol : str
        Its protocol.
    sites : int
        Number of sites by default.
    any_number : bool
        Whether it can be split over any other number of sites.
    source : str
        Source of its data, in a few words.
    summary : str
        One line for `consilience list`.
    shards : Callable[[Config, int, int], list]
        ``shards(config, seed, n_sites)``: the private shards, one per site, in the order of the sites' names, with
        read-only arrays, from the run configuration and a seed of 0 or greater. A `ScenarioError` if a setting is out
        of range, the number of sites is impossible, or the data are not available.
    baselines : Callable[[Config, int], Mapping[str, float]]
        ``baselines(config, seed)``: metrics of the alternatives, computed on the pooled data.
    published : Mapping[str, float]
        The paper's results by metric name.
    truth : Callable[[Config, int, int], list] or None
        ``truth(config, seed, n_sites)``: one integer per site, in the order of the sites' names, known only because the
        world is synthetic, e.g. a site's true cluster. It serves to evaluate results, never to compute them. It returns
        None if a user's file replaces the synthetic data.
    outcome : Callable[[Config, int], Any] or None
        ``outcome(config, seed)``: the outcomes that the fusion center holds, if it holds them. Their rows are those of
        every shard.
    queries : Callable[[Config, int], Any] or None
        ``queries(config, seed)``: the points at which the fusion center predicts, if it predicts, and the test
        outputs there.
    cells : Callable[[Config], Sequence[Cell]]
        The rows of its table, which one run computes side by side; without rows the run has one result.
    at_once : int
        Number of repetitions that share their rounds (0: all), limited by what a site can compute within a round.
    columns : tuple of str
        Metrics in the table, in this order; empty: all.
    data_set : str
        Its real data set, a name in `scenarios.datasets.DATA_SETS`; empty: it has none.
    derived_metrics : Callable[[Mapping[str, float]], Mapping[str, float]] or None
        ``derived_metrics(metrics)``: further metrics of a repetition, from its own metrics, costs and baselines, e.g.
        its cost relative to a baseline's. Metrics whose parts are missing are left out.

    Examples
    --------
    >>> scenario = find("bc3e-halfmoon")
    >>> scenario.protocol, scenario.sites
    ('bc3e', 2)
    >>> [shard.n for shard in scenario.shards({}, 0, 3)]
    [131, 131, 130]
    """

    name: str
    protocol: str
    sites: int
    any_number: bool
    source: str
    summary: str
    shards: Callable[[Config, int, int], list[Any]]
    baselines: Callable[[Config, int], Mapping[str, float]] = lambda config, seed: {}
    published: Mapping[str, float] = field(default_factory=dict)
    truth: Callable[[Config, int, int], list[int] | None] | None = None
    outcome: Callable[[Config, int], Any] | None = None
    queries: Callable[[Config, int], Any] | None = None
    cells: Callable[[Config], Sequence[Cell]] = lambda config: ()
    at_once: int = 0
    columns: tuple[str, ...] = ()
    data_set: str = ""
    derived_metrics: Callable[[Mapping[str, float]], Mapping[str, float]] | None = None


def select_cells(scenario: Scenario, config: Config) -> list[Cell]:
    """Return the rows of a scenario's table that have the labels in the run configuration's `cells`; all by default.

    A cell's `defaults` become `settings` where the run configuration leaves the key empty. If a user sets another
    value, the cell has no published results, because these are of other settings.

    Parameters
    ----------
    scenario : Scenario
        A scenario.
    config : Config
        Run configuration; used is `cells`, e.g. ``"p=5 SNR=16"``.

    Raises
    ------
    ScenarioError
        If no row has these labels; the message lists the labels there are.

    Examples
    --------
    >>> [cell.labels for cell in select_cells(find("residual-theorem2"), {"cells": "rho=0.5"})]
    [{'rho': 0.5}]
    """
    pairs = (each.partition("=") for each in str(config.get("cells", "")).replace(",", " ").split())
    wanted = {name: _spell(value) for name, _, value in pairs}
    cells = [_with_defaults(cell, config) for cell in scenario.cells(config)]
    if not wanted:
        return cells
    spellings = [{name: _spell(value) for name, value in cell.labels.items()} for cell in cells]
    matching = [cell for cell, labels in zip(cells, spellings, strict=True) if wanted.items() <= labels.items()]
    if not matching:
        choices: dict[str, list[str]] = {}
        for labels in spellings:
            for name, value in labels.items():
                choices.setdefault(name, []).append(value)
        listed = "; ".join(f"{name}={', '.join(dict.fromkeys(values))}" for name, values in choices.items())
        problem = f"no row of {scenario.name} has these labels; there are: {listed}"
        raise ScenarioError(f"cells={config['cells']!r}: {problem if cells else f'{scenario.name} has no table'}")
    return matching


def _with_defaults(cell: Cell, config: Config) -> Cell:
    own = {key: config[key] for key in cell.defaults if config.get(key)}
    defaults = {key: value for key, value in cell.defaults.items() if key not in own}
    as_published = all(value == cell.defaults[key] for key, value in own.items())
    return replace(cell, settings={**defaults, **cell.settings}, published=cell.published if as_published else {})


def _spell(label: int | float | str) -> str:
    """Return a label in the table's spelling: whole numbers without a fraction."""
    try:
        number = float(label)
    except ValueError:
        return str(label)
    return str(int(number)) if number.is_integer() else str(number)


_SCENARIOS: dict[str, Scenario] = {}


def register(scenario: Scenario) -> Scenario:
    """Add a scenario and return it.

    Raises
    ------
    ValueError
        If another scenario has its name.
    """
    if scenario.name in _SCENARIOS:
        raise ValueError(f"scenario {scenario.name!r} is registered twice")
    _SCENARIOS[scenario.name] = scenario
    return scenario


def scenarios() -> dict[str, Scenario]:
    """Return all scenarios by name, in alphabetical order.

    Examples
    --------
    >>> "gp-concrete" in scenarios()
    True
    """
    for protocol in names():
        _load(protocol)
    return dict(sorted(_SCENARIOS.items()))


def find(name: str) -> Scenario:
    """Return the scenario of that name; only the scenarios of the protocol that its name begins with are imported.

    Raises
    ------
    ScenarioError
        If there is none; the message has the nearest names, or all.

    Examples
    --------
    >>> find("sec-grid").sites
    50
    """
    protocol = name.partition("-")[0]
    if name not in _SCENARIOS and exists(protocol):
        _load(protocol)
    # A scenario of another package may have a name of another form.
    known = _SCENARIOS if name in _SCENARIOS else scenarios()
    if name not in known:
        raise ScenarioError(f"unknown scenario {name!r}; {did_you_mean(name, known)}")
    return known[name]


def _load(protocol: str) -> None:
    """Import a protocol's scenarios, which register."""
    if has_room(protocol, "scenarios"):
        room(protocol, "scenarios")
