"""Split of columns over sites, cells and baselines of all scenarios of attribute-distributed regression."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any

import numpy as np
from jaxtyping import Float64

from numerics.residual.columns_and_outcomes import Columns, Outcomes
from numerics.shared.threads import single_threaded
from scenarios.common import check_sites, frozen, settings_of
from scenarios.registry import Cell, Config, Scenario, register

# A world draws from streams of its own: [seed, world, purpose, ...].
FRIEDMAN1, FRIEDMAN2, FRIEDMAN3, CONCRETE, CURVES, IRRELEVANT, COST, THEOREM2 = range(8)
ROWS, NOISE, NUISANCE = range(3)

MIN_LEAF = 40
"""`residual.min-leaf` of the worlds for which the paper states no value."""

COLUMNS = ("test_mse", "test_mse_best", "test_mse_last", "train_mse", "iterations")

RIDGE = 1e-6
"""`residual.ridge` of all worlds: the paper's formulas have none, and need a little where agents have equal columns."""

settings = partial(settings_of, "residual", ridge=RIDGE)


@dataclass(frozen=True, eq=False)
class World:
    """All columns of one draw of a world, as no site ever holds them.

    Attributes
    ----------
    x : ndarray
        ``(n, p)`` attributes, test rows last; read-only.
    y : ndarray
        ``(n,)`` outcomes; read-only.
    features : tuple of str
        Names of the p attributes.
    relevant : tuple of bool
        Which of them the outcome depends on.
    n_test : int
        Number of test rows.
    stream : tuple of int
        Random stream of the irrelevant attributes.
    n_nuisance : int
        Number of attributes from that stream; they are the last.
    """

    x: Float64[np.ndarray, "n p"]
    y: Float64[np.ndarray, "n"]
    features: tuple[str, ...]
    relevant: tuple[bool, ...]
    n_test: int
    stream: tuple[int, ...]
    n_nuisance: int = 0


Draw = Callable[[Config, int], World]


def with_nuisance(world: World, n_columns: int) -> World:
    """Return the world with standard normal irrelevant attributes added until it has `n_columns` attributes.

    The j-th irrelevant attribute does not depend on their number.
    """
    n_more = n_columns - len(world.features)
    if n_more <= 0:
        return world
    places = range(world.n_nuisance, world.n_nuisance + n_more)
    noise = [np.random.default_rng([*world.stream, NUISANCE, j]).standard_normal(len(world.y)) for j in places]
    x = np.column_stack([world.x, *noise])
    frozen(x)
    features = (*world.features, *(f"noise{j + 1}" for j in places))
    relevant = (*world.relevant, *[False] * n_more)
    return replace(world, x=x, features=features, relevant=relevant, n_nuisance=places.stop)


@lru_cache(maxsize=64)  # as large as their worlds
def deal(world: World, n_sites: int) -> tuple[Columns, ...]:
    """Deal the attributes to the sites in turn: the first to site 0, the second to site 1, and so on.

    Sites beyond the number of attributes hold an irrelevant one each.
    """
    world = with_nuisance(world, n_sites)
    shards = []
    for site in range(n_sites):
        x = np.ascontiguousarray(world.x[:, site::n_sites])
        frozen(x)
        shards.append(Columns(x, world.features[site::n_sites]))
    return tuple(shards)


def relevant_sites(world: World, n_sites: int) -> list[int]:
    """Return 1 for every site with an attribute that the outcome depends on, 0 for the others."""
    return [int(any(world.relevant[site::n_sites])) for site in range(n_sites)]


def add(*, draw: Draw, sites: int, name: str, any_number: bool, pooled: bool, **world: Any) -> Scenario:
    """Register a scenario of attribute-distributed regression.

    Parameters
    ----------
    draw : Callable
        ``draw(config, seed)`` returns the pooled world; the same object for the same arguments, while it is in use.
    pooled : bool
        Whether its baselines are `pooled_errors`, which need test rows.
    name, sites, any_number, **world
        Of `Scenario`.
    """

    def shards(config: Config, seed: int, n_sites: int) -> list[Columns]:
        if not any_number:
            check_sites(name, n_sites, sites)
        return list(deal(draw(config, seed), n_sites))

    def truth(config: Config, seed: int, n_sites: int) -> list[int]:
        return relevant_sites(draw(config, seed), n_sites)

    def outcome(config: Config, seed: int) -> Outcomes:
        data = draw(config, seed)
        return Outcomes(data.y, n_test=data.n_test)

    def baselines(config: Config, seed: int) -> dict[str, float]:
        return dict(pooled_errors(draw(config, seed), int(config.get("residual.min-leaf", 0)) or MIN_LEAF, seed))

    if pooled:
        world["baselines"] = baselines
    return register(
        Scenario(
            name=name,
            protocol="residual",
            sites=sites,
            any_number=any_number,
            shards=shards,
            truth=truth,
            outcome=outcome,
            **world,
        )
    )


@lru_cache(maxsize=64)  # each keeps its world, 0.5 MB at most
def pooled_errors(world: World, min_leaf: int, seed: int) -> tuple[tuple[str, float], ...]:
    """Return the test errors of learners of all columns of a world, without those added for more sites.

    ``mse_centralized`` is the paper's comparison, L2 boosting with nu = 0.25 (section V-A) of 60 trees of any depth
    with the agents' smallest leaf; ``mse_pooled`` is scikit-learn's HistGradientBoostingRegressor with its defaults. An
    independent implementation has these errors in 3 repetitions with leaves of 40:

    ===============  ==========  ==========  ==========  ==============  ===================  ========  ============
    error            Friedman-1  Friedman-2  Friedman-3  Friedman-1 + 5  residual-irrelevant  concrete  concrete + 8
    ===============  ==========  ==========  ==========  ==============  ===================  ========  ============
    mse_centralized  .028        .005        .029        .034            .062                 .083      .108
    mse_pooled       .022        .004        .016        .026            .041                 .074      .104
    ===============  ==========  ==========  ==========  ==============  ===================  ========  ============

    Their advantage over the distributed algorithms is interaction between columns of different sites, which a sum of
    functions of one site's columns each cannot model.
    """
    # A site looks for its shard in this package, and needs no learner for that.
    from sklearn.ensemble import HistGradientBoostingRegressor

    from numerics.residual.boosting import l2_boosting

    n = len(world.y) - world.n_test
    x, y, x_test, y_test = world.x[:n], world.y[:n], world.x[n:], world.y[n:]
    centralized = l2_boosting(x, y, min_leaf=min_leaf, seed=seed % 2**32)
    with single_threaded():
        pooled = HistGradientBoostingRegressor(random_state=seed % 2**32).fit(x, y)
        predictions = {"mse_centralized": centralized.predict(x_test), "mse_pooled": pooled.predict(x_test)}
    return tuple((name, float(np.mean((y_test - predicted) ** 2))) for name, predicted in predictions.items())


# -- cells ------------------------------------------------------------------------------------------------------------

ROUNDS, ROUNDS_PARALLEL = 60, 20
"""Iterations of the sequential algorithms, and of the parallel one, where their number is fixed."""


def parallel(power: int, rounds: int = ROUNDS_PARALLEL) -> dict[str, Any]:
    """Return settings of the parallel algorithm with this p and a fixed number of iterations."""
    return settings(algorithm="parallel", power=str(power), stop="rounds", rounds=rounds)


def sequential(algorithm: str, rounds: int = ROUNDS) -> dict[str, Any]:
    """Return settings of `sip` or `greedy` with a fixed number of iterations."""
    return settings(algorithm=algorithm, stop="rounds", rounds=rounds)


def free(min_leaf: int = MIN_LEAF) -> dict[str, Any]:
    """Return settings that a user may replace: the agents' method and its smallest leaf."""
    return settings_of("residual", agent="tree", min_leaf=min_leaf)


def all_algorithms(config: Config) -> list[Cell]:
    """Return a row for each algorithm of Figure 3, and for others of this implementation.

    The figure has `test_mse_best` of `sip` and `greedy`, which are stopped where the test error is smallest; in
    practice the test error is unknown. Held-out rows stop `greedy-nu0.1` and `parallel-auto`, and select the p of the
    latter.
    """
    algorithms: dict[str, dict[str, Any]] = {
        "average": settings(algorithm="average"),
        "meta-linear": settings(algorithm="meta-linear"),
        "meta-boosting": settings(algorithm="meta-boosting"),
        "sip": sequential("sip"),
        "greedy": sequential("greedy"),
        "greedy-nu0.1": settings(algorithm="greedy", shrinkage=0.1, stop="held-out", rounds=300, patience=30),
        "parallel-p1": parallel(1),
        "parallel-p3": parallel(3),
        "parallel-auto": settings(algorithm="parallel", power="auto", stop="held-out", rounds=ROUNDS),
    }
    return [Cell({"algorithm": name}, each, defaults=free()) for name, each in algorithms.items()]
