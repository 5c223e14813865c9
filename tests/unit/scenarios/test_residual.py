"""Scenarios of attribute-distributed regression: stated distributions, all columns split, published results."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from numerics.residual.boosting import l2_boosting
from numerics.residual.columns_and_outcomes import Columns, Outcomes
from scenarios import registry
from scenarios.registry import Config, Scenario, ScenarioError
from scenarios.residual import gaussian, real_data, synthetic
from scenarios.residual.common import pooled_errors, relevant_sites, with_nuisance
from scenarios.synthetic import friedman1, friedman2, friedman3

SITES = {
    "residual-friedman1": 5,
    "residual-friedman2": 5,
    "residual-friedman3": 5,
    "residual-concrete": 8,
    "residual-concrete-nuisance": 16,
    "residual-curves": 10,
    "residual-irrelevant": 30,
    "residual-cost": 10,
    "residual-theorem2": 2,
}
ROWS = dict.fromkeys(SITES, (2000, 2000)) | {
    "residual-irrelevant": (1000, 1000),
    "residual-concrete": (700, 60),
    "residual-concrete-nuisance": (700, 60),
    "residual-cost": (2000, 0),
    "residual-theorem2": (17711, 0),
}
RELEVANT = {
    "residual-friedman1": 5,
    "residual-friedman2": 4,
    "residual-friedman3": 4,
    "residual-concrete": 8,
    "residual-concrete-nuisance": 8,
    "residual-curves": 5,
    "residual-irrelevant": 4,
    "residual-cost": 5,
    "residual-theorem2": 2,
}
FIXED = ("residual-cost", "residual-theorem2")


@pytest.fixture
def concrete_file(folder: Path) -> Path:
    """A file in the shape of the concrete's, of 760 rows."""
    return folder / "concrete.csv"


def config_of(name: str, concrete_file: Path) -> dict[str, bool | int | float | str]:
    return {"data": str(concrete_file) if "concrete" in name else ""}


def outcome(scenario: Scenario, config: Config, seed: int) -> Outcomes:
    assert scenario.outcome is not None
    return scenario.outcome(config, seed)


def truth(scenario: Scenario, config: Config, seed: int, n_sites: int) -> list[int]:
    assert scenario.truth is not None
    found = scenario.truth(config, seed, n_sites)
    assert found is not None
    return found


def pooled(shards: list[Columns]) -> dict[str, np.ndarray]:
    """Every attribute of all sites by its name."""
    return {name: shard.x[:, j] for shard in shards for j, name in enumerate(shard.features)}


# -- all of them ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SITES)
def test_shards_are_read_only_columns_of_the_same_rows(name: str, concrete_file: Path) -> None:
    scenario, config = registry.find(name), config_of(name, concrete_file)
    shards, held = scenario.shards(config, 3, SITES[name]), outcome(scenario, config, 3)
    n, n_test = ROWS[name]
    assert (len(held.y), held.n_test, held.entity) == (n + n_test, n_test, None)
    assert len(shards) == SITES[name]
    for shard in shards:
        assert shard.x.shape == (n + n_test, 4 if name == "residual-theorem2" else 1)
        assert len(shard.features) == shard.x.shape[1]
        assert shard.y is None
        assert shard.entity is None
        for array in (shard.x, held.y):
            assert array.dtype == np.float64
            assert np.isfinite(array).all()
            assert not array.flags.writeable
    assert len(pooled(shards)) == sum(shard.x.shape[1] for shard in shards)


def test_worlds_draw_from_streams_of_their_own(concrete_file: Path) -> None:
    names = [name for name in SITES if not name.startswith("residual-concrete")]
    outcomes = [outcome(registry.find(name), {}, 0).y[:100] for name in names]
    assert len({y.tobytes() for y in outcomes}) == len(names)


@pytest.mark.parametrize("name", [name for name in SITES if name not in FIXED])
@pytest.mark.parametrize("n_sites", [1, 2, 3, 7, 33])
def test_any_number_of_sites_holds_every_attribute_once(name: str, n_sites: int, concrete_file: Path) -> None:
    scenario, config = registry.find(name), config_of(name, concrete_file)
    shards, known = scenario.shards(config, 1, n_sites), truth(scenario, config, 1, n_sites)
    own = pooled(scenario.shards(config, 1, SITES[name]))
    dealt = pooled(shards)
    assert len(shards) == len(known) == n_sites
    assert len(dealt) == max(n_sites, SITES[name])
    for feature, column in own.items():
        np.testing.assert_array_equal(dealt[feature], column)
    sizes = [len(shard.features) for shard in shards]
    assert max(sizes) - min(sizes) <= 1
    relevant = set(list(own)[: RELEVANT[name]])
    assert known == [int(bool(relevant & set(shard.features))) for shard in shards]
    assert sum(known) == min(n_sites, RELEVANT[name])


def test_a_site_is_relevant_by_any_of_its_attributes() -> None:
    world = synthetic.friedman(synthetic.Friedman(1, 0), 2)
    world = replace(world, relevant=(False, False, True, False, True))
    assert [relevant_sites(world, n_sites) for n_sites in (1, 2, 3, 5)] == [[1], [1, 0], [0, 1, 1], [0, 0, 1, 0, 1]]


@pytest.mark.parametrize("name", FIXED)
def test_another_number_of_sites_is_refused_where_the_table_counts_them(name: str) -> None:
    with pytest.raises(ScenarioError, match=rf"{name} has {SITES[name]} sites and cannot be split over 7"):
        registry.find(name).shards({}, 0, 7)


def test_irrelevant_attributes_are_standard_normal_and_their_number_changes_none() -> None:
    few, many = (with_nuisance(synthetic.friedman(synthetic.Friedman(1, 0), 2), n) for n in (7, 40))
    np.testing.assert_array_equal(few.x, many.x[:, :7])
    assert many.features[:7] == few.features == ("x1", "x2", "x3", "x4", "x5", "noise1", "noise2")
    noise = many.x[:, 5:]  # 140,000 values
    assert noise.mean() == pytest.approx(0, abs=0.01)
    assert noise.std() == pytest.approx(1, abs=0.01)
    correlation = np.corrcoef(np.column_stack([many.x, many.y]).T)
    assert np.abs(correlation[5:40] - np.eye(41)[5:40]).max() < 5 / np.sqrt(4000)


# -- Friedman's functions ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("function", [1, 2, 3])
def test_friedman_worlds_have_the_stated_ranges_variance_and_noise(function: int) -> None:
    scenario = registry.find(f"residual-friedman{function}")
    x = np.column_stack([shard.x for shard in scenario.shards({}, 4, 5)])
    y = outcome(scenario, {}, 4).y
    ranges = [(0, 1)] * 5 if function == 1 else [(1, 100), (40 * np.pi, 560 * np.pi), (0, 1), (1, 11), (0, 1)]
    for column, (low, high) in zip(x.T, ranges, strict=True):
        width = high - low
        assert low <= column.min() < low + 0.01 * width
        assert high - 0.01 * width < column.max() <= high
    signal = (friedman1, friedman2, friedman3)[function - 1](x)
    noise = y - signal / signal[:2000].std()
    # The standard error of the deviation of 4000 draws is 1.1 %.
    assert noise.std() == pytest.approx(0.05, rel=0.05)
    assert noise.mean() == pytest.approx(0, abs=0.004)
    assert truth(scenario, {}, 4, 5) == [1, 1, 1, 1, int(function == 1)]


def test_table_1_is_published_for_seven_p_and_greedy() -> None:
    cells = {cell.labels.get("p", "greedy"): cell for cell in registry.find("residual-irrelevant").cells({})}
    published = [cells[p].published["test_mse_last"] for p in range(1, 8)]
    assert published == [0.242, 0.204, 0.192, 0.190, 0.202, 0.222, 0.257]
    assert cells["greedy"].published == {"test_mse_last": 0.2746}
    for cell in cells.values():
        assert cell.settings["residual.intercept"] is False
        assert cell.settings["residual.rounds"] == 20
        assert cell.defaults["residual.min-leaf"] == 15
    assert [cells[p].settings["residual.power"] for p in (1, 7)] == ["1", "7"]


def test_table_2_is_published_in_numbers_for_2000_rows_and_10_agents() -> None:
    cells = registry.find("residual-cost").cells({})
    found = {cell.labels["algorithm"]: tuple(cell.published.values()) for cell in cells}
    assert found == {"average": (0, 0), "sip": (2000, 2000), "greedy": (2000, 2000), "parallel": (2000, 20_000)}
    assert registry.find("residual-cost").baselines({}, 0) == {}


def test_a_user_may_try_another_leaf_on_all_rows() -> None:
    scenario = registry.find("residual-friedman1")
    plain, other = (registry.select_cells(scenario, {"residual.min-leaf": leaf}) for leaf in (0, 5))
    assert {cell.settings["residual.min-leaf"] for cell in plain} == {40}
    assert not any("residual.min-leaf" in cell.settings for cell in other)


# -- baselines ---------------------------------------------------------------------------------------------------------


def test_boosting_takes_small_steps_of_trees_with_the_asked_leaf() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(200, 2)), rng.normal(size=200)
    model = l2_boosting(x, y, min_leaf=30, seed=0)
    for tree in model.estimators_[:, 0]:
        assert tree.tree_.n_node_samples[tree.tree_.children_left == -1].min() >= 30
    assert len(model.estimators_) == 60
    small_step = model.estimators_[0, 0].predict(x.astype(np.float32)) * 0.25
    np.testing.assert_allclose(next(model.staged_predict(x)) - y.mean(), small_step, atol=1e-12)
    np.testing.assert_allclose(l2_boosting(x[:9], y[:9], min_leaf=40, seed=0).predict(x), y[:9].mean())


def test_baselines_are_computed_once_for_all_cells(concrete_file: Path) -> None:
    scenario, config = registry.find("residual-concrete"), config_of("residual-concrete", concrete_file)
    found = [scenario.baselines({**config, **cell.settings, **cell.defaults}, 0) for cell in scenario.cells(config)]
    before = pooled_errors.cache_info().misses
    assert found == [scenario.baselines({**config, "residual.min-leaf": 40}, 0)] * len(found)
    assert pooled_errors.cache_info().misses == before
    assert scenario.baselines({**config, "residual.min-leaf": 10}, 0) != found[0]


# -- concrete ---------------------------------------------------------------------------------------------------------


def test_concrete_is_split_anew_by_seed_and_standardized_by_the_training_rows(concrete_file: Path) -> None:
    scenario, config = registry.find("residual-concrete"), {"data": str(concrete_file)}
    table = pd.read_csv(concrete_file)
    for seed in (0, 1):
        shards, held = scenario.shards(config, seed, 8), outcome(scenario, config, seed)
        assert [shard.features for shard in shards] == [(f"part{j + 1}",) for j in range(8)]
        assert held.y[:700].mean() == pytest.approx(0, abs=1e-12)
        assert held.y[:700].std() == pytest.approx(1)
        row_of = {value: row for row, value in enumerate(table["part1"])}
        rows = [row_of[value] for value in shards[0].x[:, 0]]
        assert sorted(rows) == list(range(760))
        np.testing.assert_array_equal(shards[3].x[:, 0], table["part4"].to_numpy()[rows])
        assert np.corrcoef(held.y, table["strength_mpa"].to_numpy()[rows])[0, 1] == pytest.approx(1)
    assert not np.array_equal(scenario.shards(config, 0, 8)[0].x, scenario.shards(config, 1, 8)[0].x)


def test_nuisance_is_beside_the_same_split(concrete_file: Path) -> None:
    config = {"data": str(concrete_file)}
    plain, more = real_data.concrete(config, 3), real_data.concrete_nuisance(config, 3)
    np.testing.assert_array_equal(more.x[:, :8], plain.x)
    np.testing.assert_array_equal(more.y, plain.y)
    assert more.features[8:] == tuple(f"noise{j}" for j in range(1, 9))
    assert more.relevant == (True,) * 8 + (False,) * 8


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b,strength_mpa\n1,2,3\n", "has 1 rows, too few: 700 are training rows"),
        ("a,b,strength_mpa\n" + "1,2,3\n" * 701, "has 701 rows, too few"),
        ("a,b,strength_mpa\n" + "1,2,3\n" * 702, "is the same in all rows"),
    ],
)
def test_a_bad_concrete_file_is_one_clear_line(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "concrete.csv"
    file.write_text(text)
    with pytest.raises(ScenarioError) as caught:
        real_data.concrete({"data": str(file)}, 0)
    assert message in str(caught.value)
    assert str(file) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["residual-concrete", "residual-concrete-nuisance"])
def test_wrong_data_are_said_before_any_site_is_asked(name: str, tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match=r"is neither a CSV file nor a directory that holds concrete\.csv"):
        registry.find(name).cells({"data": str(tmp_path)})


# -- Theorem 2 --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rho", gaussian.CORRELATIONS)
def test_two_agents_in_turn_close_in_by_rho_to_the_fourth(rho: float) -> None:
    scenario = registry.find("residual-theorem2")
    cell = next(cell for cell in scenario.cells({}) if cell.labels["rho"] == rho)
    shards, y = scenario.shards(cell.settings, 1, 2), outcome(scenario, cell.settings, 1).y
    first, second = (shard.x[:, 0] for shard in shards)
    assert [shard.features for shard in shards] == [tuple(f"He{n}_x{j}" for n in range(1, 5)) for j in (1, 2)]
    assert np.corrcoef(first, second)[0, 1] == pytest.approx(rho, abs=3e-4)
    assert y.mean() == pytest.approx(0, abs=3e-3)
    np.testing.assert_allclose(shards[0].x[:, 3], first**4 - 6 * first**2 + 3, atol=1e-9)

    bases = [np.linalg.qr(np.column_stack([np.ones(len(y)), shard.x]))[0] for shard in shards]
    residual, steps = y - y.mean(), []
    for turn in range(int(cell.settings["residual.rounds"])):
        basis = bases[turn % 2]
        step = basis @ (basis.T @ residual)
        residual = residual - step
        steps.append(np.mean(step**2))
    contraction = np.divide(steps[2:], steps[:-2])
    np.testing.assert_allclose(contraction[-2:], cell.published["contraction"], rtol=2e-3)
    assert cell.published["contraction"] == pytest.approx(rho**4)


def test_all_correlations_share_their_first_attribute_and_an_impossible_one_is_refused() -> None:
    low, high = (gaussian.theorem2({"residual.correlation": rho}, 0) for rho in (0.3, 0.9))
    np.testing.assert_array_equal(low.x[:, ::2], high.x[:, ::2])
    assert gaussian.theorem2({}, 0) is gaussian.theorem2({"residual.correlation": gaussian.RHO_DEFAULT}, 0)
    with pytest.raises(
        ScenarioError, match=r"residual\.correlation must be a finite number, from 0 to 0\.999, not 1\.0"
    ):
        gaussian.theorem2({"residual.correlation": 1.0}, 0)
