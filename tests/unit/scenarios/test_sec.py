"""Scenarios of SEC: the stated distributions, shared draws, and sites that hold what the table says."""

from __future__ import annotations

from fnmatch import fnmatch
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from clients.data.files import numbered_site
from numerics.shared.regression_rows import RegressionRows
from numerics.shared.threads import single_threaded
from scenarios import registry
from scenarios.registry import Config, Scenario, ScenarioError
from scenarios.sec import real_data, synthetic
from scenarios.synthetic import friedman2, friedman3
from tests.support.data_files import ct_table

SITES = {"sec-simulation1": 20, "sec-simulation2": 20, "sec-fairness": 50, "sec-grid": 50, "sec-ct": 97}


@pytest.fixture
def grid_file(folder: Path) -> Path:
    """A file in the shape of the grid's, of 1000 rows: 16 for each learner and 200 test rows."""
    return folder / "Data_for_UCI_named.csv"


def config_of(name: str, grid_file: Path) -> dict[str, bool | int | float | str]:
    return {"data": str(grid_file) if name == "sec-grid" else "", "seed": 0}


def cell_configs(scenario: Scenario, config: Config) -> list[dict[str, bool | int | float | str]]:
    return [{**config, **cell.settings} for cell in scenario.cells(config)]


def arrays(rows: RegressionRows) -> tuple[np.ndarray, ...]:
    return rows.x, rows.y, rows.x_test, rows.y_test


# -- all five ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SITES)
def test_shards_are_finite_read_only_rows_of_the_same_features(name: str, grid_file: Path) -> None:
    scenario = registry.find(name)
    for config in cell_configs(scenario, config_of(name, grid_file))[::5]:
        shards = scenario.shards(config, 3, scenario.sites)
        assert len(shards) == scenario.sites
        assert len({rows.features for rows in shards}) == 1
        for rows in shards:
            p = len(rows.features)
            assert rows.x.shape == (rows.n, p)
            assert rows.x_test.shape == (len(rows.y_test), p)
            assert rows.n >= 2
            for array in arrays(rows):
                assert array.dtype == np.float64
                assert np.isfinite(array).all()
                assert not array.flags.writeable
        assert any(len(rows.y_test) for rows in shards)


@pytest.mark.parametrize("name", SITES)
def test_settings_that_do_not_touch_the_data_share_the_arrays(name: str, grid_file: Path) -> None:
    scenario = registry.find(name)
    config = cell_configs(scenario, config_of(name, grid_file))[0]
    other = {**config, "sec.candidates": "ridge", "sec.k-method": "gap", "sec.k": 3, "sec.standardize": "none"}
    for one, two in zip(
        scenario.shards(config, 0, scenario.sites), scenario.shards(other, 0, scenario.sites), strict=True
    ):
        for a, b in zip(arrays(one), arrays(two), strict=True):
            assert np.shares_memory(a, b) or a.size == b.size == 0


@pytest.mark.parametrize("name", SITES)
def test_another_number_of_sites_is_refused(name: str, grid_file: Path) -> None:
    with pytest.raises(ScenarioError, match=rf"{name} has {SITES[name]} sites and cannot be split over 7"):
        registry.find(name).shards(config_of(name, grid_file), 0, 7)


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("sec-simulation1", {"sec.p": -1}, "sec.p must be a finite number, 1 or greater, not -1"),
        ("sec-simulation1", {"sec.snr": -1.0}, "sec.snr must be"),
        ("sec-simulation1", {"sec.snr": float("nan")}, "sec.snr must be"),
        ("sec-fairness", {"sec.effect": -1.0}, "sec.effect must be a finite number, 0 or greater, not -1.0"),
        ("sec-fairness", {"sec.effect": float("inf")}, "sec.effect must be"),
        ("sec-fairness", {"sec.effect": "much"}, "sec.effect must be"),
        ("sec-grid", {"sec.attacked": 50}, "sec.attacked must be a finite number, from 0 to 49, not 50"),
    ],
)
def test_wrong_settings_are_one_clear_line(
    name: str, settings: dict[str, float | str], message: str, grid_file: Path
) -> None:
    with pytest.raises(ScenarioError) as caught:
        registry.find(name).shards({**config_of(name, grid_file), **settings}, 0, SITES[name])
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("name", "first"), [("sec-fairness", 30), ("sec-ct", 64)])
def test_the_globs_of_the_newcomers_name_the_sites_that_hold_rows_out(name: str, first: int) -> None:
    scenario = registry.find(name)
    config = cell_configs(scenario, {})[0]
    globs = str(config["sec.newcomers"]).split()
    names = [numbered_site(place, scenario.sites) for place in range(scenario.sites)]
    newcomers = [place for place, site in enumerate(names) if any(fnmatch(site, glob) for glob in globs)]
    assert newcomers == list(range(first, scenario.sites))
    for place, rows in enumerate(scenario.shards(config, 0, scenario.sites)):
        assert bool(len(rows.y_test)) == (place in newcomers)


# -- the simulations --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("p", "snr"), [(5, 1.0), (10, 16.0), (20, 128.0)])
def test_simulation1_has_two_linear_functions_and_the_asked_noise(p: int, snr: float) -> None:
    truth = np.array(synthetic.two_groups({}, 0, 20))
    assert truth.tolist() == [0] * 10 + [1] * 10
    norms, noise = [], []
    for seed in range(40):
        shards = synthetic.simulation1({"sec.p": p, "sec.snr": snr}, seed, 20)
        assert all(rows.x.shape == (50, p) and rows.x_test.shape == (200, p) for rows in shards)
        for group in (0, 1):
            members = [rows for rows, label in zip(shards, truth, strict=True) if label == group]
            x = np.vstack([part for rows in members for part in (rows.x, rows.x_test)])
            y = np.concatenate([part for rows in members for part in (rows.y, rows.y_test)])
            with single_threaded():
                beta, residual, *_ = np.linalg.lstsq(x, y)
            norms.append(beta @ beta)
            noise.append(residual[0] / (len(y) - p))
    # 200,000 rows: the noise's variance is known to a third of a percent. ||beta||^2 is chi-squared, p degrees.
    assert np.mean(noise) == pytest.approx(p / snr, rel=0.015)
    assert np.mean(norms) == pytest.approx(p * (1 + 1 / (snr * 2500)), abs=4 * np.sqrt(2 * p / 80))


def test_levels_of_snr_differ_in_the_size_of_the_noise_alone() -> None:
    loud, quiet = (synthetic.simulation1({"sec.p": 10, "sec.snr": snr}, 2, 20) for snr in (1.0, 4.0))
    for one, two in zip(loud, quiet, strict=True):
        assert np.shares_memory(one.x, two.x)
        noise = one.y - two.y  # sigma is twice as large: the difference is the smaller noise itself
        residual = two.y - noise - two.x @ np.linalg.lstsq(two.x, two.y - noise)[0]
        np.testing.assert_allclose(residual, 0, atol=1e-10)
    assert not np.allclose(loud[0].x, loud[1].x)


def test_simulation2_has_friedmans_functions_in_four_of_500_inputs() -> None:
    errors = []
    for seed in range(4):
        shards = synthetic.simulation2({}, seed, 20)
        assert [len(rows.y_test) for rows in shards] == [100] + [0] * 19
        for label, rows in zip(synthetic.two_groups({}, seed, 20), shards, strict=True):
            assert rows.x.shape == (100, 500)
            errors.append(rows.y - (friedman3 if label else friedman2)(rows.x))
        first = shards[0]
        assert (first.y_test - friedman2(first.x_test)).var() == pytest.approx(0.01, rel=0.6)
    assert np.var(errors) == pytest.approx(0.01, rel=0.1)
    assert abs(np.mean(errors)) < 0.01
    x = np.vstack([rows.x for rows in shards])
    for column, (low, high) in enumerate([(0, 100), (40 * np.pi, 560 * np.pi), (0, 1), (1, 11)]):
        assert low <= x[:, column].min() < low + 0.01 * (high - low)
        assert high - 0.01 * (high - low) < x[:, column].max() <= high
    assert x[:, 4:].std() == pytest.approx(1, abs=0.005)
    assert x[:, 4:].mean() == pytest.approx(0, abs=0.005)


def test_table_2_is_published_for_five_sets_of_candidates() -> None:
    cells = registry.find("sec-simulation2").cells({})
    assert [cell.labels["candidates"] for cell in cells] == [1, 3, 5, 7, 9]
    assert [len(str(cell.settings["sec.candidates"]).split()) for cell in cells] == [1, 3, 5, 7, 9]
    assert [cell.published["clusters_correct"] for cell in cells] == [0.66, 0.74, 0.58, 0.70, 0.64]
    assert [cell.published["mse_cluster"] for cell in cells] == [0.100, 0.095, 0.087, 0.096, 0.060]
    assert [cell.published["mse_alone"] for cell in cells] == [0.133, 0.131, 0.125, 0.134, 0.112]


# -- fairness ---------------------------------------------------------------------------------------------------------


def whole(rows: RegressionRows) -> bytes:
    return np.concatenate([rows.y, rows.y_test]).tobytes()


def test_repetitions_of_fairness_split_the_same_learners() -> None:
    config = {"sec.effect": 3.0, "seed": 4}
    first, second = (synthetic.fairness(config, seed, 50) for seed in (4, 5))
    assert {whole(rows) for rows in first} == {whole(rows) for rows in second}
    assert [whole(rows) for rows in first] != [whole(rows) for rows in second]
    assert [(rows.n, len(rows.y_test)) for rows in first] == [(50, 0)] * 30 + [(25, 25)] * 20
    other_run = synthetic.fairness({**config, "seed": 5}, 5, 50)
    other_c = synthetic.fairness({**config, "sec.effect": 4.0}, 4, 50)
    assert not {whole(rows) for rows in first} & {whole(rows) for rows in [*other_run, *other_c]}


def test_learners_of_fairness_differ_in_the_intercept_alone() -> None:
    intercepts, slopes, variances = [], [], []
    for seed in range(6):
        for rows in synthetic.fairness({"sec.effect": 5.0, "seed": seed}, seed, 50)[:30]:
            design = np.column_stack([np.ones(rows.n), rows.x])
            fitted, residual, *_ = np.linalg.lstsq(design, rows.y)
            intercepts.append(fitted[0])
            slopes.append(fitted[1:])
            variances.append(residual[0] / (rows.n - 5))
    np.testing.assert_allclose(np.mean(slopes, axis=0), [1, 2, -2, 2], atol=0.05)
    assert np.mean(variances) == pytest.approx(1, abs=0.06)
    # The standard error of a standard deviation of 180 draws is 5 %.
    assert np.std(intercepts) == pytest.approx(5, rel=0.2)


def test_the_oracle_of_fairness_knows_the_sensitive_variable() -> None:
    """Table I: Oracle about 1 whatever c; Fairness about 1 + c^2, within what 50 values of S allow."""
    for cell in registry.find("sec-fairness").cells({}):
        c = float(cell.labels["c"])
        oracle, pooled = [], []
        for run in range(4):
            config = {**cell.settings, "seed": run}
            oracle.append(synthetic.fairness_oracle(config, run)["mse_oracle"])
            shards = synthetic.fairness(config, run, 50)
            x, y = np.vstack([rows.x for rows in shards[:30]]), np.concatenate([rows.y for rows in shards[:30]])
            beta = np.linalg.lstsq(np.column_stack([np.ones(len(y)), x]), y)[0]
            x, y = np.vstack([rows.x_test for rows in shards[30:]]), np.concatenate([r.y_test for r in shards[30:]])
            pooled.append(np.mean((y - np.column_stack([np.ones(len(y)), x]) @ beta) ** 2))
        assert np.mean(oracle) == pytest.approx(cell.published["mse_oracle"], abs=0.15)
        assert np.mean(pooled) == pytest.approx(1 + c**2, rel=0.6)
        assert cell.published["mse_all"] == pytest.approx(1 + c**2, rel=0.3)
        assert cell.published["mse_cluster"] < cell.published["mse_all"]


# -- grid -------------------------------------------------------------------------------------------------------------


def test_grid_deals_every_row_out_once_and_tests_at_the_last_learner(grid_file: Path) -> None:
    shards = real_data.grid({"data": str(grid_file)}, 1, 50)
    assert [rows.n for rows in shards] == [16] * 50
    assert [len(rows.y_test) for rows in shards] == [0] * 49 + [200]
    assert len(shards[0].features) == 12
    assert not {"stab", "stabf"} & set(shards[0].features)
    table = pd.read_csv(grid_file)
    dealt = np.concatenate([part for rows in shards for part in (rows.y, rows.y_test)])
    np.testing.assert_allclose(np.sort(dealt), np.sort(table["stab"]))


def test_grid_attackers_negate_y_and_more_of_them_include_the_fewer(grid_file: Path) -> None:
    data = {"data": str(grid_file)}
    intact = real_data.grid(data, 1, 50)
    before: set[int] = set()
    for cell in registry.find("sec-grid").cells(data):
        config = {**data, **cell.settings}
        truth = real_data.grid_truth(config, 1, 50)
        attacked = {place for place, label in enumerate(truth) if label}
        assert len(attacked) == cell.labels["attacked"]
        assert before <= attacked
        assert 49 not in attacked
        for place, (rows, original) in enumerate(zip(real_data.grid(config, 1, 50), intact, strict=True)):
            assert np.shares_memory(rows.x, original.x)
            np.testing.assert_array_equal(rows.y, -original.y if place in attacked else original.y)
        before = attacked
    assert before == set(range(49))


# -- CT slices --------------------------------------------------------------------------------------------------------


def test_ct_of_a_file_gives_each_scan_a_site_and_splits_the_newcomers(tmp_path: Path) -> None:
    file = tmp_path / "slice_localization_data.csv"
    table = ct_table()
    table.to_csv(file, index=False)
    for data in (file, tmp_path):
        shards = real_data.ct({"data": str(data)}, 0, 97)
        scans = []
        for place, rows in enumerate(shards):
            held = np.concatenate([rows.y, rows.y_test])
            (scan,) = set(np.floor(held).astype(int))
            scans.append(scan)
            expected = table.loc[table["patientId"] == scan, "reference"]
            np.testing.assert_allclose(np.sort(held), np.sort(expected))
            assert len(rows.y_test) == (len(held) - len(held) // 2 if place >= 64 else 0)
            assert rows.features == ("value0", "value1", "value2")
        assert sorted(scans) == list(range(97)) != scans
    assert real_data.ct_truth({"data": str(file)}, 0, 97) is None
    (cell,) = registry.find("sec-ct").cells({"data": str(file)})
    assert cell.labels == {"scans": "UCI-206"}
    assert cell.published == {"mse_cluster": 95.15, "mse_all": 150.31, "n_clusters": 2.94}


def test_ct_refuses_another_number_of_scans_and_scans_of_few_slices(tmp_path: Path) -> None:
    file = tmp_path / "few.csv"
    ct_table(12).to_csv(file, index=False)
    with pytest.raises(ScenarioError, match=r"few\.csv holds 12 scans \(values of patientId\), not 97"):
        real_data.ct({"data": str(file)}, 0, 97)
    short = tmp_path / "short.csv"
    table = ct_table()
    table[(table["patientId"] != 33) | ~table["patientId"].duplicated()].to_csv(short, index=False)
    with pytest.raises(ScenarioError, match=r"short\.csv holds 1 slices of scan 33, too few"):
        real_data.ct({"data": str(short)}, 0, 97)


def test_synthetic_ct_says_so_and_has_three_groups() -> None:
    scenario = registry.find("sec-ct")
    (cell,) = scenario.cells({})
    assert cell.labels == {"scans": "made"}
    assert not cell.published
    assert "synthetic" in scenario.summary
    assert "synthetic" in scenario.source
    shards, truth = real_data.ct({}, 2, 97), real_data.ct_truth({}, 2, 97)
    assert truth is not None
    assert np.bincount(truth).tolist() == [49, 32, 16]
    assert len(shards[0].features) == 384
    assert [(rows.n, len(rows.y_test)) for rows in shards] == [(40, 0)] * 64 + [(20, 20)] * 33
    # u is where the hump lies; what the groups make of it is stated.
    for rows, group in zip(shards[:64], truth, strict=False):
        u = (rows.x.clip(0.3) - 0.3) @ np.linspace(0, 1, 384) / (rows.x.clip(0.3) - 0.3).sum(axis=1)
        inside = (u > 0.25) & (u < 0.75)
        slope, start = np.polyfit(u[inside], rows.y[inside], 1)
        assert slope == pytest.approx((50, 50, -50)[group], abs=15)
        assert start + slope / 2 == pytest.approx((55, 95, 95)[group], abs=3)


def test_too_few_rows_of_the_grid_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "grid_stability.csv"
    file.write_text("tau1,stab\n1,2\n3,4\n")
    with pytest.raises(ScenarioError, match=r"grid_stability\.csv has 2 rows, too few to give 50 learners two each$"):
        real_data.grid({"data": str(file)}, 0, 50)


@pytest.mark.parametrize("name", SITES)
def test_number_of_rows_of_each_table(name: str, grid_file: Path) -> None:
    cells = registry.find(name).cells(config_of(name, grid_file))
    assert len(cells) == {"sec-simulation1": 24, "sec-simulation2": 5, "sec-fairness": 8, "sec-grid": 12}.get(name, 1)
