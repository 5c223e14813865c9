"""`sec.combine=pooled-rows`: one model of the rows of those sites of a cluster that allow it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import skops.io
from sklearn.base import BaseEstimator

from consilience.predict.new_rows import predict_file
from server.results import load
from tests.support.runs import outcome_of, run
from tests.support.sec_sites import deployed_sites, draw_rows, own_data_config, write_sites

GROUPS = [0, 1, 0, 1, 0]
NAMES = [f"lab-{place}" for place in range(len(GROUPS))]
POOLED = {"sec__combine": "pooled-rows"}
ROUNDS = 4

pytestmark = pytest.mark.usefixtures("quick")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_sites(tmp_path / "labs", GROUPS)


def model_in(data: bytes) -> BaseEstimator:
    return skops.io.loads(data, trusted=skops.io.get_untrusted_types(data=data))


def test_linear_models_of_pooled_rows_are_the_pooled_regressions(tmp_path: Path, folder: Path) -> None:
    """Two ways to one number: sums of products of the columns, or the rows themselves."""
    by_rows, by_sums = (
        load(run(own_data_config(tmp_path, folder, sec__combine=combine), len(GROUPS)))[0]
        for combine in ("pooled-rows", "pooled-linear")
    )
    assert (by_rows.rounds, by_sums.rounds) == (ROUNDS, ROUNDS - 1)
    assert by_rows.metrics["mse_cluster"] == pytest.approx(by_sums.metrics["mse_cluster"], rel=1e-9)
    assert by_rows.table[0]["mse_cluster"] == pytest.approx(by_sums.table[0]["mse_cluster"], rel=1e-9)


def test_the_center_tests_and_predicts_later_by_the_same_models(tmp_path: Path, folder: Path) -> None:
    new = pd.concat([draw_rows(0, 50, 99), draw_rows(1, 50, 99)])
    new.to_csv(folder / "_test.csv", index=False)
    chosen = {**POOLED, "sec__candidates": "rf(n_estimators=5)"}
    path = run(own_data_config(tmp_path, folder, **chosen), len(GROUPS))
    report, arrays = load(path)
    new.to_csv(tmp_path / "new.csv", index=False)
    told = predict_file(path, str(tmp_path / "new.csv")).columns
    for row in report.table:
        model = model_in(arrays[f"pool_model_{row['cluster']}"].tobytes())
        predictions = model.predict(new[list("abc")].to_numpy())
        np.testing.assert_allclose(told[f"cluster_{row['cluster']}"], predictions, rtol=1e-12)
        assert row["mse_test_cluster"] == pytest.approx(np.mean((predictions - new["y"]) ** 2), rel=1e-9)


def deployed(tmp_path: Path, folder: Path, allowing: list[str], **changes: Any) -> tuple[dict[str, Any], list[Any]]:
    settings, nodes = deployed_sites(tmp_path, folder, NAMES, **POOLED, **changes)
    for node in nodes:
        node["allow-pooling"] = node["site"] in allowing
    return settings, nodes


def test_rows_leave_the_sites_that_allow_it_and_count_by_one_model(tmp_path: Path, folder: Path) -> None:
    settings, nodes = deployed(tmp_path, folder, ["lab-0", "lab-1", "lab-2"])
    path = run(settings, nodes)
    report, arrays = load(path)
    assert arrays["pool_member"].tolist() == [True, True, True, False, False]
    assert "pool_model_1" not in arrays, "the rows of one site are no pool"
    [note] = [note for note in report.notes if "kept the rows" in note]
    assert note.startswith("lab-3, lab-4: kept the rows (allow-pooling is not set there)")
    told = pd.read_csv(tmp_path / "home" / "lab-4" / "collaborators.csv", keep_default_na=False)
    assert told["pool_member"].tolist() == ["yes", "yes", ""]
    assert "pool_member" not in pd.read_csv(tmp_path / "home" / "lab-3" / "collaborators.csv")
    for name in ("lab-0", "lab-2", "lab-4"):
        assert (tmp_path / "home" / name / "pooled.skops").read_bytes() == arrays["pool_model_0"].tobytes()
    # By eq. (5), with the weight of both for the model of their rows.
    new = draw_rows(0, 30, 7)
    x = new[list("abc")].to_numpy()
    models = [model_in(arrays[name].tobytes()) for name in ("pool_model_0", "model_4")]
    w = arrays["weights"][[0, 2, 4]]
    expected = np.average([model.predict(x) for model in models], axis=0, weights=[w[:2].sum(), w[2]])
    new.to_csv(tmp_path / "new.csv", index=False)
    predicted = predict_file(path, str(tmp_path / "new.csv")).columns["cluster_0"]
    np.testing.assert_allclose(predicted, expected, rtol=1e-9)


def test_where_no_site_allows_it_the_result_is_that_of_average(tmp_path: Path, folder: Path) -> None:
    settings, nodes = deployed(tmp_path / "kept", folder, [])
    plain, homes = deployed_sites(tmp_path / "plain", folder, NAMES)
    kept, average = load(run(settings, nodes))[0], load(run(plain, homes))[0]
    assert kept.metrics == average.metrics
    assert (tmp_path / "kept" / "home" / "lab-0" / "answers.csv").read_text() == (
        tmp_path / "plain" / "home" / "lab-0" / "answers.csv"
    ).read_text()


def test_rows_that_each_learner_standardized_are_not_pooled(tmp_path: Path, folder: Path) -> None:
    settings = own_data_config(tmp_path, folder, **POOLED, sec__standardize="learner")
    assert "cannot be pooled: set sec.standardize=model" in outcome_of(settings, len(GROUPS)).text


def test_a_run_does_not_pool_rows_with_those_of_an_earlier_one(tmp_path: Path, folder: Path) -> None:
    earlier = run(own_data_config(tmp_path / "earlier", folder, **POOLED), len(GROUPS))
    text = outcome_of(own_data_config(tmp_path, folder, **POOLED, sec__join=str(earlier)), len(GROUPS)).text
    assert "sec.join and sec.combine=pooled-rows do not go together" in text


@pytest.mark.parametrize("exchange", ["all", "landmarks"])
def test_a_newcomer_sends_no_row_and_gets_the_model_of_its_cluster(tmp_path: Path, folder: Path, exchange: str) -> None:
    chosen = {"sec__newcomers": "lab-3 lab-4", "sec__exchange": exchange, "sec__landmarks": 2}
    settings, nodes = deployed(tmp_path, folder, NAMES, **chosen)
    _, arrays = load(run(settings, nodes))
    assert arrays["newcomer"].tolist() == [False, False, False, True, True]
    assert arrays["pool_member"].tolist() == [True, False, True, False, False]  # lab-1 is alone in its cluster
    told = pd.read_csv(tmp_path / "home" / "lab-4" / "collaborators.csv", keep_default_na=False)
    assert dict(zip(told["learner"], told["pool_member"], strict=True)) == {"lab-0": "yes", "lab-2": "yes", "lab-4": ""}
    assert (tmp_path / "home" / "lab-4" / "pooled.skops").read_bytes() == arrays["pool_model_0"].tobytes()
    assert not (tmp_path / "home" / "lab-3" / "pooled.skops").exists()
