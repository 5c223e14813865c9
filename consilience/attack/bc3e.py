"""Attacks on BC3E in the row distribution: sums of several rounds determine the joint counts of all labels.

An instance's part of a round's sums follows from its labels: its votes by class and its cluster in each clustering. So
the sums are linear equations in the numbers of instances of each combination of labels. In the same way, the numbers of
correct decisions in several runs are equations in the numbers of each combination with each known class.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import combinations_with_replacement, product

import numpy as np
from jaxtyping import Float64, Int64

from consilience.attack.interface import Attack, Claims
from consilience.attack.site import AttackedSite
from numerics.bc3e.e_step import EStepSettings, cold_start, e_step
from numerics.bc3e.ensemble import Ensemble, present
from numerics.bc3e.gamma import add_alpha
from numerics.bc3e.grid import MAX_BITS, from_grid
from numerics.bc3e.m_step import initial_beta, maximize_alpha, maximize_beta
from numerics.bc3e.reliability import class_probabilities
from numerics.bc3e.responsibilities import likelihood_table
from protocols.bc3e.payloads import (
    EStep,
    Holdings,
    Predict,
    PredictionTally,
    Setup,
    Shares,
    Starts,
    Statistics,
    Survey,
    Sweep,
)

_BITS, _TOLERANCE, _SWEEPS = 30, 1e-8, 500
_ASKS = 10
_MOST_COMBINATIONS = 4000
_CLOSE = 0.1
"""Largest distance of a claimed count from a whole number."""
_NO_PART = "the site takes no part, or has too many combinations of labels"


def true_rows(shard: Ensemble) -> Float64[np.ndarray, "n q"]:
    """Return votes by class, cluster in each clustering, and, if any is known, class of every instance; -1: none."""
    k = max(
        (int(labels.max(initial=0)) + 1 if labels.ndim == 1 else labels.shape[1] for labels in _all(shard)), default=1
    )
    votes = np.zeros((shard.n, k))
    for labels in shard.classifiers.values():
        hard = labels if labels.ndim == 1 else np.where(present(labels), labels.argmax(axis=1), -1)
        votes[np.flatnonzero(hard >= 0), hard[hard >= 0]] += 1
    clusters = [
        labels if labels.ndim == 1 else np.where(present(labels), labels.argmax(axis=1), -1)
        for labels in shard.clusterings.values()
    ]
    known = [] if shard.truth is None else [shard.truth]
    return np.column_stack([votes, *clusters, *known]).astype(np.float64)


def _all(shard: Ensemble) -> list[np.ndarray]:
    return list(shard.classifiers.values())


@dataclass
class _Center:
    """A fusion center in its run with the site, and its equations."""

    site: AttackedSite
    holdings: Holdings
    votes: Int64[np.ndarray, "p r"]
    clusters: Int64[np.ndarray, "p m"]
    gammas: list[Float64[np.ndarray, "k 1"]] = field(default_factory=list)
    rows: list[Float64[np.ndarray, "e p"]] = field(default_factory=list)
    right: list[Float64[np.ndarray, "e"]] = field(default_factory=list)

    @classmethod
    def begin(cls, site: AttackedSite) -> _Center | None:
        """Start a run and survey the site; None if it takes no part, or has too many combinations of labels."""
        holdings = site.ask(Survey("row", "x")) if site.start_run() else None
        if not isinstance(holdings, Holdings) or not len(holdings.n_clusters):
            return None
        classes = range(-1, holdings.n_classes)
        votes = list(combinations_with_replacement(classes, len(holdings.classifiers)))
        clusters = list(product(*(range(-1, width) for width in holdings.n_clusters.tolist())))
        if len(votes) * len(clusters) > _MOST_COMBINATIONS:
            return None
        pairs = list(product(votes, clusters))
        return cls(site, holdings, np.array([v for v, _ in pairs], np.int64), np.array([c for _, c in pairs], np.int64))

    @property
    def k(self) -> int:
        return self.holdings.n_classes

    def ask(
        self, step: int, alpha: Float64[np.ndarray, "k"], betas: list[Float64[np.ndarray, "k _"]]
    ) -> Statistics | None:
        """Ask for the sums of a round, and add the equations."""
        names = self.holdings.clusterings
        answer = self.site.ask(
            EStep(step, True, 0, np.zeros(0), alpha, names, tuple(betas), _BITS, _TOLERANCE, _SWEEPS, 0.0)
        )
        if not isinstance(answer, Statistics):
            return None
        tables = {name: likelihood_table(beta) for name, beta in zip(names, betas, strict=True)}
        columns = [self._added(place, alpha, tables) for place in range(len(self.votes))]
        self.rows.append(np.stack(columns, axis=1))
        self.right.append(_flat(list(answer.mass), answer.log_theta, answer.n))
        return answer

    def _added(
        self, place: int, alpha: Float64[np.ndarray, "k"], tables: Mapping[str, Float64[np.ndarray, "k _"]]
    ) -> Float64[np.ndarray, "e"]:
        """Return the part of one instance of each combination of labels in the sums."""
        voters, labels = self._labels(np.array([place]))
        if place == len(self.gammas):
            start = cold_start(voters, labels, 1, self.k, _BITS)
            self.gammas.append(add_alpha(alpha, start, _BITS))
        settings = EStepSettings(_BITS, _TOLERANCE, _SWEEPS)
        self.gammas[place], part = e_step(alpha, tables, voters, labels, self.gammas[place], settings)
        return _flat([part.mass[name] for name in self.holdings.clusterings], part.log_theta, 1)

    def _labels(self, places: Int64[np.ndarray, "c"]) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        """Return votes and clusters of an instance of each of these combinations."""
        voters = {str(model): self.votes[places, model] for model in range(self.votes.shape[1])}
        return voters, dict(zip(self.holdings.clusterings, self.clusters[places].T, strict=True))

    def decisions(
        self, places: Int64[np.ndarray, "c"], alpha: Float64[np.ndarray, "k"], betas: list[Float64[np.ndarray, "k _"]]
    ) -> Int64[np.ndarray, "c"]:
        """Return the class that a site predicts for an instance of each of these combinations."""
        voters, labels = self._labels(places)
        tables = {name: likelihood_table(beta) for name, beta in zip(self.holdings.clusterings, betas, strict=True)}
        settings = EStepSettings(MAX_BITS, _TOLERANCE, _SWEEPS)
        gamma = add_alpha(alpha, cold_start(voters, labels, len(places), self.k, MAX_BITS), MAX_BITS)
        gamma, _ = e_step(alpha, tables, voters, labels, gamma, settings)
        return np.asarray(class_probabilities(gamma, np.zeros(0)).argmax(axis=1))

    def counts(self) -> Float64[np.ndarray, "p"]:
        """Solve the equations for the number of instances of each combination."""
        from scipy.optimize import nnls

        return np.asarray(nnls(np.concatenate(self.rows), np.concatenate(self.right), maxiter=100 * len(self.votes))[0])

    def cells(self) -> Float64[np.ndarray, "p q"]:
        """Return votes by class and clusters of each combination."""
        by_class = np.stack([(self.votes == i).sum(axis=1) for i in range(self.k)], axis=1)
        return np.column_stack([by_class, self.clusters]).astype(np.float64)

    def claims(self) -> Claims:
        """Claim the numbers of instances that are close to whole numbers."""
        note = f"combinations of labels: {len(self.votes)}, equations: {sum(len(each) for each in self.right)}"
        if not self.rows:
            return Claims.none(self.site.ranges.shape[1], note)
        return _claim(self.cells(), self.counts(), self.site, note)


def _claim(
    cells: Float64[np.ndarray, "p _"], counts: Float64[np.ndarray, "p"], site: AttackedSite, note: str
) -> Claims:
    """Claim the counts that are close to whole numbers, in the first columns of the true rows."""
    whole = np.rint(counts)
    known = (np.abs(counts - whole) < _CLOSE) & (whole > 0)
    more = np.full((int(known.sum()), site.ranges.shape[1] - cells.shape[1]), np.inf)
    low, high = np.hstack([cells[known] - 1e-3, -more]), np.hstack([cells[known] + 1e-3, more])
    return Claims(low, high, whole[known].astype(np.int64), [note])


def _flat(mass: list[Int64[np.ndarray, "k _"]], log_theta: Int64[np.ndarray, "k"], n: int) -> Float64[np.ndarray, "e"]:
    return np.concatenate([*(from_grid(each, _BITS).ravel() for each in mass), from_grid(log_theta, _BITS), [float(n)]])


_NextStep = Callable[[_Center, Statistics | None], tuple[Float64[np.ndarray, "k"], list[Float64[np.ndarray, "k _"]]]]


def _fit(site: AttackedSite, parameters: _NextStep) -> _Center | None:
    """Ask for the sums of a fit."""
    center = _Center.begin(site)
    answer = None
    for step in range(_ASKS if center else 0):
        assert center is not None  # noqa: S101 - else there are no steps
        answer = center.ask(step, *parameters(center, answer))
        if answer is None:
            break
    return center


def _play(site: AttackedSite, parameters: _NextStep) -> Claims:
    center = _fit(site, parameters)
    return center.claims() if center else Claims.none(site.ranges.shape[1], _NO_PART)


# -- attacks ----------------------------------------------------------------------------------------------------------


def plain_em(site: AttackedSite) -> Claims:
    """The sums of ten steps of honest EM are equations for the joint counts of all labels."""
    alpha = np.ones(1)

    def next_step(
        center: _Center, answer: Statistics | None
    ) -> tuple[Float64[np.ndarray, "k"], list[Float64[np.ndarray, "k _"]]]:
        nonlocal alpha
        widths = dict(zip(center.holdings.clusterings, center.holdings.n_clusters.tolist(), strict=True))
        if answer is None:
            alpha = np.ones(center.k)
            return alpha, [initial_beta(name, center.k, width, 0) for name, width in widths.items()]
        alpha = maximize_alpha(alpha, from_grid(answer.log_theta, _BITS) / max(answer.n, 1))
        return alpha, [maximize_beta(mass, _BITS) for mass in answer.mass]

    return _play(site, next_step)


def crafted_parameters(site: AttackedSite) -> Claims:
    """Ten steps with parameters of the center's choice, whose equations differ more than those of EM."""
    return _play(site, _random_steps(np.random.default_rng(0)))


def _random_steps(rng: np.random.Generator) -> _NextStep:
    def next_step(
        center: _Center, answer: Statistics | None
    ) -> tuple[Float64[np.ndarray, "k"], list[Float64[np.ndarray, "k _"]]]:
        widths = center.holdings.n_clusters.tolist()
        alpha = np.exp(rng.uniform(-2, 2, center.k))
        return alpha, [rng.dirichlet(np.full(width, 0.3), size=center.k) for width in widths]

    return next_step


def right_decisions(site: AttackedSite) -> Claims:
    """A fit, then predictions with other parameters in every further run: numbers of right decisions are equations."""
    from scipy.optimize import nnls

    next_step = _random_steps(np.random.default_rng(0))
    center = _fit(site, next_step)
    if center is None or not center.rows:
        return Claims.none(site.ranges.shape[1], _NO_PART)
    counts, classes = center.counts(), np.arange(center.k)
    places = np.flatnonzero(counts > _CLOSE)
    # Unknown are the instances of each combination with each class, whose sums over the classes the fit told.
    rows, right = [np.repeat(np.eye(len(places)), center.k, axis=1)], [counts[places]]
    while site.start_run():
        alpha, betas = next_step(center, None)
        names = center.holdings.clusterings
        answer = site.ask(Predict(alpha, names, tuple(betas), _TOLERANCE, _SWEEPS))
        if not isinstance(answer, PredictionTally) or not answer.total[answer.methods.index("bc3e")]:
            break
        rows.append((center.decisions(places, alpha, betas)[:, np.newaxis] == classes).reshape(1, -1).astype(float))
        right.append(np.array([float(answer.correct[answer.methods.index("bc3e")])]))
    if len(rows) == 1:
        return Claims.none(site.ranges.shape[1], "no right decisions were counted")
    solved = nnls(np.concatenate(rows), np.concatenate(right), maxiter=100 * rows[0].shape[1])[0]
    cells = np.column_stack([np.repeat(center.cells()[places], center.k, axis=0), np.tile(classes, len(places))])
    return _claim(cells, solved, site, f"runs with a prediction: {len(rows) - 1}")


def shared(site: AttackedSite) -> Claims:
    """Other sites hold all instances, says the center: their votes come one by one, and sweeps tell their clusters."""
    if not site.start_run({"bc3e.distribution": "arbitrary"}):
        return Claims.none(site.ranges.shape[1], _NO_PART)
    holdings = site.ask(Survey("row", "x"))
    if not isinstance(holdings, Holdings):
        return Claims.none(site.ranges.shape[1], _NO_PART)
    names, widths, n, k = holdings.clusterings, holdings.n_clusters, holdings.instances, holdings.n_classes
    none, every = np.zeros(0, np.int64), np.arange(n)
    starts = site.ask(Setup(k, _BITS, names, widths, none, every))
    # A cluster label adds to the share of the first class a digit of its own, and to all classes together 1.
    units = 0.25 / np.cumprod([1, *(widths + 1)])[1:]
    betas = [np.full((k, width), 1 / max(k - 1, 1)) for width in widths.tolist()]
    for beta, unit, width in zip(betas, units, widths.tolist(), strict=True):
        beta[0] = (np.arange(width) + 1) * unit
        beta[1:] = (1 - beta[0]) / max(k - 1, 1)
    site.ask(EStep(0, True, 0, none.astype(float), np.ones(k), names, tuple(betas), _BITS, _TOLERANCE, 1, 0.0))
    swept = site.ask(Sweep(every, np.zeros((k, n))))
    if not isinstance(starts, Starts) or not isinstance(swept, Shares):
        return Claims.none(site.ranges.shape[1], "the site shares no instances")
    start, share = from_grid(starts.start, _BITS), from_grid(swept.share, _BITS)
    rest, digits = share[0] - np.floor(share[0] + 1e-6), []
    for unit in units:
        digits.append(np.floor(rest / unit + 1e-3))
        rest = rest - digits[-1] * unit
    labels = np.array(digits)
    cells = np.vstack([np.rint(start - (labels > 0).sum(axis=0) / k), labels - 1]).T
    rows, counts = np.unique(cells, axis=0, return_counts=True)
    return _claim(rows, counts.astype(np.float64), site, f"instances read: {n}")


ATTACKS: Mapping[str, Attack] = {
    "plain em": plain_em,
    "crafted parameters": crafted_parameters,
    "right decisions": right_decisions,
    "shared": shared,
}
"""By name (`consilience.attack.interface`)."""
