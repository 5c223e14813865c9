"""Synthetic learners for benchmarks/decisions.py: their true clusters, numbers of rows, and noise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import repeat

import numpy as np
from jaxtyping import Float64

from numerics.shared.regression_rows import RegressionRows

TEST_ROWS = 400
"""Test rows of each learner."""

Function = Callable[[Float64[np.ndarray, "n p"]], Float64[np.ndarray, "n"]]


@dataclass(frozen=True, eq=False)
class World:
    """Learners with rows of their own.

    Attributes
    ----------
    rows : sequence of RegressionRows
        Training rows, and test rows with outcomes without noise.
    noise : sequence of float
        Variance of each learner's noise, in squared units of its outcome.
    truth : sequence of int
        True clusters.
    candidates : str
        Methods that the learners choose from.
    landmarks : bool
        Whether they only try the models of some learners, the landmarks.
    held_out : int
        Number of training rows, the last of each learner, that judge the recommendation. Models are fitted to them,
        too.
    """

    rows: Sequence[RegressionRows]
    noise: Sequence[float]
    truth: Sequence[int]
    candidates: str = "lr"
    landmarks: bool = False
    held_out: int = 0


def draw(
    truth: Sequence[int],
    functions: Sequence[Function],
    p: int,
    sizes: Sequence[int],
    noise: Sequence[float],
    rng: np.random.Generator,
    candidates: str = "lr",
    landmarks: bool = False,
) -> World:
    """Draw every learner's rows: standard normal inputs, and the function of its cluster with normal noise."""
    rows = []
    for group, n, variance in zip(truth, sizes, noise, strict=True):
        x = rng.standard_normal((n + TEST_ROWS, p))
        signal = functions[group](x)
        y = signal[:n] + np.sqrt(variance) * rng.standard_normal(n)
        rows.append(RegressionRows(x[:n], y, x[n:], signal[n:], tuple(f"x{j}" for j in range(p))))
    return World(rows, noise, truth, candidates, landmarks)


# -- functions --------------------------------------------------------------------------------------------------------


def linear(k: int, p: int, rng: np.random.Generator) -> list[Function]:
    """Return `k` linear functions whose coefficients are standard normal."""

    def function(beta: Float64[np.ndarray, "p"], x: Float64[np.ndarray, "n p"]) -> Float64[np.ndarray, "n"]:
        return np.asarray(x @ beta)

    return [partial(function, beta) for beta in rng.standard_normal((k, p))]


def curved(k: int, p: int, rng: np.random.Generator) -> list[Function]:
    """Return `k` functions that no linear regression fits: products and steps along random directions."""

    def function(a: Float64[np.ndarray, "4 p"], x: Float64[np.ndarray, "n p"]) -> Float64[np.ndarray, "n"]:
        first, second, third, fourth = a @ x.T
        return np.asarray(2 * np.tanh(first) * np.sign(second) + np.abs(third) + (fourth > 0))

    return [partial(function, rng.standard_normal((4, p)) / np.sqrt(p / 2)) for _ in range(k)]


# -- the worlds -------------------------------------------------------------------------------------------------------


def _groups(
    sizes_of_groups: Sequence[int], n: int | tuple[int, int], p: int, snr: float, rng: np.random.Generator
) -> World:
    """Draw groups with one linear function each; learners have `n` rows, or a log-uniform number in the range `n`."""
    truth = np.repeat(np.arange(len(sizes_of_groups)), sizes_of_groups).tolist()
    sizes = _sizes(n, len(truth), rng)
    return draw(truth, linear(len(sizes_of_groups), p, rng), p, sizes, [p / snr] * len(truth), rng)


def _labs(rng: np.random.Generator) -> World:
    """Draw the seven labs of docs/sec.md, with two lots of a catalyst whose difference is smaller than the noise."""

    def function(effects: Sequence[float], x: Float64[np.ndarray, "n p"]) -> Float64[np.ndarray, "n"]:
        return np.asarray(x @ np.array(effects))

    functions = [partial(function, effects) for effects in ((3, -2, 1, 0), (1, -2, 4, 0))]
    return draw([0, 0, 1, 0, 1, 0, 1], functions, 4, [32] * 7, [9.0] * 7, rng)


def _sizes(n: int | tuple[int, int], learners: int, rng: np.random.Generator) -> list[int]:
    if isinstance(n, int):
        return [n] * learners
    low, high = np.log(n)
    return [int(size) for size in np.exp(rng.uniform(low, high, learners))]


def _unequal_noise(ratio: float, rng: np.random.Generator) -> World:
    """Draw three groups of ten; in every second learner the noise has `ratio` times the standard deviation."""
    truth = np.repeat(np.arange(3), 10).tolist()
    noise = [5 / 64 * (ratio**2 if i % 2 else 1.0) for i in range(30)]
    return draw(truth, linear(3, 5, rng), 5, [50] * 30, noise, rng)


def _one_wrong_unit(factor: float, rng: np.random.Generator) -> World:
    """Draw three groups of ten, and a learner whose outcome has another unit and who is a cluster of its own."""
    functions = linear(3, 5, rng)
    first = functions[0]
    functions.append(lambda x: factor * first(x))
    truth = [*np.repeat(np.arange(3), 10).tolist(), 3]
    noise = [*repeat(5 / 16, 30), 5 / 16 * factor**2]
    return draw(truth, functions, 5, [50] * 31, noise, rng)


def _odd_learners(odd: int, rng: np.random.Generator) -> World:
    """Draw a group of 20, and `odd` learners each with its own function."""
    truth = [*repeat(0, 20), *range(1, odd + 1)]
    return draw(truth, linear(odd + 1, 5, rng), 5, [50] * len(truth), [5 / 16] * len(truth), rng)


def _only_noise(rng: np.random.Generator) -> World:
    """Draw three groups of ten, and two learners whose outcome is noise, each a cluster of its own."""
    functions = [*linear(3, 5, rng), *[lambda x: np.zeros(len(x))] * 2]
    truth = [*np.repeat(np.arange(3), 10).tolist(), 3, 4]
    return draw(truth, functions, 5, [50] * 32, [*repeat(5 / 16, 30), 5.0, 5.0], rng)


def _constant(rng: np.random.Generator) -> World:
    """Draw two groups of six, and a learner whose outcome is constant."""
    functions = [*linear(2, 5, rng), lambda x: np.full(len(x), 3.0)]
    truth = [*np.repeat(np.arange(2), 6).tolist(), 2]
    return draw(truth, functions, 5, [40] * 13, [*repeat(5 / 16, 12), 0.0], rng)


def _attacked(attacked: int, rng: np.random.Generator) -> World:
    """Draw fifty learners with one function, some of whom report the negative outcome."""
    (function,) = linear(1, 12, rng)
    truth = [int(i < attacked) for i in range(50)]
    if attacked:
        truth = [truth[0] ^ t for t in truth]
    functions: list[Function] = [function, lambda x: -function(x)]
    if attacked:  # the first learner is an attacked one
        functions.reverse()
    return draw(truth, functions, 12, [160] * 50, [12 / 4] * 50, rng)


def _fairness(c: float, rng: np.random.Generator) -> World:
    """Draw nine learners whose functions only differ in the effect of one input: -c, 0 or c."""
    (base,) = linear(1, 5, rng)

    def function(effect: float, x: Float64[np.ndarray, "n p"]) -> Float64[np.ndarray, "n"]:
        return np.asarray(base(x) + effect * x[:, 0])

    functions = [partial(function, effect) for effect in (-c, 0.0, c)]
    return draw(np.repeat(np.arange(3), 3).tolist(), functions, 5, [50] * 9, [1.0] * 9, rng)


def _curved(k: int, each: int, n: int, rng: np.random.Generator) -> World:
    truth = np.repeat(np.arange(k), each).tolist()
    return draw(truth, curved(k, 5, rng), 5, [n] * len(truth), [0.25] * len(truth), rng, candidates="rf lr")


def _many(learners: int, rng: np.random.Generator) -> World:
    truth = [i % 4 for i in range(learners)]
    return draw(truth, linear(4, 5, rng), 5, [40] * learners, [5 / 16] * learners, rng, landmarks=learners > 100)


WORLDS: dict[str, Callable[[np.random.Generator], World]] = {
    "one group of 12": partial(_groups, (12,), 40, 5, 1.0),
    "one group of 5, 12 rows": partial(_groups, (5,), 12, 5, 4.0),
    "one group of 5, 2000 rows": partial(_groups, (5,), 2000, 5, 4.0),
    "2 groups of 6": partial(_groups, (6, 6), 40, 5, 16.0),
    "7 labs of two lots, 32 rows": _labs,
    "2 learners, two functions": partial(_groups, (1, 1), 50, 5, 16.0),
    "2 learners, one function": partial(_groups, (2,), 50, 5, 16.0),
    "3 groups of 10, 18 rows": partial(_groups, (10, 10, 10), 18, 10, 16.0),
    "3 groups of 10, p = 20, SNR 1": partial(_groups, (10, 10, 10), 50, 20, 1.0),
    "3 groups of 10, 12 to 2000 rows": partial(_groups, (10, 10, 10), (12, 2000), 5, 16.0),
    "4 groups of 10": partial(_groups, (10, 10, 10, 10), 50, 10, 16.0),
    "5 groups of 6": partial(_groups, (6,) * 5, 50, 5, 16.0),
    "8 groups of 6": partial(_groups, (6,) * 8, 50, 10, 16.0),
    "groups of 30, 6, 2, 2": partial(_groups, (30, 6, 2, 2), 50, 5, 16.0),
    "noise 1 : 7": partial(_unequal_noise, 7.0),
    "noise 1 : 50": partial(_unequal_noise, 50.0),
    "one outcome x 1000": partial(_one_wrong_unit, 1000.0),
    "17 with their own function": partial(_odd_learners, 17),
    "two outcomes of noise": _only_noise,
    "a constant outcome": _constant,
    "0 of 50 report -y": partial(_attacked, 0),
    "10 of 50 report -y": partial(_attacked, 10),
    "49 of 50 report -y": partial(_attacked, 49),
    "effects -c, 0, c; c = .5": partial(_fairness, 0.5),
    "effects -c, 0, c; c = 2": partial(_fairness, 2.0),
    "effects -c, 0, c; c = 7": partial(_fairness, 7.0),
    "2 curved groups of 4, 100 rows": partial(_curved, 2, 4, 100),
    "3 curved groups of 3, 300 rows": partial(_curved, 3, 3, 300),
    "100 learners, 4 groups": partial(_many, 100),
    "500 learners, 4 groups, landmarks": partial(_many, 500),
}
"""Functions that draw a world, by name."""
