"""gp compared with Gaussian processes of pooled rows or of one site, and with their product."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from jaxtyping import Float64

from benchmarks.driver import Transcript, config_of
from benchmarks.side import Case, Method, Metric, Result, Side, data_setting
from benchmarks.side.gp_peers import EPOCHS, INDUCING, STEPS, Peer, exact, full, sklearn_process, svgp
from benchmarks.side.protocol import result_of, run_protocol
from benchmarks.side.synthetic import neighbors, surface
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
    """Rows of the sites, and the center's query points, whose outputs are only used for the score."""

    shards: Sequence[Measurements]
    queries: Queries

    @property
    def rows(self) -> Measurements:
        """All rows in one place."""
        x, y = (np.concatenate([getattr(each, name) for each in self.shards]) for name in ("x", "y"))
        return Measurements(x, y, self.queries.features)

    @property
    def units(self) -> Units:
        """Units of all rows."""
        return units_of(moments_of(self.rows.x, self.rows.y))

    def score(self, mean: Numbers, variance: Numbers) -> dict[str, float]:
        """Return metrics of predicted observations in the units of all rows."""
        assert self.queries.y is not None
        y = self.units.outputs(self.queries.y)
        return {
            "smse": smse(y, mean),
            "msll": msll(y, mean, variance, 0.0, 1.0),
            "coverage": coverage(y, mean, variance, _LEVEL),
        }


# -- data -------------------------------------------------------------------------------------------------------------


def concrete(seed: int) -> Split:
    """Draw concrete, split as in the scenario: ten sites of neighboring rows."""
    scenario, config = find("gp-concrete"), config_of("gp-concrete", seed, data=data_setting())
    assert scenario.queries
    return Split(scenario.shards(config, seed, 10), scenario.queries(config, seed))


def smooth(rows: int, sites: int, seed: int) -> Split:
    """Draw rows of a smooth surface."""
    data, queries = surface(rows, max(50, rows // 5), seed)
    return Split(neighbors(data, sites, seed), queries)


# -- methods ----------------------------------------------------------------------------------------------------------


def consilience(settings: Mapping[str, str], data: Split, seed: int) -> Result:
    """Run the protocol."""
    transcript = run_protocol("gp", data.shards, seed, settings, queries=lambda config, seed: data.queries)
    return result_of(transcript, partial(_score, data, transcript))


def _score(data: Split, transcript: Transcript) -> dict[str, float]:
    outcome: GPOutcome = transcript.outcome
    assert outcome.fused is not None
    return data.score(outcome.fused.mean, outcome.fused.variance)


def in_one_place(peer: Peer, data: Split, seed: int) -> Result:
    """Fit a Gaussian process to all rows, standardized."""
    rows, units = data.rows, data.units
    predict = peer(units.inputs(rows.x), units.outputs(rows.y), seed)
    mean, variance = predict(units.inputs(data.queries.x))
    return Result(partial(data.score, mean, variance), from_sites=_DOUBLE * (rows.x.size + rows.y.size))


def alone(data: Split, seed: int) -> Result:
    """Fit the project's exact process at every site alone; the metrics are the means over the sites."""
    predictions, seconds = _experts(data, seed)

    def score() -> dict[str, float]:
        scores = [data.score(mean, variance) for mean, variance in predictions]
        return {name: float(np.mean([each[name] for each in scores])) for name in scores[0]}

    return Result(score, slowest=max(seconds), center=0.0)


def product(data: Split, seed: int) -> Result:
    """Multiply the densities predicted by the sites' own processes, so that precisions add up (Hinton 2002)."""
    predictions, seconds = _experts(data, seed)
    started = time.perf_counter()
    precision = sum(1 / variance for _, variance in predictions)
    mean = sum(mean / variance for mean, variance in predictions) / precision
    n, d = data.queries.x.shape
    return Result(
        partial(data.score, np.asarray(mean), np.asarray(1 / precision)),
        rounds=1,
        to_sites=_DOUBLE * n * d * len(data.shards),
        from_sites=2 * _DOUBLE * n * len(data.shards),
        center=time.perf_counter() - started,
        slowest=max(seconds),
    )


def _experts(data: Split, seed: int) -> tuple[list[tuple[Numbers, Numbers]], list[float]]:
    """Return predictions, in the units of all rows, and seconds of every site's own process."""
    common, predictions, seconds = data.units, [], []
    for shard in data.shards:
        started = time.perf_counter()
        own = units_of(moments_of(shard.x, shard.y))
        mean, variance = full(own.inputs(shard.x), own.outputs(shard.y), seed)(own.inputs(data.queries.x))
        mean, scale = common.outputs(mean * own.y_scale + own.y_mean), own.y_scale / common.y_scale
        predictions.append((mean, variance * scale**2))
        seconds.append(time.perf_counter() - started)
    return predictions, seconds


# -- the comparison ---------------------------------------------------------------------------------------------------

_NOTES = (
    "Squared exponential with a length for every input, double precision, standardized rows. `ExactGP` takes"
    f" {STEPS} steps of Adam at 0.1, by Cholesky factors, or with its defaults: by conjugate gradients beyond 800 rows."
    f" `SVGP` has {INDUCING} inducing points and {EPOCHS} epochs in batches of 256, Adam at 0.01. One site alone and"
    " the product of experts have hyperparameters of each site; the metrics of one site alone are means over the sites."
)


def side(quick: bool) -> Side:
    """Compare on concrete and a synthetic surface, ten sites."""
    seeds, rows = (1, 300) if quick else (3, 600)
    torch = ("torch", "gpytorch")
    return Side(
        protocol="gp",
        task="Predict an output with its uncertainty at new points, from rows of ten sites, each of another region.",
        metrics=(
            Metric("smse", "SMSE", "lower"),
            Metric("msll", "MSLL", "lower"),
            Metric("coverage", "in 95 %", "near 0.95", 3),
        ),
        cases=(
            Case("concrete", "927 rows of 8 inputs, 103 to test; 10 sites by k-means", concrete, seeds),
            Case(
                "surface",
                f"synthetic: {rows} rows of 3 inputs, {rows // 5} to test; 10 sites",
                partial(smooth, rows, 10),
                seeds,
            ),
        ),
        methods=(
            Method("consilience", partial(consilience, {}), "sums, predictions", ours=True),
            Method(
                "consilience, all experts", partial(consilience, {"gp__gate": "all"}), "sums, predictions", ours=True
            ),
            Method("one site alone", alone, "nothing"),
            Method("product of experts", product, "predictions"),
            Method("scikit-learn", partial(in_one_place, sklearn_process), "rows"),
            Method("GPyTorch ExactGP", partial(in_one_place, exact), "rows", needs=torch, package="gpytorch"),
            Method(
                "ExactGP, Cholesky",
                partial(in_one_place, partial(exact, cholesky=True)),
                "rows",
                needs=torch,
                package="gpytorch",
            ),
            Method("GPyTorch SVGP", partial(in_one_place, svgp), "rows", needs=torch, package="gpytorch"),
        ),
        small=partial(smooth, 60, 2, 0),
        notes=_NOTES,
    )
