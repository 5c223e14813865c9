"""What crafted targets give away of an agent's columns: groups of values, and no single row."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from clients.residual.agent import FEWEST_EQUAL, Agent
from consilience.attack.playing import play
from consilience.attack.site import AttackedSite, real_node
from numerics.residual.rules import Rules
from numerics.shared.value_groups import ValueGroups
from protocols.residual.payloads import Bin, Enrol, Fit, Lead, Order
from protocols.settings import declared
from tests.support.residual_sites import enrolled_sites

N = 120


def columns() -> np.ndarray:
    rng = np.random.default_rng(1)
    return np.column_stack([rng.normal(size=N), rng.lognormal(size=N), rng.integers(0, 60, N)])


def test_no_single_row_comes_out_of_one_step_of_least_angles(tmp_path: Path) -> None:
    np.savetxt(tmp_path / "own.csv", columns(), "%.17g", ",", header="a,b,c", comments="")
    [outcome] = play("residual", tmp_path / "own.csv", only="single columns")
    assert "columns read, but for their units: 3 of 3" in outcome.notes, "the attack works, on groups"
    assert outcome.rows_out == outcome.groups_out == 0


@pytest.mark.parametrize("least", [2, 10, 25])
def test_every_value_is_that_of_enough_rows(least: int) -> None:
    x = columns()
    shown = ValueGroups.of(x, least).apply(x)
    for column, values in zip(shown.T, x.T, strict=True):
        assert np.unique(column, return_counts=True)[1].min() >= least
        assert np.isclose(column.mean(), values.mean())
        assert (np.diff(column[np.argsort(values, kind="stable")]) >= 0).all(), "the order stays"
    assert FEWEST_EQUAL == 10


def test_edges_of_groups() -> None:
    few = np.array([[1.0], [2.0], [3.0]])
    assert (ValueGroups.of(few, 10).apply(few) == 2.0).all()
    ties = np.repeat([[0.0], [1.0], [5.0]], [1, 30, 2], axis=0)
    assert np.unique(ValueGroups.of(ties, 10).apply(ties), return_counts=True)[1].min() >= 10
    whole = np.repeat([[0.1], [0.7]], 20, axis=0)
    assert (ValueGroups.of(whole, 10).apply(whole) == whole).all(), "equal values stay as they are"


def column_shown(site: AttackedSite, rows: np.ndarray, values: np.ndarray) -> np.ndarray:
    """What a center sees in a new run of a site's only column, in the unit of the true values."""
    site.start_run({"residual.align": "row-order"})
    site.ask(Enrol("x", "row-order"))
    site.ask(Order(rows, "lars(max_iter=1, cv=2)", min_leaf=1))
    fitted = site.ask(Fit(values[rows])).fitted[:, 0]
    return np.asarray(np.polynomial.Polynomial.fit(fitted, values[rows, 0], 1)(fitted))


def assert_same_column(one: np.ndarray, other: np.ndarray) -> None:
    """The two tell the same values apart, but for unit and zero."""
    np.testing.assert_allclose(np.polynomial.Polynomial.fit(one, other, 1)(one), other, atol=1e-9)


def lone_column(tmp_path: Path, values: np.ndarray) -> AttackedSite:
    """A site whose file has one column."""
    write_column(tmp_path, values)
    node = real_node(tmp_path / "own.csv", tmp_path / "home", None, {})
    return AttackedSite(node, {"protocol": "residual"}, values, 9)


def write_column(tmp_path: Path, values: np.ndarray) -> None:
    np.savetxt(tmp_path / "own.csv", values, "%.17g", ",", header="a", comments="")


def test_runs_with_other_rows_show_no_other_values(tmp_path: Path) -> None:
    """Groups of the rows that the center chooses would be others in every run: 24 runs told all values of a column."""
    own, rng = columns()[:, :1], np.random.default_rng(0)
    site = lone_column(tmp_path, own)
    first = column_shown(site, np.arange(N), own)
    assert len(np.unique(first.round(9))) == N // FEWEST_EQUAL
    for n in (80, 60, 11):
        rows = np.sort(rng.permutation(N)[:n])
        assert_same_column(first[rows], column_shown(site, rows, own))


def test_a_file_that_grows_shows_no_other_values(tmp_path: Path) -> None:
    """Groups of each version of the file would have other means: 13 versions, each of 5 more rows, told most values."""
    people = np.random.default_rng(0).normal(size=(2 * N, 1))
    site = lone_column(tmp_path, people[:N])
    shown = []
    for n in (N, N + 5, N + 40, 2 * N):
        write_column(tmp_path, people[:n])
        shown.append(column_shown(site, np.arange(n), people))
    for later in shown[1:3]:
        assert_same_column(shown[0], later[:N])
    groups = [len(np.unique(each.round(9))) * FEWEST_EQUAL for each in shown]
    assert groups == [N, N, N, 2 * N], "new rows join the groups that there are, until the rows have doubled"


def test_a_run_has_its_rows_in_one_lane(tmp_path: Path) -> None:
    np.savetxt(tmp_path / "own.csv", columns(), "%.17g", ",", header="a,b,c", comments="")
    site = attacked(tmp_path, {})
    for lane in ("1", "0.1"):
        site.ask(Enrol("x", "row-order"), lane=lane)
        assert site.ask(Order(np.arange(N // 2), "tree", min_leaf=1), lane=lane) is None
    assert site.faults == {"malformed-ask": 2}


def test_draws_of_a_method_do_not_depend_on_values_within_a_group(tmp_path: Path) -> None:
    """Else whoever orders two rows could try their values against the draws of a forest."""
    first, swapped = columns(), columns()
    near = np.argsort(first[:, 0])[[3, 4]]  # of one group
    swapped[near, 0] = first[near[::-1], 0]
    answers = []
    for name, rows in {"first": first, "swapped": swapped}.items():
        (tmp_path / name).mkdir()
        np.savetxt(tmp_path / name / "own.csv", rows, "%.17g", ",", header="a,b,c", comments="")
        site = attacked(tmp_path / name, {}, agent="rf(n_estimators=3)")
        answers.append(site.ask(Fit(np.random.default_rng(0).normal(size=(N, 1)))).fitted)
    np.testing.assert_array_equal(*answers)


@pytest.mark.parametrize("n_classes", [0, 2])
def test_boosting_alone_tells_no_row_of_a_group_apart(tmp_path: Path, n_classes: int) -> None:
    """What a site sends to be compared with is of groups of values, too: amounts, and probabilities of classes."""
    shop = enrolled_sites(tmp_path, "bank")["shop"]  # it has one column
    agent = Agent.of(shop)
    noise = np.random.default_rng(0).normal(size=100)
    target = (noise > 0) * 1.0 if n_classes else noise
    predicted = agent.boosted_alone(target, 75, n_classes, balanced=False).predict(agent.x)[:, 0]
    assert 1 < len(np.unique(predicted)) <= len(np.unique(agent.x)) <= len(agent.x) / FEWEST_EQUAL


def test_bins_leave_by_consent_only_and_several_runs_refine_nothing(tmp_path: Path) -> None:
    np.savetxt(tmp_path / "own.csv", columns(), "%.17g", ",", header="a,b,c", comments="")
    [refused] = play("residual", tmp_path / "own.csv", only="bins")
    assert refused.notes == ["the site gives no bins"]
    [allowed] = play("residual", tmp_path / "own.csv", settings={"allow-bins": True}, most_runs=3, only="bins")
    assert f"fewest rows that share their bins of a column: {FEWEST_EQUAL}" in allowed.notes
    assert allowed.rows_out == 0


def test_log_losses_tell_classes_of_rows_that_are_alike(tmp_path: Path) -> None:
    """What docs/residual-reference.md says: a mean over five rows of one class is that of each."""
    ill = np.resize([1, 1, 1, 1, 1, 0, 1, 0, 0, 1], N)  # the last five rows of a run are the first, then the next ones
    rows = np.column_stack([columns(), ill])
    np.savetxt(tmp_path / "own.csv", rows, ["%.17g"] * 3 + ["class%d"], ",", header="a,b,c,ill", comments="")
    (tmp_path / "secret").write_bytes(b"sixteen bytes or more")
    keys = {"target": "ill", "align-key-file": str(tmp_path / "secret")}
    [outcome] = play("residual", tmp_path / "own.csv", settings=keys, most_runs=4, only="classes")
    assert outcome.notes == ["rows whose class is known, up to the classes' names: 10 of 20 test rows"]
    assert outcome.rows_out == outcome.groups_out == 0
    (tmp_path / "policy.toml").write_text("min-rows = 10\n")
    [refused] = play("residual", tmp_path / "own.csv", tmp_path / "policy.toml", keys, only="classes")
    assert refused.notes == ["the site refuses to lead so few test rows"]


@pytest.mark.parametrize("consent", ["true", 1, None])
def test_only_true_is_consent(tmp_path: Path, consent: object) -> None:
    np.savetxt(tmp_path / "own.csv", columns(), "%.17g", ",", header="a,b,c", comments="")
    site = attacked(tmp_path, {} if consent is None else {"allow-bins": consent})
    answer = site.ask(Bin(32, 0.0))
    if consent is None:
        assert (answer.bins.size, answer.levels.size) == (0, 0)
    else:
        assert site.faults == {"bad-configuration": 1}


def test_a_run_has_one_number_of_bins(tmp_path: Path) -> None:
    np.savetxt(tmp_path / "own.csv", columns(), "%.17g", ",", header="a,b,c", comments="")
    site = attacked(tmp_path, {"allow-bins": True, "bins-epsilon": 4.0})
    first = site.ask(Bin(32, 0.0))
    assert first.epsilon == 4.0
    np.testing.assert_array_equal(site.ask(Bin(32, 0.0)).bins, first.bins, err_msg="asked again, it draws nothing anew")
    for other in (Bin(64, 0.0), Bin(32, 1.0), Bin(33, 0.0), Bin(32, -1.0)):
        assert site.ask(other) is None
    assert site.faults == {"malformed-ask": 4}


def test_the_draws_of_a_site_are_its_own(tmp_path: Path) -> None:
    """Else whoever knows all of a file but one cell could try that cell's values against the draws."""
    np.savetxt(tmp_path / "own.csv", columns(), "%.17g", ",", header="a,b,c", comments="")
    keys = {"allow-bins": True, "bins-epsilon": 4.0}
    first, other = (attacked(tmp_path, keys, home).ask(Bin(32, 0.0)).bins for home in ("home", "another home"))
    assert 0.2 < (first != other).mean() < 0.8
    (tmp_path / "third home").mkdir()
    shutil.copy(tmp_path / "home" / "secret", tmp_path / "third home")
    np.testing.assert_array_equal(attacked(tmp_path, keys, "third home").ask(Bin(32, 0.0)).bins, first)


def attacked(tmp_path: Path, keys: dict[str, object], home: str = "home", agent: str = "tree") -> AttackedSite:
    """A real site whose rows a run has ordered."""
    node = real_node(tmp_path / "own.csv", tmp_path / home, None, keys)
    site = AttackedSite(node, {"protocol": "residual"}, np.zeros((2, 3)), 1)
    assert site.start_run({"residual.align": "row-order"})
    site.ask(Enrol("x", "row-order"))
    assert site.ask(Order(np.arange(N), agent, min_leaf=1)) is not None
    return site


def test_as_many_runs_as_outcomes_tell_them_all(tmp_path: Path) -> None:
    """Mean squares of other five test rows in each run: docs/residual-reference.md says so, and what prevents it."""
    n, rng = 30, np.random.default_rng(0)
    y = rng.normal(50, 10, n)
    table = np.column_stack([np.arange(n), rng.normal(size=n), y])
    np.savetxt(tmp_path / "own.csv", table, "%.17g", ",", header="id,a,owed", comments="")
    (tmp_path / "secret").write_text("a secret that the sites share, long enough")
    own = {"target": "owed", "id": "id", "align-key-file": str(tmp_path / "secret")}
    run = {**declared(), "protocol": "residual", "scenario": ""}
    site = AttackedSite(real_node(tmp_path / "own.csv", tmp_path / "out", None, own), run, np.zeros((2, 1)), n)
    rules, orders, told = Rules(algorithm="boosted", rounds=0), [], []
    while site.start_run():
        orders.append(np.roll(np.arange(n), -site.n_runs))
        key = site.ask(Enrol("x", "id", True)).public_key
        site.ask(Order(orders[-1], "tree", min_leaf=5, holder=site.name, names=(site.name,), public_keys=(key,)))
        told.append(site.ask(Lead((site.name,), n - 5, rules.to_json(), "float64")).curve[0, [0, 2]])
    learned = rules.split(n, n - 5).n_fit

    def misfits(outcomes: np.ndarray) -> np.ndarray:
        sets = [(outcomes[order[:learned]], outcomes[order[-5:]]) for order in orders]
        return np.ravel(
            [[np.mean((each - fit.mean()) ** 2) for each in (fit, test)] for fit, test in sets] - np.array(told)
        )

    # Only outcomes that all are moved alike, or mirrored, have the same errors.
    np.testing.assert_allclose(misfits(y), 0.0, atol=1e-9)
    slopes = np.column_stack([(misfits(y + step) - misfits(y - step)) / 2 for step in np.eye(n)])
    assert np.linalg.matrix_rank(slopes, tol=1e-6) == n - 1
