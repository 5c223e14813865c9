"""Landmarks around every query point: where experts say what they know of the function beyond its value there.

The same offsets surround every point, so landmarks are nobody's rows and the center can send them, a few hundred
numbers, in its ask. Landmarks around the point were seen to be worth many times as many common to all points, and to
serve better than the nearest of a pool drawn from the sites' Gaussians: rows that matter to a prediction lie within
about a length of it, and few draws do where the inputs have a pattern of their own.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64
from scipy.special import ndtri
from scipy.stats.qmc import Sobol

DEFAULT = 32
"""Landmarks, where nobody says how many."""
_REACH = (0.2, 1.5)
"""Of the nearest and the farthest landmarks, in lengths: near ones tell slopes, far ones the rest."""


def offsets(
    n: int, lengths: Float64[np.ndarray, "d"], seed: int, spread: Float64[np.ndarray, "d"] | None = None
) -> Float64[np.ndarray, "n d"]:
    """Offsets of n landmarks from any query point.

    A quasi-random normal cloud whose width in each input is the kernel's length, or the input's own deviation where
    that is less, over the square root of the number of inputs that matter; from near to far in equal factors.

    Parameters
    ----------
    n : int
        Number of landmarks, at least 1.
    lengths : ndarray
        ``(d,)`` of the kernel (`Kernel.lengths`).
    seed : int
        The same gives the same offsets.
    spread : ndarray, optional
        ``(d,)`` deviations of the inputs, 1 unless given; 0 for one that never varies, in which landmarks then do not
        differ.

    Returns
    -------
    ndarray
        ``(n, d)`` in the units of the inputs.
    """
    d = len(lengths)
    spread = np.ones(d) if spread is None else spread
    rng = np.random.default_rng(seed)
    # Drawn by whole powers of two, which Sobol's sequence is balanced by; the first n are as good a start as any.
    uniform = Sobol(d, rng=rng).random_base2(max(1, (n - 1).bit_length()))[:n]
    normal = ndtri(np.clip(uniform, 1e-12, 1.0 - 1e-12))
    reach = rng.permutation(np.geomspace(*_REACH, n))
    mattering = max(1.0, float(np.sum(np.minimum(1.0, spread / lengths) ** 2)))
    cloud: Float64[np.ndarray, "n d"] = normal * reach[:, None] * np.minimum(lengths, spread) / np.sqrt(mattering)
    return cloud
