"""Errors of sec and of its alternatives on synthetic learners, with how often sec finds the true clusters.

    python -m benchmarks.decisions [--draws 20] [--worlds "one group*" ...] [--exact] [--rows 4]

Learners use the functions of the sites and of the center, without messages. Losses have the bounds and the noise of
real sites. Errors are computed on new rows without noise; the variance of the noise is added, and the sum is divided by
the variance of the learner's outcome. The table has means over learners and draws.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property, partial
from typing import Any
from unittest.mock import patch

import numpy as np
from jaxtyping import Float64, Int64
from sklearn.metrics import adjusted_rand_score

from benchmarks import decision_worlds
from benchmarks.decision_worlds import WORLDS, World
from benchmarks.side.sec_peers import FittedModels, Quadratics, Shard, best_of, fedavg, ifca, predict
from clients.sec.disclosure import FEWEST_IN_A_CELL
from numerics.sec.disclosure import DIGITS, guarded_errors, loss_noise, ranks_and_noise
from numerics.sec.mixture import mean_squared_errors
from numerics.sec.personal_weights import personal_weights, residual_factor
from numerics.sec.predictors import prepared
from numerics.sec.selection import leave_out_chosen, select
from numerics.sec.similarity import choose_landmarks
from numerics.shared.candidates import parse_candidates
from numerics.shared.digits import rounded
from protocols.sec.payloads import FittedModel
from protocols.sec.settings import Settings
from strategies.sec.learner_clusters import cluster_learners
from strategies.sec.learners import Learners

_COLUMNS = ("default", "alone", "all", "truth", "personal", "rows of truth", "FedAvg", "IFCA")


@dataclass(frozen=True, eq=False)
class Trial:
    """Learners of a world after the exchange of models.

    Attributes
    ----------
    world : World
        The world.
    learners : Learners
        The learners' messages about their models.
    losses : ndarray
        ``(L, L)`` losses that they sent.
    noise : dict
        Sizes of the losses' noise that they sent.
    left_out : list of ndarray
        By learner, predictions of its own rows by fits that leave them out.
    known, new : list of ndarray
        By learner, every model's predictions of its training rows ``(L, n)`` and of new rows ``(L, t)``.
    """

    world: World
    learners: Learners
    losses: Float64[np.ndarray, "L L"]
    noise: Mapping[str, float]
    left_out: list[Float64[np.ndarray, "_"]]
    known: list[Float64[np.ndarray, "L _"]]
    new: list[Float64[np.ndarray, "L _"]]

    @cached_property
    def variances(self) -> Float64[np.ndarray, "L"]:
        """Variance of every learner's outcome; if it is constant, the median over the learners."""
        rows = zip(self.world.rows, self.world.noise, strict=True)
        variances = np.array([own.y_test.var() + noise for own, noise in rows])
        return np.where(variances > 0, variances, np.median(variances))

    def error(self, shares: Float64[np.ndarray, "L L"]) -> float:
        """Return the mean error of mixtures; row j of `shares` has learner j's weights."""
        return self._mean([mixed @ predictions for mixed, predictions in zip(shares, self.new, strict=True)])

    def error_of(self, models: FittedModels) -> float:
        """Return the mean error of linear models."""
        rows = zip(models.coefficients, self.world.rows, strict=True)
        return self._mean([predict(coefficients, own.x_test) for coefficients, own in rows])

    def error_of_rows(self, labels: Int64[np.ndarray, "L"], seed: int) -> float:
        """Return the mean error of one model for each cluster, fitted to all its rows (`sec.combine=pooled-rows`)."""
        predictions = [np.zeros(0)] * len(labels)
        for label in set(labels.tolist()):
            members = np.flatnonzero(labels == label).tolist()
            rows = [self.world.rows[member] for member in members]
            x, y = np.vstack([own.x for own in rows]), np.concatenate([own.y for own in rows])
            model = select(parse_candidates(self.world.candidates), x, y, **_how(seed)).model
            for member, own in zip(members, rows, strict=True):
                predictions[member] = model.predict(own.x_test)
        return self._mean(predictions)

    def _mean(self, predictions: list[Float64[np.ndarray, "_"]]) -> float:
        rows = zip(predictions, self.world.rows, self.world.noise, strict=True)
        errors = np.array([np.mean((mixed - own.y_test) ** 2) + noise for mixed, own, noise in rows])
        return float(np.mean(errors / self.variances))

    def by_labels(self, labels: Int64[np.ndarray, "L"]) -> Float64[np.ndarray, "L L"]:
        """Return the weights of eq. (5) within clusters."""
        shares = np.where(labels[:, np.newaxis] == labels, self.learners.weights, 0.0)
        return np.asarray(shares / shares.sum(axis=1, keepdims=True))

    def personal(self, clusters: Float64[np.ndarray, "L L"]) -> Float64[np.ndarray, "L L"]:
        """Return every learner's personal weights, which start from those of its cluster."""
        shares = np.zeros(self.losses.shape)
        for place, (known, left_out, own) in enumerate(zip(self.known, self.left_out, self.world.rows, strict=True)):
            n = own.n - self.world.held_out
            predictions = known[:, :n].copy()
            predictions[place] = left_out[:n]
            tried = ~np.isnan(self.losses[:, place])
            tried[place] = True
            factor = residual_factor(predictions[tried], own.y[:n])
            shares[place, tried] = personal_weights(factor, clusters[place, tried], n)
        return shares


def play(world: World, seed: int, *, guarded: bool = True) -> Trial:
    """Let learners fit and try their models; if `guarded`, their losses have the noise of real sites."""
    settings, how = Settings(), _how(seed)
    candidates = parse_candidates(world.candidates)
    chosen = [select(candidates, own.x, own.y, **how) for own in world.rows]
    left_out = [leave_out_chosen(one, own.x, own.y, **how) for one, own in zip(chosen, world.rows, strict=True)]
    predictors = prepared([one.model for one in chosen])
    both = [predictors.predict(np.vstack([own.x, own.x_test])) for own in world.rows]
    known = [each[:, : own.n] for each, own in zip(both, world.rows, strict=True)]
    empty = np.zeros(0)
    names = [f"{place:03}" for place in range(len(world.rows))]
    learned = [own.n - world.held_out for own in world.rows]
    errors = [
        float(mean_squared_errors(left.predictions[np.newaxis, :n], own.y[:n])[0])
        for left, own, n in zip(left_out, world.rows, learned, strict=True)
    ]
    profiles = {
        name: FittedModel(one.method, error, left.variance, n, own.features, empty.astype(np.uint8), empty,
                     np.zeros((0, 0)), held_out=world.held_out)
        for name, one, error, left, own, n in zip(
            names, chosen, errors, left_out, world.rows, learned, strict=True
        )
    }  # fmt: skip
    rng = np.random.default_rng([seed, 2])
    senders = np.arange(len(names))
    if world.landmarks:
        senders = choose_landmarks(len(names), settings.landmarks, rng)
    losses, noise = np.full((len(names),) * 2, np.nan), {}
    for place, (name, predictions, own, n) in enumerate(zip(names, known, world.rows, learned, strict=True)):
        told, tried = _losses if guarded else _exact_losses, predictions[:, :n]
        losses[senders, place], noise[name] = told(tried[senders], tried[place], own.y[:n], rng)
    new = [each[:, own.n :] for each, own in zip(both, world.rows, strict=True)]
    learners = Learners.of(profiles, (), {}).by_precision(losses, {})
    return Trial(world, learners, losses, noise, [each.predictions for each in left_out], known, new)


def _how(seed: int) -> dict[str, Any]:
    """Return settings with which a method is selected and fitted."""
    settings = Settings()
    return {"standardize": settings.standardize, "min_leaf": settings.min_leaf, "rng_seed": seed}


def _losses(
    predictions: Float64[np.ndarray, "m n"],
    own: Float64[np.ndarray, "n"],
    y: Float64[np.ndarray, "n"],
    rng: np.random.Generator,
) -> tuple[Float64[np.ndarray, "m"], float]:
    """Return losses as a real site sends them, and the size of their noise."""
    floor, m, n = FEWEST_IN_A_CELL, len(predictions), len(y)
    drawn = [ranks_and_noise(rng, n, floor, m) for _ in predictions]
    ranks, noise = np.array([rank for rank, _ in drawn]), np.array([noise for _, noise in drawn])
    return rounded(guarded_errors(predictions, own, y, ranks, noise), DIGITS), loss_noise(n, floor, m)


def _exact_losses(
    predictions: Float64[np.ndarray, "m n"],
    own: Float64[np.ndarray, "n"],
    y: Float64[np.ndarray, "n"],
    rng: np.random.Generator,
) -> tuple[Float64[np.ndarray, "m"], float]:
    """Return losses as a site sends them if it trusts the center."""
    return mean_squared_errors(predictions, y), 0.0


def cluster(trial: Trial, seed: int) -> Int64[np.ndarray, "L"]:
    """Return the labels that the center finds by default."""
    settings = Settings(exchange="landmarks" if trial.world.landmarks else "all")
    rng = np.random.default_rng([seed, 3])
    return cluster_learners(trial.learners, trial.losses, settings, {}, rng, trial.noise).labels


@dataclass(frozen=True)
class Scores:
    """Scores of one draw: whether the clusters are the true ones, their Rand index, and errors by method."""

    exact: bool
    rand: float
    errors: Mapping[str, float]


def score(world: World, seed: int, *, guarded: bool = True) -> Scores:
    """Return the scores of a world."""
    trial, truth = play(world, seed, guarded=guarded), np.asarray(world.truth)
    found = cluster(trial, seed)
    n = len(truth)
    clusters = trial.by_labels(found)
    errors = {
        "default": trial.error(clusters),
        "alone": trial.error(np.eye(n)),
        "all": trial.error(trial.by_labels(np.zeros(n, np.int64))),
        "truth": trial.error(trial.by_labels(truth)),
        "personal": trial.error(trial.personal(clusters)),
        "rows of truth": trial.error_of_rows(truth, seed),
    }
    if n <= 100:
        shards = [Shard(own.x, own.y) for own in world.rows]
        problem = Quadratics.of(shards)
        errors["FedAvg"] = trial.error_of(best_of(partial(fedavg, problem, shards)))
        errors["IFCA"] = trial.error_of(
            best_of(lambda steps: ifca(problem, shards, len(set(truth)), steps, np.random.default_rng([seed, 4])))
        )
    rand = float(adjusted_rand_score(truth, found))
    return Scores(rand == 1.0, rand, errors)


def row(name: str, draws: int, times: int = 1, *, guarded: bool = True) -> str:
    """Return a world's line of the table; every learner has `times` as many rows."""
    number, drawn = list(WORLDS).index(name), decision_worlds.draw

    def draw_more(truth: Any, functions: Any, p: int, sizes: Sequence[int], *others: Any, **named: Any) -> World:
        return drawn(truth, functions, p, [times * size for size in sizes], *others, **named)

    with patch.object(decision_worlds, "draw", draw_more):
        worlds = [WORLDS[name](np.random.default_rng([seed, number])) for seed in range(draws)]
    scores = [score(world, seed, guarded=guarded) for seed, world in enumerate(worlds)]
    means = {way: float(np.mean([each.errors[way] for each in scores])) for way in _COLUMNS if way in scores[0].errors}
    against = [means[way] / min(means["alone"], means["truth"]) for way in ("default", "personal")]
    cells = [f"{means[way]:.4f}" if way in means else "" for way in _COLUMNS]
    exact, rand = (float(np.mean([getattr(each, which) for each in scores])) for which in ("exact", "rand"))
    return f"| {name} | {100 * exact:.0f} | {rand:.2f} | {' | '.join(cells)} | {against[0]:.3f} | {against[1]:.3f} |"


def main() -> None:
    """Print the table in Markdown."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--worlds", nargs="+", default=["*"], help="names or globs of the worlds")
    parser.add_argument("--exact", action="store_true", help="losses without the noise of real sites")
    parser.add_argument("--rows", type=int, default=1, help="factor of the rows of each learner")
    asked = parser.parse_args()
    ratios = "default by the better of alone and truth | personal by it"
    print(f"| world | exact, % | Rand | {' | '.join(_COLUMNS)} | {ratios} |")
    print("|---|" + "---|" * (len(_COLUMNS) + 4))
    for name in WORLDS:
        if any(fnmatchcase(name, pattern) for pattern in asked.worlds):
            print(row(name, asked.draws, asked.rows, guarded=not asked.exact))
            sys.stdout.flush()


if __name__ == "__main__":
    main()
