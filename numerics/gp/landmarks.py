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


def offsets(n: int, lengths: Float64[np.ndarray, "d"], seed: int) -> Float64[np.ndarray, "n d"]:
    """Offsets of n landmarks from any query point.

    A quasi-random normal cloud whose width in each input is the kernel's length, or the inputs' own deviation where
    that is less, over the square root of the number of inputs that matter; the reach goes from near to far in equal
    factors.

    Parameters
    ----------
    n : int
        Number of landmarks, at least 1.
    lengths : ndarray
        ``(d,)`` of the kernel (`Kernel.lengths`), in standardised units.
    seed : int
        The same gives the same offsets.

    Returns
    -------
    ndarray
        ``(n, d)`` in standardised units.
    """
    d = len(lengths)
    rng = np.random.default_rng(seed)
    # Drawn by whole powers of two, which Sobol's sequence is balanced by; the first n are as good a start as any.
    uniform = Sobol(d, rng=rng).random_base2(max(1, (n - 1).bit_length()))[:n]
    normal = ndtri(np.clip(uniform, 1e-12, 1.0 - 1e-12))
    reach = rng.permutation(np.geomspace(*_REACH, n))
    mattering = max(1.0, float(np.sum(np.minimum(1.0, 1.0 / lengths) ** 2)))
    return normal * reach[:, None] * np.minimum(lengths, 1.0) / np.sqrt(mattering)
