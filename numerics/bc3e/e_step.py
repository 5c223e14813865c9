"""The E-step of BC3E: responsibilities, their fixed point, what it contributes to sums (Acharya et al. 2011, II-C1).

Arrays are laid out ``(k, n)``, classes first, so that every operation runs along contiguous instances; instances are
picked with ``take`` and ``compress``, because ``a[:, index]`` returns the transposed layout. Sums over classes are
written as loops over the few classes: the order of additions, and with it the last bit, then cannot depend on how many
instances happen to be in the array. That, and the grid of `numerics.bc3e.grid`, make an instance's result independent
of the site and of the block it is computed in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int64, Shaped

from numerics.bc3e.ensemble import Labels, present
from numerics.bc3e.grid import from_grid, to_grid

Table = Float64[np.ndarray, "k k_m+1"]
Gamma = Float64[np.ndarray, "k n"]

BLOCK = 16384
"""Instances worked on at once, whatever the size of the shard. Measured: smaller blocks pay more for calls than they
gain from the cache, and larger ones fall out of it."""

_CROWDED = 0.75
"""Settled instances leave a block's arrays when no more than this share of them still moves."""

_UNDERFLOW = 1e-200
"""A normaliser below this has lost digits to underflow; the logarithm is taken instead."""

_FORBIDDEN = -1e4
"""Log 0 under a soft label: far below every psi(gamma) and log beta, but a probability of 1e-12 times it is nothing."""


@dataclass(frozen=True)
class Contribution:
    """What a set of instances adds to the sums of the M-step, as integers on the grid.

    Attributes
    ----------
    n : int
        Number of instances.
    mass : dict[str, ndarray]
        By clustering, ``T_mij = sum_n phi_nmi [w2_nm = j]`` (eq. 7), ``(k, k_m)``.
    log_theta : ndarray
        ``s_i = sum_n psi(gamma_ni) - psi(sum_i gamma_ni)``, ``(k,)``: the statistics of alpha (eq. 8).
    bound : int
        The instances' part of the evidence lower bound (eq. 3).
    """

    n: int
    mass: dict[str, Int64[np.ndarray, "k k_m"]]
    log_theta: Int64[np.ndarray, "k"]
    bound: int

    def __add__(self, other: Contribution) -> Contribution:
        """Sum of two disjoint sets of instances."""
        mass = dict(self.mass)
        for name, table in other.mass.items():
            mass[name] = mass[name] + table if name in mass else table
        return Contribution(self.n + other.n, mass, self.log_theta + other.log_theta, self.bound + other.bound)


def votes(classifiers: Mapping[str, Labels], n: int, k: int, bits: int) -> Int64[np.ndarray, "k n"]:
    """Votes ``C_ni = sum_l [w1_nl = i]``, or the sum of class probabilities, on the grid; a missing label adds 0."""
    total = np.zeros((k, n), np.int64)
    for labels in classifiers.values():
        if labels.ndim == 2:
            total[: labels.shape[1]] += to_grid(np.ascontiguousarray(labels.T), bits)
        else:
            for i, row in enumerate(total):  # a class at a time: no second array of this size
                row += (labels == i).astype(np.int64) << bits
    return total


def cold_start(
    classifiers: Mapping[str, Labels], clusterings: Mapping[str, Labels], n: int, k: int, bits: int
) -> Int64[np.ndarray, "k n"]:
    """``C_n + r2_n / k`` on the grid: with alpha added, where an instance starts that was never seen before."""
    total = votes(classifiers, n, k, bits)
    even = round((1 << bits) / k)
    for labels in clusterings.values():
        total += even * present(labels).astype(np.int64)
    return total


def likelihood_table(beta: Float64[np.ndarray, "k k_m"]) -> Table:
    """`beta` ready to be indexed by cluster labels.

    A label that no class can produce says nothing: its column becomes ones. A last column of zeros, which the label -1
    selects, makes the responsibilities of a missing label vanish.
    """
    table = np.zeros((beta.shape[0], beta.shape[1] + 1))
    table[:, :-1] = np.where(beta.any(axis=0), beta, 1.0)
    return table


def _log(values: Float64[np.ndarray, "..."]) -> Float64[np.ndarray, "..."]:
    """Logarithm with log 0 = -1e300, so that 0 log 0 = 0 and no infinity enters a product."""
    return np.where(values > 0, np.log(np.maximum(values, 1e-300)), -1e300)


def _sum_classes(values: Float64[np.ndarray, "k n"]) -> Float64[np.ndarray, "n"]:
    total = values[0].copy()
    for row in values[1:]:
        total += row
    return np.asarray(total)


def _max_classes(values: Float64[np.ndarray, "k n"]) -> Float64[np.ndarray, "n"]:
    top = values[0].copy()
    for row in values[1:]:
        np.maximum(top, row, out=top)
    return np.asarray(top)


@dataclass(frozen=True)
class _Clustering:
    """One clustering's labels of a block of instances, with its likelihood table."""

    table: Table
    labels: Labels

    def likelihood(self) -> Float64[np.ndarray, "k n"]:
        """beta_{m,i,w}, or the average of log beta under a soft label, up to a factor common to the classes."""
        if self.labels.ndim == 1:
            return self.table.take(self.labels, axis=1)
        averaged = self.log_likelihood()
        averaged -= _max_classes(averaged)
        there = present(self.labels)
        return np.asarray(np.where(there, np.exp(averaged), 0.0))

    def log_likelihood(self) -> Float64[np.ndarray, "k n"]:
        """Log beta_{m,i,w}, averaged under a soft label; finite (very negative) where beta is 0."""
        log_table = _log(self.table)
        if self.labels.ndim == 1:
            return log_table.take(self.labels, axis=1)
        np.maximum(log_table, _FORBIDDEN, out=log_table)
        averaged = np.zeros((len(log_table), len(self.labels)))
        for cluster in range(self.labels.shape[1]):  # one column at a time: the same order of additions in any block
            averaged += log_table[:, cluster, None] * self.labels[:, cluster]
        dead = _max_classes(averaged) <= 0.01 * _FORBIDDEN  # some of its clusters is beyond every class: uninformative
        averaged[:, dead] = 0.0
        return averaged

    def responsibilities(
        self,
        weights: Float64[np.ndarray, "k n"],
        log_weights: Float64[np.ndarray, "k n"],
        likelihood: Float64[np.ndarray, "k n"],
        bits: int,
    ) -> Float64[np.ndarray, "k n"]:
        """Eq. (5), in units of the grid: phi_nmi proportional to exp(psi(gamma_ni)) beta_{m,i,w}; 0 without a label."""
        phi = weights * likelihood
        total = _sum_classes(phi)
        if total.min(initial=1.0) < _UNDERFLOW:
            thin = np.flatnonzero(total < _UNDERFLOW)
            there = thin[present(self.labels[thin])]
            if there.size:
                part = _Clustering(self.table, self.labels[there])
                logs = log_weights[:, there] + part.log_likelihood()
                phi[:, there] = np.exp(logs - _max_classes(logs))
                total[there] = _sum_classes(phi[:, there])
            total[total == 0.0] = 1.0
        phi *= np.ldexp(1.0, bits) / total
        return np.asarray(np.rint(phi, out=phi))


def _block_weights(log_weights: Float64[np.ndarray, "k n"]) -> Float64[np.ndarray, "k n"]:
    return np.asarray(np.exp(log_weights - _max_classes(log_weights)))


def _sweep(
    parts: Sequence[_Clustering],
    likelihoods: Sequence[Float64[np.ndarray, "k n"]],
    log_weights: Float64[np.ndarray, "k n"],
    bits: int,
) -> Float64[np.ndarray, "k n"]:
    """Sum over the clusterings of eq. (5), in units of the grid."""
    weights = _block_weights(log_weights)
    total = np.zeros_like(weights)
    for part, likelihood in zip(parts, likelihoods, strict=True):
        total += part.responsibilities(weights, log_weights, likelihood, bits)
    return total


def shares(
    tables: Mapping[str, Table],
    classifiers: Mapping[str, Labels],
    clusterings: Mapping[str, Labels],
    log_weights: Float64[np.ndarray, "k n"],
    bits: int,
) -> tuple[Int64[np.ndarray, "k n"], dict[str, Int64[np.ndarray, "k k_m"]], int]:
    """One sweep over instances that several sites share (docs/bc3e.md, column and arbitrary distributions).

    Parameters
    ----------
    tables : Mapping[str, ndarray]
        By clustering, what `likelihood_table` made of its beta.
    classifiers, clusterings : Mapping[str, ndarray]
        This site's labels of the instances.
    log_weights : ndarray
        ``psi(gamma_ni)``, ``(k, n)``, from the fusion center.
    bits : int
        Fineness of the grid.

    Returns
    -------
    share, mass, cluster_bound
        ``g_n`` = votes + sum of this site's phi (eq. 6 without alpha), the masses ``T_m``, and this site's part of the
        bound, ``sum phi (log beta - log phi)``; all on the grid.
    """
    k, n = log_weights.shape
    share = votes(classifiers, n, k, bits)
    mass = {name: np.zeros((k, tables[name].shape[1] - 1), np.int64) for name in clusterings}
    bound = 0
    for start in range(0, n, BLOCK):
        cut = slice(start, start + BLOCK)
        parts = {name: _Clustering(tables[name], labels[cut]) for name, labels in clusterings.items()}
        likelihoods = [part.likelihood() for part in parts.values()]
        total, part_mass, part_bound = _last_sweep(parts, likelihoods, np.ascontiguousarray(log_weights[:, cut]), bits)
        share[:, cut] += total.astype(np.int64)
        bound += part_bound
        for name, table in part_mass.items():
            mass[name] += table
    return share, mass, bound


def _last_sweep(
    parts: Mapping[str, _Clustering],
    likelihoods: Sequence[Float64[np.ndarray, "k n"]],
    log_weights: Float64[np.ndarray, "k n"],
    bits: int,
) -> tuple[Float64[np.ndarray, "k n"], dict[str, Int64[np.ndarray, "k k_m"]], int]:
    """What `_sweep` gives for one block, and with it the masses and the cluster part of the bound at these phi."""
    weights = _block_weights(log_weights)
    total = np.zeros_like(weights)
    mass = {}
    bound = 0
    for (name, part), likelihood in zip(parts.items(), likelihoods, strict=True):
        phi = part.responsibilities(weights, log_weights, likelihood, bits)
        total += phi
        mass[name] = _mass(phi, part.labels, part.table.shape[1] - 1, bits)
        bound += _cluster_bound(phi, part, bits)
    return total, mass, bound


def _mass(phi: Float64[np.ndarray, "k n"], labels: Labels, k_m: int, bits: int) -> Int64[np.ndarray, "k k_m"]:
    """T_mij of eq. (7) for one block; sums of integers below 2**53 are exact in float64."""
    if labels.ndim == 2:
        soft = [np.rint(row[:, None] * labels).astype(np.int64).sum(axis=0) for row in phi]
        mass = np.zeros((len(phi), k_m), np.int64)
        mass[:, : labels.shape[1]] = soft
        return mass
    there = labels >= 0
    if not there.all():
        phi, labels = phi.compress(there, axis=1), labels[there]
    return np.stack([np.bincount(labels, row, minlength=k_m) for row in phi]).astype(np.int64)


def _cluster_bound(phi: Float64[np.ndarray, "k n"], part: _Clustering, bits: int) -> int:
    """sum_i phi_nmi (log beta_{m,i,w} - log phi_nmi), each instance's term on the grid."""
    probability = np.ldexp(phi, -bits)
    logs = np.where(phi > 0, part.log_likelihood() - _log(probability), 0.0)
    return int(to_grid(_sum_classes(probability * logs), bits).sum())


def log_theta(gamma: Gamma) -> Float64[np.ndarray, "k n"]:
    """E[log theta_ni] = psi(gamma_ni) - psi(sum_i gamma_ni)."""
    from scipy.special import psi

    return np.asarray(psi(gamma) - psi(_sum_classes(gamma)))


def dirichlet_bound(alpha: Float64[np.ndarray, "k"], gamma: Gamma, bits: int) -> int:
    """The bound's terms of theta, each instance's on the grid.

    With gamma = alpha + C + sum_m phi_m (eq. 6) the expectations E[log theta] cancel, and what is left of eq. (3)
    beside `shares`' cluster part is ``ln B(gamma_n) - ln B(alpha)``, B the multivariate beta function.
    """
    from scipy.special import gammaln

    prior = float(gammaln(alpha.sum()) - gammaln(alpha).sum())
    return int(to_grid(prior - gammaln(_sum_classes(gamma)) + _sum_classes(gammaln(gamma)), bits).sum())


def center_part(alpha: Float64[np.ndarray, "k"], gamma: Gamma, bits: int) -> tuple[Int64[np.ndarray, "k"], int]:
    """``s`` and the Dirichlet part of the bound for instances whose gamma is known, on the grid."""
    return to_grid(log_theta(gamma), bits).sum(axis=1), dirichlet_bound(alpha, gamma, bits)


def add_alpha(alpha: Float64[np.ndarray, "k"], total: Int64[np.ndarray, "k n"], bits: int) -> Gamma:
    """Eq. (6): gamma_n = alpha + C_n + sum_m phi_nm."""
    return np.asarray(alpha[:, None] + from_grid(total, bits))


def settled(before: Gamma, after: Gamma, tolerance: float, bits: int) -> Shaped[np.ndarray, "n"]:
    """Instances whose gamma moved by no more than `tolerance`, or by one step of the grid where that is coarser."""
    limit = max(tolerance, 1.5 * np.ldexp(1.0, -bits))
    return np.asarray(_max_classes(np.abs(after - before)) <= limit)


@dataclass(frozen=True)
class EStepSettings:
    """How an E-step is run.

    Attributes
    ----------
    bits : int
        Fineness of the grid (`numerics.bc3e.grid`).
    tolerance : float
        An instance is settled when no gamma_ni moves by more.
    max_sweeps : int
        Sweeps of eqs. (5) and (6) at most.
    """

    bits: int
    tolerance: float = 1e-8
    max_sweeps: int = 500


def e_step(
    alpha: Float64[np.ndarray, "k"],
    tables: Mapping[str, Table],
    classifiers: Mapping[str, Labels],
    clusterings: Mapping[str, Labels],
    gamma: Gamma,
    settings: EStepSettings,
    threads: int = 1,
) -> tuple[Gamma, Contribution]:
    """Iterate eqs. (5) and (6) for every instance to its own convergence.

    Parameters
    ----------
    alpha : ndarray
        ``(k,)``.
    tables : Mapping[str, ndarray]
        By clustering, `likelihood_table` of its beta.
    classifiers, clusterings : Mapping[str, ndarray]
        Labels of the ``n`` instances.
    gamma : ndarray
        ``(k, n)``, where to start: the previous E-step's (then the bound cannot fall), or alpha + `cold_start`.
    settings : EStepSettings
        Grid, tolerance and number of sweeps.
    threads : int
        Blocks worked on side by side.

    Returns
    -------
    gamma, contribution
        The new gamma, and the instances' part of all sums.
    """
    n = gamma.shape[1]
    result = np.empty_like(gamma)

    def block(start: int) -> Contribution:
        cut = slice(start, min(start + BLOCK, n))
        voters = {name: labels[cut] for name, labels in classifiers.items()}
        parts = {name: _Clustering(tables[name], labels[cut]) for name, labels in clusterings.items()}
        result[:, cut], part = _e_step_block(alpha, parts, voters, gamma[:, cut].copy(), settings)
        return part

    empty = Contribution(
        0,
        {name: np.zeros((len(alpha), tables[name].shape[1] - 1), np.int64) for name in clusterings},
        np.zeros(len(alpha), np.int64),
        0,
    )
    starts = range(0, n, BLOCK)
    if threads > 1 and len(starts) > 1:
        with ThreadPoolExecutor(threads) as pool:
            return result, sum(pool.map(block, starts), empty)
    return result, sum(map(block, starts), empty)


def _e_step_block(
    alpha: Float64[np.ndarray, "k"],
    parts: Mapping[str, _Clustering],
    classifiers: Mapping[str, Labels],
    gamma: Gamma,
    settings: EStepSettings,
) -> tuple[Gamma, Contribution]:
    from scipy.special import psi  # here: of a site's asks only this one needs it, and each may be a process

    k, n = gamma.shape
    bits = settings.bits
    fixed = votes(classifiers, n, k, bits).astype(np.float64)  # exact: far below 2**53
    likelihoods = [part.likelihood() for part in parts.values()]

    # `origin` is the gamma that an instance's last sweep starts from. A settled instance keeps it: the others' number
    # of sweeps must not touch it. It is swept along, to the same result, until so many have settled that copying the
    # rest together pays.
    origin = gamma
    here, active = origin, np.arange(n)
    held, rates, labelled = fixed, likelihoods, list(parts.values())
    for _ in range(settings.max_sweeps - 1):
        after = alpha[:, None] + np.ldexp(held + _sweep(labelled, rates, psi(here), bits), -bits)
        moving = ~settled(here, after, settings.tolerance, bits)
        n_moving = np.count_nonzero(moving)
        if not n_moving:
            break
        np.copyto(here, after, where=moving)
        if n_moving > _CROWDED * active.size:
            continue
        origin[:, active] = here
        stay = np.flatnonzero(moving)
        active, here, held = active[stay], here.take(stay, axis=1), held.take(stay, axis=1)
        rates = [rate.take(stay, axis=1) for rate in rates]
        labelled = [_Clustering(part.table, part.labels[stay]) for part in labelled]
    origin[:, active] = here

    total, mass, bound = _last_sweep(parts, likelihoods, psi(origin), bits)
    updated = alpha[:, None] + np.ldexp(fixed + total, -bits)
    statistics, prior_bound = center_part(alpha, updated, bits)
    return updated, Contribution(n, mass, statistics, bound + prior_bound)
