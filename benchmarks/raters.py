"""bc3e compared with votes, single raters, models of raters, C3E and BGCM, on labels by raters and clusterings.

    python -m benchmarks.raters [--draws 20] [--worlds "wine*"] [--seed 0] [--crowd-kit]

bc3e runs the equations of the sites and of the center on pooled labels, by plain EM. Each world has a line of
accuracies in percent, and a line of log losses. The last columns compare the raters' estimated accuracies with the true
ones. Below the table are the methods' mean ranks over the worlds, with Friedman's test and Nemenyi's critical
difference.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from fnmatch import fnmatchcase

import numpy as np
from jaxtyping import Float64
from scipy.stats import friedmanchisquare, rankdata, studentized_range

from benchmarks.rater_methods import CROWD_KIT, METHODS, Labels, Method, bc3e
from benchmarks.rater_worlds import WORLDS
from benchmarks.tables import standard_error, table_head, table_row
from scenarios.registry import ScenarioError

_OUT_OF_REACH = "best rater"
"""The method without a rank: nobody knows the best rater in advance."""


def agreement(labels: Labels, shares: Mapping[str, float]) -> tuple[float, float]:
    """Return the correlation and mean absolute error, in percent, of the raters' estimated and true accuracies."""
    ensemble, estimated = labels.ensemble, np.array(list(shares.values()))
    true = np.array([float((given == ensemble.truth)[given >= 0].mean()) for given in ensemble.classifiers.values()])
    return float(np.corrcoef(true, estimated)[0, 1]), 100 * float(np.abs(true - estimated).mean())


def measure(name: str, seeds: range, fits: Mapping[str, Method]) -> tuple[list[str], dict[str, float]]:
    """Return a world's line of percentages and its line of log losses, and the percentages by method."""
    number = list(WORLDS).index(name)
    right: dict[str, list[float]] = {}
    losses: dict[str, list[float]] = {}
    compared = []
    for seed in seeds:
        labels = Labels.of(WORLDS[name](np.random.default_rng([seed, number])))
        found = {method: fit(labels) for method, fit in fits.items()}
        found["bc3e"], shares = bc3e(labels)
        compared.append(agreement(labels, shares))
        for method, probabilities in found.items():
            right.setdefault(method, []).append(labels.right(probabilities))
            losses.setdefault(method, []).append(labels.log_loss(probabilities))
    against = np.array(right["bc3e"]) - right["vote"]
    means = {method: float(np.mean(values)) for method, values in right.items()}
    cells = [f"{value:.1f}" for value in means.values()]
    alike, apart = np.mean(compared, axis=0)
    rows = [
        table_row(
            [name, *cells, f"{against.mean():+.1f} ± {standard_error(against):.1f}", f"{alike:.2f}", f"{apart:.1f}"]
        ),
        table_row(["", *(f"*{np.mean(values):.2f}*" for values in losses.values()), "", "", ""]),
    ]
    return rows, means


def critical_difference(n_methods: int, n_worlds: int) -> float:
    """Return Nemenyi's critical difference of mean ranks at 5 % (Demsar 2006, section 3.2.2).

    Examples
    --------
    >>> round(critical_difference(4, 14), 2)
    1.25
    """
    quantile = studentized_range.ppf(0.95, n_methods, np.inf) / np.sqrt(2)
    return float(quantile * np.sqrt(n_methods * (n_methods + 1) / (6 * n_worlds)))


def rank_lines(right: Float64[np.ndarray, "worlds methods"], methods: list[str]) -> list[str]:
    """Return lines with the mean ranks, the best first, and the tests for differences."""
    n_worlds, n_methods = right.shape
    if n_worlds < 2:
        return []
    ranks = rankdata(-right.round(1), axis=1).mean(axis=0)
    listed = ", ".join(f"{methods[place]} {ranks[place]:.2f}" for place in np.argsort(ranks))
    p, difference = friedmanchisquare(*right.round(1).T).pvalue, critical_difference(n_methods, n_worlds)
    return [
        "",
        f"Mean ranks over {n_worlds} worlds: {listed}.",
        f"Friedman: p = {p:.2g}; Nemenyi's critical difference at 5 %: {difference:.2f}.",
    ]


def main() -> None:
    """Print the table in Markdown."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0, help="seed of the first draw")
    parser.add_argument("--worlds", default="*", help="name or glob of the worlds")
    parser.add_argument(
        "--crowd-kit", action="store_true", help="compare with crowd-kit's methods; takes minutes per world"
    )
    asked = parser.parse_args()
    fits = CROWD_KIT if asked.crowd_kit else METHODS
    methods = [*fits, "bc3e"]
    print("\n".join(table_head(["world", *methods, "bc3e - vote", "correlation", "error"])))
    seeds, right = range(asked.seed, asked.seed + asked.draws), []
    for name in WORLDS:
        if not fnmatchcase(name, asked.worlds):
            continue
        try:
            rows, means = measure(name, seeds, fits)
        except ScenarioError as error:
            print(f"{name}: left out, {error}", file=sys.stderr)
            continue
        right.append([value for method, value in means.items() if method != _OUT_OF_REACH])
        print("\n".join(rows))
        sys.stdout.flush()
    print("\n".join(rank_lines(np.array(right), [method for method in methods if method != _OUT_OF_REACH])))


if __name__ == "__main__":
    main()
