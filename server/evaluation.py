"""From the outcomes of a run's repetitions to the numbers and the table of its report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Float64

from scenarios.registry import Cell, Config, Scenario, select_cells
from strategies.cells import Table
from strategies.fusion import FusionStrategy

Values = dict[str, Float64[np.ndarray, "repetitions"]]
Lines = Sequence[Mapping[str, Any]]
"""Lines of the ledger."""


@dataclass(frozen=True)
class Evaluation:
    """What a run's outcomes say.

    Attributes
    ----------
    metrics : dict
        Means over the repetitions, of a table also over its cells; with two repetitions or more, standard errors as
        ``x_se``.
    table : list of dict
        Rows of the result table.
    arrays : dict
        Of the first repetition (and first cell) by documented name; ``repetitions_x`` has every repetition's value of
        metric x, ``cells_x`` the values of every cell and repetition.
    excluded : dict
        By site, why it was left out although it answered.
    notes : list of str
        What a reader should know before using the (first repetition's) result.
    files : dict
        Of the first repetition (and first cell), what stands beside the report: by name, its content.
    """

    metrics: dict[str, float]
    table: list[dict[str, Any]] = field(default_factory=list)
    arrays: dict[str, np.ndarray] = field(default_factory=dict)
    excluded: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    files: dict[str, bytes] = field(default_factory=dict)


def evaluate(
    config: Config, scenario: Scenario | None, strategy: FusionStrategy, outcomes: Sequence[Any], ledger: Lines = ()
) -> Evaluation:
    """Metrics, table and arrays of a run.

    Parameters
    ----------
    config : Config
        Of the run.
    scenario : Scenario or None
        None: the parties' own data.
    strategy : FusionStrategy
        As it was run.
    outcomes : Sequence
        One a repetition.
    ledger : Sequence of Mapping
        What crossed the wire, for strategies that count it.
    """
    excluded: dict[str, str] = {}
    for outcome in outcomes:
        excluded = {**strategy.excluded(outcome), **excluded}
    if scenario is not None and isinstance(strategy, Table):
        metrics, table, arrays = _of_cells(config, scenario, strategy, outcomes, ledger)
        files = strategy.members[0].files(outcomes[0][0])
        return Evaluation(metrics, table, arrays, excluded, files=files)
    lines = _by_lane(ledger, depth=1)
    crossed = [lines.get(str(r), ()) for r in range(len(outcomes))]
    values = _values(config, scenario, strategy, outcomes, crossed)
    metrics = summarise(values)
    arrays = {f"repetitions_{name}": value for name, value in values.items()} if len(outcomes) > 1 else {}
    arrays |= strategy.arrays(outcomes[0]) | strategy.diagnostics(outcomes[0])
    first = outcomes[0]
    return Evaluation(
        metrics, strategy.table(metrics, first), arrays, excluded, strategy.notes(first), strategy.files(first)
    )


def _by_lane(ledger: Lines, depth: int) -> dict[str, Lines]:
    """The ledger's lines by the first `depth` numbers of their lane: an inner lane's belong to the outer one."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for line in ledger:
        found.setdefault(".".join(line["lane"].split(".")[:depth]), []).append(line)
    return dict(found)


def _values(
    config: Config,
    scenario: Scenario | None,
    strategy: FusionStrategy,
    outcomes: Sequence[Any],
    crossed: Sequence[Lines],
) -> Values:
    """Every repetition's metrics and costs, what a user would do instead, and what follows from them.

    What some repetition lacks is left out. `crossed` are the ledger's lines of each repetition.
    """
    every = [
        {
            **strategy.metrics(outcome),
            **strategy.costs(lines),
            **(scenario.baselines(config, strategy.seed + r) if scenario else {}),
        }
        for r, (outcome, lines) in enumerate(zip(outcomes, crossed, strict=True))
    ]
    if scenario is not None and scenario.derived_metrics is not None:
        every = [{**each, **scenario.derived_metrics(each)} for each in every]
    names = [name for name in every[0] if all(name in each for each in every)]
    return {name: np.array([each[name] for each in every], float) for name in names}


def summarise(values: Values) -> dict[str, float]:
    """Means over the repetitions; from two on also standard errors (``x_se``)."""
    metrics: dict[str, float] = {}
    for name, value in values.items():
        metrics[name] = float(value.mean())
        if len(value) > 1:
            # Of equal values exactly 0: their mean is rounded, and would seem to differ from them.
            metrics[f"{name}_se"] = float(value.std(ddof=1) / np.sqrt(len(value))) if np.ptp(value) else 0.0
    return metrics


def _of_cells(
    config: Config, scenario: Scenario, strategy: Table, outcomes: Sequence[Any], ledger: Lines
) -> tuple[dict[str, float], list[dict[str, Any]], dict[str, np.ndarray]]:
    """A row for every cell; the metrics are means over the cells."""
    cells = select_cells(scenario, config)
    lines = _by_lane(ledger, depth=2)
    values = [
        _values(
            {**config, **cell.settings},
            scenario,
            member,
            [outcome[place] for outcome in outcomes],
            [lines.get(f"{r}.{place}", ()) for r in range(len(outcomes))],
        )
        for place, (cell, member) in enumerate(zip(cells, strategy.members, strict=True))
    ]
    names = [name for name in values[0] if all(name in each for each in values)]
    stacked = {name: np.stack([each[name] for each in values]) for name in names}
    metrics = summarise({name: value.mean(axis=0) for name, value in stacked.items()})
    metrics["n_cells"] = float(len(cells))
    table = [_row(cell, summarise(each), scenario.columns) for cell, each in zip(cells, values, strict=True)]
    arrays = {f"cells_{name}": value for name, value in stacked.items()}
    arrays |= _curves(strategy, outcomes)
    member, first = strategy.members[0], outcomes[0][0]
    return metrics, table, arrays | member.arrays(first) | member.diagnostics(first)


def _curves(strategy: Table, outcomes: Sequence[Any]) -> dict[str, np.ndarray]:
    """Curves of every cell and repetition by name, ``(cells, repetitions, t)``; NaN behind the end of a shorter one."""
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


def _row(cell: Cell, metrics: Mapping[str, float], shown: Sequence[str]) -> dict[str, Any]:
    """What sets the cell apart, then each metric with its standard error and the paper's figure."""
    row: dict[str, Any] = dict(cell.labels)
    for name in shown or [name for name in metrics if not name.endswith("_se")]:
        row |= {each: metrics[each] for each in (name, f"{name}_se") if each in metrics}
        if name in cell.published:
            row[f"{name} published"] = cell.published[name]
    return row
