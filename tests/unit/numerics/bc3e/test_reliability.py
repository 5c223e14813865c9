"""Confusion matrices: the E-step and the bound are those of the reference, and no step lowers the bound."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from numerics.bc3e.e_step import EStepSettings, cold_start, e_step
from numerics.bc3e.ensemble import Ensemble
from numerics.bc3e.gamma import add_alpha
from numerics.bc3e.grid import from_grid
from numerics.bc3e.limits import private_limits
from numerics.bc3e.m_step import maximize_alpha
from numerics.bc3e.reliability import (
    GAINS,
    PRIOR_LABELS,
    PRIOR_RIGHT,
    class_evidence,
    class_probabilities,
    class_responsibilities,
    confusion_of,
    draws_of,
    first_table,
    gain,
    least_evidence,
    maximize_table,
    mean_gain,
    prior_bound,
    prior_counts,
    share_right,
)
from numerics.bc3e.responsibilities import likelihood_table
from numerics.bc3e.support import without_rare_labels
from tests.support import reference_bc3e as reference
from tests.support.bc3e_ensembles import draw_beta, draw_ensemble
from tests.support.examples import examples

K, BITS = 3, 30
SEEDS = st.integers(0, 2**32 - 1)


def draw(seed: int) -> tuple[Ensemble, dict[str, np.ndarray]]:
    """Labels, some missing and some probabilities, and a table for each model."""
    rng = np.random.default_rng(seed)
    sizes = tuple(rng.integers(2, 6, rng.integers(0, 3)).tolist())
    ensemble = draw_ensemble(rng, 30, r1=int(rng.integers(1, 4)), n_clusters=sizes, missing=0.3, soft=0.3)
    tables = {name: draw_beta(rng, K, size) for name, size in zip(ensemble.clusterings, sizes, strict=True)}
    return ensemble, tables | {confusion_of(name): draw_beta(rng, K, K) for name in ensemble.classifiers}


def run(ensemble: Ensemble, tables: dict[str, np.ndarray], sweeps: int, draws: int) -> tuple[Any, ...]:
    alpha = np.array([0.5, 1.0, 2.0])
    start = add_alpha(alpha, cold_start(ensemble.classifiers, ensemble.clusterings, ensemble.n, K, BITS), BITS)
    rates = {name: likelihood_table(table) for name, table in tables.items()}
    settings = EStepSettings(BITS, 1e-8, sweeps, draws)
    gamma, part = e_step(alpha, rates, ensemble.classifiers, ensemble.clusterings, start, settings)
    return alpha, start, gamma, part


@examples(40)
@given(SEEDS, st.sampled_from([1, 2, 3, 500]), st.sampled_from([1, 2]))
def test_e_step_and_bound_are_those_of_the_reference(seed: int, sweeps: int, draws: int) -> None:
    """The reference writes the bound out term by term; float64, log domain, no grid."""
    ensemble, tables = draw(seed)
    alpha, start, gamma, part = run(ensemble, tables, sweeps, draws)
    confusion = {name: tables[confusion_of(name)] for name in ensemble.classifiers}
    found, phi, shares_of_classes = reference.e_step_with_classes(
        ensemble, alpha, tables, confusion, start.T, draws, max_sweeps=sweeps
    )
    np.testing.assert_allclose(gamma.T, found, atol=1e-6)
    whole = reference.bound(ensemble, alpha, tables, found, phi, 0.0, confusion, shares_of_classes, draws)
    priors = sum(prior_bound(confusion_of(name), table, 0.0) for name, table in confusion.items())
    assert np.ldexp(part.bound, -BITS) + priors == pytest.approx(whole, abs=1e-4)
    for name, labels in ensemble.classifiers.items():
        counts = reference.expected_counts(shares_of_classes, labels, K)
        np.testing.assert_allclose(from_grid(part.mass[confusion_of(name)], BITS), counts, atol=1e-4)


@examples(20)
@given(SEEDS, st.sampled_from([1, 2, 500]), st.sampled_from([1, 2]))
def test_bound_never_falls_over_em(seed: int, sweeps: int, draws: int) -> None:
    ensemble, _ = draw(seed)
    sizes = dict.fromkeys(ensemble.clusterings, 6) | {confusion_of(name): K for name in ensemble.classifiers}
    tables = {name: first_table(name, K, size, 0) for name, size in sizes.items()}
    alpha, bounds = np.ones(K), []
    gamma = add_alpha(alpha, cold_start(ensemble.classifiers, ensemble.clusterings, ensemble.n, K, BITS), BITS)
    for _ in range(12):
        rates = {name: likelihood_table(table) for name, table in tables.items()}
        settings = EStepSettings(BITS, 1e-8, sweeps, draws)
        gamma, part = e_step(alpha, rates, ensemble.classifiers, ensemble.clusterings, gamma, settings)
        bounds.append(np.ldexp(part.bound, -BITS) + sum(prior_bound(name, t, 0.0) for name, t in tables.items()))
        alpha = maximize_alpha(alpha, from_grid(part.log_theta, BITS) / ensemble.n)
        tables = {name: maximize_table(name, part.mass[name], BITS, 0.0) for name in tables}
    assert np.diff(bounds).min() > -1e-6


@examples(20)
@given(SEEDS, st.sampled_from([2, 100]))
def test_evidence_and_statistics_keep_their_limits(seed: int, draws: int) -> None:
    ensemble, tables = draw(seed)
    alpha, _, _, part = run(ensemble, tables, 500, draws)
    limits = private_limits(alpha, ensemble.n, max(len(ensemble.classifiers), draws), len(tables), BITS)
    assert (part.log_theta >= limits.log_theta).all()
    assert limits.bound[0] <= part.bound <= limits.bound[1]
    rates = {name: likelihood_table(table) for name, table in tables.items()}
    evidence = class_evidence(rates, ensemble.classifiers, ensemble.n, K, BITS)
    assert (least_evidence(len(ensemble.classifiers), BITS) <= evidence).all()
    assert (evidence <= 0).all()


def test_a_rater_who_swaps_classes_is_found_and_read_the_other_way_round() -> None:
    rng = np.random.default_rng(0)
    truth = rng.integers(3, size=400)
    labels = {f"r{j}": np.where(rng.random(400) < 0.7, truth, rng.integers(3, size=400)) for j in range(5)}
    labels["r0"] = np.array([1, 0, 2])[labels["r0"]]
    ensemble = Ensemble(400, labels, {}, truth)
    tables = {confusion_of(name): first_table(confusion_of(name), 3, 3, 0) for name in labels}
    for _ in range(30):
        _, _, gamma, part = run(ensemble, tables, 50, 1)
        tables = {name: maximize_table(name, part.mass[name], BITS, 0.0) for name in tables}
    assert tables[confusion_of("r0")].argmax(axis=1).tolist() == [1, 0, 2]
    alpha = np.array([0.5, 1.0, 2.0])
    right = (class_probabilities(gamma, alpha).argmax(axis=1) == truth).mean()
    vote = (sum(np.eye(3)[given] for given in labels.values()).argmax(axis=1) == truth).mean()
    assert right > vote


def test_an_instance_without_a_label_has_alpha() -> None:
    nothing = np.full(2, -1)
    ensemble = Ensemble(2, {"a": nothing}, {"x": nothing})
    tables = {"x": np.full((K, 2), 0.5), confusion_of("a"): prior_counts(K) / PRIOR_LABELS}
    alpha, _, gamma, part = run(ensemble, tables, 50, 2)
    np.testing.assert_allclose(gamma, np.repeat(alpha[:, None], 2, axis=1))
    assert not part.mass[confusion_of("a")].any()
    np.testing.assert_allclose(class_probabilities(gamma, alpha), [alpha / alpha.sum()] * 2)


def test_rare_labels_of_classifiers_are_withheld() -> None:
    ensemble = Ensemble(6, {"a": np.array([0, 0, 0, 1, 1, 2]), "b": np.arange(6) % 3}, {"x": np.zeros(6, np.int64)})
    kept = without_rare_labels(ensemble, 2)
    assert kept.classifiers["a"].tolist() == [0, 0, 0, 1, 1, -1]
    assert kept.classifiers["b"] is ensemble.classifiers["b"]


def crowd(n: int, right: float, follow: float, seed: int = 0) -> Ensemble:
    """Five raters of three classes; clusters of twice as many, of which so many instances are in their class's."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(3, size=n)
    labels = {f"r{j}": np.where(rng.random(n) < right, truth, (truth + rng.integers(1, 3, n)) % 3) for j in range(5)}
    clusters = np.where(rng.random(n) < follow, 2 * truth + rng.integers(2, size=n), rng.integers(6, size=n))
    return Ensemble(n, labels, {"x": clusters}, truth)


def alone(ensemble: Ensemble) -> tuple[np.ndarray, float]:
    """Classes of the classifiers alone, and the gain of the clustering."""
    tables = {name: first_table(name, K, K, 0) for name in map(confusion_of, ensemble.classifiers)}
    rates = {name: likelihood_table(table) for name, table in (tables | {"x": np.full((K, 6), 1 / 6)}).items()}
    start = np.ones((K, ensemble.n))
    settings = EStepSettings(BITS, draws=3, alone=True)
    gamma, sums = e_step(np.ones(K), rates, ensemble.classifiers, ensemble.clusterings, start, settings)
    evidence = class_evidence(rates, ensemble.classifiers, ensemble.n, K, BITS)
    classes = class_responsibilities(np.zeros(evidence.shape), evidence, 3, BITS)
    step = 2.0**-BITS
    np.testing.assert_allclose(gamma, 1 + 4 * classes * step, atol=step)
    return classes.T * step, gain(sums.mass["x"], sums.squares["x"], BITS)


@pytest.mark.parametrize(("right", "follow"), [(0.7, 1.0), (0.7, 0.5), (0.6, 0.8), (0.9, 1.0)])
def test_a_gain_is_what_the_clusters_tell_of_what_the_classifiers_leave_open(right: float, follow: float) -> None:
    """Estimated without the truth, as of raters of 70 %; with it, tau of the clusters is the square of `follow`."""
    ensemble = crowd(4000, right, follow)
    classes, estimated = alone(ensemble)
    assert estimated == pytest.approx(reference.gain(classes, ensemble.clusterings["x"], 6), abs=1e-6)
    rho = ((classes - 1 / 3) ** 2).sum(axis=1).mean() / (2 / 3)
    if right == 0.7:
        assert estimated == pytest.approx(follow**2 * (1 - rho), abs=0.03)
    assert 0 < estimated <= 1 - rho + 1e-3


def test_a_clustering_that_has_nothing_to_do_with_the_classes_gains_nothing() -> None:
    assert alone(crowd(600, 0.7, 0.0))[1] == 0.0
    none = np.zeros((3, 6), np.int64)
    for mass, squares in ((none, 0), (none + 1, 6), (np.eye(3, 6, dtype=np.int64), 3)):
        assert gain(mass, squares, 0) == 0.0


def test_fewer_draws_where_clusterings_gain_more() -> None:
    low, high = GAINS
    assert [draws_of(gains) for gains in ([], [0.0], [low], [low, 0.0], [high], [high, low])] == [1, 3, 2, 2, 1, 2]
    assert mean_gain([0.0, 0.2, 0.4]) == pytest.approx(0.3)


@given(st.integers(2, 5), st.integers(1, 2000), SEEDS)
@examples(20)
def test_the_share_of_right_labels_is_without_the_prior(k: int, n_labels: int, seed: int) -> None:
    """It is the share in the labels themselves where alpha tells their classes, and a share whatever alpha says."""
    rng = np.random.default_rng(seed)
    counts = rng.multinomial(n_labels, rng.dirichlet(np.ones(k * k))).reshape(k, k)
    table = maximize_table(confusion_of("svm"), counts << BITS, BITS, smoothing=0.0)
    classes = np.maximum(counts.sum(axis=1), 1e-9)
    assert share_right(classes, table, n_labels) == pytest.approx(np.trace(counts) / n_labels, abs=1e-6)
    assert 0 <= share_right(rng.gamma(0.3, size=k) + 1e-3, table, n_labels) <= 1
    assert share_right(classes, first_table(confusion_of("svm"), k, k, 0), 0) == PRIOR_RIGHT
