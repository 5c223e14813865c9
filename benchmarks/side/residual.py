"""residual compared with learning from pooled columns, from one site's columns, and averages of agents."""

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
from benchmarks.side import Case, Method, Metric, Result, Side, data_setting
from benchmarks.side.protocol import result_of, run_protocol
from numerics.residual.columns_and_outcomes import Columns, Outcomes
from scenarios.residual.common import World
from scenarios.residual.real_data import concrete
from scenarios.residual.synthetic import Friedman, friedman

BOOSTED = "hgb(max_iter=20)"
"""Few iterations, because later rounds fit what they leave."""
_DOUBLE = 8
_STREAM = 1_000
"""Offset of the synthetic data's random numbers, which differ from the scenarios'."""

Places = Sequence[Sequence[int]]
"""Columns of each site."""


@dataclass(frozen=True, eq=False)
class Split:
    """Columns of the same rows at several sites; the center holds the outcome, and the last rows are test rows."""

    world: World
    shards: tuple[Columns, ...]

    @property
    def n_train(self) -> int:
        """Number of training rows."""
        return len(self.world.y) - self.world.n_test

    def error(self, x: Float64[np.ndarray, "n p"], seed: int) -> float:
        """Return the mean squared test error of gradient boosting with these columns."""
        n, y = self.n_train, self.world.y
        model = HistGradientBoostingRegressor(random_state=seed).fit(x[:n], y[:n])
        return float(np.mean((y[n:] - model.predict(x[n:])) ** 2))


def split(draw: Callable[[int], World], places: Places, seed: int) -> Split:
    """Draw a world and split its columns."""
    data = draw(seed)
    shards = [
        Columns(np.ascontiguousarray(data.x[:, own]), tuple(data.features[j] for j in own)) for own in map(list, places)
    ]
    return Split(data, tuple(shards))


def _concrete(seed: int) -> World:
    return concrete(config_of("residual-concrete", seed, data=data_setting()), seed)


def _small() -> Split:
    return split(partial(friedman, Friedman(1, _STREAM, n=200, n_test=50)), ((0, 1), (2, 3, 4)), 0)


# -- methods ----------------------------------------------------------------------------------------------------------


def consilience(settings: Mapping[str, Any], data: Split, seed: int) -> Result:
    """Run the protocol, or its sites without collaboration."""
    outcomes = Outcomes(data.world.y, n_test=data.world.n_test)
    transcript = run_protocol("residual", data.shards, seed, settings, outcome=lambda config, seed: outcomes)
    return result_of(transcript, lambda: {"mse": transcript.metrics["test_mse"]})


def pooled(data: Split, seed: int) -> Result:
    """Fit one learner to all columns."""
    error = data.error(data.world.x, seed)
    return Result(lambda: {"mse": error}, from_sites=_DOUBLE * data.world.x.size)


def alone(pick: Callable[[list[float]], float], data: Split, seed: int) -> Result:
    """Fit every site alone, as if it held the outcome; the seconds are means over the sites."""
    errors, seconds = [], []
    for shard in data.shards:
        started = time.perf_counter()
        errors.append(data.error(shard.x, seed))
        seconds.append(time.perf_counter() - started)
    return Result(lambda: {"mse": pick(errors)}, seconds=float(np.mean(seconds)))


# -- the comparison ---------------------------------------------------------------------------------------------------


def side(quick: bool) -> Side:
    """Compare on concrete, and on Friedman's first function with the product within a site or across two sites."""
    seeds, rows = (1, 500) if quick else (3, 2000)
    text = f"synthetic: {rows} rows, {rows} to test; 5 columns at {{}} sites{{}}"
    friedman1 = partial(friedman, Friedman(1, _STREAM, n=rows, n_test=rows))
    cases = (
        Case(
            "concrete",
            "700 rows, 330 to test; 8 columns, 2 at each of 4 sites",
            partial(split, _concrete, [(j, j + 4) for j in range(4)]),
            seeds,
        ),
        Case(
            "friedman1",
            text.format(5, ""),
            partial(split, friedman1, [(j,) for j in range(5)]),
            seeds,
        ),
        Case(
            "friedman1, x1 with x2",
            text.format(4, ", sin(pi x1 x2) at one"),
            partial(split, friedman1, [(0, 1), (2,), (3,), (4,)]),
            seeds,
        ),
    )
    parallel = {"residual__algorithm": "parallel"}
    with_boosted = partial(consilience, {**parallel, "residual__agent": BOOSTED})
    boosted = Method(
        "consilience, parallel, boosted trees", with_boosted, "predictions of rows", ours=True, limit=300.0
    )
    return Side(
        protocol="residual",
        task="Predict an outcome of variance 1 from columns of the same rows at several sites.",
        metrics=(Metric("mse", "test MSE", "lower"),),
        cases=cases[1:2] if quick else cases,
        methods=(
            Method("consilience", partial(consilience, {}), "predictions of rows", ours=True),
            Method("consilience, parallel, trees", partial(consilience, parallel), "predictions of rows", ours=True),
            *([] if quick else [boosted]),
            Method(
                "each once, averaged",
                partial(consilience, {"residual__algorithm": "average", "residual__agent": "hgb"}),
                "predictions of rows",
            ),
            Method(
                "each once, combined linearly",
                partial(consilience, {"residual__algorithm": "meta-linear", "residual__agent": "hgb"}),
                "predictions of rows",
            ),
            Method("one site alone", partial(alone, lambda errors: float(np.mean(errors))), "nothing"),
            Method("the best site alone", partial(alone, min), "nothing"),
            Method("HistGradientBoosting, all columns", pooled, "columns"),
        ),
        small=_small,
        notes="The fusion center holds the outcome. consilience has its default settings, `boosted`; `parallel` has"
        f" held-out rows select the power and the end, with trees or `{BOOSTED}` at the sites. All others are"
        " scikit-learn's `HistGradientBoostingRegressor` with its defaults."
        ' "One site alone" is the mean over the sites; the best site is not known in advance.',
    )
