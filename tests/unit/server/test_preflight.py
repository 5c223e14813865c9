"""What is known before a run starts: every message, and that it comes before anything has been written or asked."""

from __future__ import annotations

import json
import logging
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from common.settings import ConfigError
from protocols.settings import declared, run_keys
from scenarios.data_set import DATA_VARIABLE
from scenarios.datasets import DATA_SETS
from server.preflight import REFUSALS, preflight
from tests.support.documentation import ROOT

N = 12


def frame(**changes: Any) -> pd.DataFrame:
    columns: dict[str, Any] = {
        "patient": [f"p{row}" for row in range(N)],
        "class_a": [row % 2 for row in range(N)],
        "cluster_x": [row % 3 for row in range(N)],
        "sex": ["F", "M"] * (N // 2),
        "age": [row / 7 for row in range(N)],
        "iron": [row * row / 3 for row in range(N)],
        "level": [float(row) for row in range(N)],
    }
    return pd.DataFrame({name: cells for name, cells in {**columns, **changes}.items() if cells is not None})


def written(folder: Path, **frames: pd.DataFrame) -> str:
    folder.mkdir()
    for name, rows in frames.items():
        rows.to_csv(folder / f"{name}.csv", index=False)
    return str(folder)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimpleNamespace]:
    """Folders of good and bad sites, a file, an interrupted run and a finished one, in the working directory."""
    tmp_path = tmp_path_factory.mktemp("world")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(DATA_VARIABLE, str(tmp_path / "no data"))
        patch.setenv("SCIKIT_LEARN_DATA", str(tmp_path / "no downloads"))
        patch.setattr("urllib.request.urlopen", unreachable)
        patch.chdir(tmp_path)
        yield made(tmp_path)


def made(tmp_path: Path) -> SimpleNamespace:
    Path("file").write_text("no folder")
    empty, finished, predictions = Path("empty"), Path("results/sec-own-data/7"), Path("results/predict/8")
    for folder in (empty, finished, predictions):
        folder.mkdir(parents=True)
    report = {"protocol": "sec", "config": {}, "sites": ["a", "b"]}
    (finished / "report.json").write_text(json.dumps(report))
    (predictions / "report.json").write_text(json.dumps({**report, "protocol": "gp", "config": {"from": "x"}}))
    Path("results/bc3e-wine/.5.partial").mkdir(parents=True)
    low, plain = frame(iron=["low"] * N), frame()
    other_patients = frame(level=None, patient=[f"q{row}" for row in range(N)])
    sites: dict[str, dict[str, pd.DataFrame]] = {
        "good": {"north": plain, "south": plain, "west": plain},
        "no_iron": {"north": plain, "south": frame(iron=None, iorn=plain["iron"]), "west": plain},
        "no_level": {"north": plain, "south": frame(level=None), "west": frame(level=None)},
        "halves": {"north": plain, "south": frame(level=None, iron=None), "west": frame(level=None)},
        "longer": {"north": plain, "south": frame(level=None)[:-2]},
        "others": {"north": plain, "south": other_patients},
        "few": {"north": plain, "south": plain, "_test": frame(iron=None)},
        "text": {"north": plain, "south": plain, "west": low},
        "texts": {"north": low, "south": low, "west": plain},
        "equal": {"north": frame(iron=[1.5] * N), "south": frame(iron=[1.5] * N)},
        "cells": {"north": frame(iron=["", *range(1, N)]), "south": plain, "west": frame(iron=[1e99] * N)},
        "no_test": {"north": plain, "south": plain, "_test": frame(level=None)},
    }
    return SimpleNamespace(**{name: written(tmp_path / name, **frames) for name, frames in sites.items()})


def unreachable(*_args: object, **_options: object) -> None:
    raise OSError("no network")


MESSAGES = """
a protocol that does not exist: protocol=bce3 data={good}
    there is no protocol 'bce3'; did you mean bc3e?
a scenario that does not exist: scenario=bc3e-whine
    unknown scenario 'bc3e-whine'; did you mean bc3e-wine?
a key that does not exist: bc3e.maxrounds=3
    unknown key 'bc3e.maxrounds'; did you mean bc3e.max-rounds?
a key without its protocol: landmark=3
    unknown key 'landmark'; did you mean gp.landmarks or sec.landmarks
a value of another type: seed=three
    seed must be a whole number, got 'three'
a value out of range: seed=-1
    seed must be 0 or greater, got -1
a key of another protocol: scenario=bc3e-wine gp.experts=3
    gp.experts is a key of gp, and this is a run of bc3e; leave it out
a key that both protocols have: scenario=gp-synthetic coreset.rows=100
    coreset.rows is a key of coreset, and this is a run of gp; did you mean gp.rows?
masks where no sum suffices: scenario=sec-simulation1 secure-aggregation=true
    secure-aggregation=true is for
rows of a table, of own data: protocol=bc3e data={good} cells=p=5
    cells are rows of a scenario's
rows that the table has not: scenario=residual-theorem2 cells=rho=7
    cells='rho=7': no row of residual-theorem2 has
a key that the table sets: scenario=residual-theorem2 residual.correlation=0.5
    residual.correlation is set by the rows of residual-theorem2; choose among them
scenario and protocol: scenario=bc3e-wine protocol=bc3e data={good}
    a run has a scenario, or a protocol and data, not both: leave one of them out
a protocol without data: protocol=bc3e
    protocol without data: set data to a folder with one file for every site
data without a protocol: data={good}
    data without protocol: set protocol to bc3e, coreset, gp, residual or sec
another number of sites than the scenario has: scenario=sec-grid n_sites=3
    sec-grid has 50 sites, no more and no less, not 3
more sites wanted than there are: protocol=bc3e data={good} min-sites=4
    min-sites is 4, and there are 3 sites: they would not suffice
another number of sites than there are files: protocol=bc3e data={good} n_sites=2
    holds the data of 3 sites, not 2
the file of a scenario is not there: scenario=sec-grid
    no file of the Electrical Grid Stability data was found, and they cannot be fetched from OpenML (OSError: no
    network): set the run configuration's data to {grid}
the file of a scenario is not where `data` says: scenario=coreset-bank data=file-that-is-not-there
    data='file-that-is-not-there' is neither a CSV file nor a directory that holds bank.csv[.gz]
the folder is not there: protocol=gp data=nowhere target=level
    nowhere: there is no such folder
the folder holds no file of a site: protocol=gp data=empty target=level
    empty: holds no file of a site
`target` is not set: protocol=gp data={good}
    configuration: target is not set; name the outcome's column
no file has the target: protocol=sec data={good} target=levle
    north.csv, south.csv, west.csv: there is no column 'levle'; did you mean 'level'?
some files lack the target: protocol=gp data={no_level} target=level
    south.csv, west.csv: there is no column 'level'; it has 'patient', 'class_a', 'cluster_x', 'sex', 'age'
no site holds the outcome: protocol=residual data={good} target=levle id=patient
    configuration: no file has the column 'levle' that target names; one site must hold the outcome
`sensitive` is not set: protocol=coreset data={good}
    configuration: sensitive is not set; fair clustering
no file has the sensitive column: protocol=coreset data={good} sensitive=sxe
    north.csv, south.csv, west.csv: there is no column 'sxe'
no file has the column of `id`: protocol=residual data={good} target=level id=pateint
    north.csv, south.csv, west.csv: there is no column 'pateint'; did you mean 'patient'?
some files lack the column of `truth`: protocol=bc3e data={no_level} truth=level
    south.csv, west.csv: there is no column 'level'
no file has the labels: protocol=bc3e data={good} classes=c clusters=d
    north.csv, south.csv, west.csv: there is no column 'c'
a file lacks an input that the others have: protocol=gp data={no_iron} target=level features=
    south.csv: there is no column 'iron' (is it 'iorn'?); all need the same columns as north.csv: mend the files
an input is text in a file: protocol=coreset data={text} sensitive=sex
    west.csv: column 'iron' holds text, and numbers in the others; all need the same columns as north.csv
an input is a number in one file only: protocol=coreset data={texts} sensitive=sex
    west.csv: column 'iron' holds numbers, and text in the others; all need the same columns as north.csv
a cell cannot be used: protocol=gp data={cells} target=level
    north: line 2, column 'iron': is empty; fill it, or set missing=impute; west: line 2, column 'iron': 1e+99
a cell cannot be used, and rows are read in blocks: protocol=coreset data={cells} sensitive=sex
    north: line 2, column 'iron': is empty; fill it, or set missing=impute; west: line 2, column 'iron': 1e+99
the center's test rows lack the target: protocol=sec data={no_test} target=level
    _test.csv: there is no column 'level'; it has 'patient',
the center's file is not there: protocol=gp data={good} target=level gp.queries=points.csv
    points.csv: there is no such file
a run to join is not there: protocol=sec data={good} target=level sec.join=results/sec-own-data/99
    there is no results directory
the center's test rows lack an input: protocol=sec data={few} target=level
    the test file has no column of numbers 'iron', an input
the points to predict at lack an input: protocol=gp data={few} target=level
    the file of query points has no column of numbers 'iron', an input
all candidates hold rows: protocol=sec data={good} target=level sec.candidates=knn
    configuration: all candidate methods (knn, svr) make models that hold rows
a kernel that does not exist: protocol=gp data={good} target=level gp.kernel=matern25
    gp.kernel must be empty (not set), or auto, or names of kernels (linear,
settings that do not go together: protocol=gp data={good} target=level gp.gate-rounds=2
    gp.gate-rounds is for gp.gate=dnn: leave it out
settings of a scenario that do not go together: scenario=bc3e-wine bc3e.distribution=column secure-aggregation=true
    secure-aggregation=true needs bc3e.distribution=row
a candidate cannot predict the target: protocol=sec data={good} target=sex sec.candidates=ridge
    configuration: ridge predicts no classes; there are: rf,
no site has class labels: protocol=bc3e data={good} classes=pred_*
    configuration: no site has a column of class labels (classes='pred_*'): name them in classes, or set
several sites hold the outcome: protocol=residual data={good} target=level id=patient
    configuration: 3 sites hold the outcome 'level' (north.csv, south.csv, west.csv), and one may
no `id`, and the numbers of rows differ: protocol=residual data={longer} target=level
    configuration: entities go by row, and the numbers of rows differ (north 12, south 10): set id to the column
sites without a common entity: protocol=residual data={others} target=level id=patient
    configuration: no entity is common to all of north, south: is 'patient' the same column, written alike
groups of single rows: protocol=coreset data={good} sensitive=patient
    configuration: no group of sensitive='patient' has 5 rows at a site (coreset.min-weight), the largest 1
more clusters than points: protocol=coreset data={good} sensitive=sex coreset.k=8
    configuration: 36 rows cannot form coreset.k=8 clusters of points that stand for 5 rows each
rows that are all equal: protocol=coreset data={equal} sensitive=sex features=iron coreset.k=2
    configuration: all rows of all sites are equal in the features
the output directory is a file: scenario=bc3e-wine output-dir=file
    file is a file, not a folder; set another output-dir
the output directory would be in a file: scenario=bc3e-wine output-dir=file/results
    file is a file, not a folder; set another output-dir
nothing to resume: scenario=bc3e-wine resume-from=results/bc3e-wine/77
    there is no interrupted run of
a complete run to resume: scenario=bc3e-wine resume-from=results/sec-own-data/7
    is complete: look
an interrupted run without a round: scenario=bc3e-wine resume-from=results/bc3e-wine/5
    stopped before its first checkpoint; start it again without resume-from
`from` without `scenario=predict`: from=results/sec-own-data/7
    from is for scenario="predict"
`scenario=predict` without `from`: scenario=predict
    scenario="predict" needs from="RESULTS-DIR"
`from` names no run: scenario=predict from=empty
    from: empty holds no report.json of a run
`from` names predictions: scenario=predict from=results/predict/8
    are predictions themselves; name the run that has learned
`from` names a run of which the center predicts: scenario=predict from=results/sec-own-data/7
    is at the fusion center, and no site need answer: type consilience predict
"""
"""What is wrong, with which settings; and the beginning of the message, or a part of it."""


def cases() -> Iterator[Any]:
    for case in re.split(r"\n(?! )", MESSAGES.strip()):
        first, *message = (line.strip() for line in case.splitlines())
        what, _, settings = first.partition(": ")
        yield pytest.param(settings, " ".join(message), id=what)


def settings_of(text: str, world: SimpleNamespace) -> dict[str, Any]:
    """The settings of ``key=value key=value``, of the type that each key has; an unknown one has a number."""
    settings: dict[str, Any] = {}
    for key, _, value in (each.partition("=") for each in text.split()):
        kind = type(declared().get(key, 0))
        try:
            settings[key] = value == "true" if kind is bool else kind(value.format(**vars(world)))
        except ValueError:
            settings[key] = value
    return settings


@pytest.mark.parametrize(("settings", "message"), [*cases()])
def test_what_is_wrong_is_one_sentence(settings: str, message: str, world: SimpleNamespace) -> None:
    given = settings_of(settings, world)
    n_sites = given.pop("n_sites", None)
    before = sorted(Path.cwd().rglob("*"))
    with pytest.raises(REFUSALS) as refused:
        preflight(given, n_sites)
    told = str(refused.value)
    assert message.format(grid=DATA_SETS["grid"].file) in told
    assert "\n" not in told
    assert sorted(Path.cwd().rglob("*")) == before


@pytest.mark.parametrize(
    ("settings", "n_sites"),
    [
        ("scenario=bc3e-wine", 2),
        ("scenario=sec-simulation1", 20),
        ("protocol=bc3e data={good} id=patient truth=sex ordinal=sex=F<M", 3),
        ("protocol=gp data={good} target=level", 3),
        ("protocol=gp data={no_iron} target=level features=age", 3),
        ("protocol=residual data={no_level} target=level id=patient", 3),
        ("protocol=residual data={halves} target=level features=iron,age", 3),
        ("protocol=coreset data={good} sensitive=sex coreset.k=2", 3),
        ("protocol=coreset data={equal} sensitive=sex features=iron,age coreset.k=2", 2),
    ],
)
def test_what_is_right_is_a_plan(settings: str, n_sites: int, world: SimpleNamespace) -> None:
    plan = preflight(settings_of(settings, world))
    assert plan.n_sites == n_sites
    assert plan.config.keys() == run_keys().keys()


def test_what_is_not_used_is_said_before_the_run(world: SimpleNamespace) -> None:
    good = {"protocol": "gp", "data": world.good, "target": "level"}
    unused = "not used, since they hold no numbers: {} (categories makes numbers of texts; features names truth values)"
    assert preflight(good).notes == (unused.format("'patient', 'sex'"),)
    assert preflight({**good, "id": "patient", "categories": "sex=F|M"}).notes == ()
    nobody = preflight({**good, "id": "patient", "categories": "sex=F|M|male"})
    assert nobody.notes == ("no site has 'sex=male', which categories names: the column is 0",)
    assert nobody.prepared == nobody.notes, "the report says it, too"
    assert preflight({**good, "features": "age iron"}).notes == ()
    labels = {"protocol": "bc3e", "data": world.good, "truth": "sex", "ordinal": "sex=F<M"}
    assert preflight(labels).notes == ()


def test_whole_numbers_that_are_taken_for_classes_are_said_before_the_run(tmp_path: Path) -> None:
    stages = frame(level=[row % 4 for row in range(N)])
    data = written(tmp_path / "stages", north=stages, south=stages)
    settings = {"protocol": "sec", "data": data, "target": "level", "features": "age iron"}
    said = "the whole numbers of 'level' are taken for classes; if they are amounts, set task=regression"
    assert preflight(settings).notes == (said,)
    assert preflight({**settings, "task": "regression"}).notes == ()
    assert preflight({**settings, "target": "class_a"}).notes == ()
    assert preflight({**settings, "target": "sex"}).notes == ()


def test_classes_that_no_two_sites_share_are_a_caution_of_the_verdict(tmp_path: Path) -> None:
    words, others = frame(ill=["no", "yes"] * (N // 2)), frame(ill=["ja", "nein"] * (N // 2))
    settings = {"protocol": "sec", "target": "ill", "features": "age iron"}
    [line] = preflight({**settings, "data": written(tmp_path / "other", a=words, b=others)}).cautions
    assert line.startswith("'ill': 'no' and 'yes' at a, 'ja' and 'nein' at b, and no value at both: write them alike")
    assert not preflight({**settings, "data": written(tmp_path / "same", a=words, b=words)}).cautions


def test_rows_that_go_by_number_are_said_before_the_run(world: SimpleNamespace) -> None:
    settings = {"protocol": "residual", "data": world.no_level, "target": "level", "features": "age"}
    by_number = (
        "entities are matched by row number, which must be the same at every site: set id if a column names them"
    )
    assert preflight(settings).notes == (by_number,)
    assert preflight({**settings, "id": "patient"}).notes == ()
    assert preflight({**settings, "residual.align": "row-order"}).notes == ()


def test_text_far_below_is_no_difference(tmp_path: Path) -> None:
    """A column that begins with numbers and ends as text in one file, and is text from the start in the other."""
    long = pd.concat([frame()] * 40, ignore_index=True)
    begins = long.assign(note=[*range(len(long) - 1), "end"])
    data = written(tmp_path / "long", north=begins, south=long.assign(note="text"))
    assert preflight({"protocol": "gp", "data": data, "target": "level"}).n_sites == 2


@pytest.mark.parametrize("ending", ["parquet", "npz"])
def test_other_kinds_of_files_are_looked_at_too(tmp_path: Path, ending: str) -> None:
    def write(path: Path, rows: pd.DataFrame) -> None:
        if ending == "parquet":
            rows.to_parquet(path)
        else:
            columns = {name: rows[name].to_numpy() for name in ("age", "iron", "level") if name in rows}
            np.savez(path, **columns)  # type: ignore[arg-type]

    (tmp_path / "data").mkdir()
    settings = {"protocol": "sec", "data": str(tmp_path / "data"), "target": "level"}
    for name in ("north", "south"):
        write(tmp_path / "data" / f"{name}.{ending}", frame())
    assert preflight(settings).n_sites == 2
    write(tmp_path / "data" / f"south.{ending}", frame(iron=None))
    with pytest.raises(REFUSALS, match="there is no column 'iron'"):
        preflight(settings)


def test_many_files_with_the_same_fault_are_one_message(tmp_path: Path) -> None:
    data = written(tmp_path / "many", **{f"site-{place:02d}": frame() for place in range(50)})
    with pytest.raises(REFUSALS) as refused:
        preflight({"protocol": "gp", "data": data, "target": "lvel"})
    told = str(refused.value)
    assert told == "site-00.csv, site-01.csv, site-02.csv and 47 more: there is no column 'lvel'; did you mean 'level'?"


def test_real_sites_hold_their_data_themselves() -> None:
    assert preflight({"protocol": "bc3e"}, simulated=False).n_sites == 0
    assert preflight({"scenario": "bc3e-wine"}, simulated=False).n_sites == 0
    assert preflight({"scenario": "sec-simulation1"}, simulated=False).n_sites == 20


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="no file system that refuses root")
def test_an_output_directory_that_cannot_be_written() -> None:
    with pytest.raises(REFUSALS, match=r"output-dir: nothing can be written to /proc \(.+\); set another output-dir"):
        preflight({"scenario": "bc3e-wine", "output-dir": "/proc/results"})


def test_a_data_set_that_openml_offers_or_that_is_downloaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, world: SimpleNamespace
) -> None:
    class Answer:
        def __enter__(self) -> Answer:
            return self

        def __exit__(self, *_error: object) -> None:
            return

    with monkeypatch.context() as patch:
        patch.setattr("urllib.request.urlopen", lambda *_args, **_options: Answer())
        assert preflight({"scenario": "sec-grid"}).n_sites == 50
    monkeypatch.setenv("SCIKIT_LEARN_DATA", str(tmp_path))
    kept = tmp_path / "openml" / "openml.org" / "api" / "v1" / "json" / "data"
    kept.mkdir(parents=True)
    (kept / f"{DATA_SETS['grid'].openml}.gz").touch()
    assert preflight({"scenario": "sec-grid"}).n_sites == 50


def test_a_name_server_that_does_not_answer_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch, world: SimpleNamespace
) -> None:
    never = threading.Event()

    def wait(*_args: object, **_options: object) -> None:
        never.wait(60)
        raise OSError

    monkeypatch.setattr("urllib.request.urlopen", wait)
    monkeypatch.setattr("scenarios.data_set._OPENML_SECONDS", 0.01)
    with pytest.raises(REFUSALS, match=r"OpenML \(TimeoutError: no answer within 0\.01 s\)"):
        preflight({"scenario": "sec-grid"})
    never.set()


def test_it_loads_neither_flower_nor_a_heavy_library() -> None:
    code = """
import sys
from server.preflight import preflight
preflight({"scenario": "bc3e-wine"})
print(sorted({"flwr", "grpc", "pandas", "sklearn", "scipy", "matplotlib", "torch"} & sys.modules.keys()))
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_own_data_are_checked_without_the_libraries_of_the_mathematics(world: SimpleNamespace) -> None:
    each = [
        "protocol=bc3e data={good}",
        "protocol=sec data={good} target=level",
        "protocol=residual data={no_level} target=level id=patient",
        "protocol=coreset data={good} sensitive=sex coreset.k=2",
        "protocol=gp data={good} target=level",
    ]
    runs = [settings_of(text, world) for text in each]
    code = f"""
import sys
from server.preflight import preflight
for run in {runs!r}:
    preflight(run)
print(sorted({{"sklearn", "scipy", "matplotlib", "torch", "numba"}} & sys.modules.keys()))
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_what_is_prepared_is_not_logged_before_the_run(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger("flwr"), "propagate", True)
    for name in ("north", "south"):
        (tmp_path / f"{name}.csv").write_text("x,y\n1,2\n,3\n2,5\n4,4\n3,1\n6,2\n")
    with caplog.at_level(logging.INFO, "flwr"):
        preflight({"protocol": "sec", "data": str(tmp_path), "target": "y", "missing": "impute"})
    assert not caplog.records


def test_standardized_learners_are_refused_with_test_rows_only(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for name in ("a", "b", "_test"):
        np.savetxt(tmp_path / f"{name}.csv", rng.normal(size=(30, 2)), delimiter=",", header="x,y", comments="")
    settings = {"protocol": "sec", "data": str(tmp_path), "target": "y", "sec.standardize": "learner"}
    with pytest.raises(ConfigError, match="cannot predict the center's test rows"):
        preflight(settings)
    (tmp_path / "_test.csv").unlink()
    preflight(settings)
