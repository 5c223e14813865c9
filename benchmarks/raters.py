"""bc3e with and without confusion matrices beside votes, single raters, Dawid and Skene's model, and GLAD.

    python -m benchmarks.raters [--draws 20] [--worlds "wine*"]

The equations are those of the sites and of the center, on pooled labels, by plain EM. Shares of right classes are over
all instances of a draw; log losses are means over instances of minus the log probability of the true class.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase

import numpy as np
from jaxtyping import Float64
from scipy.special import expit

from benchmarks.rater_worlds import WORLDS
from benchmarks.tables import table_head, table_row
from numerics.bc3e.e_step import EStepSettings, add_alpha, cold_start, e_step
from numerics.bc3e.ensemble import Ensemble, n_values
from numerics.bc3e.grid import MAX_BITS, from_grid
from numerics.bc3e.m_step import maximize_alpha
from numerics.bc3e.reliability import (
    class_probabilities,
    confusion_of,
    draws_of,
    first_table,
    maximize_table,
    share_right,
)
from numerics.bc3e.responsibilities import likelihood_table

Probabilities = Float64[np.ndarray, "n k"]

_LEAST = 1e-6
"""Smallest probability of a log loss."""
_STEPS, _TOLERANCE = 100, 1e-6


@dataclass(frozen=True, eq=False)
class Labels:
    """Labels of one draw.

    Attributes
    ----------
    ensemble : Ensemble
        Hard labels by raters and clusterings, and the truth.
    one_hot : ndarray
        ``(r, n, k)``: the raters' labels; zeros where there is none.
    """

    ensemble: Ensemble
    one_hot: Float64[np.ndarray, "r n k"]

    @classmethod
    def of(cls, ensemble: Ensemble) -> Labels:
        """Return the labels of an ensemble."""
        k = max(map(n_values, ensemble.classifiers.values()))
        given = np.stack(list(ensemble.classifiers.values()))
        return cls(ensemble, (given[:, :, np.newaxis] == np.arange(k)).astype(float))

    @property
    def k(self) -> int:
        """Number of classes."""
        return int(self.one_hot.shape[2])

    @property
    def votes(self) -> Probabilities:
        """Votes for each class."""
        return np.asarray(self.one_hot.sum(axis=0))

    def right(self, probabilities: Probabilities) -> float:
        """Return the percentage of instances whose likeliest class is the true one."""
        return 100 * float(np.mean(probabilities.argmax(axis=1) == self.ensemble.truth))

    def log_loss(self, probabilities: Probabilities) -> float:
        """Return the mean log loss."""
        total = probabilities.sum(axis=1, keepdims=True)
        shares = np.where(total > 0, probabilities / np.where(total > 0, total, 1), 1 / self.k)
        return -float(np.mean(np.log(np.maximum(shares[np.arange(len(shares)), self.ensemble.truth], _LEAST))))


# -- methods ----------------------------------------------------------------------------------------------------------


def vote(labels: Labels) -> Probabilities:
    """Return the votes."""
    return labels.votes


def weighted_vote(labels: Labels) -> Probabilities:
    """Weight raters by how often they agree with the vote: log odds, with the errors spread over the other classes."""
    majority = labels.votes.argmax(axis=1)
    given = labels.one_hot.sum(axis=(1, 2))
    agree = (labels.one_hot[:, np.arange(len(majority)), majority].sum(axis=1) + 1) / (given + 2)
    weights = np.log(agree * max(labels.k - 1, 1) / (1 - agree))
    return np.asarray(np.exp(np.einsum("r,rnk->nk", weights, labels.one_hot)))


def best_rater(labels: Labels) -> Probabilities:
    """Take the rater with most right labels, which nobody knows in advance; where it has no label, the vote."""
    truth = labels.ensemble.truth
    right = [float((given == truth).mean()) for given in labels.ensemble.classifiers.values()]
    best = labels.one_hot[int(np.argmax(right))]
    return np.where(best.any(axis=1, keepdims=True), best, labels.votes)


def dawid_skene(labels: Labels) -> Probabilities:
    """Fit a confusion matrix for every rater by EM (Dawid and Skene 1979), .01 labels in every entry."""
    shares = labels.votes + 1e-12
    shares /= shares.sum(axis=1, keepdims=True)
    for _ in range(_STEPS):
        tables = np.einsum("ni,rnj->rij", shares, labels.one_hot) + 0.01
        tables /= tables.sum(axis=2, keepdims=True)
        logs = np.log(shares.mean(axis=0) + 1e-12) + np.einsum("rnj,rij->ni", labels.one_hot, np.log(tables))
        before, shares = shares, np.exp(logs - logs.max(axis=1, keepdims=True))
        shares /= shares.sum(axis=1, keepdims=True)
        if np.abs(shares - before).max() < 1e-4:
            break
    return np.asarray(shares)


def glad(labels: Labels) -> Probabilities:
    """Fit an ability to every rater and an ease to every instance (Whitehill and others 2009), by gradient steps.

    A label is right with probability ``expit(ability * ease)``; abilities have the prior N(1, 1), log eases N(1, 1).
    """
    r, n, k = labels.one_hot.shape
    given = labels.one_hot.any(axis=2)
    ability, log_ease = np.ones(r), np.ones(n)
    shares = np.full((n, k), 1 / k)
    for _ in range(30):
        margin = ability[:, np.newaxis] * np.exp(log_ease)
        gain = np.where(given, -np.logaddexp(0, -margin) + np.logaddexp(0, margin) + np.log(max(k - 1, 1)), 0.0)
        logs = np.einsum("rn,rnk->nk", gain, labels.one_hot)
        shares = np.exp(logs - logs.max(axis=1, keepdims=True))
        shares /= shares.sum(axis=1, keepdims=True)
        agree = np.einsum("nk,rnk->rn", shares, labels.one_hot)
        for _ in range(10):
            ease = np.exp(log_ease)
            slope = np.where(given, agree - expit(ability[:, np.newaxis] * ease), 0.0)
            of_ability = (slope * ease).sum(axis=1) + 1 - ability
            of_ease = (slope * ability[:, np.newaxis] * ease).sum(axis=0) + 1 - log_ease
            ability = ability + 0.5 * of_ability / (1 + (given * ease**2).sum(axis=1) / 4)
            log_ease = log_ease + 0.5 * of_ease / (1 + (given * (ability[:, np.newaxis] * ease) ** 2).sum(axis=0) / 4)
    return np.asarray(shares)


def bc3e(labels: Labels, draws: int | None = None) -> tuple[Probabilities, Mapping[str, float]]:
    """Fit by plain EM; return class probabilities, and the estimated share of right labels by rater.

    `draws` is that of `numerics.bc3e.reliability`; None: the one that the protocol takes.
    """
    ensemble, k, bits = labels.ensemble, labels.k, MAX_BITS
    counts = draws_of(len(ensemble.clusterings)) if draws is None else draws
    settings = EStepSettings(bits, 1e-5, 50, counts)
    sizes = {name: n_values(given) for name, given in ensemble.clusterings.items()}
    if counts:
        sizes |= dict.fromkeys(map(confusion_of, ensemble.classifiers), k)
    tables = {name: first_table(name, k, size, 0) for name, size in sizes.items()}
    alpha = np.ones(k)
    gamma = add_alpha(alpha, cold_start(ensemble.classifiers, ensemble.clusterings, ensemble.n, k, bits), bits)
    classes, bound = np.zeros(gamma.shape, np.int64), -np.inf
    for _ in range(_STEPS):
        rates = {name: likelihood_table(table) for name, table in tables.items()}
        used, right = alpha, tables
        gamma, part = e_step(
            alpha, rates, ensemble.classifiers, ensemble.clusterings, gamma, settings, 1, classes if counts else None
        )
        if abs(part.bound - bound) <= _TOLERANCE * abs(part.bound):
            break
        bound = part.bound
        alpha = maximize_alpha(alpha, from_grid(part.log_theta, bits) / ensemble.n)
        tables = {name: maximize_table(name, part.mass[name], bits, 0.0) for name in tables}
    shares = {name: share_right(used, right[confusion_of(name)]) for name in ensemble.classifiers if counts}
    return class_probabilities(gamma, used if counts else np.zeros(0)), shares


METHODS: Mapping[str, Callable[[Labels], Probabilities]] = {
    "vote": vote,
    "weighted vote": weighted_vote,
    "best rater": best_rater,
    "Dawid-Skene": dawid_skene,
    "GLAD": glad,
    "bc3e, none": lambda labels: bc3e(labels, 0)[0],
    "bc3e, 2 draws": lambda labels: bc3e(labels, min(2, draws_of(len(labels.ensemble.clusterings))))[0],
}


# -- the table --------------------------------------------------------------------------------------------------------


def correlation(labels: Labels, shares: Mapping[str, float]) -> float:
    """Return the correlation of the estimated with the true shares of right labels, over the raters."""
    ensemble = labels.ensemble
    true = [float((given == ensemble.truth)[given >= 0].mean()) for given in ensemble.classifiers.values()]
    return float(np.corrcoef(true, list(shares.values()))[0, 1])


def rows(name: str, draws: int) -> list[str]:
    """Return a world's row of percentages, and its row of log losses."""
    number = list(WORLDS).index(name)
    right: dict[str, list[float]] = {}
    losses: dict[str, list[float]] = {}
    agreement = []
    for seed in range(draws):
        labels = Labels.of(WORLDS[name](np.random.default_rng([seed, number])))
        found = {method: fit(labels) for method, fit in METHODS.items()}
        found["bc3e"], shares = bc3e(labels)
        agreement.append(correlation(labels, shares))
        for method, probabilities in found.items():
            right.setdefault(method, []).append(labels.right(probabilities))
            losses.setdefault(method, []).append(labels.log_loss(probabilities))
    against = np.array(right["bc3e"]) - right["vote"]
    error = against.std(ddof=1) / np.sqrt(draws) if draws > 1 else np.nan
    cells = [f"{np.mean(values):.1f}" for values in right.values()]
    return [
        table_row([name, *cells, f"{against.mean():+.1f} ± {error:.1f}", f"{np.mean(agreement):.2f}"]),
        table_row(["", *(f"*{np.mean(values):.2f}*" for values in losses.values()), "", ""]),
    ]


def main() -> None:
    """Print the table in Markdown."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--worlds", default="*", help="name or glob of the worlds")
    asked = parser.parse_args()
    print("\n".join(table_head(["world", *METHODS, "bc3e", "bc3e - vote", "correlation"])))
    for name in WORLDS:
        if fnmatchcase(name, asked.worlds):
            print("\n".join(rows(name, asked.draws)))
            sys.stdout.flush()


if __name__ == "__main__":
    main()
