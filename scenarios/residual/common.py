"""What the worlds of attribute-distributed regression have in common: columns dealt out, cells, baselines."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any

import numpy as np
from jaxtyping import Float64
from sklearn.ensemble import HistGradientBoostingRegressor

from numerics.residual.boosting import l2_boosting
from numerics.residual.columns_and_outcomes import Columns, Outcomes
from numerics.shared.threads import single_threaded
from scenarios.common import Baselines, check_sites, frozen, no_baselines, settings_of
from scenarios.registry import Cell, Config, Scenario, register

# A world draws from streams of its own: [seed, world, what, ...].
FRIEDMAN1, FRIEDMAN2, FRIEDMAN3, CONCRETE, CURVES, IRRELEVANT, COST, THEOREM2 = range(8)
ROWS, NOISE, NUISANCE = range(3)

MIN_LEAF = 40
"""`residual.min-leaf` of the worlds for which the paper states no figure."""

SHOWN = ("test_mse", "test_mse_best", "test_mse_last", "train_mse", "iterations")

settings = partial(settings_of, "residual")


@dataclass(frozen=True, eq=False)
class World:
    """One draw of a world, pooled, as no party ever holds it.

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
        Where irrelevant attributes come from, one by one.
    n_nuisance : int
        How many of the attributes came from there; they are the last.
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
    """The world with as many irrelevant attributes, standard normal, as make `n_columns` of them; none is taken away.

    The j-th irrelevant attribute is the same whatever number of them there is.
    """
    n_more = n_columns - len(world.features)
    if n_more <= 0:
        return world
    places = range(world.n_nuisance, world.n_nuisance + n_more)
    drawn = [np.random.default_rng([*world.stream, NUISANCE, j]).standard_normal(len(world.y)) for j in places]
    x = np.column_stack([world.x, *drawn])
    frozen(x)
    features = (*world.features, *(f"noise{j + 1}" for j in places))
    relevant = (*world.relevant, *[False] * n_more)
    return replace(world, x=x, features=features, relevant=relevant, n_nuisance=places.stop)


@lru_cache(maxsize=64)  # as large as their worlds
def deal(world: World, n_sites: int) -> tuple[Columns, ...]:
    """The attributes in turn to the sites: the first to site 0, the second to site 1, and round again.

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
    """1 for every site with an attribute that the outcome depends on, 0 for the others."""
    return [int(any(world.relevant[site::n_sites])) for site in range(n_sites)]


def add(*, draw: Draw, sites: int, name: str, any_number: bool, compared: bool, **world: Any) -> Scenario:
    """Register a world of attribute-distributed regression.

    Parameters
    ----------
    draw : Callable
        ``draw(config, seed)``: the pooled world; the same object for the same arguments, as long as it is in use.
    compared : bool
        Whether it has test rows, on which learners of the pooled columns are measured too (`pooled_errors`).
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
        drawn = draw(config, seed)
        return Outcomes(drawn.y, n_test=drawn.n_test)

    def baselines(config: Config, seed: int) -> dict[str, float]:
        return dict(pooled_errors(draw(config, seed), int(config.get("residual.min-leaf", 0)) or MIN_LEAF, seed))

    by_pooling: Baselines = baselines if compared else no_baselines
    return register(
        Scenario(
            name=name,
            protocol="residual",
            sites=sites,
            any_number=any_number,
            shards=shards,
            truth=truth,
            outcome=outcome,
            baselines=by_pooling,
            **world,
        )
    )


@lru_cache(maxsize=64)  # each keeps its world, 0.5 MB at most
def pooled_errors(world: World, min_leaf: int, seed: int) -> tuple[tuple[str, float], ...]:
    """Test errors of learners that are given all columns of a world; those of sites beyond its attributes are not.

    ``mse_centralized`` is the paper's comparison, L2 boosting with nu = 0.25 (section V-A) of 60 trees of any depth
    with the agents' smallest leaf; ``mse_pooled`` is scikit-learn's HistGradientBoostingRegressor as it comes. An
    independent implementation saw, in 3 repetitions with leaves of 40:

    ===============  ==========  ==========  ==========  ==============  ===================  ========  ============
    error            Friedman-1  Friedman-2  Friedman-3  Friedman-1 + 5  residual-irrelevant  concrete  concrete + 8
    ===============  ==========  ==========  ==========  ==============  ===================  ========  ============
    mse_centralized  .028        .005        .029        .034            .062                 .083      .108
    mse_pooled       .022        .004        .016        .026            .041                 .074      .104
    ===============  ==========  ==========  ==========  ==============  ===================  ========  ============

    What they win over the distributed algorithms is interaction between columns of different sites, which no sum of
    functions of one site's columns each can follow.
    """
    n = len(world.y) - world.n_test
    x, y, x_test, y_test = world.x[:n], world.y[:n], world.x[n:], world.y[n:]
    centralized = l2_boosting(x, y, min_leaf=min_leaf, seed=seed % 2**32)
    with single_threaded():
        pooled = HistGradientBoostingRegressor(random_state=seed % 2**32).fit(x, y)
        predictions = {"mse_centralized": centralized.predict(x_test), "mse_pooled": pooled.predict(x_test)}
    return tuple((name, float(np.mean((y_test - predicted) ** 2))) for name, predicted in predictions.items())


# -- cells ------------------------------------------------------------------------------------------------------------

ROUNDS, ROUNDS_PARALLEL = 60, 20
"""Iterations of the sequential algorithms, and of the parallel one, when they are not stopped."""


def parallel(power: int, rounds: int = ROUNDS_PARALLEL) -> dict[str, Any]:
    """Settings of the parallel algorithm with a given p and a fixed number of iterations."""
    return settings(algorithm="parallel", power=str(power), stop="rounds", rounds=rounds)


def sequential(algorithm: str, rounds: int = ROUNDS) -> dict[str, Any]:
    """Settings of `sip` or `greedy` with a fixed number of iterations."""
    return settings(algorithm=algorithm, stop="rounds", rounds=rounds)


def free(min_leaf: int = MIN_LEAF) -> dict[str, Any]:
    """Settings that are the scenario's where the user has no others: the agents' method and its smallest leaf."""
    return settings(agent="tree", min_leaf=min_leaf)


def all_algorithms(config: Config) -> list[Cell]:
    """Figure 3's algorithms, and what this implementation has beside them.

    `test_mse_best` of `sip` and `greedy` is what the figure shows of them: stopped where the test error is smallest,
    which nobody can do. `greedy-nu0.1` and `parallel-auto` are stopped, and p is chosen, by held-out rows.
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
    return [Cell({"algorithm": name}, chosen, defaults=free()) for name, chosen in algorithms.items()]
