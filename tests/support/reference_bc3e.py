"""BC3E on pooled labels, as plain as possible: what every other computation of it is held against.

Written from Acharya et al. (2011), eqs. (3) and (5) to (8), and from nothing else: arrays ``(N, k)``, one
loop over the clusterings, one E-step after another. It shares no code with `numerics`, except for the container of the
labels.

It computes in one of two ways:

- ``bits=None``: in float64 throughout, eq. (5) in the log domain. This is the mathematics, to about 1e-12.
- ``bits=30``, say: every summand that would cross sites lies on the grid of multiples of ``2**-bits`` (docs/bc3e.md,
  "Bit-for-bit equality"). Equality to the last bit then asks for the same elementary operations before the rounding, so
  eq. (5) is the product ``exp(psi(gamma_i) - max psi) * beta_i``, normalized, and is not regrouped.

Where classifiers have confusion matrices (``draws`` above 0) the equations are those of `numerics.bc3e.reliability`,
and `bound` writes out what they maximize.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Float64
from scipy.optimize import minimize
from scipy.special import gammaln, psi

from numerics.bc3e.ensemble import Ensemble, Labels

Alpha = Float64[np.ndarray, "k"]
Beta = Float64[np.ndarray, "k k_m"]
Gamma = Float64[np.ndarray, "n k"]
MaximizeAlpha = Callable[[Alpha, Alpha], Alpha]

BOX = (1e-3, 1e4)
LOG_OF_ZERO = {1: -1e300, 2: -1e4}
"""Stands for log 0, by the dimensions of the labels. Under a soft label, a probability too small for the grid may meet
a beta of 0 that is such only because of the grid: what it takes off must then be nothing."""


@dataclass
class Result:
    """Outcome of `fit`: parameters, gamma ``(N, k)``, and the bound after every E-step."""

    alpha: Alpha
    beta: dict[str, Beta]
    gamma: Gamma
    bounds: list[float] = field(default_factory=list)
    confusion: dict[str, Beta] = field(default_factory=dict)

    @property
    def theta(self) -> Gamma:
        counts = self.gamma - self.alpha if self.confusion else self.gamma
        theta = np.asarray(counts / add_classes(counts)[:, None])
        return 0.8 * theta + 0.2 / len(self.alpha) if self.confusion and self.beta else theta


def add_classes(values: Gamma) -> Float64[np.ndarray, "n"]:
    """Sum over the classes, first to last (NumPy's own sum may take another order)."""
    return np.asarray(sum(values.T[1:], values.T[0]))


def on_grid(values: np.ndarray, bits: int | None) -> np.ndarray:
    return values if bits is None else np.asarray(np.rint(values * 2.0**bits) / 2.0**bits)


def one_hot(labels: Labels, size: int) -> Gamma:
    """Labels as rows of probabilities; a missing one is a row of zeros."""
    if labels.ndim == 1:
        return np.asarray(labels[:, None] == np.arange(size), float)
    return np.pad(labels, [(0, 0), (0, size - labels.shape[1])])


def labeled(labels: Labels) -> np.ndarray:
    return labels >= 0 if labels.ndim == 1 else labels.sum(axis=1) > 0


def vote_counts(ensemble: Ensemble, k: int, bits: int | None = None) -> Gamma:
    """C_ni = sum_l [w1_nl = i], or the sum of class probabilities."""
    total = np.zeros((ensemble.n, k))
    for labels in ensemble.classifiers.values():
        total += on_grid(one_hot(labels, k), bits)
    return total


def cold_gamma(ensemble: Ensemble, alpha: Alpha, bits: int | None = None) -> Gamma:
    """Alpha + C_n + r2_n / k."""
    k = len(alpha)
    r2 = sum((labeled(labels).astype(float) for labels in ensemble.clusterings.values()), np.zeros(ensemble.n))
    return np.asarray(alpha + (vote_counts(ensemble, k, bits) + r2[:, None] * on_grid(np.array(1 / k), bits)))


# -- confusion matrices -----------------------------------------------------------------------------------------------


def confusion_prior(k: int) -> Beta:
    """56 of 80 labels right, the wrong ones spread evenly."""
    return np.asarray((80 * (1 - 0.7) / (k - 1)) * (1 - np.eye(k)) + 80 * 0.7 * np.eye(k))


def log_evidence(ensemble: Ensemble, confusion: Mapping[str, Beta], bits: int | None = None) -> Gamma:
    """Sum over the classifiers of log pi_l[i, w_nl]; averaged under probabilities."""
    k = len(next(iter(confusion.values())))
    total = np.zeros((ensemble.n, k))
    for name, labels in ensemble.classifiers.items():
        weights, logs = one_hot(labels, k), np.log(confusion[name])
        total += on_grid(sum((weights[:, [j]] * logs[:, j] for j in range(k)), np.zeros((ensemble.n, k))), bits)
    return total


def class_shares(gamma: Gamma, evidence: Gamma, draws: int, bits: int | None = None) -> Gamma:
    """r_ni proportional to exp(draws psi(gamma_ni) + evidence_ni); 0 where no classifier gave a label."""
    logs = draws * psi(gamma) + evidence
    share = np.exp(logs - logs.max(axis=1, keepdims=True))
    total = add_classes(share)[:, None]
    share = share / total if bits is None else np.rint(share * (2.0**bits / total)) / 2.0**bits
    return np.where((evidence != 0).any(axis=1)[:, None], share, 0.0)


# -- E-step -----------------------------------------------------------------------------------------------------------


def log_likelihood(beta: Beta, labels: Labels) -> Gamma:
    """Log of beta_{m,i,w}, averaged under a soft label; 0 for a label that no class can produce."""
    never = LOG_OF_ZERO[labels.ndim]
    logs = np.full_like(beta, never)
    np.log(beta, out=logs, where=beta > 0)
    logs[:, beta.max(axis=0) == 0] = 0.0
    weights = one_hot(labels, beta.shape[1])
    average = sum((weights[:, [j]] * logs[:, j] for j in range(beta.shape[1])), np.zeros((len(labels), len(beta))))
    average[average.max(axis=1) <= never / 100] = 0.0
    return average


def likelihood(beta: Beta, labels: Labels) -> Gamma:
    """beta_{m,i,w}; under a soft label, up to a factor common to the classes."""
    if labels.ndim == 2:
        logs = log_likelihood(beta, labels)
        return np.asarray(np.exp(logs - logs.max(axis=1, keepdims=True)))
    informative = np.where(beta.max(axis=0) == 0, 1.0, beta)
    return informative[:, labels].T


def responsibilities(beta: Beta, labels: Labels, gamma: Gamma, bits: int | None = None) -> Gamma:
    """Eq. (5): phi_nmi proportional to exp(psi(gamma_ni)) beta_{m,i,w}; 0 where there is no label."""
    there = labeled(labels)[:, None]
    if bits is None:
        logs = psi(gamma) + log_likelihood(beta, labels)
        phi = np.exp(logs - logs.max(axis=1, keepdims=True))
        return np.where(there, phi / add_classes(phi)[:, None], 0.0)
    phi = np.exp(psi(gamma) - psi(gamma).max(axis=1, keepdims=True)) * likelihood(beta, labels)
    total = add_classes(phi)[:, None]
    assert (total > 1e-200)[there].all(), "use bits=None for this"
    return np.where(there, np.rint(phi * (2.0**bits / total)) / 2.0**bits, 0.0)


def sweep(
    ensemble: Ensemble,
    alpha: Alpha,
    beta: Mapping[str, Beta],
    gamma: Gamma,
    bits: int | None = None,
    classes: Gamma | None = None,
) -> Gamma:
    """Eq. (6): gamma_n = alpha + C_n + sum_m phi_nm; `classes`, times the draws, stand in place of the votes C_n."""
    total = vote_counts(ensemble, len(alpha), bits) if classes is None else classes.copy()
    for name, labels in ensemble.clusterings.items():
        total += responsibilities(beta[name], labels, gamma, bits)
    return np.asarray(alpha + total)


def e_step(
    ensemble: Ensemble,
    alpha: Alpha,
    beta: Mapping[str, Beta],
    gamma: Gamma,
    *,
    bits: int | None = None,
    tolerance: float = 1e-8,
    max_sweeps: int = 500,
) -> tuple[Gamma, dict[str, Gamma]]:
    """Sweep until no gamma_ni of the instance moves by more than `tolerance`; each instance stops by itself.

    Returns gamma, and by clustering the phi that made it.
    """
    if bits is not None:
        tolerance = max(tolerance, 1.5 * 2.0**-bits)
    before = gamma.copy()
    moving = np.ones(ensemble.n, bool)
    after = before
    for number in range(max_sweeps):
        after = np.where(moving[:, None], sweep(ensemble, alpha, beta, before, bits), after)
        moving &= np.abs(after - before).max(axis=1, initial=0.0) > tolerance
        if not moving.any() or number == max_sweeps - 1:
            break
        before = np.where(moving[:, None], after, before)
    phi = {name: responsibilities(beta[name], w, before, bits) for name, w in ensemble.clusterings.items()}
    return after, phi


def e_step_with_classes(
    ensemble: Ensemble,
    alpha: Alpha,
    beta: Mapping[str, Beta],
    confusion: Mapping[str, Beta],
    gamma: Gamma,
    draws: int,
    *,
    bits: int | None = None,
    tolerance: float = 1e-8,
    max_sweeps: int = 500,
) -> tuple[Gamma, dict[str, Gamma], Gamma]:
    """The same with confusion matrices.

    Returns gamma, phi by clustering, and the classes, all of each instance's last sweep.
    """
    if bits is not None:
        tolerance = max(tolerance, 1.5 * 2.0**-bits)
    evidence = log_evidence(ensemble, confusion, bits)
    before, known = gamma.copy(), np.zeros(gamma.shape)
    moving = np.ones(ensemble.n, bool)
    for number in range(max_sweeps):
        known = np.where(moving[:, None], class_shares(before, evidence, draws, bits), known)
        after = np.where(moving[:, None], sweep(ensemble, alpha, beta, before, bits, draws * known), gamma)
        settled = np.abs(after - before).max(axis=1, initial=0.0) <= tolerance
        gamma = after
        moving &= ~settled
        if not moving.any() or number == max_sweeps - 1:
            break
        before = np.where(moving[:, None], after, before)
    phi = {name: responsibilities(beta[name], w, before, bits) for name, w in ensemble.clusterings.items()}
    return gamma, phi, known


# -- bound ------------------------------------------------------------------------------------------------------------


def bound(
    ensemble: Ensemble,
    alpha: Alpha,
    beta: Mapping[str, Beta],
    gamma: Gamma,
    phi: Mapping[str, Gamma],
    smoothing: float = 0.0,
    confusion: Mapping[str, Beta] | None = None,
    classes: Gamma | None = None,
    draws: int = 0,
) -> float:
    """Eq. (3), term by term and for any gamma, phi and classes (nothing is assumed to cancel)."""
    k = len(alpha)
    expected = psi(gamma) - psi(add_classes(gamma))[:, None]
    total = ensemble.n * (gammaln(alpha.sum()) - gammaln(alpha).sum()) + ((alpha - 1) * expected).sum()
    if confusion and classes is not None:
        log_r = np.log(np.where(classes > 0, classes, 1.0))
        total += (classes * (draws * expected + log_evidence(ensemble, confusion) - log_r)).sum()
        total += sum((confusion_prior(k) * np.log(table)).sum() for table in confusion.values())
    else:
        total += (vote_counts(ensemble, k) * expected).sum()
    for name, labels in ensemble.clusterings.items():
        p = phi[name]
        log_p = np.log(np.where(p > 0, p, 1.0))
        logs = np.where(p > 0, log_likelihood(beta[name], labels), 0.0)
        total += (p * (expected + logs - log_p)).sum()
        if smoothing:
            total += smoothing * np.log(np.maximum(beta[name], 1e-300)).sum()
    total -= (gammaln(add_classes(gamma)) - gammaln(gamma).sum(axis=1)).sum() + ((gamma - 1) * expected).sum()
    return float(total)


# -- M-step -----------------------------------------------------------------------------------------------------------


def expected_counts(phi: Gamma, labels: Labels, k_m: int, bits: int | None = None) -> Beta:
    """T_mij = sum_n phi_nmi [w2_nm = j]."""
    w = one_hot(labels, k_m)
    return np.asarray(on_grid(phi[:, :, None] * w[:, None, :], bits).sum(axis=0))


def maximize_beta(counts: Beta, smoothing: float = 0.0) -> Beta:
    """Eq. (7); a class without mass gets a uniform row."""
    k_m = counts.shape[1]
    total = counts.sum(axis=1, keepdims=True) + smoothing * k_m
    return np.where(total > 0, (counts + smoothing) / np.where(total > 0, total, 1), 1 / k_m)


def alpha_objective(alpha: Alpha, mean_log_theta: Alpha) -> float:
    """Eq. (8) by N, with the sign of its log-Gamma terms corrected."""
    return float(gammaln(alpha.sum()) - gammaln(alpha).sum() + ((alpha - 1) * mean_log_theta).sum())


def maximize_alpha(alpha: Alpha, mean_log_theta: Alpha) -> Alpha:
    """Eq. (8) by a general optimizer, in log alpha, over the box."""

    def loss(x: Alpha) -> float:
        return -alpha_objective(np.exp(x), mean_log_theta)

    def slope(x: Alpha) -> Alpha:
        a = np.exp(x)
        return np.asarray(-a * (psi(a.sum()) - psi(a) + mean_log_theta))

    x = np.log(alpha)
    bounds = [(float(np.log(BOX[0])), float(np.log(BOX[1])))] * len(alpha)
    for _ in range(3):  # started again from where it stopped, with a fresh curvature
        options: Any = {"maxiter": 2000, "maxfun": 5000, "ftol": 1e-16, "gtol": 1e-11}
        x = minimize(loss, x, jac=slope, method="L-BFGS-B", bounds=bounds, options=options).x
    return np.asarray(np.clip(np.exp(x), *BOX))


def gain(classes: Gamma, labels: Labels, k_m: int, related: float = 0.1) -> float:
    """Goodman and Kruskal's tau of a clustering, corrected for attenuation, times what the classifiers leave open."""
    labeled = one_hot(labels, k_m).any(axis=1)
    r, w = classes[labeled], one_hot(labels, k_m)[labeled]
    n, mean = len(r), r.mean(axis=0)
    w = w[:, w.any(axis=0)]
    of_cluster = (w.T @ r) / w.sum(axis=0)[:, None]
    between = (w.mean(axis=0) * ((of_cluster - mean) ** 2).sum(axis=1)).sum()
    variance = ((r - mean) ** 2).sum(axis=1).mean()
    rho = variance / (1 - (mean**2).sum())
    tau = min((1 - (1 - between / variance) * (n - 1) / (n - w.shape[1])) / rho, 1.0)
    return float(tau * (1 - rho)) if tau >= related else 0.0


# -- EM ---------------------------------------------------------------------------------------------------------------


def fit(
    ensemble: Ensemble,
    k: int,
    n_clusters: Mapping[str, int],
    *,
    bits: int | None = None,
    max_rounds: int = 200,
    max_sweeps: int = 500,
    tolerance: float = 1e-6,
    smoothing: float = 0.0,
    alpha: float = 1.0,
    beta: Mapping[str, Beta] | None = None,
    maximize: MaximizeAlpha | None = maximize_alpha,
    draws: int = 0,
    decide: Callable[[list[float]], int] | None = None,
) -> Result:
    """Plain EM, from alpha_i = `alpha` and uniform (or the given) beta, until the bound's relative change is small.

    Parameters
    ----------
    ensemble : Ensemble
        All labels of all instances.
    k, n_clusters
        Number of classes, and of clusters by clustering.
    bits : int or None
        Fineness of the grid; None: no grid.
    max_rounds, max_sweeps, tolerance, smoothing
        E-steps at most, sweeps of each at most, relative change of the bound, eta of the prior on beta.
    alpha, beta
        Where they start.
    maximize : Callable or None
        ``maximize(alpha, mean_log_theta)``: how eq. (8) is solved; None: alpha stays.
    draws : int
        Draws of theta that a class counts for where classifiers have confusion matrices; 0: they vote.
    decide : Callable or None
        ``decide(gains)``: draws from the second E-step on, by the gains of the clusterings. The first E-step is then of
        the classifiers alone, at equally frequent classes.
    """
    now = np.full(k, alpha)
    tables = dict(beta) if beta else {name: np.full((k, size), 1 / size) for name, size in n_clusters.items()}
    gamma = cold_gamma(ensemble, now, bits)
    prior = confusion_prior(k)
    first = prior / prior.sum(axis=1, keepdims=True)
    confusion = dict.fromkeys(ensemble.classifiers, first) if draws else {}
    classes = np.zeros(gamma.shape)
    bounds: list[float] = []
    for step in range(max_rounds):
        if decide and not step:
            classes = class_shares(np.ones(gamma.shape), log_evidence(ensemble, confusion, bits), 0, bits)
            even = on_grid(np.full(k, 1 / k), bits)
            every = np.where(classes.any(axis=1, keepdims=True), classes, even)
            phi = {
                name: np.where(one_hot(labels, n_clusters[name]).any(axis=1, keepdims=True), every, 0.0)
                for name, labels in ensemble.clusterings.items()
            }
            gamma = now + draws * classes + sum(phi.values(), start=np.zeros(gamma.shape))
        elif draws:
            gamma, phi, classes = e_step_with_classes(
                ensemble, now, tables, confusion, gamma, draws, bits=bits, max_sweeps=max_sweeps
            )
        else:
            gamma, phi = e_step(ensemble, now, tables, gamma, bits=bits, max_sweeps=max_sweeps)
        bounds.append(bound(ensemble, now, tables, gamma, phi, smoothing, confusion, classes, draws))
        if step == max_rounds - 1 or (step and abs(bounds[-1] - bounds[-2]) <= tolerance * abs(bounds[-1])):
            break
        if decide and not step:
            draws = decide([gain(every, labels, n_clusters[name]) for name, labels in ensemble.clusterings.items()])
        expected = on_grid(psi(gamma) - psi(add_classes(gamma))[:, None], bits)
        if maximize:
            now = maximize(now, expected.sum(axis=0) / ensemble.n)
        tables = {
            name: maximize_beta(expected_counts(phi[name], w, n_clusters[name], bits), smoothing)
            for name, w in ensemble.clusterings.items()
        }
        for name in confusion:
            counts = expected_counts(classes, ensemble.classifiers[name], k, bits) + prior
            confusion[name] = counts / counts.sum(axis=1, keepdims=True)
    return Result(now, tables, gamma, bounds, confusion)
