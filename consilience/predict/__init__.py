"""What the fusion center holds of a finished run, used on new rows: ``consilience predict`` (docs/predict.md)."""

from __future__ import annotations

import csv
import io
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Shaped

from clients.data import DataError, Table, read_table, setting, split_patterns
from common.results import PREDICT
from common.settings import to_toml
from protocols.prediction import Prediction, prediction_of

GIVEN = ("id", "sensitive", "target")
"""Keys that may be said anew: between real sites each had its own, which the fusion center does not know."""

RULES = ("fair", "nearest", "points")
"""How rows go to clusters of `coreset`."""


class UseError(ValueError):
    """Results, or a wish, that new rows cannot be predicted by; the message says what to type instead."""


@dataclass(frozen=True)
class Wish:
    """What the user wants to know.

    Attributes
    ----------
    cluster : int or None
        `sec`: what this cluster predicts; None: what all do.
    learner : str
        `sec`: what the cluster of this learner predicts; empty: what all do.
    rule : str
        `coreset`: one of `RULES`; empty: ``fair`` where the rows have colours, else ``nearest``.
    """

    cluster: int | None = None
    learner: str = ""
    rule: str = ""


@dataclass(frozen=True)
class Used:
    """Predictions of new rows.

    Attributes
    ----------
    columns : Mapping[str, ndarray]
        By name, in the order of the file's columns.
    lines : list of str
        What to tell the user beside.
    """

    columns: Mapping[str, Shaped[np.ndarray, "n"]]
    lines: list[str] = field(default_factory=list)

    def csv(self) -> str:
        """A line for every row; every number is read back exactly."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(self.columns)
        writer.writerows(zip(*(values.tolist() for values in self.columns.values()), strict=True))
        return text.getvalue()


def use(folder: Path, file: str, given: Mapping[str, Any], wish: Wish) -> Used:
    """Predict the rows of a file by what a run has learnt.

    Parameters
    ----------
    folder : Path
        Results directory of a run of `sec` or `coreset`.
    file : str
        CSV, Parquet or NPZ file with the columns that the run has learnt from, in any order; others are not looked at.
    given : Mapping
        Values of `GIVEN` that are not those of the run.
    wish : Wish
        What the user wants to know.

    Raises
    ------
    UseError
        If these results are of another protocol, of a scenario's table with many rows, or do not have what is wished.
    DataError
        If the file cannot be read, lacks a column, or has a cell that cannot be used; with the first such row.
    ResultsError
        If the folder is no results directory, or its arrays were changed.
    """
    from server.report.saved_arrays import check_saved
    from server.results import load

    report, arrays = load(folder)
    prediction = prediction_of(report.protocol)
    if prediction is None or not prediction.at_center:
        raise UseError(_for_the_sites(folder, report.protocol, report.config, prediction))
    if report.protocol == "sec" and wish.rule:
        raise UseError(f"--rule is for results of coreset; {folder} are of sec")
    if report.protocol == "coreset" and (wish.cluster is not None or wish.learner):
        raise UseError(f"--cluster and --learner are for results of sec; {folder} are of coreset")
    config = {**_as_run(folder, report.scenario, report.config, report.metrics), **given}
    check_saved(folder, report.protocol, arrays)
    table = read_table(file, own=False, text=split_patterns(setting(config, "sensitive")))
    if not table.n:
        raise DataError(f"{file}: has no rows to predict", "too-few-rows")
    if report.protocol == "sec":
        from consilience.predict import sec

        found = sec.predicted(folder, config, arrays, table, wish)
    else:
        from consilience.predict import coreset

        found = coreset.assigned(config, arrays, table, wish.rule)
    return Used({"entity": _entities(table, config, given), **found.columns}, found.lines)


def _as_run(folder: Path, scenario: str, config: Mapping[str, Any], metrics: Mapping[str, float]) -> dict[str, Any]:
    """The settings by which the arrays were made; of a scenario's table with one row, that row's."""
    n_cells = int(metrics.get("n_cells", 0))
    if n_cells > 1:
        raise UseError(
            f"{folder} is a scenario's table of {n_cells} results; run the row that is wanted alone (cells=...), and"
            " predict by that"
        )
    if not n_cells:
        return dict(config)
    from scenarios.registry import ScenarioError, find, select_cells

    try:
        [cell] = select_cells(find(scenario), config)
    except (ScenarioError, ValueError) as error:
        raise UseError(f"{folder}: the row of {scenario} that was run is not there in this version: {error}") from error
    return {**config, **cell.settings}


def _entities(table: Table, config: Mapping[str, Any], given: Mapping[str, Any]) -> Shaped[np.ndarray, "n"]:
    """The rows' names, of the column that `id` names; else their numbers, from 0."""
    name = setting(config, "id")
    if not name or (name not in table.columns and "id" not in given):
        return np.arange(table.n)
    return table.column(name)


def _for_the_sites(folder: Path, protocol: str, config: Mapping[str, Any], prediction: Prediction | None) -> str:
    """What to type where the sites must answer."""
    if config.get("from"):
        return f"{folder} are predictions themselves; name the run that has learnt: {config['from']}"
    if prediction is None:
        return f"{folder}: results of {protocol} are nothing to predict by"
    path = folder.expanduser().absolute()
    new = "FOLDER" if prediction.new_rows else "POINTS.csv"
    settings = {"scenario": PREDICT, "from": str(path), **({} if prediction.new_rows else {"data": new})}
    real = f"flwr run . FEDERATION --stream --run-config {shlex.quote(to_toml(settings))}"
    files = ", each of whose nodes has the file of its new rows" if prediction.new_rows else ""
    return "\n".join(
        [
            f"{protocol} predicts by its sites, {prediction.where}: they must answer. Type in a simulation",
            f"  {shlex.join(['consilience', 'run', PREDICT, '--set', f'from={path}', '--data', new])}",
            f"or between real sites{files}",
            f"  {real}",
        ]
    )
