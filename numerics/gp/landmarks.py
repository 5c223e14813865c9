"""Landmarks around every query point, at which experts describe their knowledge of the function beyond its value.

The offsets are the same at every point. Landmarks are therefore not rows of any site, and the center sends them, a few
hundred numbers, in its ask. In experiments, landmarks around each point were as good as many times more that all points
share, and better than the nearest of a pool sampled from the sites' Gaussians: rows that matter to a prediction lie
within about a length of the point, and few samples do when the inputs have structure.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64
from scipy.special import ndtri
from scipy.stats.qmc import Sobol

DEFAULT = 32
"""Default number of landmarks."""
_REACH = (0.2, 1.5)
"""Distance of the nearest and the farthest landmarks, in lengths: near ones determine slopes."""


def offsets(
    n: int, lengths: Float64[np.ndarray, "d"], seed: int, spread: Float64[np.ndarray, "d"] | None = None
) -> Float64[np.ndarray, "n d"]:
    """Compute the offsets of n landmarks from any query point.

    The offsets are a quasi-random normal cloud. Its width in each input is the kernel's length or the input's standard
    deviation, whichever is smaller, divided by the square root of the number of relevant inputs. Distances are
    scaled from near to far in equal factors.

    Parameters
    ----------
    n : int
        Number of landmarks, at least 1.
    lengths : ndarray
        ``(d,)`` lengths of the kernel (`Kernel.lengths`).
    seed : int
        Seed of the cloud.
    spread : ndarray, optional
        ``(d,)`` standard deviations of the inputs, by default 1; 0 for a constant input, in which landmarks then do not
        differ.

    Returns
    -------
    ndarray
        ``(n, d)`` in the units of the inputs.

    Examples
    --------
    >>> cloud = offsets(32, lengths=np.array([1.0, 1.0]), seed=0, spread=np.array([1.0, 0.0]))
    >>> cloud.shape, bool(cloud[:, 0].any()), bool(cloud[:, 1].any())
    ((32, 2), True, False)
    """
    d = len(lengths)
    spread = np.ones(d) if spread is None else spread
    rng = np.random.default_rng(seed)
    # Sobol's sequence is balanced at powers of two; its first n points are used.
    uniform = Sobol(d, rng=rng).random_base2(max(1, (n - 1).bit_length()))[:n]
    normal = ndtri(np.clip(uniform, 1e-12, 1.0 - 1e-12))
    reach = rng.permutation(np.geomspace(*_REACH, n))
    mattering = max(1.0, float(np.sum(np.minimum(1.0, spread / lengths) ** 2)))
    cloud: Float64[np.ndarray, "n d"] = normal * reach[:, None] * np.minimum(lengths, spread) / np.sqrt(mattering)
    return cloud
