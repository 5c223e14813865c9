"""gp beside Gaussian processes of all rows in one place, those of one site alone, and a product of such."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from jaxtyping import Float64

from benchmarks.driver import Driven, config_of
from benchmarks.side import Case, Method, Metric, Ran, Side, data_setting
from benchmarks.side.gp_peers import EPOCHS, INDUCING, STEPS, Peer, exact, exact_cholesky, full, sklearn_process, svgp
from benchmarks.side.protocol import played, ran
from benchmarks.side.synthetic import neighbours, surface
from numerics.gp.measurements import Measurements, Queries
from numerics.gp.metrics import coverage, msll, smse
from numerics.gp.moments import Units, moments_of, units_of
from scenarios.registry import find
from strategies.gp import GPOutcome

Numbers = Float64[np.ndarray, "t"]
_LEVEL = 0.95
_DOUBLE = 8


@dataclass(frozen=True, eq=False)
class Split:
    """Rows of the sites, and the center's query points, whose outputs only the score sees."""

    shards: Sequence[Measurements]
    queries: Queries

    @property
    def rows(self) -> Measurements:
        """All rows in one place."""
        x, y = (np.concatenate([getattr(each, name) for each in self.shards]) for name in ("x", "y"))
        return Measurements(x, y, self.queries.features)

    @property
    def units(self) -> Units:
        """Of all rows."""
        return units_of(moments_of(self.rows.x, self.rows.y))

    def scored(self, mean: Numbers, variance: Numbers) -> dict[str, float]:
        """Metrics of predictions of observations in the units of all rows."""
        assert self.queries.y is not None
        y = self.units.outputs(self.queries.y)
        return {
            "smse": smse(y, mean),
            "msll": msll(y, mean, variance, 0.0, 1.0),
            "coverage": coverage(y, mean, variance, _LEVEL),
        }


# -- data -------------------------------------------------------------------------------------------------------------


def concrete(seed: int) -> Split:
    """Ten sites of the rows that lie together, as the scenario splits them."""
    scenario, config = find("gp-concrete"), config_of("gp-concrete", seed, data=data_setting())
    assert scenario.queries
    return Split(scenario.shards(config, seed, 10), scenario.queries(config, seed))


def made(rows: int, sites: int, seed: int) -> Split:
    """Rows of a smooth surface."""
    drawn, queries = surface(rows, max(50, rows // 5), seed)
    return Split(neighbours(drawn, sites, seed), queries)


# -- methods ----------------------------------------------------------------------------------------------------------


def ours(settings: Mapping[str, str], data: Split, seed: int) -> Ran:
    """The protocol."""
    driven = played("gp", data.shards, seed, settings, queries=lambda config, seed: data.queries)
    return ran(driven, partial(_scored, data, driven))


def _scored(data: Split, driven: Driven) -> dict[str, float]:
    outcome: GPOutcome = driven.outcome
    assert outcome.fused is not None
    return data.scored(outcome.fused.mean, outcome.fused.variance)


def in_one_place(peer: Peer, data: Split, seed: int) -> Ran:
    """A Gaussian process of all rows, standardised."""
    rows, units = data.rows, data.units
    predict = peer(units.inputs(rows.x), units.outputs(rows.y), seed)
    mean, variance = predict(units.inputs(data.queries.x))
    return Ran(partial(data.scored, mean, variance), from_sites=_DOUBLE * (rows.x.size + rows.y.size))


def alone(data: Split, seed: int) -> Ran:
    """Every site for itself, by our exact process of its rows; the mean of the sites' scores."""
    predictions, seconds = _experts(data, seed)

    def score() -> dict[str, float]:
        every = [data.scored(mean, variance) for mean, variance in predictions]
        return {name: float(np.mean([each[name] for each in every])) for name in every[0]}

    return Ran(score, slowest=max(seconds), center=0.0)


def product(data: Split, seed: int) -> Ran:
    """The product of what the sites' own processes say: precisions add up (Hinton 2002)."""
    predictions, seconds = _experts(data, seed)
    started = time.perf_counter()
    precision = sum(1 / variance for _, variance in predictions)
    mean = sum(mean / variance for mean, variance in predictions) / precision
    n, d = data.queries.x.shape
    return Ran(
        partial(data.scored, np.asarray(mean), np.asarray(1 / precision)),
        rounds=1,
        to_sites=_DOUBLE * n * d * len(data.shards),
        from_sites=2 * _DOUBLE * n * len(data.shards),
        center=time.perf_counter() - started,
        slowest=max(seconds),
    )


def _experts(data: Split, seed: int) -> tuple[list[tuple[Numbers, Numbers]], list[float]]:
    """What every site's own process, with hyperparameters and units of its own, predicts in the units of all rows."""
    common, found, seconds = data.units, [], []
    for shard in data.shards:
        started = time.perf_counter()
        own = units_of(moments_of(shard.x, shard.y))
        mean, variance = full(own.inputs(shard.x), own.outputs(shard.y), seed)(own.inputs(data.queries.x))
        found.append((common.outputs(mean * own.y_scale + own.y_mean), variance * (own.y_scale / common.y_scale) ** 2))
        seconds.append(time.perf_counter() - started)
    return found, seconds


# -- what is compared -------------------------------------------------------------------------------------------------

_NOTES = (
    "Squared exponential with a length for every input, double precision, standardised rows. `ExactGP` takes"
    f" {STEPS} steps of Adam at 0.1, from Cholesky factors, or as it is set: by conjugate gradients beyond 800 rows."
    f" `SVGP` has {INDUCING} inducing points and {EPOCHS} epochs in batches of 256, Adam at 0.01. One site alone and"
    " the product of experts take our exact process of a site's own rows, with hyperparameters of its own; of the first"
    " the table has the mean of the sites' scores."
)


def side(quick: bool) -> Side:
    """Concrete and a made surface, ten sites."""
    seeds, rows = (1, 300) if quick else (3, 600)
    torch = ("torch", "gpytorch")
    return Side(
        protocol="gp",
        task="Predict an output with its uncertainty where nobody has measured, from rows of ten sites that each know"
        " another region.",
        metrics=(
            Metric("smse", "SMSE", "lower"),
            Metric("msll", "MSLL", "lower"),
            Metric("coverage", "in 95 %", "near 0.95", 3),
        ),
        cases=(
            Case("concrete", "927 rows of 8 inputs, 103 to test; 10 sites by k-means", concrete, seeds),
            Case(
                "surface",
                f"made: {rows} rows of 3 inputs, {rows // 5} to test; 10 sites",
                partial(made, rows, 10),
                seeds,
            ),
        ),
        methods=(
            Method("consilience", partial(ours, {}), "sums, predictions", ours=True),
            Method("consilience, all experts", partial(ours, {"gp__gate": "all"}), "sums, predictions", ours=True),
            Method("one site alone", alone, "nothing"),
            Method("product of experts", product, "predictions"),
            Method("scikit-learn", partial(in_one_place, sklearn_process), "rows"),
            Method("GPyTorch ExactGP", partial(in_one_place, exact), "rows", needs=torch, package="gpytorch"),
            Method("ExactGP, Cholesky", partial(in_one_place, exact_cholesky), "rows", needs=torch, package="gpytorch"),
            Method("GPyTorch SVGP", partial(in_one_place, svgp), "rows", needs=torch, package="gpytorch"),
        ),
        small=partial(made, 60, 2, 0),
        notes=_NOTES,
    )
