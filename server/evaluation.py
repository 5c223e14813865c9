"""Evaluation of a run: from the outcomes of its repetitions to metrics, table and arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Float64

from scenarios.registry import Cell, Config, Scenario, select_cells
from strategies.cells import Table
from strategies.fusion import FusionStrategy
from strategies.influence import Influence

Values = dict[str, Float64[np.ndarray, "repetitions"]]
Lines = Sequence[Mapping[str, Any]]
"""Lines of the ledger."""


@dataclass(frozen=True)
class Evaluation:
    """Numbers, table and arrays of a run.

    Attributes
    ----------
    metrics : dict
        Means over the repetitions, for a table also over its cells; from two repetitions on with standard errors
        ``x_se``.
    table : list of dict
        Rows of the result table.
    arrays : dict
        Arrays of the first repetition (and first cell) by documented name; ``repetitions_x`` has metric x in every
        repetition, ``cells_x`` in every cell and repetition.
    excluded : dict
        By site, the reason why it was left out although it answered.
    notes : list of str
        Warnings to read before using the (first repetition's) result.
    files : dict
        Content of further files of the first repetition (and first cell), by name.
    influence : Influence or None
        Result without each site, of the first repetition (and first cell); None: the protocol does not define it.
    """

    metrics: dict[str, float]
    table: list[dict[str, Any]] = field(default_factory=list)
    arrays: dict[str, np.ndarray] = field(default_factory=dict)
    excluded: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    files: dict[str, bytes] = field(default_factory=dict)
    influence: Influence | None = None


def evaluate(
    config: Config, scenario: Scenario | None, strategy: FusionStrategy, outcomes: Sequence[Any], ledger: Lines = ()
) -> Evaluation:
    """Return metrics, table and arrays of a run.

    Parameters
    ----------
    config : Config
        Run configuration.
    scenario : Scenario or None
        Scenario of the run; None: the sites' own data.
    strategy : FusionStrategy
        Strategy after the run.
    outcomes : Sequence
        One outcome for each repetition.
    ledger : Sequence of Mapping
        Lines of the ledger, for strategies with costs.
    """
    excluded: dict[str, str] = {}
    for outcome in outcomes:
        excluded = {**strategy.excluded(outcome), **excluded}
    if scenario is not None and isinstance(strategy, Table):
        metrics, table, arrays = _of_cells(config, scenario, strategy, outcomes, ledger)
        first_member, first = strategy.members[0], outcomes[0][0]
        files, without = first_member.files(first), influence(first_member, first)
        return Evaluation(metrics, table, arrays, excluded, files=files, influence=without)
    lanes = _by_lane(ledger, depth=1)
    lines = [lanes.get(str(r), ()) for r in range(len(outcomes))]
    values = _values(config, scenario, strategy, outcomes, lines)
    metrics = summarize(values)
    first = outcomes[0]
    arrays = {f"repetitions_{name}": value for name, value in values.items()} if len(outcomes) > 1 else {}
    return Evaluation(
        metrics,
        strategy.table(metrics, first),
        arrays | _arrays(strategy, first),
        excluded,
        strategy.notes(first),
        strategy.files(first),
        influence(strategy, first),
    )


def _arrays(strategy: FusionStrategy, outcome: Any) -> dict[str, np.ndarray]:
    """Return the arrays of an outcome, and those that its diagnostics compute."""
    return strategy.arrays(outcome) | diagnostics(strategy, outcome)


def diagnostics(strategy: FusionStrategy, outcome: Any) -> dict[str, np.ndarray]:
    """Compute the arrays that only figures need; this takes time."""
    return strategy.diagnostics(outcome)


def influence(strategy: FusionStrategy, outcome: Any) -> Influence | None:
    """Compute the result without each site; this takes time."""
    return strategy.influence(outcome)


def _by_lane(ledger: Lines, depth: int) -> dict[str, Lines]:
    """Return the ledger's lines by the first `depth` numbers of their lane, inner lanes with their outer one."""
    lanes: dict[str, list[Mapping[str, Any]]] = {}
    for line in ledger:
        lanes.setdefault(".".join(line["lane"].split(".")[:depth]), []).append(line)
    return dict(lanes)


def _values(
    config: Config,
    scenario: Scenario | None,
    strategy: FusionStrategy,
    outcomes: Sequence[Any],
    lines: Sequence[Lines],
) -> Values:
    """Return every repetition's metrics, costs, baselines, and the metrics derived from them.

    A metric that some repetition lacks is left out. `lines` are the ledger's lines of each repetition.
    """
    every = [
        {
            **strategy.metrics(outcome),
            **strategy.costs(each),
            **(scenario.baselines(config, strategy.seed + r) if scenario else {}),
        }
        for r, (outcome, each) in enumerate(zip(outcomes, lines, strict=True))
    ]
    if scenario is not None and scenario.derived_metrics is not None:
        every = [{**each, **scenario.derived_metrics(each)} for each in every]
    names = [name for name in every[0] if all(name in each for each in every)]
    return {name: np.array([each[name] for each in every], float) for name in names}


def summarize(values: Values) -> dict[str, float]:
    """Return means over the repetitions; from two repetitions on also standard errors (``x_se``).

    Examples
    --------
    >>> summarize({"error": np.array([1.0, 3.0])})
    {'error': 2.0, 'error_se': 1.0}
    """
    metrics: dict[str, float] = {}
    for name, value in values.items():
        metrics[name] = float(value.mean())
        if len(value) > 1:
            # Exactly 0 for equal values, since their rounded mean may differ from them.
            metrics[f"{name}_se"] = float(value.std(ddof=1) / np.sqrt(len(value))) if np.ptp(value) else 0.0
    return metrics


def _of_cells(
    config: Config, scenario: Scenario, strategy: Table, outcomes: Sequence[Any], ledger: Lines
) -> tuple[dict[str, float], list[dict[str, Any]], dict[str, np.ndarray]]:
    """Return metrics (means over the cells), a row for every cell, and arrays."""
    cells = select_cells(scenario, config)
    lanes = _by_lane(ledger, depth=2)
    values = [
        _values(
            {**config, **cell.settings},
            scenario,
            member,
            [outcome[place] for outcome in outcomes],
            [lanes.get(f"{r}.{place}", ()) for r in range(len(outcomes))],
        )
        for place, (cell, member) in enumerate(zip(cells, strategy.members, strict=True))
    ]
    names = [name for name in values[0] if all(name in each for each in values)]
    stacked = {name: np.stack([each[name] for each in values]) for name in names}
    metrics = summarize({name: value.mean(axis=0) for name, value in stacked.items()})
    metrics["n_cells"] = float(len(cells))
    table = [_row(cell, summarize(each), scenario.columns) for cell, each in zip(cells, values, strict=True)]
    arrays = {f"cells_{name}": value for name, value in stacked.items()}
    arrays |= _curves(strategy, outcomes)
    return metrics, table, arrays | _arrays(strategy.members[0], outcomes[0][0])


def _curves(strategy: Table, outcomes: Sequence[Any]) -> dict[str, np.ndarray]:
    """Return curves by name, ``(cells, repetitions, t)``, with NaN after the end of shorter ones."""
    every = [[member.curves(outcome[place]) for outcome in outcomes] for place, member in enumerate(strategy.members)]
    curves = {}
    for name in dict.fromkeys(name for cell in every for each in cell for name in each):
        longest = max(len(each[name]) for cell in every for each in cell if name in each)
        stacked = np.full((len(every), len(outcomes), longest), np.nan)
        for place, cell in enumerate(every):
            for r, each in enumerate(cell):
                if name in each:
                    stacked[place, r, : len(each[name])] = each[name]
        curves[f"cells_{name}"] = stacked
    return curves


def _row(cell: Cell, metrics: Mapping[str, float], columns: Sequence[str]) -> dict[str, Any]:
    """Return the cell's labels, then each metric with its standard error and the published figure."""
    row: dict[str, Any] = dict(cell.labels)
    for name in columns or [name for name in metrics if not name.endswith("_se")]:
        row |= {each: metrics[each] for each in (name, f"{name}_se") if each in metrics}
        if name in cell.published:
            row[f"{name} published"] = cell.published[name]
    return row
