"""Distributed equals centralized: whole runs of BC3E, over any split, against each other and the plain reference.

Runs go from the run configuration to the results directory, through the real ServerApp and ClientApp
(tests/support/grid.py). The worlds are small: the column and arbitrary distributions ask once a sweep.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import scenarios.registry
from numerics.bc3e.ensemble import Ensemble, n_values
from numerics.bc3e.m_step import initial_beta, maximize_alpha
from numerics.bc3e.reliability import draws_of
from scenarios.bc3e import DISTRIBUTIONS, pooled
from scenarios.registry import Scenario
from tests.support import reference_bc3e as reference
from tests.support.bc3e_ensembles import draw_ensemble
from tests.support.grid import config
from tests.support.parameters import few
from tests.support.runs import run_with_grid

BITS = 30
SHORT = {"bc3e__max_rounds": 5, "bc3e__sweeps": 6, "bc3e__allow_single_model": True}
"""So few sweeps that nothing has converged, so few rounds that a run takes a second: equality holds all the same."""

CONFUSION = {"bc3e__reliability": "confusion"}

_RUN_IDS = itertools.count(1)
_NAMES = itertools.count()

pytestmark = pytest.mark.usefixtures("quick")


# -- runs -------------------------------------------------------------------------------------------------------------


@dataclass
class Outcome:
    """What one run left."""

    report: dict[str, Any]
    arrays: dict[str, np.ndarray]
    theta: pd.DataFrame
    """All sites' ``theta.csv``, an instance a row, in order of entity; an instance at several sites once."""

    @property
    def metrics(self) -> dict[str, float]:
        found: dict[str, float] = self.report["metrics"]
        return found

    @property
    def beta(self) -> list[np.ndarray]:
        """Those that the fusion center holds, in the order of the clusterings' names."""
        return [self.arrays[f"beta_{place}"] for place in range(sum(name.startswith("beta_") for name in self.arrays))]


Split = Callable[[Ensemble, int, np.random.Generator], list[Ensemble]]
Runner = Callable[..., Outcome]


@pytest.fixture
def fuse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Runner:
    """``fuse(ensemble, distribution, n_sites, split=..., **settings)``: a run over the sites that `split` makes."""

    def start(
        ensemble: Ensemble, distribution: str, n_sites: int, split: Split | None = None, **settings: Any
    ) -> Outcome:
        name = f"test-{next(_NAMES)}"

        def shards(_: Mapping[str, Any], seed: int, sites: int) -> list[Ensemble]:
            return (split or DISTRIBUTIONS[distribution])(ensemble, sites, np.random.default_rng(seed))

        scenario = Scenario(name, "bc3e", n_sites, True, "drawn", "a test", shards, lambda config, seed: {})
        with monkeypatch.context() as patch:
            patch.setitem(scenarios.registry._SCENARIOS, name, scenario)
            return fused(tmp_path, n_sites, scenario=name, bc3e__distribution=distribution, **settings)

    return start


def fused(tmp_path: Path, n_sites: int, **settings: Any) -> Outcome:
    path, _ = run_with_grid(config(tmp_path, **settings), n_sites, run_id=next(_RUN_IDS))
    report = json.loads((path / "report.json").read_text())
    assert not report["missing"]
    with np.load(path / "arrays.npz") as file:
        arrays = dict(file)
    frames = [read_theta(file) for file in sorted(path.glob("sites/*/theta.csv"))]
    assert len(frames) == n_sites
    return Outcome(report, arrays, merged(frames))


def read_theta(file: Path) -> pd.DataFrame:
    """A site's ``theta.csv``, every digit of it: some versions of pandas read floats only nearly right."""
    text = pd.read_csv(file, dtype=str)
    return text.astype({name: float if name.startswith("theta_") else np.int64 for name in text.columns})


def merged(frames: list[pd.DataFrame]) -> pd.DataFrame:
    """One row an instance; sites that hold the same instance must have written the same."""
    rows = pd.concat([frame for frame in frames if len(frame)]).drop_duplicates()
    assert rows["entity"].is_unique, "two sites disagree about an instance"
    return rows.sort_values("entity").reset_index(drop=True)


def assert_equal(one: Outcome, other: Outcome, *, beta: bool = True) -> None:
    """To the last bit: parameters, history of the bound, metrics, every instance's theta.

    `beta`: both distributions show beta; where one does, what it shows is compared elsewhere.
    """
    np.testing.assert_array_equal(one.arrays["alpha"], other.arrays["alpha"])
    np.testing.assert_array_equal(one.arrays["bounds"], other.arrays["bounds"])
    if beta:
        assert len(one.beta) == len(other.beta)
        for mine, theirs in zip(one.beta, other.beta, strict=True):
            np.testing.assert_array_equal(mine, theirs)
    for metric in ("bound", "rounds_to_converge", "accuracy"):
        assert one.metrics.get(metric) == other.metrics.get(metric)
    pd.testing.assert_frame_equal(one.theta, other.theta, check_exact=True)


def sizes(ensemble: Ensemble) -> dict[str, int]:
    return {name: max(n_values(labels), 1) for name, labels in ensemble.clusterings.items()}


def center_newton(alpha: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """Eq. (8) as the fusion center solves it.

    The bits of a Newton iteration are a property of its code, not of the split;
    tests/unit/numerics/bc3e/test_m_step.py holds it against a general optimizer. The center's parameter is log alpha.
    """
    return np.asarray(np.exp(np.log(maximize_alpha(alpha, mean))))


def assert_is_reference(outcome: Outcome, ensemble: Ensemble, result: reference.Result) -> None:
    """To the last bit, except for the bound, whose terms the reference adds in another form."""
    np.testing.assert_array_equal(outcome.arrays["alpha"], result.alpha)
    assert outcome.metrics["rounds_to_converge"] == len(result.bounds)
    np.testing.assert_allclose(outcome.arrays["bounds"], result.bounds, rtol=1e-8)
    assert ensemble.entity is not None
    order = np.argsort(ensemble.entity)
    np.testing.assert_array_equal(outcome.theta["entity"], ensemble.entity[order])
    theta = outcome.theta[[f"theta_{i}" for i in range(len(result.alpha))]].to_numpy()
    np.testing.assert_array_equal(theta, result.theta[order])
    np.testing.assert_array_equal(outcome.theta["class"], result.theta[order].argmax(axis=1))
    if ensemble.truth is not None:
        assert outcome.metrics["accuracy"] == (result.theta.argmax(axis=1) == ensemble.truth).mean()


def assert_beta_is_reference(outcome: Outcome, result: reference.Result) -> None:
    assert len(outcome.beta) == len(result.beta)
    for mine, name in zip(outcome.beta, sorted(result.beta), strict=True):
        np.testing.assert_array_equal(mine, result.beta[name])


# -- worlds -----------------------------------------------------------------------------------------------------------


def draw(seed: int, n: int = 36, **options: Any) -> Ensemble:
    return draw_ensemble(np.random.default_rng(seed), n, **options)


WORLDS: dict[str, Callable[[], Ensemble]] = {
    "hard": lambda: draw(1, n_clusters=(3, 6, 9)),
    "two-classes-soft": lambda: draw(2, k=2, soft=1.0, n_clusters=(2, 4)),
    "missing": lambda: draw(3, missing=0.3, n_clusters=(3, 6, 9)),
    "soft-and-missing": lambda: draw(4, k=4, r1=3, soft=0.5, missing=0.3, n_clusters=(4, 7)),
}


# -- distributed equals centralized -----------------------------------------------------------------------------------


@pytest.mark.parametrize("world", few(list(WORLDS), 2))
@pytest.mark.parametrize("smoothing", few([0.1, 0.0]))
def test_every_distribution_is_the_centralized_computation(world: str, smoothing: float, fuse: Runner) -> None:
    """Bit for bit, plain EM: 1 to 5 sites, three distributions, the reference on the pooled labels."""
    ensemble = WORLDS[world]()
    k = max(n_values(labels) for labels in ensemble.classifiers.values())
    expected = reference.fit(
        ensemble,
        k,
        sizes(ensemble),
        bits=BITS,
        max_rounds=SHORT["bc3e__max_rounds"],
        max_sweeps=SHORT["bc3e__sweeps"],
        smoothing=smoothing,
        maximize=center_newton,
    )
    settings = {**SHORT, "bc3e__accelerate": False, "bc3e__smoothing": smoothing}
    one = fuse(ensemble, "row", 1, **settings)
    assert_is_reference(one, ensemble, expected)
    assert_beta_is_reference(one, expected)
    cases = [("row", 5), ("column", 3), ("arbitrary", 4)] if smoothing == 0.0 else [("column", 2), ("arbitrary", 2)]
    for distribution, n_sites in cases:
        outcome = fuse(ensemble, distribution, n_sites, **settings)
        assert_is_reference(outcome, ensemble, expected)
        assert_equal(outcome, one, beta=distribution == "row")


@pytest.mark.parametrize("world", few([*WORLDS]))
def test_every_distribution_is_centralized_with_confusion_matrices(world: str, fuse: Runner) -> None:
    """Bit for bit, plain EM; the bounds of all steps are those of the reference, which writes out every term."""
    ensemble = WORLDS[world]()
    k = max(n_values(labels) for labels in ensemble.classifiers.values())
    fit = {"bits": BITS, "max_rounds": 5, "max_sweeps": 6, "maximize": center_newton}
    expected = reference.fit(ensemble, k, sizes(ensemble), draws=3, decide=draws_of, **fit)
    settings = {**SHORT, **CONFUSION, "bc3e__accelerate": False}
    one = fuse(ensemble, "row", 1, **settings)
    assert_is_reference(one, ensemble, expected)
    assert_beta_is_reference(one, expected)
    for place, name in enumerate(one.arrays["classifiers"]):
        np.testing.assert_array_equal(one.arrays[f"confusion_{place}"], expected.confusion[str(name)])
    for distribution, n_sites in [("row", 5), ("column", 3), ("arbitrary", 4)]:
        outcome = fuse(ensemble, distribution, n_sites, **settings)
        assert_is_reference(outcome, ensemble, expected)
        assert_equal(outcome, one, beta=distribution == "row")
        for name in ensemble.classifiers:
            assert outcome.metrics[f"reliability_{name}"] == one.metrics[f"reliability_{name}"]


def test_the_number_of_draws_is_decided_alike_in_every_distribution(fuse: Runner) -> None:
    """By the tables of common clusterings at the center, and of own ones at their holders."""
    raters = draw(19, n=90, r1=4, noise=0.5, n_clusters=())
    assert raters.truth is not None
    follow = replace(raters, clusterings={"exact": raters.truth, "halved": raters.truth + 3 * (np.arange(90) % 2)})
    unrelated = replace(raters, clusterings={"drawn": np.random.default_rng(0).integers(3, size=90)})
    for ensemble, draws in ((follow, 1), (unrelated, 3)):
        one = fuse(ensemble, "row", 1, **CONFUSION, **SHORT)
        assert one.arrays["draws"] == draws
        assert (np.diff(one.arrays["bounds"]) > -1e-6).all()
        for distribution in ("column", "arbitrary"):
            other = fuse(ensemble, distribution, 2, **CONFUSION, **SHORT)
            assert_equal(other, one, beta=False)
            assert other.metrics.get("gain") == one.metrics.get("gain")
            assert other.arrays["draws"] == draws


@pytest.mark.slow
def test_confusion_matrices_accelerated_without_clusterings_and_in_two_sweeps(fuse: Runner) -> None:
    ensemble = draw(17, r1=4, n_clusters=(3,), missing=0.2)
    votes = replace(ensemble, clusterings={})
    for labels, settings in ((ensemble, {**SHORT, "bc3e__sweeps": 1}), (votes, {**SHORT, "bc3e__max_rounds": 8})):
        one = fuse(labels, "row", 1, **CONFUSION, **settings)
        for distribution, n_sites in [("row", 3), ("column", 2), ("arbitrary", 3)]:
            other = fuse(labels, distribution, n_sites, **CONFUSION, **settings)
            assert_equal(other, one, beta=distribution == "row")


def test_each_e_step_is_a_round_where_instances_are_shared(fuse: Runner) -> None:
    """By default an E-step has one sweep, and the result is that of one sweep in rows.

    With confusion matrices there is one round more, for the gain of the clusterings.
    """
    ensemble = draw(21, n=30, noise=0.1, n_clusters=(3,))
    settings = {"bc3e__allow_single_model": True, "bc3e__max_rounds": 4}
    for confusion, more in (({}, 0), (CONFUSION, 1)):
        column = fuse(ensemble, "column", 2, **settings, **confusion)
        assert column.report["rounds"] == 2 + 4 + more + 1
        row = fuse(ensemble, "row", 2, **settings, **confusion, bc3e__sweeps=1)
        assert_equal(row, column, beta=False)


def test_a_fit_that_ends_by_its_labels_does_so_in_every_distribution(fuse: Runner) -> None:
    """Classes that changed are counted at the sites, and at the center where sites share instances."""
    ensemble = draw(18, n=40, noise=0.1, n_clusters=(3,))
    settings = {**SHORT, "bc3e__max_rounds": 30, "bc3e__stop": "labels", "bc3e__accelerate": False}
    one = fuse(ensemble, "row", 1, **settings)
    changed = one.arrays["changed"]
    assert changed[0] == 1.0
    assert (changed[-2:] == 0).all()
    assert len(changed) < 30
    assert one.metrics["converged"] == 1.0
    for distribution, n_sites in [("row", 3), ("column", 2), ("arbitrary", 3)]:
        other = fuse(ensemble, distribution, n_sites, **settings)
        assert_equal(other, one, beta=distribution == "row")
        np.testing.assert_array_equal(other.arrays["changed"], changed)


@pytest.mark.slow
@pytest.mark.parametrize("world", few(["soft-and-missing", "hard"]))
def test_every_distribution_is_the_same_when_accelerated(world: str, fuse: Runner) -> None:
    """The center combines steps of betas that it never sees, by their inner products; not a bit differs."""
    ensemble = WORLDS[world]()
    settings = {**SHORT, "bc3e__max_rounds": 7, "bc3e__sweeps": 4}
    one = fuse(ensemble, "row", 1, **settings)
    for distribution, n_sites in [("row", 3), ("column", 4), ("arbitrary", 3)]:
        assert_equal(fuse(ensemble, distribution, n_sites, **settings), one, beta=distribution == "row")


@pytest.mark.slow
def test_every_distribution_is_the_same_at_convergence(fuse: Runner) -> None:
    """E-steps until every gamma has settled, instance by instance, and EM until the bound has."""
    ensemble = draw(5, n=24, noise=0.1, n_clusters=(3,))
    settings = {"bc3e__allow_single_model": True, "bc3e__tolerance": 1e-2, "bc3e__accelerate": False}
    settings |= {"bc3e__sweeps": 500}
    expected = reference.fit(ensemble, 3, sizes(ensemble), bits=BITS, tolerance=1e-2, maximize=center_newton)
    for distribution, n_sites in [("row", 2), ("column", 2), ("arbitrary", 3)]:
        outcome = fuse(ensemble, distribution, n_sites, **settings)
        assert outcome.metrics["converged"] == 1.0
        assert_is_reference(outcome, ensemble, expected)


@pytest.mark.parametrize("name", few(["bc3e-wine", "bc3e-halfmoon"]))
def test_scenarios_are_the_centralized_computation(name: str, tmp_path: Path) -> None:
    """Real labels: row over 1 and 7 sites to convergence, plain, against the reference."""
    settings = {"scenario": name, "bc3e__accelerate": False, "bc3e__tolerance": 1e-4, "bc3e__clusterings": "k"}
    one, seven = (fused(tmp_path, n_sites, **settings) for n_sites in (1, 7))
    assert_equal(one, seven)
    ensemble = pooled(name, config(tmp_path, **settings), 0)
    k = max(n_values(labels) for labels in ensemble.classifiers.values())
    expected = reference.fit(ensemble, k, sizes(ensemble), bits=BITS, tolerance=1e-4, maximize=center_newton)
    assert_is_reference(one, ensemble, expected)
    assert_beta_is_reference(one, expected)


def test_without_the_grid_the_reference_agrees_to_rounding(fuse: Runner) -> None:
    """The grid takes nothing from the answer: float64 throughout, log domain, a general optimizer for alpha."""
    ensemble = WORLDS["soft-and-missing"]()
    outcome = fuse(ensemble, "row", 3, bc3e__accelerate=False, bc3e__max_rounds=12)
    result = reference.fit(ensemble, 4, sizes(ensemble), max_rounds=12)
    np.testing.assert_allclose(outcome.arrays["alpha"], result.alpha, rtol=1e-5)
    np.testing.assert_allclose(outcome.arrays["bounds"], result.bounds, rtol=1e-7)
    assert ensemble.entity is not None
    theta = outcome.theta[[f"theta_{i}" for i in range(4)]].to_numpy()
    np.testing.assert_allclose(theta, result.theta[np.argsort(ensemble.entity)], atol=1e-5)


# -- splits that change nothing ---------------------------------------------------------------------------------------


def test_splitting_a_site_and_permuting_sites_change_nothing(fuse: Runner) -> None:
    ensemble = draw(6, n=40, missing=0.1)
    order = np.random.default_rng(0).permutation(ensemble.n)

    def pieces(*parts: np.ndarray) -> Split:
        return lambda whole, n_sites, rng: [whole.rows(part) for part in parts]

    first, second = order[:25], order[25:]
    settings = {"bc3e__max_rounds": 15}
    two = fuse(ensemble, "row", 2, pieces(first, second), **settings)
    assert_equal(two, fuse(ensemble, "row", 2, pieces(second, first), **settings))
    assert_equal(two, fuse(ensemble, "row", 3, pieces(second, first[:7], first[7:]), **settings))


def test_empty_sites_and_sites_of_one_instance_change_nothing(fuse: Runner) -> None:
    ensemble = draw(7, n=20)
    cuts = [np.arange(0), np.arange(1), np.arange(1, 20), np.arange(0), np.arange(0)]

    def split(whole: Ensemble, n_sites: int, rng: np.random.Generator) -> list[Ensemble]:
        return [whole.rows(part) for part in cuts]

    settings = {"bc3e__max_rounds": 10}
    assert_equal(fuse(ensemble, "row", 5, split, **settings), fuse(ensemble, "row", 1, **settings))
    more_sites_than_instances = fuse(ensemble.rows(np.arange(4)), "row", 6, bc3e__classes=3, **settings)
    assert_equal(more_sites_than_instances, fuse(ensemble.rows(np.arange(4)), "row", 1, bc3e__classes=3, **settings))


@pytest.mark.slow
def test_dealing_models_otherwise_changes_nothing(fuse: Runner) -> None:
    """Column distribution: whichever site holds which model, also one model each."""
    ensemble = draw(8, r1=2, n_clusters=(3, 5, 4))
    outcomes = [fuse(ensemble, "column", n_sites, seed=seed, **SHORT) for n_sites, seed in [(2, 0), (2, 5), (5, 0)]]
    # The seed deals out the models; with classifiers nothing else is drawn.
    for outcome in outcomes[1:]:
        assert_equal(outcomes[0], outcome, beta=False)


def test_a_row_or_column_split_is_an_arbitrary_split(fuse: Runner) -> None:
    """The arbitrary distribution on a split by rows shares nothing; on a split by models it shares everything."""
    ensemble = draw(9, n=30)
    row = fuse(ensemble, "row", 3, **SHORT)
    assert_equal(fuse(ensemble, "arbitrary", 3, DISTRIBUTIONS["row"], **SHORT), row)
    assert_equal(fuse(ensemble, "arbitrary", 2, DISTRIBUTIONS["column"], **SHORT), row, beta=False)


def test_an_instance_without_any_label_keeps_the_prior(fuse: Runner) -> None:
    """theta = alpha / sum alpha, at whichever site it lies."""
    ensemble = draw(10, n=30, missing=0.2)
    blank = np.array([4, 17])

    def erased(models: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        return {name: np.where(np.isin(np.arange(30), blank), -1, labels) for name, labels in models.items()}

    ensemble = replace(
        ensemble, classifiers=erased(ensemble.classifiers), clusterings=erased(ensemble.clusterings), truth=None
    )
    assert ensemble.entity is not None
    for distribution in DISTRIBUTIONS:
        outcome = fuse(ensemble, distribution, 2, **SHORT)
        theta = outcome.theta.set_index("entity").loc[ensemble.entity[blank], ["theta_0", "theta_1", "theta_2"]]
        alpha = outcome.arrays["alpha"]
        np.testing.assert_allclose(theta.to_numpy(), np.repeat([alpha / alpha.sum()], 2, axis=0), rtol=1e-12)


def test_every_instance_twice_leaves_the_parameters(fuse: Runner) -> None:
    ensemble = draw(11, n=25)
    twice = replace(ensemble.rows(np.repeat(np.arange(25), 2)), entity=np.arange(50))
    settings = {"bc3e__max_rounds": 10, "bc3e__accelerate": False, "bc3e__tolerance": 1e-12}
    once, double = fuse(ensemble, "row", 2, **settings), fuse(twice, "row", 3, **settings)
    np.testing.assert_allclose(double.arrays["alpha"], once.arrays["alpha"], rtol=1e-6)
    for mine, theirs in zip(once.beta, double.beta, strict=True):
        np.testing.assert_allclose(theirs, mine, atol=1e-6)
    np.testing.assert_allclose(double.arrays["bounds"], 2 * once.arrays["bounds"], rtol=1e-9)


# -- special ensembles ------------------------------------------------------------------------------------------------


def test_without_clusterings_alpha_is_learned_from_the_votes(fuse: Runner) -> None:
    ensemble = draw(12, r1=3, n_clusters=())
    expected = reference.fit(ensemble, 3, {}, bits=BITS, max_rounds=12, maximize=center_newton)
    for distribution, n_sites in [("row", 2), ("column", 3), ("arbitrary", 2)]:
        settings = {"bc3e__max_rounds": 12, "bc3e__accelerate": False, "bc3e__allow_single_model": True}
        assert_is_reference(fuse(ensemble, distribution, n_sites, **settings), ensemble, expected)


@pytest.mark.slow
def test_fixed_alpha_and_another_start(fuse: Runner) -> None:
    ensemble = draw(13)
    settings = {**SHORT, "bc3e__learn_alpha": False, "bc3e__alpha": 0.5, "bc3e__accelerate": False}
    expected = reference.fit(
        ensemble, 3, sizes(ensemble), bits=BITS, max_rounds=5, max_sweeps=6, alpha=0.5, maximize=None
    )
    for distribution in DISTRIBUTIONS:
        outcome = fuse(ensemble, distribution, 2, **settings)
        np.testing.assert_allclose(outcome.arrays["alpha"], 0.5, rtol=1e-15)
        assert ensemble.entity is not None
        theta = outcome.theta[["theta_0", "theta_1", "theta_2"]].to_numpy()
        np.testing.assert_allclose(theta, expected.theta[np.argsort(ensemble.entity)], atol=1e-8)


@pytest.mark.slow
def test_without_classifiers_random_starts_leave_the_saddle(fuse: Runner) -> None:
    """Uniform beta is a saddle then: EM from there tells no class from another. The best of the restarts does."""
    ensemble = draw(14, n=45, r1=0, n_clusters=(3, 3, 6), noise=0.1)
    saddle = reference.fit(ensemble, 3, sizes(ensemble))
    np.testing.assert_allclose(saddle.theta, 1 / 3, atol=1e-6)
    settings = {"bc3e__classes": 3, "bc3e__restarts": 3, "bc3e__max_rounds": 30}
    row = fuse(ensemble, "row", 2, **settings)
    assert row.metrics["bound"] > saddle.bounds[-1] + 10
    theta = row.theta[["theta_0", "theta_1", "theta_2"]].to_numpy()
    assert (theta.max(axis=1) > 0.5).mean() > 0.7
    # It is a local optimum of the plain EM from one of the starts, or better.
    starts = [{n: initial_beta(n, 3, size, seed) for n, size in sizes(ensemble).items()} for seed in (1, 2)]
    plain = [reference.fit(ensemble, 3, sizes(ensemble), beta=start).bounds[-1] for start in starts]
    assert row.metrics["bound"] > min(plain) - 1e-3 * abs(min(plain))


def test_random_starts_are_the_same_in_every_distribution(fuse: Runner) -> None:
    """A beta that never leaves its owner starts from the rows that the center would have drawn."""
    ensemble = draw(15, n=30, r1=0, n_clusters=(3, 4, 5))
    settings = {**SHORT, "bc3e__classes": 3, "bc3e__restarts": 2, "bc3e__sweeps": 4}
    row = fuse(ensemble, "row", 2, **settings)
    assert_equal(row, fuse(ensemble, "column", 2, **settings), beta=False)
    assert_equal(row, fuse(ensemble, "arbitrary", 2, **settings))


def test_cluster_names_do_not_matter(fuse: Runner) -> None:
    """Permuted within a clustering, the run is the same to the last bit, with the columns of beta permuted."""
    ensemble = draw(16)
    order = np.array([2, 0, 4, 1, 3])
    renamed = {**ensemble.clusterings, "cluster_1": order[ensemble.clusterings["cluster_1"]]}
    settings = {"bc3e__max_rounds": 10, "bc3e__accelerate": False}
    one = fuse(ensemble, "row", 2, **settings)
    other = fuse(replace(ensemble, clusterings=renamed), "row", 2, **settings)
    np.testing.assert_array_equal(one.arrays["alpha"], other.arrays["alpha"])
    np.testing.assert_array_equal(one.beta[1], other.beta[1][:, order])
    pd.testing.assert_frame_equal(one.theta, other.theta, check_exact=True)


# -- acceleration -----------------------------------------------------------------------------------------------------


def test_acceleration_reaches_the_same_optimum_in_no_more_rounds(fuse: Runner) -> None:
    """The bound to 1e-4 relative, and fewer E-steps on average; kept bounds never fall.

    On worlds with one optimum within reach: where there are several, the two may end in different ones.
    """
    rounds: dict[bool, list[float]] = {True: [], False: []}
    for seed in range(20, 23):
        ensemble = draw(seed, n=120, noise=0.2, n_clusters=(3, 6))
        found = {accelerate: fuse(ensemble, "row", 1, bc3e__accelerate=accelerate) for accelerate in (True, False)}
        for accelerate, outcome in found.items():
            assert outcome.metrics["converged"] == 1.0
            rounds[accelerate].append(outcome.metrics["rounds_to_converge"])
            assert np.diff(outcome.arrays["bounds"]).min() > -1e-6
        assert found[True].metrics["bound"] == pytest.approx(found[False].metrics["bound"], rel=1e-4)
        for way, outcome in found.items():
            print(f"world {seed}, accelerated {way}: {outcome.metrics}")
    assert np.mean(rounds[True]) <= np.mean(rounds[False])
