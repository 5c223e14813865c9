"""No labels whatever have statistics beyond the limits, and the limits hold for sums over sites."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from numerics.bc3e.e_step import EStepSettings, cold_start, e_step, shares
from numerics.bc3e.ensemble import Ensemble
from numerics.bc3e.gamma import add_alpha
from numerics.bc3e.grid import MIN_BITS
from numerics.bc3e.limits import private_limits, shared_limits
from numerics.bc3e.responsibilities import likelihood_table
from tests.support.bc3e_ensembles import draw_beta, draw_ensemble
from tests.support.examples import examples

SEEDS = st.integers(0, 2**32 - 1)
ALPHAS = st.sampled_from([1e-3, 0.1, 1.0, 30.0, 1e4])
TINY = st.sampled_from([1.0, 1e-8, 1e-250])
"""Factor of some entries of beta."""


def draw(seed: int, tiny: float, soft: float) -> tuple[Ensemble, dict[str, np.ndarray]]:
    rng = np.random.default_rng(seed)
    sizes = tuple(rng.integers(1, 6, rng.integers(0, 4)).tolist())
    ensemble = draw_ensemble(rng, 25, k=3, r1=int(rng.integers(0, 3)), n_clusters=sizes, missing=0.2, soft=soft)
    beta = {name: draw_beta(rng, 3, size, 0.3) for name, size in zip(ensemble.clusterings, sizes, strict=True)}
    for table in beta.values():
        table[rng.random(table.shape) < 0.3] *= tiny
    return ensemble, beta


@examples(100)
@given(SEEDS, st.tuples(ALPHAS, ALPHAS, ALPHAS), TINY, st.sampled_from([0.0, 1.0]), st.integers(1, 60))
def test_statistics_of_any_labels_keep_the_limits(
    seed: int, alphas: tuple[float, ...], tiny: float, soft: float, sweeps: int
) -> None:
    ensemble, beta = draw(seed, tiny, soft)
    alpha, bits = np.array(alphas), MIN_BITS  # the coarsest grid rounds most
    tables = {name: likelihood_table(table) for name, table in beta.items()}
    start = add_alpha(alpha, cold_start(ensemble.classifiers, ensemble.clusterings, 25, 3, bits), bits)
    settings = EStepSettings(bits, 1e-8, sweeps)
    _, part = e_step(alpha, tables, ensemble.classifiers, ensemble.clusterings, start, settings)
    limits = private_limits(alpha, 25, len(ensemble.classifiers), len(ensemble.clusterings), bits)
    assert (part.log_theta >= limits.log_theta).all()
    assert limits.bound[0] <= part.bound <= limits.bound[1]
    for table in part.mass.values():
        assert table.sum() <= limits.mass * (1 + table.size / 2.0**bits)


@examples(60)
@given(SEEDS, TINY, st.sampled_from([0.0, 1.0]), st.floats(-1000.0, 10.0))
def test_sweeps_over_shared_instances_keep_the_limits(seed: int, tiny: float, soft: float, least: float) -> None:
    ensemble, beta = draw(seed, tiny, soft)
    log_weights = np.random.default_rng(seed).uniform(least, 10.0, (3, 25))
    tables = {name: likelihood_table(table) for name, table in beta.items()}
    _, sums = shares(tables, ensemble.classifiers, ensemble.clusterings, log_weights, MIN_BITS)
    limits = shared_limits(3, 25, len(ensemble.clusterings), MIN_BITS)
    assert limits.bound[0] <= sums.bound <= limits.bound[1]
    for table in sums.mass.values():
        assert table.sum() <= limits.mass * (1 + table.size / 2.0**MIN_BITS)


def test_the_largest_bound_does_not_depend_on_how_fine_the_grid_is_but_for_rounding() -> None:
    coarse, fine = (private_limits(np.ones(3), 100, 2, 2, bits).bound[1] / 2.0**bits for bits in (20, 30))
    assert 0 <= fine < coarse < 1.0
