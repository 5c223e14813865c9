"""``consilience predict``: new rows by what the fusion center holds of a run of sec or coreset."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import skops.io
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from typer.testing import CliRunner

from clients.data import DataError
from common.files import write_arrays
from common.settings import SettingError
from consilience import cli
from consilience.predict.interface import Predictions, RequestError
from consilience.predict.new_rows import predict_file
from numerics.coreset.fairness.bounds import Bounds
from server.report.data import ResultsError
from server.results import load
from tests.support.grid import config
from tests.support.runs import run, skip_waiting

LEARNERS = {"ames": 1.0, "bonn": 1.0, "cork": -1.0, "deft": 1.0, "eger": -1.0}
"""By what each multiplies the relation: two clusters."""
INPUTS = ["age", "dose", "weight"]


def labs(n: int, sign: float, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.normal(size=(n, 3)), columns=INPUTS)
    frame["y"] = sign * (2 * frame["age"] - frame["dose"]) + 0.1 * rng.normal(size=n)
    return frame


def ward(n: int, women: float, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"case": [f"{seed}-{row}" for row in range(n)]})
    frame["sex"] = np.where(rng.random(n) < women, "f", "m")
    frame["age"] = 30 + 20 * rng.choice(3, n) + rng.normal(0, 5, n)
    frame["iron"] = 80 + 25 * (frame["sex"] == "m") + rng.normal(0, 12, n)
    return frame


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Results by protocol and settings, each made once."""
    tmp_path = tmp_path_factory.mktemp("runs")
    made: dict[str, Path] = {}
    for name, frames in {
        "sec": {name: labs(40, sign, seed) for seed, (name, sign) in enumerate(LEARNERS.items())},
        "coreset": {name: ward(400, share, seed) for seed, (name, share) in enumerate({"a": 0.6, "b": 0.35}.items())},
    }.items():
        (tmp_path / name).mkdir()
        for site, frame in frames.items():
            frame.to_csv(tmp_path / name / f"{site}.csv", index=False)
    usual: dict[str, dict[str, Any]] = {
        "sec": {"target": "y", "sec.holdout": 0.0, "sec.candidates": "lr"},
        "coreset": {
            **{"sensitive": "sex", "id": "case", "coreset.k": 3, "coreset.size": 30, "coreset.restarts": 1},
            "coreset.balance": 0.9,
        },
    }

    def make(protocol: str, **changes: Any) -> Path:
        key = repr((protocol, changes))
        if key not in made:
            settings = {**usual[protocol], **changes}
            with pytest.MonkeyPatch.context() as patch:
                skip_waiting(patch)
                folder = tmp_path / protocol
                asked = config(tmp_path / str(len(made)), protocol=protocol, data=str(folder), **settings)
                made[key] = run(asked, len(list(folder.iterdir())))
        return made[key]

    return make


def predicted(folder: Path, frame: pd.DataFrame, file: Path, *assignments: str) -> Predictions:
    frame.to_csv(file, index=False)
    return predict_file(folder, str(file), assignments)


# -- sec --------------------------------------------------------------------------------------------------------------


def test_clusters_predict_as_ten_lines_of_numpy_do(results: Callable[..., Path], tmp_path: Path) -> None:
    folder = results("sec", **{"sec.candidates": "rf(n_estimators=5) lr"})
    new = labs(20, 1.0, 99)
    told = predicted(folder, new, tmp_path / "new.csv")
    arrays = load(folder)[1]
    assert list(told.columns) == ["entity", "cluster_0", "cluster_1"]
    for cluster in (0, 1):
        members = np.flatnonzero((arrays["labels"] == cluster) & ~arrays["newcomer"])
        files = [arrays[f"model_{place}"].tobytes() for place in members]
        models = [skops.io.loads(file, trusted=skops.io.get_untrusted_types(data=file)) for file in files]
        predictions = [model.predict(new[INPUTS].to_numpy()) for model in models]
        expected = np.average(predictions, axis=0, weights=arrays["weights"][members])
        np.testing.assert_allclose(told.columns[f"cluster_{cluster}"], expected, rtol=1e-12, atol=1e-12)


def test_a_pooled_cluster_predicts_by_the_regression_of_its_rows(results: Callable[..., Path], tmp_path: Path) -> None:
    folder = results("sec", **{"sec.combine": "pooled-linear"})
    new = labs(20, 1.0, 99)
    told = predicted(folder, new, tmp_path / "new.csv", "learner=cork")
    rows = pd.concat(labs(40, sign, seed) for seed, sign in enumerate(LEARNERS.values()) if sign < 0)
    design = np.column_stack([np.ones(len(rows)), rows[INPUTS]])
    coefficients = np.linalg.lstsq(design, rows["y"].to_numpy())[0]
    expected = np.column_stack([np.ones(len(new)), new[INPUTS]]) @ coefficients
    np.testing.assert_allclose(told.columns["prediction"], expected, rtol=1e-9, atol=1e-9)


def test_columns_go_by_name_and_files_by_ending(results: Callable[..., Path], tmp_path: Path) -> None:
    folder, new = results("sec"), labs(6, 1.0, 7)
    told = predicted(folder, new, tmp_path / "new.csv").columns
    shuffled = new.assign(note="x")[["note", "y", *INPUTS[::-1]]]
    shuffled.to_parquet(tmp_path / "new.parquet")
    np.savez(tmp_path / "new.npz", **{name: new[name].to_numpy() for name in INPUTS})  # type: ignore[arg-type]
    for ending in ("parquet", "npz"):
        again = predict_file(folder, str(tmp_path / f"new.{ending}")).columns
        for name, values in told.items():
            np.testing.assert_allclose(again[name], values, rtol=1e-15)


def test_one_row_one_cluster_and_its_error(results: Callable[..., Path], tmp_path: Path) -> None:
    folder, new = results("sec"), labs(5, 1.0, 3)
    whole = predicted(folder, new, tmp_path / "new.csv", "target=y")
    cluster = int(load(folder)[1]["labels"][0])
    one = predicted(folder, new[:1], tmp_path / "one.csv", f"cluster={cluster}")
    np.testing.assert_allclose(one.columns["prediction"], whole.columns[f"cluster_{cluster}"][:1], rtol=1e-15)
    error = np.mean((whole.columns[f"cluster_{cluster}"] - new["y"]) ** 2)
    assert f"cluster_{cluster} {error:.6g}" in whole.lines[-1]
    assert "on 5 rows" in whole.lines[-1]
    unknown = predicted(folder, new.assign(y=[*new["y"][:2], np.nan, np.nan, np.nan]), tmp_path / "some.csv")
    assert "on 2 rows" in unknown.lines[-1]


def test_weights_of_a_file_mix_the_models(results: Callable[..., Path], tmp_path: Path) -> None:
    folder, new, file = results("sec"), labs(20, 1.0, 99), tmp_path / "personal.csv"
    names = load(folder)[1]["learners"].tolist()
    each = []
    for name in names[:2]:
        file.write_text(f"learner,weight\n{name},1\n")
        each.append(predicted(folder, new, tmp_path / "new.csv", f"weights={file}").columns["prediction"])
    file.write_text(f"learner,weight\n{names[0]},.25\n{names[1]},.75\n")
    told = predicted(folder, new, tmp_path / "new.csv", f"weights={file}", "target=y")
    np.testing.assert_allclose(told.columns["prediction"], 0.25 * each[0] + 0.75 * each[1], rtol=1e-12)
    error = np.mean((told.columns["prediction"] - new["y"]) ** 2)
    assert told.lines == [
        f"personal: {names[0]}, {names[1]}",
        f"mean squared error of y on 20 rows: personal {error:.6g}",
    ]
    for lines, message in ((f"{names[0]},.5\n", "the sum 1"), ("anna,1\n", "no learner 'anna'"), ("", "weight")):
        file.write_text(f"learner,weight\n{lines}")
        with pytest.raises(RequestError, match=message):
            predicted(folder, new, tmp_path / "new.csv", f"weights={file}")


def test_a_learner_predicts_as_the_run_recommends(results: Callable[..., Path], tmp_path: Path) -> None:
    folder, new = results("sec", **{"sec.holdout": 0.25}), labs(20, 1.0, 99)
    shutil.copytree(folder, tmp_path / "run")
    folder, arrays = tmp_path / "run", load(folder)[1]
    names, ways = arrays["learners"].tolist(), arrays["recommended"].tolist()
    told = predicted(folder, new, tmp_path / "new.csv")
    assert "; learner=NAME predicts so" in "\n".join(told.lines)
    place = ways.index("personal")
    by_weights = predicted(folder, new, tmp_path / "new.csv", f"weights={folder}/sites/{names[place]}/personal.csv")
    by_name = predicted(folder, new, tmp_path / "new.csv", f"learner={names[place]}")
    assert by_name.columns["prediction"].tolist() == by_weights.columns["prediction"].tolist()

    shutil.rmtree(folder / "sites")  # a deployed site keeps its weights
    by_cluster = predicted(folder, new, tmp_path / "new.csv", f"learner={names[place]}")
    assert by_cluster.columns["prediction"].tolist() == told.columns[f"cluster_{arrays['labels'][place]}"].tolist()
    assert "its personal weights, which only it has; set weights=FILE" in "\n".join(by_cluster.lines)

    write_arrays(folder / "arrays.npz", {**arrays, "recommended": np.array(["alone"] * len(names))})
    alone = predicted(folder, new, tmp_path / "new.csv", f"learner={names[place]}")
    file = arrays[f"model_{place}"].tobytes()
    model = skops.io.loads(file, trusted=skops.io.get_untrusted_types(data=file))
    np.testing.assert_allclose(alone.columns["prediction"], model.predict(new[INPUTS].to_numpy()), rtol=1e-12)


def test_without_held_out_rows_personal_weights_are_recommended(results: Callable[..., Path], tmp_path: Path) -> None:
    """Nothing refutes them. The cluster was taken instead, whose error on small sites is up to three times as large."""
    folder = results("sec")
    _, arrays = load(folder)
    assert arrays["recommended"].tolist() == ["personal"] * len(LEARNERS)
    new, name = labs(5, 1.0, 3), next(iter(LEARNERS))
    own = predicted(folder, new, tmp_path / "new.csv", f"learner={name}")
    same = predicted(folder, new, tmp_path / "new.csv", f"weights={folder / 'sites' / name / 'personal.csv'}")
    assert own.columns["prediction"].tolist() == same.columns["prediction"].tolist()


def test_rows_of_a_simulated_learner_get_its_medians(results: Callable[..., Path], tmp_path: Path) -> None:
    folder = results("sec", missing="impute")
    new, name = labs(5, 1.0, 3), next(iter(LEARNERS))
    new.loc[2, "age"] = np.nan
    own = predicted(folder, new, tmp_path / "new.csv", f"learner={name}")
    same = predicted(folder, new, tmp_path / "new.csv", f"learner={name}", f"medians={name}")
    assert own.columns["prediction"].tolist() == same.columns["prediction"].tolist()
    with pytest.raises(DataError, match=r"line 4, column 'age': is empty; medians stay at the sites"):
        predicted(folder, new, tmp_path / "new.csv", "cluster=0")


@pytest.mark.parametrize(
    ("assignments", "message"),
    [
        (["cluster=2"], "there is no cluster 2; they are numbered from 0 to 1"),
        (["learner=anna"], "no learner is called 'anna'; there are: ames, bonn, cork, deft, eger"),
        (["cluster=0", "learner=ames"], "both choose a cluster; set one"),
    ],
)
def test_requests_that_sec_cannot_meet(
    results: Callable[..., Path], tmp_path: Path, assignments: list[str], message: str
) -> None:
    with pytest.raises(RequestError, match=message):
        predicted(results("sec"), labs(3, 1.0, 3), tmp_path / "new.csv", *assignments)


@pytest.mark.parametrize(
    ("protocol", "assignment", "message"),
    [
        (
            "sec",
            "rule=fair",
            "unknown key 'rule'; there are: id, sensitive, target, missing, indicators, categories, ordinal, medians",
        ),
        ("sec", "cluster=first", "cluster takes a whole number, not 'first'"),
        ("coreset", "learner=ames", "unknown key 'learner'"),
    ],
)
def test_options_are_those_of_the_runs_protocol(
    results: Callable[..., Path], tmp_path: Path, protocol: str, assignment: str, message: str
) -> None:
    with pytest.raises(SettingError, match=message):
        predicted(results(protocol), labs(3, 1.0, 3), tmp_path / "new.csv", assignment)


def test_models_in_units_of_their_learners_are_refused(results: Callable[..., Path], tmp_path: Path) -> None:
    with pytest.raises(RequestError, match=r"learn again with sec\.standardize=model"):
        predicted(results("sec", **{"sec.standardize": "learner"}), labs(3, 1.0, 3), tmp_path / "new.csv")


# -- coreset ----------------------------------------------------------------------------------------------------------


def counts_of(told: Predictions, groups: pd.Series[str]) -> np.ndarray:
    table = pd.crosstab(told.columns["cluster"], groups.to_numpy())
    return table.to_numpy()


def test_a_batch_is_dealt_out_fairly_and_at_no_needless_cost(results: Callable[..., Path], tmp_path: Path) -> None:
    folder, new = results("coreset"), ward(300, 0.3, 9)
    arrays = load(folder)[1]
    fair, nearest, points = (
        predicted(folder, new, tmp_path / "new.csv", f"rule={rule}") for rule in ("", "nearest", "points")
    )
    assert fair.columns["entity"].tolist() == new["case"].tolist()
    bounds = Bounds.of(np.array([(new["sex"] == sex).mean() for sex in ("f", "m")]), 0.9)
    assert bounds.violation(counts_of(fair, new["sex"])) < 2
    assert bounds.violation(counts_of(nearest, new["sex"])) > 5
    x = new[arrays["features"].tolist()].to_numpy() / arrays["scale"]
    away = np.sqrt(((x[:, np.newaxis] - arrays["centers"] / arrays["scale"]) ** 2).sum(axis=2))
    for told in (fair, nearest, points):
        np.testing.assert_allclose(told.columns["distance"], away[np.arange(300), told.columns["cluster"]], rtol=1e-12)
    assert nearest.columns["cluster"].tolist() == away.argmin(axis=1).tolist()
    assert (nearest.columns["distance"] ** 2).sum() < (fair.columns["distance"] ** 2).sum()
    # Nobody of a group would gain by changing places with another of it.
    for sex in ("f", "m"):
        mine = np.flatnonzero(new["sex"] == sex)
        cost = away[mine] ** 2
        own = cost[:, fair.columns["cluster"][mine]]
        stay = np.diag(own)
        assert (own + own.T >= stay[:, np.newaxis] + stay - 1e-9).all()


def test_rows_go_with_the_nearest_point_of_their_group(results: Callable[..., Path], tmp_path: Path) -> None:
    folder, new = results("coreset"), ward(50, 0.5, 11)
    arrays = load(folder)[1]
    told = predicted(folder, new, tmp_path / "new.csv", "rule=points").columns["cluster"]
    x = new[arrays["features"].tolist()].to_numpy() / arrays["scale"]
    away = ((x[:, np.newaxis] - arrays["points"] / arrays["scale"]) ** 2).sum(axis=2)
    away[new["sex"].to_numpy()[:, np.newaxis] != arrays["groups"][arrays["point_groups"]]] = np.inf
    assert told.tolist() == arrays["point_clusters"][away.argmin(axis=1)].tolist()
    one = predicted(folder, new[7:8], tmp_path / "one.csv", "rule=points").columns["cluster"]
    assert one.tolist() == [told[7]]


def test_without_groups_or_with_one_row_everybody_goes_to_the_nearest(
    results: Callable[..., Path], tmp_path: Path
) -> None:
    folder, new = results("coreset"), ward(20, 0.5, 12)
    nearest = predicted(folder, new, tmp_path / "new.csv", "rule=nearest").columns["cluster"]
    blind = predicted(folder, new.drop(columns=["sex", "case"]), tmp_path / "blind.csv")
    assert blind.columns["cluster"].tolist() == nearest.tolist()
    assert blind.columns["entity"].tolist() == list(range(20))
    assert "has no column 'sex'" in blind.lines[0]
    one = predicted(folder, new[3:4], tmp_path / "one.csv")
    assert one.columns["cluster"].tolist() == [nearest[3]]
    with pytest.raises(RequestError, match="has no column 'sex'"):
        predicted(folder, new.drop(columns="sex"), tmp_path / "blind.csv", "rule=fair")


def test_a_group_of_now_is_dealt_out_and_has_no_points(results: Callable[..., Path], tmp_path: Path) -> None:
    folder, new = results("coreset"), ward(60, 0.5, 13)
    new.loc[40:, "sex"] = "x"
    told = predicted(folder, new, tmp_path / "new.csv")
    assert "x 0." in "\n".join(told.lines)
    with pytest.raises(DataError, match="line 42, column 'sex': the run had no row of group 'x'"):
        predicted(folder, new, tmp_path / "new.csv", "rule=points")


# -- what cannot be used ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("protocol", "name", "change"),
    [
        ("sec", "model_1", None),
        ("sec", "labels", lambda labels: labels[:3]),
        ("sec", "labels", lambda labels: labels + len(labels)),
        ("sec", "n", lambda n: 0 * n),
        ("sec", "mean_0", lambda mean: np.full(4, np.nan)),
        ("coreset", "centers", lambda centers: centers[:, :1]),
        ("coreset", "centers", lambda centers: np.nan * centers),
        ("coreset", "scale", lambda scale: 0 * scale),
        ("coreset", "balance", lambda balance: 2 + balance),
        ("coreset", "point_clusters", lambda clusters: clusters + 3),
    ],
)
def test_arrays_that_were_changed_are_told_by_name(
    results: Callable[..., Path], tmp_path: Path, protocol: str, name: str, change: Callable[[np.ndarray], np.ndarray]
) -> None:
    shutil.copytree(results(protocol), tmp_path / "changed")
    arrays = load(tmp_path / "changed")[1]
    changed = {} if change is None else {name: change(arrays[name])}
    write_arrays(tmp_path / "changed" / "arrays.npz", {k: v for k, v in arrays.items() if k != name} | changed)
    with pytest.raises(ResultsError, match=f"{name} in arrays.npz is not what this version of {protocol} writes there"):
        predicted(
            tmp_path / "changed", ward(8, 0.5, 3) if protocol == "coreset" else labs(8, 1.0, 3), tmp_path / "new.csv"
        )


def test_a_model_of_another_kind_is_not_loaded(results: Callable[..., Path], tmp_path: Path) -> None:
    """Whoever changes a results directory runs nothing of theirs on the machine that predicts."""
    shutil.copytree(results("sec"), tmp_path / "changed")
    harm = make_pipeline(FunctionTransformer(os.system), LinearRegression())
    model = np.frombuffer(skops.io.dumps(harm), np.uint8)
    write_arrays(tmp_path / "changed" / "arrays.npz", {**load(tmp_path / "changed")[1], "model_0": model})
    with pytest.raises(RequestError, match="a model cannot be used here"):
        predicted(tmp_path / "changed", labs(8, 1.0, 3), tmp_path / "new.csv")


def test_the_first_bad_cell_is_named(results: Callable[..., Path], tmp_path: Path) -> None:
    folder, new = results("sec"), labs(4, 1.0, 3)
    with pytest.raises(DataError, match=r"line 4, column 'dose': is empty; fill it, or set missing=impute"):
        predicted(folder, new.assign(dose=[1.0, 2.0, np.nan, 4.0]), tmp_path / "new.csv")
    with pytest.raises(DataError, match="there is no column 'dose'"):
        predicted(folder, new.drop(columns="dose"), tmp_path / "new.csv")
    with pytest.raises(DataError, match="has no rows to predict"):
        predicted(folder, new[:0], tmp_path / "new.csv")


def changed(folder: Path, place: Path, **changes: Any) -> Path:
    """The results with another ``report.json``."""
    shutil.copytree(folder, place)
    report = json.loads((place / "report.json").read_text())
    (place / "report.json").write_text(json.dumps({**report, **changes}))
    return place


def test_of_other_protocols_the_command_that_asks_the_sites_is_told(
    results: Callable[..., Path], tmp_path: Path
) -> None:
    told = {}
    for protocol in ("bc3e", "gp", "residual"):
        place = changed(results("sec"), tmp_path / protocol, protocol=protocol)
        done = CliRunner().invoke(cli.app, ["predict", str(place), "new.csv"])
        assert done.exit_code == 1
        told[protocol] = done.output
        assert f"consilience run predict --set from={place} --data" in done.output
        assert f'scenario="predict" from="{place}"' in done.output
    assert 'data="POINTS.csv"' in told["gp"]
    assert "data=" not in told["residual"]


def test_a_table_of_many_results_is_refused(results: Callable[..., Path], tmp_path: Path) -> None:
    place = changed(results("sec"), tmp_path / "table", metrics={"n_cells": 3})
    with pytest.raises(RequestError, match=r"is a scenario's table of 3 results; run one row alone"):
        predicted(place, labs(3, 1.0, 3), tmp_path / "new.csv")


def test_the_command_writes_the_file_and_says_where(results: Callable[..., Path], tmp_path: Path) -> None:
    ward(30, 0.5, 2).to_csv(tmp_path / "new.csv", index=False)
    words = ["predict", str(results("coreset")), str(tmp_path / "new.csv"), "--output"]
    done = CliRunner().invoke(cli.app, [*words, str(tmp_path / "out.csv")])
    assert done.exit_code == 0, done.output
    assert done.output.splitlines()[-1] == f"predictions: {tmp_path / 'out.csv'}"
    assert pd.read_csv(tmp_path / "out.csv").columns.tolist() == ["entity", "cluster", "distance"]
    done = CliRunner().invoke(cli.app, [*words, str(tmp_path / "nowhere" / "out.csv")])
    assert (done.exit_code, "cannot be written" in done.output) == (1, True)
    done = CliRunner().invoke(cli.app, [*words, str(tmp_path / "out.csv"), "--set", "coreset.k=3"])
    assert (done.exit_code, "coreset.k" in done.output) == (2, True), done.output
