"""The worlds of SEC: the stated distributions, shared draws, the same in every process, and files that are refused."""

import hashlib
import json
import os
import subprocess
import sys
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from clients.data.files import numbered_site
from numerics.shared.regression_rows import RegressionRows
from scenarios import registry, sources
from scenarios.registry import Config, Scenario, ScenarioError
from scenarios.sec import real_data as measured
from scenarios.sec import synthetic as drawn

ROOT = Path(__file__).resolve().parents[3]
SHARED = Path(os.environ.get(sources.DATA_VARIABLE) or ROOT.parent / "shared" / "data")
GRID = next((path for n in ("", ".gz") if (path := SHARED / f"grid_stability.csv{n}").is_file()), None)
needs_grid = pytest.mark.skipif(GRID is None, reason="the shared grid_stability.csv.gz is absent")

SITES = {"sec-simulation1": 20, "sec-simulation2": 20, "sec-fairness": 50, "sec-grid": 50, "sec-ct": 97}


@pytest.fixture(scope="module")
def grid_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file in the shape of the grid's, of 1000 rows: 16 for each learner and 200 test rows."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(1000, 12))
    table = pd.DataFrame(x, columns=[f"{name}{i}" for name in ("tau", "p", "g") for i in (1, 2, 3, 4)])
    table["stab"] = x @ rng.normal(size=12) + rng.normal(size=1000)
    table["stabf"] = np.where(table["stab"] > 0, "unstable", "stable")
    path = tmp_path_factory.mktemp("grid") / "Data_for_UCI_named.csv"
    table.to_csv(path, index=False)
    return path


pytestmark = pytest.mark.usefixtures("no_data_variable")


def config_of(name: str, grid_file: Path) -> dict[str, bool | int | float | str]:
    return {"data": str(grid_file) if name == "sec-grid" else "", "seed": 0}


def cell_configs(scenario: Scenario, config: Config) -> list[dict[str, bool | int | float | str]]:
    return [{**config, **cell.settings} for cell in scenario.cells(config)]


def arrays(rows: RegressionRows) -> tuple[np.ndarray, ...]:
    return rows.x, rows.y, rows.x_test, rows.y_test


def digest(shards: list[RegressionRows]) -> str:
    """Hash of everything that the shards hold, bit for bit."""
    found = hashlib.sha256()
    for rows in shards:
        found.update(",".join(rows.features).encode())
        for array in arrays(rows):
            found.update(f"{array.dtype} {array.shape}".encode() + array.tobytes())
    return found.hexdigest()


# --- all five -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SITES)
def test_registered_with_a_table_that_the_run_configuration_can_take(name: str, grid_file: Path) -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["flwr"]["app"]["config"]["sec"]
    scenario = registry.find(name)
    assert (scenario.protocol, scenario.sites, scenario.any_number) == ("sec", SITES[name], False)
    cells = scenario.cells(config_of(name, grid_file))
    assert len(cells) == {"sec-simulation1": 24, "sec-simulation2": 5, "sec-fairness": 8, "sec-grid": 12}.get(name, 1)
    assert len({tuple(cell.labels.items()) for cell in cells}) == len(cells)
    for cell in cells:
        assert set(cell.published) <= set(scenario.columns)
        for key, value in cell.settings.items():
            assert type(value) is type(declared[key.removeprefix("sec.")]), key


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
def test_shards_are_the_same_in_another_process_and_others_for_another_seed(name: str, grid_file: Path) -> None:
    scenario = registry.find(name)
    config = cell_configs(scenario, config_of(name, grid_file))[-1]
    code = f"""
import json
from scenarios import registry
from tests.unit.scenarios.test_sec import digest
scenario, config = registry.find({name!r}), {config!r}
truth = scenario.truth and scenario.truth(config, 5, scenario.sites)
print(json.dumps([digest(scenario.shards(config, 5, scenario.sites)), truth]))
"""
    environment = {key: value for key, value in os.environ.items() if key != sources.DATA_VARIABLE}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120, check=True
    )
    truth = scenario.truth(config, 5, scenario.sites) if scenario.truth else None
    mine = digest(scenario.shards(config, 5, scenario.sites))
    assert json.loads(done.stdout) == [mine, truth]
    assert digest(scenario.shards(config, 6, scenario.sites)) != mine


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


# --- the simulations ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("p", "snr"), [(5, 1.0), (10, 16.0), (20, 128.0)])
def test_simulation1_has_two_linear_functions_and_the_asked_noise(p: int, snr: float) -> None:
    truth = np.array(drawn.two_groups({}, 0, 20))
    assert truth.tolist() == [0] * 10 + [1] * 10
    norms, noise = [], []
    for seed in range(40):
        shards = drawn.simulation1({"sec.p": p, "sec.snr": snr}, seed, 20)
        assert all(rows.x.shape == (50, p) and rows.x_test.shape == (200, p) for rows in shards)
        for group in (0, 1):
            members = [rows for rows, label in zip(shards, truth, strict=True) if label == group]
            x = np.vstack([part for rows in members for part in (rows.x, rows.x_test)])
            y = np.concatenate([part for rows in members for part in (rows.y, rows.y_test)])
            beta, residual, *_ = np.linalg.lstsq(x, y)
            norms.append(beta @ beta)
            noise.append(residual[0] / (len(y) - p))
    # 200,000 rows: the noise's variance is known to a third of a percent. ||beta||^2 is chi-squared, p degrees.
    assert np.mean(noise) == pytest.approx(p / snr, rel=0.015)
    assert np.mean(norms) == pytest.approx(p * (1 + 1 / (snr * 2500)), abs=4 * np.sqrt(2 * p / 80))


def test_levels_of_snr_differ_in_the_size_of_the_noise_alone() -> None:
    loud, quiet = (drawn.simulation1({"sec.p": 10, "sec.snr": snr}, 2, 20) for snr in (1.0, 4.0))
    for one, two in zip(loud, quiet, strict=True):
        assert np.shares_memory(one.x, two.x)
        noise = one.y - two.y  # sigma is twice as large: the difference is the smaller noise itself
        residual = two.y - noise - two.x @ np.linalg.lstsq(two.x, two.y - noise)[0]
        np.testing.assert_allclose(residual, 0, atol=1e-10)
    assert not np.allclose(loud[0].x, loud[1].x)


def test_simulation2_has_friedmans_functions_in_four_of_500_inputs() -> None:
    errors = []
    for seed in range(4):
        shards = drawn.simulation2({}, seed, 20)
        assert [len(rows.y_test) for rows in shards] == [100] + [0] * 19
        for label, rows in zip(drawn.two_groups({}, seed, 20), shards, strict=True):
            assert rows.x.shape == (100, 500)
            errors.append(rows.y - (sources.friedman3 if label else sources.friedman2)(rows.x))
        first = shards[0]
        assert (first.y_test - sources.friedman2(first.x_test)).var() == pytest.approx(0.01, rel=0.6)
    assert np.var(errors) == pytest.approx(0.01, rel=0.1)
    assert abs(np.mean(errors)) < 0.01
    x = np.vstack([rows.x for rows in shards])
    for column, (low, high) in enumerate([(0, 100), (40 * np.pi, 560 * np.pi), (0, 1), (1, 11)]):
        assert low <= x[:, column].min() < low + 0.01 * (high - low)
        assert high - 0.01 * (high - low) < x[:, column].max() <= high
    assert x[:, 4:].std() == pytest.approx(1, abs=0.005)
    assert x[:, 4:].mean() == pytest.approx(0, abs=0.005)


def test_friedmans_functions_by_hand() -> None:
    x = np.array([[3.0, 2.0, 2.25, 1.0], [1.0, 1.0, 2.0, 1.0]])  # u = 4 and 1
    np.testing.assert_allclose(sources.friedman2(x), [5.0, np.sqrt(2)])
    np.testing.assert_allclose(sources.friedman3(x), [np.arctan(4 / 3), np.pi / 4])


def test_table_2_is_published_for_five_sets_of_candidates() -> None:
    cells = registry.find("sec-simulation2").cells({})
    assert [cell.labels["candidates"] for cell in cells] == [1, 3, 5, 7, 9]
    assert [len(str(cell.settings["sec.candidates"]).split()) for cell in cells] == [1, 3, 5, 7, 9]
    assert [cell.published["clusters_correct"] for cell in cells] == [0.66, 0.74, 0.58, 0.70, 0.64]
    assert [cell.published["mse_cluster"] for cell in cells] == [0.100, 0.095, 0.087, 0.096, 0.060]
    assert [cell.published["mse_alone"] for cell in cells] == [0.133, 0.131, 0.125, 0.134, 0.112]


# --- fairness -----------------------------------------------------------------------------------------------------


def whole(rows: RegressionRows) -> bytes:
    return np.concatenate([rows.y, rows.y_test]).tobytes()


def test_repetitions_of_fairness_split_the_same_learners() -> None:
    config = {"sec.effect": 3.0, "seed": 4}
    first, second = (drawn.fairness(config, seed, 50) for seed in (4, 5))
    assert {whole(rows) for rows in first} == {whole(rows) for rows in second}
    assert [whole(rows) for rows in first] != [whole(rows) for rows in second]
    assert [(rows.n, len(rows.y_test)) for rows in first] == [(50, 0)] * 30 + [(25, 25)] * 20
    other_run = drawn.fairness({**config, "seed": 5}, 5, 50)
    other_c = drawn.fairness({**config, "sec.effect": 4.0}, 4, 50)
    assert not {whole(rows) for rows in first} & {whole(rows) for rows in [*other_run, *other_c]}


def test_learners_of_fairness_differ_in_the_intercept_alone() -> None:
    intercepts, slopes, variances = [], [], []
    for seed in range(6):
        for rows in drawn.fairness({"sec.effect": 5.0, "seed": seed}, seed, 50)[:30]:
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
            oracle.append(drawn.fairness_oracle(config, run)["mse_oracle"])
            shards = drawn.fairness(config, run, 50)
            x, y = np.vstack([rows.x for rows in shards[:30]]), np.concatenate([rows.y for rows in shards[:30]])
            beta = np.linalg.lstsq(np.column_stack([np.ones(len(y)), x]), y)[0]
            x, y = np.vstack([rows.x_test for rows in shards[30:]]), np.concatenate([r.y_test for r in shards[30:]])
            pooled.append(np.mean((y - np.column_stack([np.ones(len(y)), x]) @ beta) ** 2))
        assert np.mean(oracle) == pytest.approx(cell.published["mse_oracle"], abs=0.15)
        assert np.mean(pooled) == pytest.approx(1 + c**2, rel=0.6)
        assert cell.published["mse_all"] == pytest.approx(1 + c**2, rel=0.3)
        assert cell.published["mse_cluster"] < cell.published["mse_all"]


# --- grid ---------------------------------------------------------------------------------------------------------


def test_grid_deals_every_row_out_once_and_tests_at_the_last_learner(grid_file: Path) -> None:
    shards = measured.grid({"data": str(grid_file)}, 1, 50)
    assert [rows.n for rows in shards] == [16] * 50
    assert [len(rows.y_test) for rows in shards] == [0] * 49 + [200]
    assert len(shards[0].features) == 12
    assert not {"stab", "stabf"} & set(shards[0].features)
    table = pd.read_csv(grid_file)
    dealt = np.concatenate([part for rows in shards for part in (rows.y, rows.y_test)])
    np.testing.assert_allclose(np.sort(dealt), np.sort(table["stab"]))


def test_grid_attackers_negate_y_and_more_of_them_include_the_fewer(grid_file: Path) -> None:
    data = {"data": str(grid_file)}
    intact = measured.grid(data, 1, 50)
    before: set[int] = set()
    for cell in registry.find("sec-grid").cells(data):
        config = {**data, **cell.settings}
        truth = measured.grid_truth(config, 1, 50)
        attacked = {place for place, label in enumerate(truth) if label}
        assert len(attacked) == cell.labels["attacked"]
        assert before <= attacked
        assert 49 not in attacked
        for place, (rows, original) in enumerate(zip(measured.grid(config, 1, 50), intact, strict=True)):
            assert np.shares_memory(rows.x, original.x)
            np.testing.assert_array_equal(rows.y, -original.y if place in attacked else original.y)
        before = attacked
    assert before == set(range(49))


@needs_grid
def test_grid_errors_are_those_of_the_measured_reference() -> None:
    """Times 1e-4, specs/sec.md: alone 5.31, everybody 4.86 / 16.3 / 48.0 with 0 / 25 / 49 attacked, oracle to 5.05."""

    def fitted(rows: list[RegressionRows]) -> np.ndarray:
        x = np.vstack([each.x for each in rows])
        return np.linalg.lstsq(np.column_stack([np.ones(len(x)), x]), np.concatenate([each.y for each in rows]))[0]

    def error(beta: np.ndarray, rows: RegressionRows) -> float:
        return 1e4 * float(np.mean((rows.y_test - np.column_stack([np.ones(2000), rows.x_test]) @ beta) ** 2))

    for n_attacked, everybody in ((0, 4.86), (25, 16.3), (49, 48.0)):
        found = []
        for seed in range(8):
            config = {"data": str(GRID), "sec.attacked": n_attacked}
            shards, truth = measured.grid(config, seed, 50), measured.grid_truth(config, seed, 50)
            assert [rows.n for rows in shards] == [160] * 50
            intact = [rows for rows, label in zip(shards, truth, strict=True) if not label]
            found.append([error(fitted(rows), shards[-1]) for rows in (shards, shards[-1:], intact)])
        all_of_them, alone, oracle = np.mean(found, axis=0)
        assert all_of_them == pytest.approx(everybody, rel=0.05)
        assert alone == pytest.approx(5.31, rel=0.05)
        assert oracle == pytest.approx(5.31 if n_attacked == 49 else 4.9, rel=0.05)


def test_grid_from_a_directory_gzipped_or_by_the_environment(
    grid_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = sources.read_grid(sources.find_grid({"data": str(grid_file.parent)})).x
    pd.read_csv(grid_file).to_csv(tmp_path / "grid_stability.csv.gz", index=False)
    monkeypatch.setenv(sources.DATA_VARIABLE, str(tmp_path))
    assert sources.find_grid({}) == tmp_path / "grid_stability.csv.gz"
    np.testing.assert_array_equal(sources.read_grid(sources.find_grid({})).x, x)
    with pytest.raises(
        ScenarioError, match=r"neither a CSV file nor a directory that holds grid_stability\.csv\[\.gz\] or"
    ):
        registry.find("sec-grid").cells({"data": str(tmp_path / "absent")})


def test_grid_from_openml_leaves_the_label_out(grid_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = pd.read_csv(grid_file)

    class Bunch:
        data = table.drop(columns="stab")
        target = table["stab"]

    monkeypatch.setattr("scenarios.sources.files.fetch_openml", lambda *args, **kwargs: Bunch)
    found, expected = sources.read_grid(None), sources.read_grid(grid_file)
    assert found.features == expected.features
    np.testing.assert_array_equal(found.x, expected.x)
    np.testing.assert_array_equal(found.y, expected.y)


def test_grid_without_file_and_network_says_where_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def unreachable(*args: object, **kwargs: object) -> None:
        raise OSError("network is cut")

    monkeypatch.setattr("scenarios.sources.files.fetch_openml", unreachable)
    with pytest.raises(ScenarioError, match=r"network is cut.*dataset/471, or CONSILIENCE_DATA to a directory"):
        measured.grid({}, 0, 50)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tau1,stab,stabf\n1,2,stable\nfast,2,stable\n", "line 3, column 'tau1': 'fast' is no finite number"),
        ("tau1,stab\n1,2\n1,\n", "line 3, column 'stab': '' is no finite number"),
        ("tau1,stab\n1,2\n1,inf\n", "line 3, column 'stab': 'inf' is no finite number"),
        ("tau1,stab\n1,2\n1\n", "line 3, column 'stab': '' is no finite number"),
        ("tau1,stab\n1,2,3\n4,5,6\n", "Expected 2 fields in line 2, saw 3"),
        ("tau1,stab\nTrue,2\nFalse,3\n", "line 2, column 'tau1': 'True' is no finite number"),
        ("tau1,stabf\n1,stable\n", "has no column 'stab'"),
        ("stab,stabf\n1,stable\n", "has no column beside 'stab'"),
        ("tau1,tau1,stab\n1,2,3\n", "two columns of one name"),
        ("tau1,stab\n", "has no rows below its header"),
        ("tau1,stab\n1,2\n3,4\n", "has 2 rows, too few to give 50 learners two each"),
        ("", "cannot be read as CSV"),
    ],
)
def test_grid_refuses_a_bad_file_by_line_and_column(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "grid_stability.csv"
    file.write_text(text)
    with pytest.raises(ScenarioError) as caught:
        measured.grid({"data": str(file)}, 0, 50)
    assert message in str(caught.value)
    assert str(file) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_blank_line_above_the_header_is_no_row(grid_file: Path, tmp_path: Path) -> None:
    file = tmp_path / "grid_stability.csv"
    file.write_text("\n" + grid_file.read_text())
    np.testing.assert_allclose(sources.read_grid(file).x, sources.read_grid(grid_file).x, rtol=1e-15)


# --- CT slices ----------------------------------------------------------------------------------------------------


def ct_table(n_scans: int = 97) -> pd.DataFrame:
    """A small file in the shape of UCI 206, its scans of unequal length and out of order."""
    rng = np.random.default_rng(1)
    scan = rng.permutation(np.repeat(np.arange(n_scans), 4 + np.arange(n_scans) % 4))
    table = pd.DataFrame(rng.normal(size=(len(scan), 3)), columns=["value0", "value1", "value2"])
    table.insert(0, "patientId", scan)
    return table.assign(reference=scan + np.linspace(0, 0.5, len(scan)))


def test_ct_of_a_file_gives_each_scan_a_site_and_splits_the_newcomers(tmp_path: Path) -> None:
    file = tmp_path / "slice_localization_data.csv"
    table = ct_table()
    table.to_csv(file, index=False)
    for data in (file, tmp_path):
        shards = measured.ct({"data": str(data)}, 0, 97)
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
    assert measured.ct_truth({"data": str(file)}, 0, 97) is None
    (cell,) = registry.find("sec-ct").cells({"data": str(file)})
    assert cell.labels == {"scans": "UCI-206"}
    assert cell.published == {"mse_cluster": 95.15, "mse_all": 150.31, "n_clusters": 2.94}


def test_ct_refuses_another_number_of_scans_and_scans_of_few_slices(tmp_path: Path) -> None:
    file = tmp_path / "few.csv"
    ct_table(12).to_csv(file, index=False)
    with pytest.raises(ScenarioError, match=r"few\.csv holds 12 scans \(values of patientId\), not 97"):
        measured.ct({"data": str(file)}, 0, 97)
    short = tmp_path / "short.csv"
    table = ct_table()
    table[(table["patientId"] != 33) | ~table["patientId"].duplicated()].to_csv(short, index=False)
    with pytest.raises(ScenarioError, match=r"short\.csv holds 1 slices of scan 33, too few"):
        measured.ct({"data": str(short)}, 0, 97)
    file.write_text("value0,reference\n1,2\n")
    with pytest.raises(ScenarioError, match=r"few\.csv has no column 'patientId'"):
        sources.read_ct(file)


def test_made_ct_says_that_it_is_made_and_hides_three_groups() -> None:
    scenario = registry.find("sec-ct")
    (cell,) = scenario.cells({})
    assert cell.labels == {"scans": "made"}
    assert not cell.published
    assert "made" in scenario.summary
    assert "made" in scenario.source
    shards, truth = measured.ct({}, 2, 97), measured.ct_truth({}, 2, 97)
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
