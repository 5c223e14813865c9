"""The E-step of BC3E against the plain reference, its bound, and its independence of everything but the instance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.special import psi

import numerics.bc3e.e_step as variational
from numerics.bc3e.e_step import Contribution, EStepSettings, cold_start, e_step, shares, votes
from numerics.bc3e.ensemble import Ensemble, Labels, n_values
from numerics.bc3e.gamma import add_alpha, center_part, converged, dirichlet_bound
from numerics.bc3e.grid import from_grid
from numerics.bc3e.m_step import maximize_alpha, maximize_beta, smoothing_bound
from numerics.bc3e.responsibilities import likelihood_table
from tests.support import reference_bc3e as reference
from tests.support.bc3e_ensembles import draw_beta, draw_ensemble
from tests.support.examples import examples

BITS = 30
FINE = EStepSettings(bits=44, tolerance=1e-13)
"""A grid so fine, and a tolerance so small, that the fixed point itself can be compared."""

SEEDS = st.integers(0, 2**32 - 1)


@dataclass(frozen=True)
class World:
    """An ensemble with parameters."""

    ensemble: Ensemble
    alpha: np.ndarray
    beta: dict[str, np.ndarray]

    @property
    def k(self) -> int:
        return len(self.alpha)

    def with_ensemble(self, **changes: object) -> World:
        return replace(self, ensemble=replace(self.ensemble, **changes))  # type: ignore[arg-type]


def draw(seed: int, n: int = 40, *, k: int = 3, zeros: float = 0.0, **options: object) -> World:
    rng = np.random.default_rng(seed)
    ensemble = draw_ensemble(rng, n, k=k, **options)  # type: ignore[arg-type]
    beta = {name: draw_beta(rng, k, max(n_values(w), 1), zeros) for name, w in ensemble.clusterings.items()}
    return World(ensemble, rng.gamma(2.0, size=k) + 0.05, beta)


def worlds(zeros: tuple[float, ...] = (0.0, 0.3)) -> st.SearchStrategy[World]:
    """Any small world; `zeros`: shares of the entries of beta that may be 0."""
    return st.builds(
        draw,
        SEEDS,
        st.integers(1, 30),
        k=st.integers(2, 5),
        r1=st.integers(0, 3),
        n_clusters=st.lists(st.integers(1, 6), max_size=3).map(tuple),
        missing=st.sampled_from([0.0, 0.3, 0.9]),
        soft=st.sampled_from([0.0, 0.5, 1.0]),
        zeros=st.sampled_from(zeros),
    )


WORLDS = worlds()
POSITIVE = worlds(zeros=(0.0,))
"""Without zeros in beta: a label that every class forbids counts as uninformative, which no M-step preserves."""


def cold(world: World, bits: int = BITS) -> np.ndarray:
    ensemble = world.ensemble
    start = cold_start(ensemble.classifiers, ensemble.clusterings, ensemble.n, world.k, bits)
    return add_alpha(world.alpha, start, bits)


def run(
    world: World,
    setting: EStepSettings | None = None,
    gamma: np.ndarray | None = None,
    threads: int = 1,
) -> tuple[np.ndarray, Contribution]:
    setting = setting or EStepSettings(BITS)
    start = cold(world, setting.bits) if gamma is None else gamma
    tables = {name: likelihood_table(beta) for name, beta in world.beta.items()}
    ensemble = world.ensemble
    return e_step(world.alpha, tables, ensemble.classifiers, ensemble.clusterings, start, setting, threads)


def bound_of(world: World, contribution: Contribution, bits: int = BITS) -> float:
    return float(np.ldexp(float(contribution.bound), -bits))


def assert_same(one: Contribution, other: Contribution) -> None:
    """Equal to the last bit."""
    assert (one.n, one.bound) == (other.n, other.bound)
    np.testing.assert_array_equal(one.log_theta, other.log_theta)
    assert one.mass.keys() == other.mass.keys()
    for name, mass in one.mass.items():
        np.testing.assert_array_equal(mass, other.mass[name])


# -- against the reference --------------------------------------------------------------------------------------------


@examples(80)
@given(WORLDS)
def test_e_step_is_that_of_the_reference(world: World) -> None:
    """Gamma and all sums agree to 1e-9, an instance's share, when both iterate to the fixed point."""
    gamma, sums = run(world, FINE)
    start = reference.cold_gamma(world.ensemble, world.alpha)
    expected, phi = reference.e_step(world.ensemble, world.alpha, world.beta, start, tolerance=1e-13)
    np.testing.assert_allclose(gamma.T, expected, rtol=0, atol=1e-9)
    scale = 1e-9 * world.ensemble.n
    for name, labels in world.ensemble.clusterings.items():
        counts = reference.expected_counts(phi[name], labels, world.beta[name].shape[1])
        np.testing.assert_allclose(from_grid(sums.mass[name], FINE.bits), counts, rtol=0, atol=scale)
    log_theta = (psi(expected) - psi(expected.sum(axis=1, keepdims=True))).sum(axis=0)
    np.testing.assert_allclose(from_grid(sums.log_theta, FINE.bits), log_theta, rtol=1e-9, atol=1e3 * scale)
    assert sums.n == world.ensemble.n


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("max_sweeps", [1, 2, 500])
def test_e_step_on_the_grid_is_that_of_the_reference_bit_for_bit(seed: int, max_sweeps: int) -> None:
    """Also when it is cut short after some sweeps, and with soft and missing labels."""
    world = draw(seed, missing=0.2, soft=0.5, n_clusters=(3, 6, 2))
    gamma, sums = run(world, EStepSettings(BITS, max_sweeps=max_sweeps))
    start = reference.cold_gamma(world.ensemble, world.alpha, BITS)
    expected, phi = reference.e_step(
        world.ensemble, world.alpha, world.beta, start, bits=BITS, tolerance=1e-8, max_sweeps=max_sweeps
    )
    np.testing.assert_array_equal(gamma.T, expected)
    for name, labels in world.ensemble.clusterings.items():
        counts = reference.expected_counts(phi[name], labels, world.beta[name].shape[1], BITS)
        np.testing.assert_array_equal(from_grid(sums.mass[name], BITS), counts)


@examples(80)
@given(WORLDS, st.sampled_from([1, 2, 500]))
def test_bound_is_the_whole_of_eq_3(world: World, max_sweeps: int) -> None:
    """The form in which terms have canceled equals the sum of all terms, converged or not."""
    _, sums = run(world, replace(FINE, max_sweeps=max_sweeps))
    start = reference.cold_gamma(world.ensemble, world.alpha)
    expected, phi = reference.e_step(
        world.ensemble, world.alpha, world.beta, start, tolerance=1e-13, max_sweeps=max_sweeps
    )
    whole = reference.bound(world.ensemble, world.alpha, world.beta, expected, phi)
    assert bound_of(world, sums, FINE.bits) == pytest.approx(whole, rel=1e-8, abs=1e-8)


def test_bound_is_a_lower_bound_of_the_evidence() -> None:
    """One instance, one vote, one clustering: the evidence is a finite sum, and the bound lies below it, not far."""
    alpha, beta = np.array([0.7, 1.9]), np.array([[0.6, 0.4], [0.1, 0.9]])
    ensemble = Ensemble(1, {"class_a": np.array([0])}, {"cluster_a": np.array([1])})
    _, sums = run(World(ensemble, alpha, {"cluster_a": beta}), FINE)
    # E[theta_0 theta_i] of a Dirichlet distribution.
    moments = np.array([alpha[0] + 1, alpha[1]]) * alpha[0] / (alpha.sum() * (alpha.sum() + 1))
    evidence = np.log(moments @ beta[:, 1])
    bound = sums.bound * 2.0**-FINE.bits
    assert evidence - 0.2 < bound < evidence


@pytest.mark.parametrize(("r1", "n_clusters", "exact"), [(2, (), True), (0, (1, 1), False)])
def test_bound_where_the_evidence_is_known(r1: int, n_clusters: tuple[int, ...], exact: bool) -> None:
    """Without clusterings the posterior is Dirichlet and the bound is tight; one-cluster labels have evidence 1."""
    world = draw(3, n=20, r1=r1, n_clusters=n_clusters)
    world = replace(world, beta={name: np.ones((3, 1)) for name in world.beta})
    bound = bound_of(world, run(world, FINE)[1], FINE.bits)
    if not exact:
        assert bound < 0
        return
    alpha, evidence = world.alpha, 0.0
    for first, second in zip(*world.ensemble.classifiers.values(), strict=True):
        evidence += np.log(alpha[first] * (alpha[second] + (first == second)) / alpha.sum() / (alpha.sum() + 1))
    assert bound == pytest.approx(evidence, rel=1e-10)


# -- the bound only rises ---------------------------------------------------------------------------------------------


def slack(world: World, bits: int = BITS) -> float:
    """What rounding every summand to the grid, and every phi, can take from the bound."""
    return float(np.ldexp(8.0 * world.ensemble.n * (len(world.beta) + 2), -bits))


@examples(40)
@given(WORLDS)
def test_bound_never_falls_over_sweeps(world: World) -> None:
    gamma, bounds = cold(world), []
    for _ in range(8):
        gamma, sums = run(world, EStepSettings(BITS, max_sweeps=1), gamma)
        bounds.append(bound_of(world, sums))
    assert np.diff(bounds).min() >= -slack(world)


@examples(30)
@given(POSITIVE, st.sampled_from([1, 3, 500]), st.sampled_from([0.0, 0.1]))
def test_bound_never_falls_over_em_with_warm_starts(world: World, max_sweeps: int, smoothing: float) -> None:
    """Neither after an E-step nor after the M-step before it, however few sweeps an E-step takes."""
    gamma, bounds = cold(world), []
    for _ in range(6):
        gamma, sums = run(world, EStepSettings(BITS, max_sweeps=max_sweeps), gamma)
        prior = sum(smoothing_bound(beta, smoothing) for beta in world.beta.values())
        bounds.append(bound_of(world, sums) + prior)
        world = replace(
            world,
            alpha=maximize_alpha(world.alpha, from_grid(sums.log_theta, BITS) / sums.n),
            beta={name: maximize_beta(mass, BITS, smoothing) for name, mass in sums.mass.items()},
        )
    assert np.diff(bounds).min() >= -slack(world)


@examples(30)
@given(POSITIVE)
def test_m_steps_raise_the_whole_bound(world: World) -> None:
    """Eqs. (7) and (8) each, at fixed gamma and phi, on the formula with all its terms."""
    start = reference.cold_gamma(world.ensemble, world.alpha, BITS)
    gamma, phi = reference.e_step(world.ensemble, world.alpha, world.beta, start, bits=BITS, max_sweeps=2)
    ensemble, alpha, beta = world.ensemble, world.alpha, dict(world.beta)
    before = reference.bound(ensemble, alpha, beta, gamma, phi)
    for name, labels in ensemble.clusterings.items():
        counts = reference.expected_counts(phi[name], labels, beta[name].shape[1])
        beta[name] = maximize_beta(np.rint(counts * 2.0**BITS).astype(np.int64), BITS)
        after = reference.bound(ensemble, alpha, beta, gamma, phi)
        assert after >= before - 1e-6
        before = after
    alpha = maximize_alpha(alpha, (psi(gamma) - psi(gamma.sum(axis=1, keepdims=True))).mean(axis=0))
    assert reference.bound(ensemble, alpha, beta, gamma, phi) >= before - 1e-6


# -- independence -----------------------------------------------------------------------------------------------------


def test_functions_of_one_number_do_not_see_their_neighbors() -> None:
    """What all equality to the bit rests on: exp and psi give the same bits at any offset, length and stride."""
    rng = np.random.default_rng(0)
    arguments = np.concatenate([rng.gamma(0.5, size=400), 10 ** rng.uniform(-3, 4, 400)])
    for function, values in ((np.exp, -arguments), (psi, arguments), (np.log, arguments)):
        whole = function(values)
        alone = np.array([function(values[i : i + 1])[0] for i in range(len(values))])
        np.testing.assert_array_equal(whole, alone)
        for offset in range(9):
            for length in (1, 2, 3, 5, 8, 17, 64):
                part = values[offset : offset + length]
                np.testing.assert_array_equal(function(part), whole[offset : offset + length])
                np.testing.assert_array_equal(function(part.copy()), whole[offset : offset + length])
        np.testing.assert_array_equal(function(values[::3]), whole[::3])
        np.testing.assert_array_equal(function(values.reshape(4, -1).T), whole.reshape(4, -1).T)


@pytest.mark.parametrize("block", [1, 2, 7, 64])
@pytest.mark.parametrize("threads", [1, 3])
def test_result_does_not_depend_on_blocks_or_threads(block: int, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    world = draw(11, n=97, missing=0.2, soft=0.5, zeros=0.2)
    gamma, sums = run(world)
    monkeypatch.setattr(variational, "BLOCK", block)
    again, same = run(world, threads=threads)
    np.testing.assert_array_equal(gamma, again)
    assert_same(sums, same)


@pytest.mark.parametrize("block", [1, 5])
def test_shares_do_not_depend_on_blocks(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    world = draw(12, n=33, missing=0.2, soft=0.5)
    tables = {name: likelihood_table(beta) for name, beta in world.beta.items()}
    labels = world.ensemble.classifiers, world.ensemble.clusterings
    share, sums = shares(tables, *labels, psi(cold(world)), BITS)
    monkeypatch.setattr(variational, "BLOCK", block)
    again, same = shares(tables, *labels, psi(cold(world)), BITS)
    np.testing.assert_array_equal(share, again)
    for name, table in sums.mass.items():
        np.testing.assert_array_equal(table, same.mass[name])
    assert sums.bound == same.bound


@examples(50)
@given(WORLDS, SEEDS)
def test_an_instance_sees_neither_the_others_nor_its_place(world: World, seed: int) -> None:
    rng = np.random.default_rng(seed)
    gamma, sums = run(world)
    order = rng.permutation(world.ensemble.n)
    shuffled, same = run(replace(world, ensemble=world.ensemble.rows(order)))
    np.testing.assert_array_equal(shuffled, gamma[:, order])
    assert_same(sums, same)
    some = order[: rng.integers(1, world.ensemble.n + 1)]
    fewer, _ = run(replace(world, ensemble=world.ensemble.rows(some)))
    np.testing.assert_array_equal(fewer, gamma[:, some])
    alone, _ = run(replace(world, ensemble=world.ensemble.rows(order[:1])))
    np.testing.assert_array_equal(alone, gamma[:, order[:1]])


@examples(50)
@given(WORLDS, SEEDS)
def test_contributions_of_two_parts_add_up_to_the_whole(world: World, seed: int) -> None:
    """Bit for bit, also when one part is empty."""
    first = np.random.default_rng(seed).random(world.ensemble.n) < 0.5
    parts = [run(replace(world, ensemble=world.ensemble.rows(mask)))[1] for mask in (first, ~first)]
    _, whole = run(world)
    assert_same(parts[0] + parts[1], whole)
    assert_same(parts[1] + parts[0], whole)


def test_contributions_of_sites_with_other_clusterings_add_up() -> None:
    """A site that lacks a clustering adds nothing to its masses."""
    one = Contribution(2, {"a": np.array([[1, 2]])}, np.array([3]), 4)
    other = Contribution(3, {"a": np.array([[10, 20]]), "b": np.array([[5]])}, np.array([30]), 40)
    total = one + other
    assert (total.n, total.bound, total.log_theta.tolist()) == (5, 44, [33])
    assert {name: mass.tolist() for name, mass in total.mass.items()} == {"a": [[11, 22]], "b": [[5]]}
    assert one.mass["a"].tolist() == [[1, 2]]


def test_every_instance_twice_doubles_all_sums() -> None:
    world = draw(13, missing=0.2, soft=0.5)
    gamma, sums = run(world)
    twice = world.ensemble.rows(np.repeat(np.arange(world.ensemble.n), 2))
    doubled, double = run(replace(world, ensemble=twice))
    np.testing.assert_array_equal(doubled, np.repeat(gamma, 2, axis=1))
    assert_same(sums + sums, double)


@examples(30)
@given(WORLDS, st.integers(1, 6))
def test_a_sweep_over_shared_instances_is_the_sweep_of_the_e_step(world: World, n_sites: int) -> None:
    """Models dealt out to sites: their shares and bounds add up to the E-step's of one sweep, bit for bit."""
    ensemble, gamma = world.ensemble, cold(world)
    expected, sums = run(world, EStepSettings(BITS, max_sweeps=1), gamma)
    tables = {name: likelihood_table(beta) for name, beta in world.beta.items()}
    total, cluster_bound = np.zeros(gamma.shape, np.int64), 0
    for site in range(n_sites):
        classifiers = dict(list(ensemble.classifiers.items())[site::n_sites])
        clusterings = dict(list(ensemble.clusterings.items())[site::n_sites])
        share, part = shares(tables, classifiers, clusterings, psi(gamma), BITS)
        total, cluster_bound = total + share, cluster_bound + part.bound
        for name, table in part.mass.items():
            np.testing.assert_array_equal(table, sums.mass[name])
    updated = add_alpha(world.alpha, total, BITS)
    np.testing.assert_array_equal(updated, expected)
    statistics, rest = center_part(world.alpha, updated, BITS)
    np.testing.assert_array_equal(statistics, sums.log_theta)
    assert cluster_bound + rest == sums.bound


# -- symmetries -------------------------------------------------------------------------------------------------------


@examples(40)
@given(WORLDS, SEEDS)
def test_cluster_names_do_not_matter(world: World, seed: int) -> None:
    """Hard labels: not in a bit. Soft labels: the average of log beta runs over the clusters, so to its rounding."""
    rng = np.random.default_rng(seed)
    gamma, sums = run(world)
    beta, clusterings, orders = {}, {}, {}
    for name, labels in world.ensemble.clusterings.items():
        order = rng.permutation(world.beta[name].shape[1])
        beta[name], orders[name] = world.beta[name][:, order], order
        inverse = np.append(np.argsort(order), -1)
        clusterings[name] = inverse[labels] if labels.ndim == 1 else labels[:, order]
    renamed, same = run(replace(world.with_ensemble(clusterings=clusterings), beta=beta))
    hard = all(labels.ndim == 1 for labels in clusterings.values())
    np.testing.assert_allclose(renamed, gamma, rtol=0, atol=0 if hard else 1e-6)
    for name, order in orders.items():
        if hard:
            np.testing.assert_array_equal(same.mass[name], sums.mass[name][:, order])
    if hard:
        assert same.bound == sums.bound


@examples(40)
@given(WORLDS, SEEDS)
def test_class_names_permute_the_result(world: World, seed: int) -> None:
    order = np.random.default_rng(seed).permutation(world.k)
    inverse = np.append(np.argsort(order), -1)
    gamma, sums = run(world, FINE)
    permuted = replace(
        world.with_ensemble(
            classifiers={
                name: inverse[labels] if labels.ndim == 1 else labels[:, order]
                for name, labels in world.ensemble.classifiers.items()
            }
        ),
        alpha=world.alpha[order],
        beta={name: beta[order] for name, beta in world.beta.items()},
    )
    other, same = run(permuted, FINE)
    np.testing.assert_allclose(other, gamma[order], rtol=0, atol=1e-9)
    assert bound_of(world, same, FINE.bits) == pytest.approx(bound_of(world, sums, FINE.bits), rel=1e-9, abs=1e-9)


# -- kinds of labels --------------------------------------------------------------------------------------------------


def as_soft(models: Mapping[str, Labels], sizes: Mapping[str, int]) -> dict[str, Labels]:
    return {name: reference.one_hot(labels, sizes[name]) for name, labels in models.items()}


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("zeros", [0.0, 0.3])
def test_certain_soft_labels_are_hard_labels(seed: int, zeros: float) -> None:
    """To the bit, on a grid of 2**-20: there the rounding of the logarithms disappears."""
    world = draw(seed, missing=0.3, zeros=zeros)
    sizes = {name: beta.shape[1] for name, beta in world.beta.items()}
    classes = dict.fromkeys(world.ensemble.classifiers, world.k)
    gamma, sums = run(world, EStepSettings(20))
    votes_as_soft, same = run(
        world.with_ensemble(classifiers=as_soft(world.ensemble.classifiers, classes)), EStepSettings(20)
    )
    np.testing.assert_array_equal(votes_as_soft, gamma)
    assert_same(same, sums)
    clusters_as_soft, same = run(
        world.with_ensemble(clusterings=as_soft(world.ensemble.clusterings, sizes)), EStepSettings(20)
    )
    np.testing.assert_array_equal(clusters_as_soft, gamma)
    for name, mass in sums.mass.items():
        np.testing.assert_array_equal(same.mass[name], mass)


@pytest.mark.parametrize("tiny", [1e-3, 1e-8, 5e-10, 1e-12, 1e-30])
def test_soft_labels_that_are_nearly_certain(tiny: float) -> None:
    """Probabilities below the grid leave no mass, so beta becomes 0 where they are not: the bound must not notice."""
    truth = np.arange(13) % 2
    soft = np.where(np.eye(2)[truth] > 0, 1 - tiny, tiny)
    ensemble = Ensemble(13, {"class_0": truth, "class_1": truth}, {"cluster_0": soft})
    world, bounds = World(ensemble, np.ones(2), {"cluster_0": np.full((2, 2), 0.5)}), []
    gamma = cold(world)
    for _ in range(12):
        gamma, sums = run(world, gamma=gamma)
        bounds.append(bound_of(world, sums))
        alpha = maximize_alpha(world.alpha, from_grid(sums.log_theta, BITS) / sums.n)
        world = World(ensemble, alpha, {"cluster_0": maximize_beta(sums.mass["cluster_0"], BITS)})
    assert np.diff(bounds).min() >= -1e-3
    assert -20 < bounds[-1] < 0


def test_soft_labels_with_fewer_columns_than_clusters_or_classes() -> None:
    """A site whose soft model knows only the first values: as if the others had probability 0."""
    world = draw(21, soft=1.0, k=4, n_clusters=(6,))
    narrow = {name: labels[:, :3] for name, labels in world.ensemble.classifiers.items()}
    narrow_clusters = {name: labels[:, :2] for name, labels in world.ensemble.clusterings.items()}

    def padded(models: Mapping[str, Labels], size: int) -> dict[str, Labels]:
        return {name: np.pad(labels, [(0, 0), (0, size - labels.shape[1])]) for name, labels in models.items()}

    one, sums = run(world.with_ensemble(classifiers=narrow, clusterings=narrow_clusters))
    other, same = run(
        world.with_ensemble(classifiers=padded(narrow, 4), clusterings=padded(narrow_clusters, 6)),
    )
    np.testing.assert_array_equal(one, other)
    assert_same(sums, same)


@examples(30)
@given(WORLDS)
def test_a_missing_label_drops_out(world: World) -> None:
    """An instance without a model's label gets what it would get if the model did not exist."""
    gamma, _ = run(world)
    present = {
        **{("classifiers", name): reference.labeled(w) for name, w in world.ensemble.classifiers.items()},
        **{("clusterings", name): reference.labeled(w) for name, w in world.ensemble.clusterings.items()},
    }
    for (kind, name), there in present.items():
        gone = np.flatnonzero(~there)
        models = dict(getattr(world.ensemble, kind))
        del models[name]
        less = world.with_ensemble(**{kind: models})
        without, _ = run(replace(less, ensemble=less.ensemble.rows(gone)))
        np.testing.assert_array_equal(without, gamma[:, gone])


@pytest.mark.parametrize("soft", [0.0, 1.0])
def test_missing_labels_add_no_mass(soft: float) -> None:
    """Sum over classes and clusters of T is the number of labels that there are."""
    world = draw(22, n=60, missing=0.4, soft=soft)
    _, sums = run(world)
    for name, labels in world.ensemble.clusterings.items():
        total = from_grid(sums.mass[name], BITS).sum()
        assert total == pytest.approx(reference.labeled(labels).sum(), abs=1e-6)
        if labels.ndim == 1:
            columns = from_grid(sums.mass[name], BITS).sum(axis=0)
            histogram = np.bincount(labels[labels >= 0], minlength=world.beta[name].shape[1])
            np.testing.assert_allclose(columns, histogram, atol=1e-6)


# -- edges ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("r1", [0, 2])
@pytest.mark.parametrize("n_clusters", [(), (3, 4)])
def test_an_instance_without_any_label_keeps_alpha(r1: int, n_clusters: tuple[int, ...]) -> None:
    world = draw(31, n=6, r1=r1, n_clusters=n_clusters, missing=1.0)
    blank = {name: np.full(6, -1) for name in world.ensemble.classifiers}
    world = world.with_ensemble(classifiers=blank, clusterings={name: np.full(6, -1) for name in world.beta})
    gamma, sums = run(world)
    np.testing.assert_array_equal(gamma, np.repeat(world.alpha[:, None], 6, axis=1))
    assert sums.bound == 0
    assert all(not mass.any() for mass in sums.mass.values())


def test_no_instance_adds_nothing() -> None:
    world = draw(32)
    world = replace(world, ensemble=world.ensemble.rows(np.zeros(0, np.int64)))
    gamma, sums = run(world)
    assert gamma.shape == (3, 0)
    assert (sums.n, sums.bound) == (0, 0)
    assert not sums.log_theta.any()
    assert {name: mass.shape for name, mass in sums.mass.items()} == {n: b.shape for n, b in world.beta.items()}
    assert all(not mass.any() for mass in sums.mass.values())


def test_no_clustering_leaves_the_votes() -> None:
    world = draw(33, n_clusters=())
    gamma, sums = run(world)
    counts = sum((labels[:, None] == np.arange(3)).astype(float) for labels in world.ensemble.classifiers.values())
    np.testing.assert_array_equal(gamma.T, world.alpha + counts)
    assert sums.mass == {}


def test_no_classifier() -> None:
    """Gamma sums to alpha plus the number of clusterings; symmetric parameters treat all classes alike."""
    world = draw(34, r1=0)
    gamma, _ = run(world)
    np.testing.assert_allclose(gamma.sum(axis=0), world.alpha.sum() + 2, atol=1e-8)
    even = replace(world, alpha=np.ones(3), beta={n: np.full_like(b, 1 / b.shape[1]) for n, b in world.beta.items()})
    gamma, _ = run(even)
    np.testing.assert_array_equal(gamma, np.broadcast_to(gamma[0], gamma.shape))


def test_a_class_never_voted_stays_possible() -> None:
    world = draw(35, k=4)
    world = world.with_ensemble(
        classifiers={name: np.minimum(labels, 2) for name, labels in world.ensemble.classifiers.items()}
    )
    gamma, sums = run(world)
    assert (gamma[3] >= world.alpha[3]).all()
    assert (gamma[3] <= world.alpha[3] + 2).all()
    assert np.isfinite(sums.log_theta).all()


@pytest.mark.parametrize("k", [2, 3, 7])
def test_a_clustering_of_one_cluster_says_nothing_about_classes(k: int) -> None:
    """phi is then the expectation of the class itself: it pulls no class above the order that alpha and votes give."""
    world = draw(36, k=k, n_clusters=(1,))
    world = replace(world, beta={"cluster_0": np.ones((k, 1))})
    gamma, _ = run(world)
    without, _ = run(replace(world.with_ensemble(clusterings={}), beta={}))
    np.testing.assert_array_equal(gamma.argmax(axis=0), without.argmax(axis=0))


@pytest.mark.parametrize("soft", [False, True])
def test_a_cluster_that_no_class_can_produce_says_nothing(soft: bool) -> None:
    """Its column of beta is zero: the label is treated as one that all classes produce alike."""
    world = draw(37, n_clusters=(4,), n=30)
    beta = world.beta["cluster_0"].copy()
    beta[:, 2] = 0.0
    even = beta.copy()
    even[:, 2] = 1.0
    if soft:
        world = world.with_ensemble(clusterings=as_soft(world.ensemble.clusterings, {"cluster_0": 4}))
    gamma, sums = run(replace(world, beta={"cluster_0": beta}))
    expected, _ = run(replace(world, beta={"cluster_0": even}))
    np.testing.assert_array_equal(gamma, expected)
    assert abs(sums.bound) < 2**62


@examples(60)
@given(
    SEEDS,
    st.floats(1e-3, 1e-2),
    st.sampled_from([1e-13, 1e-6, 0.6]),
    st.integers(2, 5),
    st.booleans(),
)
def test_underflow_is_met_in_the_log_domain(seed: int, low: float, small: float, k: int, soft: bool) -> None:
    """exp(psi(1e-3)) is e-434: where beta allows only such classes, the product is 0 in float64, the answer is not.

    The votes are for class 0, whose beta is 0; the others have alpha near 1e-3.
    """
    rng = np.random.default_rng(seed)
    n = 12
    alpha = np.append(50.0, low * (1 + rng.random(k - 1)))
    beta = np.zeros((k, 2))
    beta[0] = 0.0, 1.0
    beta[1:, 0] = small * (0.5 + rng.random(k - 1))
    beta[1:, 1] = 1 - beta[1:, 0]
    labels = np.where(rng.random(n) < 0.8, 0, -1)
    clusters: Labels = reference.one_hot(labels, 2) if soft else labels
    ensemble = Ensemble(n, {"class_0": np.zeros(n, np.int64)}, {"cluster_0": clusters})
    world = World(ensemble, alpha, {"cluster_0": beta})
    # Where the votes start with all mass on class 0, the first sweep meets psi(alpha_i) of all other classes.
    start = np.repeat(np.append(51.0, alpha[1:])[:, None], n, axis=1)
    gamma, sums = run(world, replace(FINE, max_sweeps=1), start)
    expected, phi = reference.e_step(ensemble, alpha, world.beta, start.T, max_sweeps=1)
    np.testing.assert_allclose(gamma.T, expected, rtol=0, atol=1e-9)
    assert np.isfinite(gamma).all()
    allowed = gamma[1:, labels == 0].sum(axis=0) - alpha[1:].sum()
    np.testing.assert_allclose(allowed, 1.0, atol=1e-9)
    whole = reference.bound(ensemble, alpha, world.beta, expected, phi)
    assert bound_of(world, sums, FINE.bits) == pytest.approx(whole, rel=1e-8)


@examples(30)
@given(SEEDS, st.integers(2, 4))
def test_alpha_at_both_ends_of_its_box(seed: int, k: int) -> None:
    rng = np.random.default_rng(seed)
    world = replace(draw(seed, n=15, k=k, zeros=0.4), alpha=rng.choice([1e-3, 1e4, 1.0], size=k))
    gamma, sums = run(world)
    assert np.isfinite(gamma).all()
    assert (gamma >= world.alpha[:, None]).all()
    limit = 1100.0 * world.ensemble.n * 2.0**BITS
    assert np.abs(sums.log_theta).max() <= limit


def test_convergence_allows_one_step_of_a_coarse_grid() -> None:
    before = np.zeros((2, 3))
    after = np.array([[0.0, 2.0**-20, 2.0**-19], [0.0, 0.0, 0.0]])
    np.testing.assert_array_equal(converged(before, after, 1e-8, 20), [True, True, False])
    np.testing.assert_array_equal(converged(before, after, 1e-8, 30), [True, False, False])


def test_votes_and_cold_start() -> None:
    """Counts of votes; a missing label adds nothing; the clusterings' labels are spread evenly over the classes."""
    classifiers = {"a": np.array([0, 1, -1]), "b": np.array([[0.5, 0.5, 0], [0, 0.25, 0.75], [0, 0, 0]])}
    clusterings = {"c": np.array([4, -1, 0]), "d": np.array([0, -1, -1])}
    counts = from_grid(votes(classifiers, 3, 3, BITS), BITS)
    np.testing.assert_array_equal(counts.T, [[1.5, 0.5, 0], [0, 1.25, 0.75], [0, 0, 0]])
    start = from_grid(cold_start(classifiers, clusterings, 3, 3, BITS), BITS)
    np.testing.assert_allclose((start - counts).T, np.repeat([[2 / 3], [0], [1 / 3]], 3, axis=1), atol=2.0**-29)


@examples(40)
@given(WORLDS)
def test_equal_labels_are_one_instance_with_a_count(world: World) -> None:
    """The sums are those of all instances to the bit, also where a count times a value on the grid passes 2**53."""
    times = 2**24 - 1
    world = replace(world, ensemble=world.ensemble.rows(np.arange(world.ensemble.n)[:8]))
    gamma, sums = run(world)
    distinct = world.ensemble.distinct
    part = replace(world, ensemble=distinct.part)
    tables = {name: likelihood_table(beta) for name, beta in world.beta.items()}
    labels = distinct.part.classifiers, distinct.part.clusterings
    each, once = e_step(world.alpha, tables, *labels, cold(part), EStepSettings(BITS), counts=distinct.counts)
    np.testing.assert_array_equal(each[:, distinct.of_row], gamma)
    _, often = e_step(world.alpha, tables, *labels, cold(part), EStepSettings(BITS), counts=distinct.counts * times)
    for found, factor in ((once, 1), (often, times)):
        assert (found.n, found.bound) == (sums.n * factor, sums.bound * factor)
        np.testing.assert_array_equal(found.log_theta, sums.log_theta * factor)
        for name, mass in sums.mass.items():
            np.testing.assert_array_equal(found.mass[name], mass * factor)


@examples(20)
@given(WORLDS)
def test_cold_start_does_not_decide_the_fixed_point_without_conflict(world: World) -> None:
    """A second E-step from its own result moves gamma by less than the tolerance of a contraction."""
    assume(world.ensemble.n > 0)
    gamma, _ = run(world, FINE)
    one_more, _ = run(world, replace(FINE, max_sweeps=1), gamma)
    assume(np.abs(one_more - gamma).max() <= FINE.tolerance)  # a slow instance may end with the last sweep allowed
    again, _ = run(world, FINE, gamma)
    np.testing.assert_allclose(again, gamma, rtol=0, atol=1e-10)


def test_dirichlet_bound_is_zero_where_nothing_was_seen() -> None:
    alpha = np.array([0.3, 2.0, 1e-3])
    assert dirichlet_bound(alpha, np.repeat(alpha[:, None], 4, axis=1), BITS) == 0
