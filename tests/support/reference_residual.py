"""Attribute-distributed regression in one place, written from the paper as it stands: no wire, no closed forms.

papers/attribute_distributed.txt, Algorithms 1, 3 and 4, with the corrections of specs/residual.md. Every trial of the
back-search projects the outcome anew, with all rows; nothing here is fast, and nothing comes from `numerics.residual`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.ensemble import GradientBoostingRegressor, HistGradientBoostingRegressor
from sklearn.linear_model import LinearRegression
from sklearn.tree import DecisionTreeRegressor

Rows = np.ndarray
Agent = Callable[[np.ndarray], np.ndarray]
"""Fits numbers for the first rows, and predicts all rows."""

ALPHA = 0.25


def tree(x: Rows, min_leaf: int, max_leaf_nodes: int | None = None) -> Agent:
    def fit(target: np.ndarray) -> np.ndarray:
        model = DecisionTreeRegressor(min_samples_leaf=min_leaf, max_leaf_nodes=max_leaf_nodes, random_state=0).fit(
            x[: len(target)], target
        )
        return np.asarray(model.predict(x))

    return fit


def line(x: Rows) -> Agent:
    def fit(target: np.ndarray) -> np.ndarray:
        return np.asarray(LinearRegression().fit(x[: len(target)], target).predict(x))

    return fit


@dataclass
class Course:
    """What every iteration led to.

    Attributes
    ----------
    curve : list of ndarray
        ``(3,)`` mean squared errors on the rows learned from, validation and test rows.
    beta : list of ndarray
        ``(D,)`` coefficients.
    fits : list of ndarray
        ``(D, N)`` the agents' predictions of the rows learned from.
    """

    curve: list[np.ndarray] = field(default_factory=list)
    beta: list[np.ndarray] = field(default_factory=list)
    fits: list[np.ndarray] = field(default_factory=list)

    def best(self, kind: int) -> int:
        return int(np.argmin([errors[kind] for errors in self.curve]))


@dataclass(frozen=True)
class World:
    """All there is: agents, outcomes of all rows, and how many rows are learned from and validated on."""

    agents: Sequence[Agent]
    y: np.ndarray
    n_fit: int
    n_validation: int = 0
    intercept: bool = True

    @property
    def mean(self) -> float:
        return float(np.mean(self.y[: self.n_fit])) if self.intercept else 0.0

    def errors(self, residual: np.ndarray) -> np.ndarray:
        parts = (
            residual[: self.n_fit],
            residual[self.n_fit : self.n_fit + self.n_validation],
            residual[self.n_fit + self.n_validation :],
        )
        return np.array([np.mean(part**2) if len(part) else np.nan for part in parts])


def stops(errors: Sequence[float], patience: int) -> bool:
    """Whether for `patience` iterations no error was below the smallest by more than a ten-thousandth of it."""
    smallest, since = np.inf, 0
    for error in errors:
        if error < smallest * (1 - 1e-4):
            smallest, since = error, 0
        else:
            since += 1
    return since >= patience


# -- Algorithm 1 ------------------------------------------------------------------------------------------------------


def sequential(
    world: World, *, greedy: bool, rounds: int, nu: float = 1.0, steps: int = 1, patience: int = 0, kind: int = 0
) -> Course:
    """Simple Iterative Projection (eq. 22), or greedy (eq. 23).

    `patience` 0: as many iterations as `rounds` says; else it stops by the errors of `kind`, where sip has a whole turn
    of patience at least.
    """
    n, D = world.n_fit, len(world.agents)
    left = world.y - world.mean
    sums = np.zeros((D, len(left)))
    course = Course([world.errors(left)], [np.zeros(D)], [sums[:, :n].copy()])

    def attempt(j: int) -> np.ndarray:
        total, now = np.zeros(len(left)), left.copy()
        for _ in range(steps):
            step = nu * world.agents[j](now[:n])
            total, now = total + step, now - step
        return total

    for t in range(rounds):
        if greedy:
            tried = [attempt(j) for j in range(D)]
            left_by = [float(np.sum((left - step)[:n] ** 2)) for step in tried]
            j = int(np.argmin(left_by))
            if left_by[j] >= float(np.sum(left[:n] ** 2)):
                break
            step = tried[j]
        else:
            j = t % D
            step = attempt(j)
        left = left - step
        sums[j] += step
        course.curve.append(world.errors(left))
        course.fits.append(sums[:, :n].copy())
        course.beta.append(np.any(course.fits[-1] != 0, axis=1).astype(float))
        waits = patience if greedy else max(patience, D)
        if patience and stops([errors[kind] for errors in course.curve], waits):
            break
    return course


# -- boosting with a gate ---------------------------------------------------------------------------------------------


def chosen_trees(
    x: np.ndarray, y: np.ndarray, n: int, *, steps: bool = False
) -> tuple[np.ndarray, HistGradientBoostingRegressor]:
    """Boosting whose trees rows from n on choose: their predictions by trees of the first n rows, and a fit to all."""

    def fit(rows: slice, trees: int, leaves: int, leaf: int, share: float) -> HistGradientBoostingRegressor:
        model = HistGradientBoostingRegressor(
            max_iter=trees, max_leaf_nodes=leaves, min_samples_leaf=leaf, max_features=share, early_stopping=False,
            random_state=0,
        )  # fmt: skip
        return model.fit(x[rows], y[rows])

    def best_of(*size: Any) -> tuple[np.ndarray, np.ndarray, int, tuple[Any, ...]]:
        stages = list(fit(slice(n), 400, *size).staged_predict(x[n:]))
        errors = [np.mean((y[n:] - each) ** 2) for each in stages]
        if np.argmin(errors[:100]) < 79:  # the error of later ones is not looked at
            errors = errors[:100]
        best = int(np.argmin(errors))
        return (y[n:] - stages[best]) ** 2, stages[best], best + 1, size

    sizes = [(31, 20, 1.0), (8, 20, 1.0)] if steps else [(31, 5, 0.5), (8, 5, 0.5)]
    chosen = min((best_of(*size) for size in sizes), key=lambda each: float(np.mean(each[0])))
    if not steps and notable(chosen[0] - (plain := best_of(31, 20, 1.0))[0]):
        chosen = plain
    return chosen[1], fit(slice(None), chosen[2], *chosen[3])


def notable(gain: np.ndarray, gate: float = 1.0) -> bool:
    """Whether gains, of a row each, are more in the mean than so many standard errors."""
    return bool(np.mean(gain) > gate * np.std(gain, ddof=1) / np.sqrt(len(gain)))


def boosted(world: World, *, rounds: int, nu: float = 0.2, patience: int = 6) -> tuple[Course, np.ndarray]:
    """Gated parallel boosting: the course of the sums, and the errors after the finish."""
    n, m = world.n_fit, world.n_fit + world.n_validation
    left = world.y - world.mean
    course, taken = Course([world.errors(left)], [], []), []
    for _ in range(rounds):
        steps = {j: agent(left[:n]) for j, agent in enumerate(world.agents)}
        gains = {j: (left**2 - (left - nu * step) ** 2)[n:m] for j, step in steps.items()}
        good = {j: steps[j] for j, gain in gains.items() if notable(gain, min(1.0, (m - n) / 100))}
        if not good:
            break
        fits = np.array(list(good.values()))
        left = left - nu * coefficients(fits[:, :n], left[:n], 1e-3) @ fits
        taken.append((good, left))
        course.curve.append(world.errors(left))
        if stops([errors[1] for errors in course.curve], patience):
            break
    best = course.best(1)
    if not best:
        return course, course.curve[0]
    # An agent's steps stand side by side, in the order of the iterations.
    columns = [good[j] for j in range(len(world.agents)) for good, _ in taken[:best] if j in good]
    left = taken[best - 1][1]
    x = np.array(columns).T
    judged, finish = chosen_trees(x[:m], left[:m], n, steps=True)
    error = np.mean((left[n:m] - judged) ** 2)
    if not notable(left[n:m] ** 2 - (left[n:m] - judged) ** 2, min(1.0, (m - n) / 100)):
        return course, course.curve[best]
    errors = world.errors(left - finish.predict(x))
    return course, np.array([errors[0], error, errors[2]])


# -- Algorithms 3 and 4 -----------------------------------------------------------------------------------------------


def coefficients(F: np.ndarray, y: np.ndarray, ridge: float) -> np.ndarray:
    """Eq. (35) by stacked rows: ``min |y - F' beta|^2 + lambda |beta|^2``, of minimum norm where lambda is 0."""
    D = len(F)
    lam = ridge * float(np.mean(np.sum(F**2, axis=1)))
    stacked = np.vstack([F.T, np.sqrt(lam) * np.eye(D)])
    return np.asarray(np.linalg.lstsq(stacked, np.concatenate([y, np.zeros(D)]), rcond=None)[0])


def explained(F: np.ndarray, y: np.ndarray) -> float:
    """``E(F) = y' P_F y``, P_F the projection on the agents' predictions."""
    basis, sizes, _ = np.linalg.svd(F.T, full_matrices=False)
    inside = basis[:, sizes > 1e-10 * sizes.max(initial=0.0)].T @ y
    return float(inside @ inside)


def back_search(F: np.ndarray, y: np.ndarray, beta: np.ndarray, shares: np.ndarray) -> float:
    """Algorithm 4, each trial with all rows; the slope is the true one, ``|r|^2 W.beta``, of p = 1 ``|dF|^2``."""
    r = y - beta @ F
    dF = np.outer(shares, r)
    slope = float(r @ r) * float(shares @ beta)
    if not slope > 0:
        return 0.0
    delta, now = 1.0, explained(F, y)
    for _ in range(61):
        if explained(F + delta * dF, y) >= now + ALPHA * delta * slope:
            return delta
        delta /= 2
    return 0.0


def weights(beta: np.ndarray, p: float) -> np.ndarray:
    """Eq. (37)."""
    return np.asarray(np.sign(beta) * np.abs(beta) ** p)


def parallel(
    world: World,
    *,
    p: float,
    rounds: int,
    ridge: float = 0.0,
    full: bool = False,
    patience: int = 0,
    kind: int = 0,
) -> Course:
    """Algorithm 3; `full`: ``delta = 1 / W.beta`` instead of Algorithm 4."""
    n = world.n_fit
    y = world.y - world.mean
    F = np.array([agent(y[:n]) for agent in world.agents])
    course = Course()
    for t in range(rounds + 1):
        beta = coefficients(F[:, :n], y[:n], ridge)
        r = y - beta @ F
        course.curve.append(world.errors(r))
        course.beta.append(beta)
        course.fits.append(F[:, :n].copy())
        if t == rounds or (patience and stops([errors[kind] for errors in course.curve], patience)):
            break
        shares = weights(beta, p)
        delta = 1 / float(shares @ beta) if full else back_search(F[:, :n], y[:n], beta, shares)
        if delta == 0:
            break
        F = np.array([agent(F[j, :n] + delta * shares[j] * r[:n]) for j, agent in enumerate(world.agents)])
    return course


# -- without collaboration --------------------------------------------------------------------------------------------


def once(world: World, algorithm: str, *, min_leaf: int = 1, ridge: float = 0.0) -> Course:
    """Average, meta-linear or meta-boosting (section II-A)."""
    n = world.n_fit
    y = world.y - world.mean
    F = np.array([agent(y[:n]) for agent in world.agents])
    beta = np.zeros(len(F))
    if algorithm == "meta-boosting":
        boosted = GradientBoostingRegressor(
            n_estimators=60, learning_rate=0.25, max_depth=None, min_samples_leaf=min_leaf, random_state=0
        )
        predicted = boosted.fit(F[:, :n].T, y[:n]).predict(F.T)
    else:
        beta = np.full(len(F), 1 / len(F)) if algorithm == "average" else coefficients(F[:, :n], y[:n], ridge)
        predicted = beta @ F
    return Course([world.errors(y - predicted)], [beta], [F[:, :n]])


# -- rows -------------------------------------------------------------------------------------------------------------


def agreed_order(n: int, holdout: float, seed: int = 0) -> tuple[np.ndarray, int]:
    """Which of the n common rows come in which place, and how many are learned from: shuffled by the seed."""
    rng = np.random.default_rng([seed, 4])
    n_learn = n - round(holdout * n)
    learned, held = np.split(rng.permutation(n), [n_learn])
    return np.concatenate([rng.permutation(learned), held]), n_learn
