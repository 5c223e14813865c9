"""Predict the rows of a file with the results of a run."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Shaped

from clients.data import DataError, Table, cell_name, numeric, read_table, split_patterns
from clients.data import setting as text_setting
from clients.data.preparation import prepare_new_rows
from common.results import PREDICT
from common.settings import Settings, setting, to_toml
from common.value_ranges import Value
from consilience.assignments import parse
from consilience.predict.interface import LearnedRun, Predictions, RequestError
from protocols import registry
from protocols.prediction import Prediction, prediction_of
from protocols.settings import run_keys

COLUMN_KEYS = ("id", "sensitive", "target", "missing", "indicators", "categories", "ordinal")
"""Keys that may be set anew, because the fusion center does not know those of real sites."""


@dataclass(frozen=True)
class Options(Settings):
    """Options of predictions of all protocols."""

    medians: str = setting(
        "",
        "medians.csv of the site whose rows these are, or a simulated site's name: fills empty cells",
    )


class SitesPredictError(RequestError):
    """Error: the prediction needs the sites' answers. The message says what to type."""


def predict_file(folder: Path, file: str, assignments: Iterable[str] = ()) -> Predictions:
    """Predict the rows of a CSV, Parquet or NPZ file; else as `predict_rows`."""
    return predict_rows(folder, lambda text: read_table(file, own=False, text=text), assignments)


def predict_rows(folder: Path, read: Callable[[Sequence[str]], Table], assignments: Iterable[str] = ()) -> Predictions:
    """Predict rows with the result of a run.

    Parameters
    ----------
    folder : Path
        Results directory of a run whose fusion center holds the result.
    read : Callable
        Reads the rows as a table, given the names of columns of text. The table has the run's input columns in any
        order; other columns are ignored.
    assignments : iterable of str
        ``KEY=VALUE``: one of `COLUMN_KEYS` that differs from the run's, or an option of the protocol.

    Raises
    ------
    RequestError
        If the sites must answer, or the results are a scenario's table with several rows or lack what an option needs.
    SettingError
        If an assignment cannot be used.
    DataError
        If the rows cannot be read, lack a column, or have a cell that cannot be used; the first such row is named.
    ResultsError
        If the folder is no results directory, or its arrays were changed.
    """
    from server.report.saved_arrays import check_saved
    from server.results import load

    report, arrays = load(folder)
    prediction = prediction_of(report.protocol)
    if prediction is None or not prediction.at_center:
        raise SitesPredictError(_not_at_center(folder, report.protocol, report.config, prediction))
    module = registry.room(report.protocol, "predict")
    options: type[Settings] = getattr(module, "Options", Settings)
    keys = run_keys()
    settings = parse(assignments, {**{key: keys[key] for key in COLUMN_KEYS}, **Options.keys(), **options.keys()})
    columns = {key: value for key, value in settings.items() if key in COLUMN_KEYS}
    config = {**_learned_config(folder, report.scenario, report.config, report.metrics), **columns}
    check_saved(folder, report.protocol, arrays)
    table = read(split_patterns(text_setting(config, "sensitive")))
    if not table.n:
        raise DataError(f"{table.source}: has no rows to predict", "too-few-rows")
    chosen = options.of(settings)
    medians = str(settings.get("medians", "")) or _own_medians(folder, getattr(chosen, "learner", ""))
    table = prepare_new_rows(table, config, _medians(folder, medians))
    if text_setting(config, "missing") == "impute":
        _refuse_empty(table, arrays.get("features", np.zeros(0, str)))
    predictions: Predictions = module.predict(LearnedRun(folder, config, arrays), table, chosen)
    return Predictions({"entity": _entities(table, config, columns), **predictions.columns}, predictions.lines)


def _own_medians(folder: Path, learner: str) -> str:
    """Return the name of the simulated site for which rows are predicted, if it has medians; else nothing."""
    return learner if learner and (folder.expanduser() / "sites" / learner / "medians.csv").is_file() else ""


def _medians(folder: Path, file: str) -> dict[str, float]:
    """Return the medians in a site's file, or those of a simulated site of this name; None without a file."""
    if not file:
        return {}
    simulated = folder.expanduser() / "sites" / file / "medians.csv"
    table = read_table(str(simulated) if simulated.is_file() else file, own=False, text=["column"])
    medians = numeric(table, "median", allow_missing=False).tolist()
    return dict(zip(table.column("column").tolist(), medians, strict=True))


def _refuse_empty(table: Table, features: Shaped[np.ndarray, "d"]) -> None:
    """Refuse an empty cell that no median has filled; medians of the new rows would be different ones."""
    for name in features.tolist():
        cells = table.columns.get(name)
        if cells is None or cells.dtype.kind != "f":
            continue
        for row in np.flatnonzero(np.isnan(cells))[:1]:
            raise DataError(
                f"{cell_name(table, name, int(row))}: is empty; medians stay at the sites: set medians to the"
                " site whose rows these are (simulated: its name; else its file SITE/medians.csv)",
                "missing-value",
            )


def _learned_config(
    folder: Path, scenario: str, config: Mapping[str, Any], metrics: Mapping[str, float]
) -> dict[str, Any]:
    """Return the settings of the run; of a scenario's table with one row, those of the row."""
    n_cells = int(metrics.get("n_cells", 0))
    if n_cells > 1:
        raise RequestError(
            f"{folder} is a scenario's table of {n_cells} results; run one row alone (cells=...), and predict by that"
        )
    if not n_cells:
        return dict(config)
    from scenarios.registry import ScenarioError, find, select_cells

    try:
        [cell] = select_cells(find(scenario), config)
    except (ScenarioError, ValueError) as error:
        raise RequestError(
            f"{folder}: this version does not have the row of {scenario} that was run: {error}"
        ) from error
    return {**config, **cell.settings}


def _entities(table: Table, config: Mapping[str, Any], columns: Mapping[str, Value]) -> Shaped[np.ndarray, "n"]:
    """Return the rows' names from the column `id`, or else their numbers from 0."""
    name = text_setting(config, "id")
    if not name or (name not in table.columns and "id" not in columns):
        return np.arange(table.n)
    return table.column(name)


def _not_at_center(folder: Path, protocol: str, config: Mapping[str, Any], prediction: Prediction | None) -> str:
    """Return the command to type if the fusion center alone cannot predict."""
    if config.get("from"):
        return f"{folder} are predictions themselves; name the run that has learned: {config['from']}"
    if prediction is None:
        return f"{folder}: results of {protocol} predict nothing"
    path = str(folder.expanduser().absolute())
    settings = {"scenario": PREDICT, "from": path}
    simulated = ["consilience", "run", PREDICT, "--set", f"from={path}", "--data"]
    if prediction.new_rows:
        simulated, whose = [*simulated, "FOLDER"], ", each of whose nodes has the file of its new rows"
    else:
        simulated, whose = [*simulated, "POINTS.csv"], ""
        settings["data"] = "POINTS.csv"
    real = f"flwr run . FEDERATION --stream --run-config {shlex.quote(to_toml(settings))}"
    return "\n".join(
        [
            f"{protocol} predicts by its sites: they must answer. Type in a simulation",
            f"  {shlex.join(simulated)}",
            f"or between real sites{whose}",
            f"  {real}",
        ]
    )
