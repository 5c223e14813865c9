"""The ServerApp: what it refuses, in which words, and a run on three sites' own files."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from flwr.app import Context, RecordDict

from clients.data import DataError
from common.settings import ConfigError
from protocols.wire.faults import Fault
from scenarios.registry import Scenario, ScenarioError
from server import app as server_app
from server.app import NO_FIGURES, RefusedError, main
from server.evaluation import summarize
from server.progress import status_of
from server.report.data import ResultsError
from server.results import load
from strategies.checkpoint import CheckpointError
from strategies.errors import FusionError
from tests.support.grid import config
from tests.support.runs import complete_results, make_grid, run, run_over

SITES = ("north", "south", "west")

pytestmark = pytest.mark.usefixtures("quick")


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> pytest.LogCaptureFixture:
    """What Flower's logger says."""
    caplog.set_level(logging.INFO, logger="flwr")
    monkeypatch.setattr(logging.getLogger("flwr"), "propagate", True)
    return caplog


def nothing_left(output: Path) -> bool:
    return not [path for path in output.rglob("*") if path.is_file()] and not list(output.glob("*/.*"))


# -- configuration ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("key", "value"), [("seed", -1), ("bc3e.max-round", 5)])
def test_a_wrong_value_is_refused_before_anything_is_written(tmp_path: Path, key: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=key):
        run({**config(tmp_path), key: value}, 2)
    assert nothing_left(tmp_path)


# -- scenario and sites -----------------------------------------------------------------------------------------------


def test_an_unknown_scenario_is_answered_by_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match=r"^unknown scenario 'bc3e-beer'; did you mean .*bc3e-wine"):
        run(config(tmp_path, scenario="bc3e-beer"), 2)
    assert nothing_left(tmp_path)


def test_a_wrong_number_of_sites_is_answered_by_the_command_to_type(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fixed = Scenario("fixed", "bc3e", 4, False, "", "", lambda *_: [], lambda *_: {})
    monkeypatch.setattr("server.preflight.find", lambda name: fixed)
    with pytest.raises(ScenarioError) as refused:
        run(config(tmp_path, scenario="fixed", seed=5), 2)
    told = str(refused.value)
    assert told.startswith("fixed has 4 sites, the federation has 2; type: flwr run . --stream ")
    assert """--run-config 'scenario="fixed"' --run-config seed=5 """ in told
    assert told.endswith("--federation-config 'num-supernodes=4 client-resources-num-cpus=1'")
    assert nothing_left(tmp_path)


def test_too_many_sites_for_the_models_is_told_by_the_sites(tmp_path: Path, log: pytest.LogCaptureFixture) -> None:
    with pytest.raises(FusionError, match=r"^round 1: 0 of 10 sites answered, .*\[scenario-unavailable\]"):
        run(config(tmp_path, bc3e__distribution="column"), 10)
    assert nothing_left(tmp_path)
    # Ten sites, and each reason once.
    assert len([record for record in log.records if record.levelno >= logging.WARNING]) == 2


@pytest.fixture
def umask() -> Iterator[None]:
    """A usual umask, for a ServerApp that sets its own."""
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.mark.usefixtures("umask")
def test_a_refusal_is_one_logged_line_and_a_failed_run(tmp_path: Path, log: pytest.LogCaptureFixture) -> None:
    settings = config(tmp_path, scenario="bc3e-beer")
    with pytest.raises(RefusedError) as refused:
        main(make_grid(settings, 2), Context(1, 0, {}, RecordDict(), settings))
    [line] = [record.getMessage() for record in log.records if record.levelno >= logging.ERROR]
    assert line == f"refused: {refused.value}"
    assert refused.value.__cause__ is None
    assert refused.value.__suppress_context__


@pytest.mark.usefixtures("umask")
def test_the_last_line_of_a_run_is_the_path_of_its_results(tmp_path: Path, log: pytest.LogCaptureFixture) -> None:
    settings = config(tmp_path, bc3e__max_rounds=1)
    main(make_grid(settings, 2), Context(1, 0, {}, RecordDict(), settings))
    [path] = complete_results(tmp_path / "results")
    assert log.records[-1].getMessage() == f"results: {path}"
    assert path == tmp_path / "results" / "bc3e-wine" / "1"


@pytest.mark.usefixtures("umask")
def test_no_other_user_reads_what_a_serverapp_writes(tmp_path: Path) -> None:
    """Results, and the checkpoint of a run that another one can go on with."""
    settings = config(tmp_path, bc3e__max_rounds=2)
    main(make_grid(settings, 2), Context(1, 0, {}, RecordDict(), settings))
    grid = make_grid(settings, 2)
    grid.stop_before = 2
    with pytest.raises(KeyboardInterrupt):
        main(grid, Context(2, 0, {}, RecordDict(), settings))
    written = list((tmp_path / "results").rglob("*"))
    assert {"report.json", "checkpoint"} <= {path.name for path in written}
    assert not [path for path in written if path.stat().st_mode & 0o077]


def test_a_figure_that_cannot_be_drawn_costs_no_results(
    tmp_path: Path, log: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_app, "figures", lambda report, arrays: [report.no_such_thing])
    settings = config(tmp_path, bc3e__max_rounds=1)
    path = server_app.run(make_grid(settings, 2), Context(1, 0, {}, RecordDict(), settings))
    report, arrays = load(path)
    assert NO_FIGURES in report.notes
    assert NO_FIGURES in (path / "report.html").read_text()
    assert "alpha" in arrays
    assert "no_such_thing" in log.text


# -- resuming ---------------------------------------------------------------------------------------------------------


def interrupted(settings: dict[str, Any], nodes: int = 2) -> str:
    grid = make_grid(settings, nodes)
    grid.stop_before = 3
    with pytest.raises(KeyboardInterrupt):
        run_over(grid, settings)
    run_id = next(iter(grid.contexts.values())).run_id
    return str(Path(settings["output-dir"]) / "bc3e-wine" / str(run_id))


def test_another_run_cannot_be_resumed(tmp_path: Path, log: pytest.LogCaptureFixture) -> None:
    settings = config(tmp_path, bc3e__max_rounds=3)
    path = interrupted(settings)
    assert f'to go on: resume-from="{path}"' in log.text
    with pytest.raises(CheckpointError, match=r"^the interrupted run was another one: seed was 0, is 1$"):
        run({**settings, "seed": 1, "resume-from": path}, 2)
    with pytest.raises(CheckpointError, match="sites was 2, is 3"):
        run({**settings, "resume-from": path}, 3)
    # What does not touch the result may be another.
    report = load(run({**settings, "round-timeout": 7.0, "min-sites": 2, "resume-from": path}, 2))[0]
    assert report.rounds == 5


def test_a_refused_resumption_leaves_nothing_behind(tmp_path: Path) -> None:
    settings = config(tmp_path, bc3e__max_rounds=3)
    path = Path(interrupted(settings))
    before = sorted(path.parent.rglob("*"))
    with pytest.raises(CheckpointError):
        run({**settings, "seed": 1, "resume-from": str(path)}, 2)
    assert sorted(path.parent.rglob("*")) == before


def test_there_is_nothing_to_resume(tmp_path: Path) -> None:
    with pytest.raises(ResultsError, match="there is no interrupted run of"):
        run(config(tmp_path, resume_from=str(tmp_path / "results" / "bc3e-wine" / "77")), 2)
    assert nothing_left(tmp_path)


# -- a site's own data ------------------------------------------------------------------------------------------------


def rows_of(name: str, n: int = 30) -> pd.DataFrame:
    """Three noisy classifiers and a clustering that follows the classes."""
    rng = np.random.default_rng(SITES.index(name))
    truth = rng.integers(0, 3, n)
    columns: dict[str, Any] = {"patient": [f"{name}-{row}" for row in range(n)]}
    for letter in "abc":
        columns[f"class_{letter}"] = np.where(rng.random(n) < 0.3, rng.integers(0, 3, n), truth)
    return pd.DataFrame({**columns, "cluster_x": 2 - truth, "diagnosis": truth})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "files"
    folder.mkdir()
    for name in SITES:
        rows_of(name).to_csv(folder / f"{name}.csv", index=False)
    return folder


def own(tmp_path: Path, folder: Path, **changes: Any) -> dict[str, Any]:
    settings = {"protocol": "bc3e", "data": str(folder), "id": "patient", "truth": "diagnosis", **changes}
    return config(tmp_path, bc3e__max_rounds=4, **settings)


def test_three_files_of_three_sites(tmp_path: Path, folder: Path) -> None:
    path = run(own(tmp_path, folder), 3)
    report, _ = load(path)
    assert path.parent.name == "bc3e-own-data"
    assert report.sites == list(SITES)
    assert report.missing == {}
    assert report.metrics["accuracy"] > report.metrics["accuracy_majority"]
    pooled = pd.concat([rows_of(name) for name in SITES])
    assert report.metrics["accuracy_class_a"] == (pooled["class_a"] == pooled["diagnosis"]).mean()
    for name in SITES:
        theta = pd.read_csv(path / "sites" / name / "theta.csv")
        assert list(theta.columns) == ["entity", "theta_0", "theta_1", "theta_2", "class"]
        assert list(theta["entity"]) == list(rows_of(name)["patient"])
    everything = (path / "ledger.jsonl").read_text() + (path / "report.json").read_text()
    assert "north-0" not in everything


def spoil(frame: pd.DataFrame, kind: str) -> pd.DataFrame:
    if kind in ("text", "infinity", "label", "name"):
        column = "patient" if kind == "name" else "class_b"
        cells: list[Any] = list(frame[column])
        cells[4] = {"text": "sesame", "infinity": "inf", "label": -3, "name": cells[2]}[kind]
        return frame.assign(**{column: cells})
    if kind == "no name":
        frame.loc[4, "patient"] = None
        return frame
    return frame.head({"no rows": 0, "one row": 1}[kind])


@pytest.mark.parametrize(
    ("kind", "fault", "told"),
    [
        ("text", Fault.NOT_NUMERIC, "{file}, line 6, column 'class_b': 'sesame' is text where a number belongs"),
        ("infinity", Fault.NOT_FINITE, "{file}, line 6, column 'class_b': is infinite"),
        ("label", Fault.LABEL_OUT_OF_RANGE, "{file}, line 6, column 'class_b': -3 is not a label"),
        ("name", Fault.DUPLICATE_ENTITY, "{file}, line 6, column 'patient': "),
        ("no name", Fault.MISSING_VALUE, "{file}, line 6, column 'patient': is empty"),
        ("no rows", Fault.TOO_FEW_ROWS, "{file}: has no rows"),
        ("one row", Fault.TOO_FEW_ROWS, "{file}: has one row"),
    ],
)
def test_a_bad_file_is_told_at_the_site_and_the_others_go_on(
    tmp_path: Path, folder: Path, log: pytest.LogCaptureFixture, kind: str, fault: Fault, told: str
) -> None:
    file = folder / "south.csv"
    spoil(rows_of("south"), kind).to_csv(file, index=False)
    path = run(own(tmp_path, folder), 3)
    report, _ = load(path)
    # The site's own log has it all in one line; what is told outside is the code and its fixed message.
    lines = [record.getMessage() for record in log.records if record.levelno >= logging.ERROR]
    assert sum(line.startswith(told.format(file=file)) for line in lines) == 1
    assert report.missing == {"south": [f"round 1: {fault.message} [{fault.slug}]"]}
    assert report.sites == ["north", "west"]
    assert not (path / "sites" / "south" / "theta.csv").exists()
    for written in path.rglob("*"):
        if written.is_file() and "south" not in written.parts:
            assert b"sesame" not in written.read_bytes()
    others = tmp_path / "others"
    others.mkdir()
    for name in ("north", "west"):
        rows_of(name).to_csv(others / f"{name}.csv", index=False)
    assert load(run(own(tmp_path, others), 2))[0].metrics == report.metrics


def test_a_bad_file_stops_a_run_that_needs_all_sites(tmp_path: Path, folder: Path) -> None:
    rows_of("south").head(1).to_csv(folder / "south.csv", index=False)
    with pytest.raises(FusionError, match=r"^round 1: 2 of 3 sites answered, min-sites is 3 \(south: .*too-few-rows"):
        run(own(tmp_path, folder, min_sites=3), 3)
    assert not [path for path in (tmp_path / "results").rglob("*") if path.is_file()]


def test_a_simulation_on_a_file_that_is_no_table_or_lacks_a_column_does_not_start(tmp_path: Path, folder: Path) -> None:
    rows_of("south").drop(columns="diagnosis").to_csv(folder / "south.csv", index=False)
    with pytest.raises(DataError, match=r"south\.csv: there is no column 'diagnosis'; it has 'patient', "):
        run(own(tmp_path, folder), 3)
    (folder / "south.csv").unlink()
    (folder / "south.parquet").write_bytes(b"PAR1 no table PAR1")
    with pytest.raises(DataError, match=r"south\.parquet: is not a proper Parquet file"):
        run(own(tmp_path, folder), 3)
    assert nothing_left(tmp_path / "results")


@pytest.mark.parametrize("nodes", [2, 4])
def test_files_and_nodes_must_be_as_many(tmp_path: Path, folder: Path, nodes: int) -> None:
    with pytest.raises(ScenarioError) as refused:
        run(own(tmp_path, folder), nodes)
    told = str(refused.value)
    assert told.startswith(f"{folder} has 3 sites, the federation has {nodes}; type: flwr run . --stream ")
    assert """--run-config 'protocol="bc3e"'""" in told
    assert told.endswith("--federation-config 'num-supernodes=3 client-resources-num-cpus=1'")
    assert nothing_left(tmp_path / "results")


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"there is no such folder; it must hold one file a site$"):
        run(own(tmp_path, tmp_path / "nowhere"), 3)
    assert nothing_left(tmp_path)


def test_parties_of_a_deployment_name_their_own_files(tmp_path: Path, folder: Path) -> None:
    """The same files, each in its node's configuration, give the same numbers; output goes to its own folder.

    A real site rounds how many decisions are right, and by default withholds labels of rare combinations.
    """
    simulation = load(run(own(tmp_path, folder), 3))[0]
    nodes = [
        {
            **{key: str(own(tmp_path, folder)[key]) for key in ("id", "truth")},
            **{"site": name, "data": str(folder / f"{name}.csv"), "site-output-dir": str(tmp_path / "out" / name)},
            "min-combination": 1,
        }
        for name in SITES
    ]
    path = run(own(tmp_path, folder, data=""), nodes)
    metrics = load(path)[0].metrics
    assert metrics.keys() == simulation.metrics.keys()
    exact = {name for name in metrics if not name.startswith("accuracy")}
    assert {name: metrics[name] for name in exact} == {name: simulation.metrics[name] for name in exact}
    assert metrics["accuracy"] == pytest.approx(simulation.metrics["accuracy"], abs=0.05)
    assert not (path / "sites").exists()
    assert all((tmp_path / "out" / name / "theta.csv").exists() for name in SITES)


def test_the_run_cannot_say_which_columns_of_a_party_are_used(tmp_path: Path, folder: Path) -> None:
    """Else whoever starts runs could have any column's table with the classes, by naming it among the clusterings."""
    for name in SITES:
        path = folder / f"{name}.csv"
        frame = pd.read_csv(path)
        frame.assign(secret=np.arange(len(frame)) % 3).to_csv(path, index=False)
    nodes = [{"site": name, "data": str(folder / f"{name}.csv")} for name in SITES]
    plain = load(run(own(tmp_path, folder, data="", id="", truth=""), nodes))[1]
    asked = load(run(own(tmp_path, folder, data="", clusters="cluster_*,secret", id="", truth=""), nodes))[1]
    assert asked.keys() == plain.keys()


def test_a_classifier_with_a_name_of_the_report_is_refused(tmp_path: Path, folder: Path) -> None:
    frame = rows_of("south").rename(columns={"class_a": "vote"})
    frame.to_csv(folder / "south.csv", index=False)
    report = load(run(own(tmp_path, folder, classes="class_*,vote*"), 3))[0]
    assert report.missing == {"south": [f"round 1: {Fault.BAD_CONFIGURATION.message} [bad-configuration]"]}


def test_the_run_cannot_say_which_file_a_party_of_a_deployment_opens(tmp_path: Path, folder: Path) -> None:
    nodes = [{"site": name} for name in SITES]
    with pytest.raises(FusionError, match=r"\(north, south, west: .*\[no-data\]\)$"):
        run(own(tmp_path, folder), nodes)


# -- several repetitions in one report --------------------------------------------------------------------------------


def test_one_repetition_is_its_own_summary() -> None:
    assert summarize({"accuracy": np.array([0.5]), "bound": np.array([-3.0])}) == {"accuracy": 0.5, "bound": -3.0}


def test_a_summary_gives_means_and_standard_errors() -> None:
    metrics = summarize({"accuracy": np.array([0.5, 0.7, 0.9])})
    assert metrics == pytest.approx({"accuracy": 0.7, "accuracy_se": 0.2 / np.sqrt(3)})


# -- the rounds of a run ----------------------------------------------------------------------------------------------


def test_the_rounds_of_a_resumed_run_are_in_the_results_and_in_its_callbacks(tmp_path: Path) -> None:
    settings = config(tmp_path, bc3e__max_rounds=3)
    path = interrupted(settings)
    stopped = status_of(path)
    assert stopped.state == "interrupted"
    assert [row["round"] for row in stopped.rounds] == [1, 2]
    rows: list[Mapping[str, Any]] = []
    settings = {**settings, "resume-from": str(path)}
    grid = make_grid(settings, 2)
    resumed = server_app.run(grid, Context(grid.run.run_id, 0, {}, RecordDict(), settings), [rows.append])
    finished = status_of(resumed)
    assert finished.state == "finished"
    assert [row["round"] for row in rows] == [1, 2, 3, 4, 5]
    assert list(finished.rounds) == rows
