"""Synthetic data: half moons, Friedman's functions, scans."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64, Int64

from scenarios.tables import Table


def halfmoon(
    n: int, noise: float, rng: np.random.Generator
) -> tuple[Float64[np.ndarray, "n 2"], Int64[np.ndarray, "n"]]:
    """Draw two interleaving half circles of radius 1 in the plane, points evenly spaced along each.

    The same curves as `sklearn.datasets.make_moons`, which takes no `Generator`.

    Parameters
    ----------
    n : int
        Number of instances; class 0 has ``n // 2`` of them.
    noise : float
        Standard deviation of the Gaussian noise that is added to both coordinates.
    rng : numpy.random.Generator
        Draws the noise.

    Returns
    -------
    inputs : ndarray
        ``(n, 2)``, the instances of class 0 first.
    classes : ndarray
        ``(n,)``, 0 for the upper and 1 for the lower half moon.

    Examples
    --------
    >>> inputs, classes = halfmoon(4, 0.0, np.random.default_rng(0))
    >>> inputs.round(3).tolist(), classes.tolist()
    ([[1.0, 0.0], [-1.0, 0.0], [0.0, 0.5], [2.0, 0.5]], [0, 0, 1, 1])
    """
    n_upper = n // 2
    upper, lower = np.linspace(0, np.pi, n_upper), np.linspace(0, np.pi, n - n_upper)
    x = np.concatenate([np.cos(upper), 1 - np.cos(lower)])
    y = np.concatenate([np.sin(upper), 0.5 - np.sin(lower)])
    inputs = np.column_stack([x, y]) + rng.normal(scale=noise, size=(n, 2))
    return inputs, np.repeat(np.arange(2, dtype=np.int64), [n_upper, n - n_upper])


def friedman1(x: Float64[np.ndarray, "n p"]) -> Float64[np.ndarray, "n"]:
    """Return ``10 sin(pi X1 X2) + 20 (X3 - 1/2)^2 + 10 X4 + 5 X5`` of the first five columns (Friedman 1991)."""
    bump = 10 * np.sin(np.pi * x[:, 0] * x[:, 1]) + 20 * (x[:, 2] - 0.5) ** 2
    return np.asarray(bump + 10 * x[:, 3] + 5 * x[:, 4])


def friedman2(x: Float64[np.ndarray, "n p"]) -> Float64[np.ndarray, "n"]:
    """Return ``sqrt(X1^2 + (X2 X3 - 1 / (X2 X4))^2)`` of the first four columns (Friedman 1991)."""
    return np.asarray(np.hypot(x[:, 0], _friedman_u(x)))


def friedman3(x: Float64[np.ndarray, "n p"]) -> Float64[np.ndarray, "n"]:
    """Return ``arctan((X2 X3 - 1 / (X2 X4)) / X1)`` of the first four columns (Friedman 1991)."""
    return np.asarray(np.arctan(_friedman_u(x) / x[:, 0]))


def _friedman_u(x: Float64[np.ndarray, "n p"]) -> Float64[np.ndarray, "n"]:
    return np.asarray(x[:, 1] * x[:, 2] - 1 / (x[:, 1] * x[:, 3]))


def synthetic_ct(n_scans: int, n_slices: int) -> Table:
    """Return data in the shape of the CT slices, with three known groups of scans; nothing in them is anatomy.

    A slice lies at u ~ U(0, 1) of its scan. Each of the 384 inputs is a smooth hump in u, the same in all scans except
    for its height: ``height_s exp(-((u - center) / 0.15)^2) + N(0, 0.05^2)``, with the centers evenly spaced from 0 to
    1 and height_s ~ U(0.8, 1.2) for each scan and input. The groups differ in where a slice with these inputs lies:
    ``reference`` is 30 + 50 u in the first group, 70 + 50 u in the second (the same section, higher up by the scanner's
    count), 120 - 50 u in the third (scanned the other way round), plus N(0, 1).

    The data are the same in every run, as a file would be.

    Parameters
    ----------
    n_scans : int
        Number of scans.
    n_slices : int
        Slices of each.

    Returns
    -------
    Table
        ``n_scans * n_slices`` slices, scan by scan; `unit` is the scan, from 0.
    """
    p, starts, slopes = 384, np.array([30.0, 70.0, 120.0]), np.array([50.0, 50.0, -50.0])
    centers = np.linspace(0.0, 1.0, p)
    x, y = np.empty((n_scans, n_slices, p)), np.empty((n_scans, n_slices))
    for scan, group in enumerate(synthetic_ct_groups(n_scans)):
        rng = np.random.default_rng([206, scan])
        u = rng.uniform(size=n_slices)
        humps = np.exp(-(((u[:, np.newaxis] - centers) / 0.15) ** 2))
        x[scan] = rng.uniform(0.8, 1.2, size=p) * humps + rng.normal(scale=0.05, size=(n_slices, p))
        y[scan] = starts[group] + slopes[group] * u + rng.normal(size=n_slices)
    scans = np.repeat(np.arange(n_scans, dtype=np.float64), n_slices)
    return Table(x.reshape(-1, p), tuple(f"value{j}" for j in range(p)), y.ravel(), unit=scans)


def synthetic_ct_groups(n_scans: int) -> Int64[np.ndarray, "n_scans"]:
    """Return the group, 0 to 2, of each scan of `synthetic_ct`: half are in the first, a third in the second."""
    return np.resize(np.array([0, 1, 0, 1, 0, 2], np.int64), n_scans)
