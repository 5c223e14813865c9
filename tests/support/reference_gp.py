"""Gaussian process experts in one place, as plain as possible: what whole runs are held against.

Written from specs/gp.md and papers/gp_experts.txt: eq. 1 with its derivatives element by element, eq. 2 and 3, eq. 7
point after point, the products of experts and committee machines, and the gate's network. It shares no code with
`numerics`. Everything is in standardized units, which `units` gives.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float64, Int64
from scipy.optimize import Bounds, minimize

Theta = Float64[np.ndarray, "p"]
"""(log ell_1..log ell_d, log s, log sigma)."""
Points = Float64[np.ndarray, "n d"]
Outputs = Float64[np.ndarray, "n"]
Rows = tuple[Points, Outputs]
"""Inputs and outputs of one expert."""
JITTER = 1e-10


class Units(NamedTuple):
    """Mean and standard deviation of all rows; 1 where nothing varies."""

    mean: Float64[np.ndarray, "d"]
    scale: Float64[np.ndarray, "d"]
    y_mean: float
    y_scale: float

    def of(self, rows: Rows) -> Rows:
        """Rows in these units."""
        return (rows[0] - self.mean) / self.scale, (rows[1] - self.y_mean) / self.y_scale


def units(experts: Sequence[Rows]) -> Units:
    """Of the rows of all experts, put together."""
    x, y = together(experts)
    scale = np.where(np.ptp(x, axis=0) > 0, x.std(axis=0), 1.0)
    return Units(x.mean(axis=0), scale, float(y.mean()), float(y.std()) if np.ptp(y) > 0 else 1.0)


def together(experts: Sequence[Rows]) -> Rows:
    """All rows as those of one expert."""
    return np.concatenate([x for x, _ in experts]), np.concatenate([y for _, y in experts])


# -- one Gaussian process ---------------------------------------------------------------------------------------------


def covariance(theta: Theta, x: Points, z: Points) -> Float64[np.ndarray, "n m"]:
    """``s^2 exp(-1/2 sum_d (x_d - z_d)^2 / ell_d^2)``."""
    squared = ((x[:, np.newaxis] - z) / np.exp(theta[:-2])) ** 2
    return np.asarray(np.exp(2 * theta[-2]) * np.exp(-squared.sum(axis=2) / 2))


def noise(theta: Theta) -> float:
    """sigma^2."""
    return float(np.exp(2 * theta[-1]))


def log_likelihood(theta: Theta, x: Points, y: Outputs) -> float:
    """Eq. 1."""
    Z = covariance(theta, x, x) + noise(theta) * np.eye(len(y))
    return float(-0.5 * y @ np.linalg.solve(Z, y) - 0.5 * np.linalg.slogdet(Z)[1] - 0.5 * len(y) * np.log(2 * np.pi))


def derivatives(theta: Theta, x: Points, y: Outputs) -> tuple[Theta, Float64[np.ndarray, "p p"]]:
    """Gradient of eq. 1 and the average information ``1/2 (dZ_p a)' Z^-1 (dZ_q a)``, ``a = Z^-1 y``."""
    K = covariance(theta, x, x)
    inverse = np.linalg.inv(K + noise(theta) * np.eye(len(y)))
    a = inverse @ y
    by = [K * (x[:, np.newaxis, j] - x[:, j]) ** 2 / np.exp(2 * theta[j]) for j in range(x.shape[1])]
    by += [2 * K, 2 * noise(theta) * np.eye(len(y))]
    gradient = np.array([0.5 * a @ dZ @ a - 0.5 * np.trace(inverse @ dZ) for dZ in by])
    moved = np.stack([dZ @ a for dZ in by])
    return gradient, np.asarray(0.5 * moved @ inverse @ moved.T)


def best(experts: Sequence[Rows], start: Theta) -> float:
    """Largest sum over the experts of the log likelihood, per row, by L-BFGS-B from `start` within the bounds."""
    d = experts[0][0].shape[1]
    box = np.log([(1e-3, 1e4)] * d + [(1e-3, 1e3), (1e-3, 1e3)])

    def loss(theta: Theta) -> tuple[float, Theta]:
        value = sum(log_likelihood(theta, *rows) for rows in experts)
        return -value, -np.sum([derivatives(theta, *rows)[0] for rows in experts], axis=0)

    options: Any = {"ftol": 1e-12, "gtol": 1e-6}
    found = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=Bounds(*box.T), options=options)
    return -float(found.fun) / sum(len(y) for _, y in experts)


class Answer(NamedTuple):
    """Mean and explained variance of an expert at some points, and the weights ``(n, q)`` of its rows."""

    mean: Outputs
    explained: Outputs
    weights: Float64[np.ndarray, "n q"]


def predict(theta: Theta, rows: Rows, points: Points) -> Answer:
    """Eq. 2 and 3."""
    x, y = rows
    seen = covariance(theta, x, points)
    weights = np.linalg.solve(covariance(theta, x, x) + noise(theta) * np.eye(len(y)), seen)
    return Answer(weights.T @ y, (weights * seen).sum(axis=0), weights)


def full(theta: Theta, rows: Rows, points: Points) -> tuple[Outputs, Outputs]:
    """Mean and variance of an observation by the process of all these rows."""
    answer = predict(theta, rows, points)
    return answer.mean, np.exp(2 * theta[-2]) - answer.explained + noise(theta)


# -- several ----------------------------------------------------------------------------------------------------------


def nearest(points: Points, experts: Sequence[Rows]) -> Int64[np.ndarray, "N M"]:
    """All experts by the distance of their rows' mean (Algorithm 2)."""
    centroids = np.stack([x.mean(axis=0) for x, _ in experts])
    return np.asarray(((points[:, np.newaxis] - centroids) ** 2).sum(axis=2).argsort(axis=1, kind="stable"))


def npae(
    theta: Theta, experts: Sequence[Rows], points: Points, selected: Int64[np.ndarray, "N K"]
) -> tuple[Outputs, Outputs]:
    """Eq. 7 at one point after the other, by the experts chosen for it; variance of an observation."""
    answers = [predict(theta, rows, points) for rows in experts]
    prior = np.exp(2 * theta[-2])
    means, variances = np.zeros(len(points)), np.zeros(len(points))
    for t, chosen in enumerate(selected):
        some = [int(i) for i in chosen if i >= 0]
        r = np.array([answers[i].explained[t] for i in some])
        mu = np.array([answers[i].mean[t] for i in some])
        R = np.diag(r)
        for p, i in enumerate(some):
            for q, j in enumerate(some[:p]):
                between = covariance(theta, experts[i][0], experts[j][0])
                R[p, q] = R[q, p] = answers[i].weights[:, t] @ between @ answers[j].weights[:, t]
        unit = np.sqrt(r)
        weights = np.linalg.solve(R / np.outer(unit, unit) + JITTER * np.eye(len(some)), r / unit) / unit
        means[t], variances[t] = weights @ mu, prior - weights @ r + noise(theta)
    return means, variances


def independent(
    rule: str, theta: Theta, experts: Sequence[Rows], points: Points, selected: Int64[np.ndarray, "N K"]
) -> tuple[Outputs, Outputs]:
    """Products of experts and committee machines, of predictions of an observation."""
    answers = [predict(theta, rows, points) for rows in experts]
    prior = np.exp(2 * theta[-2]) + noise(theta)
    means, variances = np.zeros(len(points)), np.zeros(len(points))
    for t, chosen in enumerate(selected):
        some = [int(i) for i in chosen if i >= 0]
        mu = np.array([answers[i].mean[t] for i in some])
        s2 = prior - np.array([answers[i].explained[t] for i in some])
        beta = {
            "poe": np.ones(len(some)),
            "bcm": np.ones(len(some)),
            "gpoe": np.full(len(some), 1 / len(some)),
            "rbcm": (np.log(prior) - np.log(s2)) / 2,
        }[rule]
        precision = (beta / s2).sum() + ((1 - beta.sum()) / prior if rule in ("bcm", "rbcm") else 0)
        means[t], variances[t] = (beta * mu / s2).sum() / precision, 1 / precision
    return means, variances


def grbcm(
    theta: Theta, shared: Rows, experts: Sequence[Rows], points: Points, selected: Int64[np.ndarray, "N K"]
) -> tuple[Outputs, Outputs]:
    """Liu et al. 2018; every one of the `experts` has the `shared` rows beside its own."""
    answers = [predict(theta, rows, points) for rows in experts]
    common = predict(theta, shared, points)
    prior = np.exp(2 * theta[-2]) + noise(theta)
    means, variances = np.zeros(len(points)), np.zeros(len(points))
    for t, chosen in enumerate(selected):
        mu = np.array([answers[i].mean[t] for i in chosen])
        s2 = prior - np.array([answers[i].explained[t] for i in chosen])
        s2_c = prior - common.explained[t]
        beta = (np.log(s2_c) - np.log(s2)) / 2
        beta[0] = 1
        precision = (beta / s2).sum() - (beta.sum() - 1) / s2_c
        means[t] = ((beta * mu / s2).sum() - (beta.sum() - 1) * common.mean[t] / s2_c) / precision
        variances[t] = 1 / precision
    return means, variances


# -- the gate's network -----------------------------------------------------------------------------------------------


def cross_entropy(
    weights: Float64[np.ndarray, "w"], x: Points, label: Int64[np.ndarray, "n"], hidden: int, M: int
) -> tuple[float, Float64[np.ndarray, "w"]]:
    """Sum over rows, and its gradient: one hidden layer (weights, then offsets) of ReLU, a second, softmax."""
    d = x.shape[1]
    V, a, W, b = np.split(weights, np.cumsum([d * hidden, hidden, hidden * M]))
    V, W = V.reshape(d, hidden), W.reshape(hidden, M)
    before = x @ V + a
    inner = np.where(before > 0, before, 0)
    odds = np.exp(inner @ W + b)
    share = odds / odds.sum(axis=1, keepdims=True)
    own = np.eye(M)[label]
    back = ((share - own) @ W.T) * (before > 0)
    gradient = [x.T @ back, back.sum(axis=0), inner.T @ (share - own), (share - own).sum(axis=0)]
    return -float(np.log((share * own).sum(axis=1)).sum()), np.concatenate([each.ravel() for each in gradient])


# -- how good ---------------------------------------------------------------------------------------------------------


def smse(y: Outputs, mean: Outputs) -> float:
    """Mean squared error in variances of the test outputs."""
    return float(((y - mean) ** 2).mean() / y.var())


def msll(y: Outputs, mean: Outputs, variance: Outputs, training: Outputs) -> float:
    """Mean of the log loss less that of the training outputs' own mean and variance."""
    loss = np.log(2 * np.pi * variance) + (y - mean) ** 2 / variance
    trivial = np.log(2 * np.pi * training.var()) + (y - training.mean()) ** 2 / training.var()
    return float((loss - trivial).mean() / 2)
