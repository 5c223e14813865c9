"""The E-step of BC3E: gamma of every instance, and what instances add to sums (Acharya et al. 2011, II-C1).

An instance's result does not depend on the site or the block that it is computed in: `numerics.bc3e.responsibilities`
says how.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float64, Int64

from numerics.bc3e.ensemble import Counts, Labels, present
from numerics.bc3e.gamma import Gamma, center_part, converged
from numerics.bc3e.grid import add_up, to_grid
from numerics.bc3e.reliability import (
    class_bound,
    class_evidence,
    class_responsibilities,
    confusion_of,
    even_where_unknown,
    sum_of_squares,
)
from numerics.bc3e.responsibilities import (
    LabeledBlock,
    Table,
    relative_weights,
    safe_log,
    sum_classes,
)

BLOCK = 16384
"""Instances worked on at once, whatever the size of the shard. Measured: smaller blocks pay more for calls than they
gain from the cache, and larger ones fall out of it."""

_CROWDED = 0.75
"""Converged instances leave a block's arrays when no more than this share of them still moves."""


@dataclass(frozen=True)
class Contribution:
    """The part of a set of instances in the sums of the M-step, as integers on the grid.

    Attributes
    ----------
    n : int
        Number of instances.
    mass : dict[str, ndarray]
        By clustering, ``T_mij = sum_n phi_nmi [w2_nm = j]`` (eq. 7), ``(k, k_m)``; and by confusion matrix the same
        sums with the responsibilities of the classes.
    log_theta : ndarray
        ``s_i = sum_n psi(gamma_ni) - psi(sum_i gamma_ni)``, ``(k,)``: the statistics of alpha (eq. 8).
    bound : int
        The instances' part of the evidence lower bound (eq. 3).
    squares : dict[str, int]
        By clustering, `numerics.bc3e.reliability.sum_of_squares`; only in an E-step of the classifiers alone.
    """

    n: int
    mass: dict[str, Int64[np.ndarray, "k k_m"]]
    log_theta: Int64[np.ndarray, "k"]
    bound: int
    squares: dict[str, int] = field(default_factory=dict)

    def __add__(self, other: Contribution) -> Contribution:
        """Add the parts of two disjoint sets of instances."""
        mass = dict(self.mass)
        for name, table in other.mass.items():
            mass[name] = mass[name] + table if name in mass else table
        squares = dict(Counter(self.squares) + Counter(other.squares))
        return Contribution(self.n + other.n, mass, self.log_theta + other.log_theta, self.bound + other.bound, squares)


def votes(classifiers: Mapping[str, Labels], n: int, k: int, bits: int) -> Int64[np.ndarray, "k n"]:
    """Count the votes ``C_ni = sum_l [w1_nl = i]``, or class probabilities, on the grid; a missing label adds 0."""
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
    """Return ``C_n + r2_n / k`` on the grid: plus alpha, the first gamma of a new instance."""
    total = votes(classifiers, n, k, bits)
    even = round((1 << bits) / k)
    for labels in clusterings.values():
        total += even * present(labels).astype(np.int64)
    return total


def _sweep(
    parts: Sequence[LabeledBlock],
    likelihoods: Sequence[Float64[np.ndarray, "k n"]],
    log_weights: Float64[np.ndarray, "k n"],
    bits: int,
) -> Float64[np.ndarray, "k n"]:
    """Sum eq. (5) over the clusterings, in units of the grid."""
    weights = relative_weights(log_weights)
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
    known: Int64[np.ndarray, "k n"] | None = None,
) -> tuple[Int64[np.ndarray, "k n"], Contribution]:
    """Sweep once over instances that several sites share (docs/bc3e.md, column and arbitrary distributions).

    Parameters
    ----------
    tables : Mapping[str, ndarray]
        By clustering, `likelihood_table` of its beta.
    classifiers, clusterings : Mapping[str, ndarray]
        This site's labels of the instances; no classifiers where these have confusion matrices, and so no votes.
    log_weights : ndarray
        ``psi(gamma_ni)``, ``(k, n)``, from the fusion center.
    bits : int
        Fineness of the grid.
    known : ndarray or None
        ``r_n`` on the grid, ``(k, n)``, in an E-step of the classifiers alone (`EStepSettings`).

    Returns
    -------
    share, contribution
        ``g_n`` = votes + sum of this site's phi (eq. 6 without alpha), and the site's part of the sums: of the bound,
        it is ``sum phi (log beta - log phi)``; all on the grid.
    """
    k, n = log_weights.shape
    share = votes(classifiers, n, k, bits)
    mass = {name: np.zeros((k, tables[name].shape[1] - 1), np.int64) for name in clusterings}
    sums = Contribution(0, mass, np.zeros(k, np.int64), 0)
    for start in range(0, n, BLOCK):
        cut = slice(start, start + BLOCK)
        parts = {name: LabeledBlock(tables[name], labels[cut]) for name, labels in clusterings.items()}
        if known is not None:
            total, part = _classifiers_alone(parts, known[:, cut].astype(np.float64), bits)
        else:
            likelihoods = [part.likelihood() for part in parts.values()]
            total, part = _last_sweep(parts, likelihoods, np.ascontiguousarray(log_weights[:, cut]), bits)
        share[:, cut] += total.astype(np.int64)
        sums += part
    return share, sums


def _last_sweep(
    parts: Mapping[str, LabeledBlock],
    likelihoods: Sequence[Float64[np.ndarray, "k n"]],
    log_weights: Float64[np.ndarray, "k n"],
    bits: int,
    counts: Counts = None,
) -> tuple[Float64[np.ndarray, "k n"], Contribution]:
    """Sweep over one block as `_sweep` does; return also the masses, and the clusterings' part of the bound."""
    weights = relative_weights(log_weights)
    total = np.zeros_like(weights)
    mass = {}
    bound = 0
    for (name, part), likelihood in zip(parts.items(), likelihoods, strict=True):
        phi = part.responsibilities(weights, log_weights, likelihood, bits)
        total += phi
        mass[name] = _mass(phi, part.labels, part.table.shape[1] - 1, bits, counts)
        bound += _cluster_bound(phi, part, bits, counts)
    return total, Contribution(0, mass, np.zeros(len(total), np.int64), bound)


def _classifiers_alone(
    parts: Mapping[str, LabeledBlock], share: Float64[np.ndarray, "k n"], bits: int, counts: Counts = None
) -> tuple[Float64[np.ndarray, "k n"], Contribution]:
    """Do as `_last_sweep`, with the class responsibilities by classifiers as those of every cluster label."""
    share = even_where_unknown(share, bits)
    total = np.zeros_like(share)
    sums = Contribution(0, {}, np.zeros(len(share), np.int64), 0)
    for name, part in parts.items():
        labeled = present(part.labels)
        phi = np.where(labeled, share, 0.0)
        total += phi
        mass = _mass(phi, part.labels, part.table.shape[1] - 1, bits, counts)
        squares = sum_of_squares(share, labeled, bits, counts)
        sums += Contribution(0, {name: mass}, sums.log_theta, _cluster_bound(phi, part, bits, counts), {name: squares})
    return total, sums


def _mass(
    phi: Float64[np.ndarray, "k n"], labels: Labels, k_m: int, bits: int, counts: Counts = None
) -> Int64[np.ndarray, "k k_m"]:
    """Compute T_mij of eq. (7) for one block; sums of integers below 2**53 are exact in float64."""
    if labels.ndim == 2:
        soft = [add_up(np.rint(row[:, None] * labels).astype(np.int64).T, counts) for row in phi]
        mass = np.zeros((len(phi), k_m), np.int64)
        mass[:, : labels.shape[1]] = soft
        return mass
    labeled = labels >= 0
    if not labeled.all():
        phi, labels = phi.compress(labeled, axis=1), labels[labeled]
        counts = None if counts is None else counts[labeled]
    if counts is not None:  # in integers: with their counts, even a few instances may pass 2**53
        mass = np.zeros((len(phi), k_m), np.int64)
        for row, own in zip(mass, phi.astype(np.int64) * counts, strict=True):
            np.add.at(row, labels, own)
        return mass
    return np.stack([np.bincount(labels, row, minlength=k_m) for row in phi]).astype(np.int64)


def confusion_mass(
    share: Float64[np.ndarray, "k n"], classifiers: Mapping[str, Labels], k: int, bits: int, counts: Counts = None
) -> dict[str, Int64[np.ndarray, "k k"]]:
    """Compute the masses of confusion matrices: sum_n r_ni [w_nl = j]."""
    return {confusion_of(name): _mass(share, labels, k, bits, counts) for name, labels in classifiers.items()}


def _cluster_bound(phi: Float64[np.ndarray, "k n"], part: LabeledBlock, bits: int, counts: Counts) -> int:
    """Compute sum_i phi_nmi (log beta_{m,i,w} - log phi_nmi), each instance's term on the grid."""
    probability = np.ldexp(phi, -bits)
    logs = np.where(phi > 0, part.log_likelihood() - safe_log(probability), 0.0)
    return int(add_up(to_grid(sum_classes(probability * logs), bits), counts))


@dataclass(frozen=True)
class EStepSettings:
    """Grid, tolerance and length of an E-step.

    Attributes
    ----------
    bits : int
        Fineness of the grid (`numerics.bc3e.grid`).
    tolerance : float
        An instance has converged when no gamma_ni moves by more.
    max_sweeps : int
        Most sweeps of eqs. (5) and (6).
    draws : int
        Draws of theta that an instance's class counts for (`numerics.bc3e.reliability`); 0: classifiers vote.
    alone : bool
        Whether only the classifiers count: the responsibilities of the classes and of all cluster labels follow from
        the classifiers' labels under equally frequent classes, without sweeps.
    """

    bits: int
    tolerance: float = 1e-8
    max_sweeps: int = 500
    draws: int = 0
    alone: bool = False


def e_step(
    alpha: Float64[np.ndarray, "k"],
    tables: Mapping[str, Table],
    classifiers: Mapping[str, Labels],
    clusterings: Mapping[str, Labels],
    gamma: Gamma,
    settings: EStepSettings,
    threads: int = 1,
    counts: Counts = None,
) -> tuple[Gamma, Contribution]:
    """Iterate eqs. (5) and (6) for every instance until it converges.

    Parameters
    ----------
    alpha : ndarray
        ``(k,)``.
    tables : Mapping[str, ndarray]
        `likelihood_table` of each clustering's beta and of each confusion matrix, by name.
    classifiers, clusterings : Mapping[str, ndarray]
        Labels of the ``n`` instances.
    gamma : ndarray
        ``(k, n)`` first gamma: the previous E-step's (then the bound cannot fall), or alpha + `cold_start`.
    settings : EStepSettings
        Grid, tolerance and number of sweeps.
    threads : int
        Blocks worked on side by side.
    counts : ndarray or None
        ``(n,)`` number of instances that each stands for (`numerics.bc3e.ensemble.Distinct`). Equal labels have equal
        results and sums are exact, so the result is that of all instances, to the bit. None: one each.

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
        parts = {name: LabeledBlock(tables[name], labels[cut]) for name, labels in clusterings.items()}
        times = None if counts is None else counts[cut]
        evidence = None
        if settings.draws:
            evidence = class_evidence(tables, voters, cut.stop - cut.start, len(alpha), settings.bits)
        result[:, cut], part = _e_step_block(alpha, parts, voters, gamma[:, cut].copy(), settings, times, evidence)
        return part

    empty = Contribution(
        0,
        {
            name: np.zeros((len(alpha), tables[name].shape[1] - 1), np.int64)
            for name in [*clusterings, *(map(confusion_of, classifiers) if settings.draws else ())]
        },
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
    parts: Mapping[str, LabeledBlock],
    classifiers: Mapping[str, Labels],
    gamma: Gamma,
    settings: EStepSettings,
    counts: Counts,
    evidence: Int64[np.ndarray, "k n"] | None,
) -> tuple[Gamma, Contribution]:
    from scipy.special import psi  # here: of a site's asks only this one needs it, and each may be a process

    k, n = gamma.shape
    bits, draws = settings.bits, settings.draws
    # exact: far below 2**53
    fixed = votes({} if evidence is not None else classifiers, n, k, bits).astype(np.float64)
    likelihoods = [part.likelihood() for part in parts.values()]

    # `origin` is the gamma from which an instance's last sweep starts. A converged instance keeps it, however often the
    # others are swept. It is swept along without effect until so many have converged that compacting the rest pays.
    origin = gamma
    here, active = origin, np.arange(n)
    held, rates, labeled, known = fixed, likelihoods, list(parts.values()), evidence
    for _ in range(0 if settings.alone else settings.max_sweeps - 1):
        log_weights = psi(here)
        total = held + _sweep(labeled, rates, log_weights, bits)
        if known is not None:
            total += draws * class_responsibilities(log_weights, known, draws, bits)
        after = alpha[:, None] + np.ldexp(total, -bits)
        moving = ~converged(here, after, settings.tolerance, bits)
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
        labeled = [LabeledBlock(part.table, part.labels[stay]) for part in labeled]
        known = known.take(stay, axis=1) if known is not None else None
    origin[:, active] = here

    log_weights = np.zeros_like(origin) if settings.alone else psi(origin)
    classes = None if evidence is None else class_responsibilities(log_weights, evidence, draws, bits)
    if classes is not None and settings.alone:
        total, sums = _classifiers_alone(parts, classes, bits, counts)
    else:
        total, sums = _last_sweep(parts, likelihoods, log_weights, bits, counts)
    if classes is not None and evidence is not None:
        total = total + draws * classes
        mass = confusion_mass(classes, classifiers, k, bits, counts)
        sums += Contribution(0, mass, np.zeros(k, np.int64), class_bound(classes, evidence, bits, counts))
    updated = alpha[:, None] + np.ldexp(fixed + total, -bits)
    number = n if counts is None else int(counts.sum())
    return updated, sums + Contribution(number, {}, *center_part(alpha, updated, bits, counts))
