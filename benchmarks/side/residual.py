"""residual beside learning from all columns in one place, from one site's columns, and averages of agents."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Float64
from sklearn.ensemble import HistGradientBoostingRegressor

from benchmarks.driver import config_of
from benchmarks.side import Case, Method, Metric, Ran, Side, data_setting
from benchmarks.side.protocol import played, ran
from numerics.residual.columns_and_outcomes import Columns, Outcomes
from scenarios.residual.common import World
from scenarios.residual.real_data import concrete
from scenarios.residual.synthetic import SIGMA, Friedman, friedman

BOOSTED = "hgb(max_iter=20)"
"""Few iterations, for the rounds go on with what they leave."""
_DOUBLE = 8
_STREAM = 1_000
"""Of the made data: no scenario's."""

Places = Sequence[Sequence[int]]
"""By site, which columns it has."""


@dataclass(frozen=True, eq=False)
class Split:
    """Columns of the same rows at several sites; the outcome is the center's, and the last rows are tested on."""

    world: World
    shards: tuple[Columns, ...]

    @property
    def n_learnt(self) -> int:
        """Rows that are learnt from."""
        return len(self.world.y) - self.world.n_test

    def error(self, x: Float64[np.ndarray, "n p"], seed: int) -> float:
        """Mean squared error on the test rows of gradient boosting as it comes, given these columns."""
        n, y = self.n_learnt, self.world.y
        learnt = HistGradientBoostingRegressor(random_state=seed).fit(x[:n], y[:n])
        return float(np.mean((y[n:] - learnt.predict(x[n:])) ** 2))


def split(draw: Callable[[int], World], places: Places, seed: int) -> Split:
    """A draw of a world, its columns dealt out."""
    drawn = draw(seed)
    shards = [
        Columns(np.ascontiguousarray(drawn.x[:, own]), tuple(drawn.features[j] for j in own))
        for own in map(list, places)
    ]
    return Split(drawn, tuple(shards))


def _concrete(seed: int) -> World:
    return concrete(config_of("residual-concrete", seed, data=data_setting()), seed)


def _small() -> Split:
    return split(partial(friedman, Friedman(1, _STREAM, n=200, n_test=50)), ((0, 1), (2, 3, 4)), 0)


# -- methods ----------------------------------------------------------------------------------------------------------


def ours(settings: Mapping[str, Any], data: Split, seed: int) -> Ran:
    """The protocol, or what its sites do without collaboration."""
    outcomes = Outcomes(data.world.y, n_test=data.world.n_test)
    driven = played("residual", data.shards, seed, settings, outcome=lambda config, seed: outcomes)
    return ran(driven, lambda: {"mse": driven.metrics["test_mse"]})


def pooled(data: Split, seed: int) -> Ran:
    """One learner of all columns."""
    error = data.error(data.world.x, seed)
    return Ran(lambda: {"mse": error}, from_sites=_DOUBLE * data.world.x.size)


def alone(pick: Callable[[list[float]], float], data: Split, seed: int) -> Ran:
    """Every site for itself, as if it held the outcome; the seconds are those of one, on average."""
    errors, seconds = [], []
    for shard in data.shards:
        started = time.perf_counter()
        errors.append(data.error(shard.x, seed))
        seconds.append(time.perf_counter() - started)
    return Ran(lambda: {"mse": pick(errors)}, seconds=float(np.mean(seconds)))


# -- what is compared -------------------------------------------------------------------------------------------------


def side(quick: bool) -> Side:
    """Concrete, and Friedman's first function, whose only product is of two sites' columns, or of one's."""
    rows = 500 if quick else 2000
    made = f"made: {rows} rows, {rows} to test; 5 columns at {{}} sites; noise of variance {SIGMA**2:g}; {{}}"
    friedman1 = partial(friedman, Friedman(1, _STREAM, n=rows, n_test=rows))
    cases = (
        Case(
            "concrete",
            "700 rows, 330 to test; 8 columns, 2 at each of 4 sites",
            partial(split, _concrete, [(j, j + 4) for j in range(4)]),
            1 if quick else 3,
        ),
        Case(
            "friedman1",
            made.format(5, "sin(pi x1 x2) is of columns of two sites"),
            partial(split, friedman1, [(j,) for j in range(5)]),
            1 if quick else 3,
        ),
        Case(
            "friedman1, x1 with x2",
            made.format(4, "sin(pi x1 x2) is of columns of one site"),
            partial(split, friedman1, [(0, 1), (2,), (3,), (4,)]),
            1 if quick else 3,
        ),
    )
    parallel = {"residual__algorithm": "parallel"}
    with_boosted = partial(ours, {**parallel, "residual__agent": BOOSTED})
    boosted = Method("consilience, boosted trees", with_boosted, "predictions of rows", ours=True, limit=300.0)
    return Side(
        protocol="residual",
        task="Predict an outcome, of variance 1, from columns of the same rows that lie at several sites.",
        metrics=(Metric("mse", "test MSE", "lower"),),
        cases=cases[1:2] if quick else cases,
        methods=(
            Method("consilience, trees", partial(ours, parallel), "predictions of rows", ours=True),
            *([] if quick else [boosted]),
            Method(
                "each once, averaged",
                partial(ours, {"residual__algorithm": "average", "residual__agent": "hgb"}),
                "predictions of rows",
            ),
            Method(
                "each once, combined linearly",
                partial(ours, {"residual__algorithm": "meta-linear", "residual__agent": "hgb"}),
                "predictions of rows",
            ),
            Method("one site alone", partial(alone, lambda errors: float(np.mean(errors))), "nothing"),
            Method("the best site alone", partial(alone, min), "nothing"),
            Method("HistGradientBoosting, all columns", pooled, "columns"),
        ),
        small=_small,
        notes="The outcome is the fusion center's. Ours: `parallel`, all else as it comes (held-out rows choose the"
        f" power and when to stop), with trees or `{BOOSTED}` at the sites. All others are scikit-learn's"
        " `HistGradientBoostingRegressor` as it comes; where every site learns once, it does so through our handlers."
        ' "One site alone" has the mean of the sites\' errors, each with its own columns and the outcome; nobody knows'
        " beforehand which site is the best. Columns in one place cost the bytes of all rows, test rows too.",
    )
