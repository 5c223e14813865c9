"""A gate by the density of an expert's rows around a point, estimated from the expert's moments; it needs no rows.

The rows of expert i are modeled as n_i draws from N(m_i, S_i). Their density around a point x, in a Gaussian window of
`WINDOW` times the kernel's length-scales ell, has the closed form

    n_i N(x; m_i, S_i + Lambda),    Lambda = diag((WINDOW ell)^2).

The score is its logarithm: the discriminant of classes n_i N(m_i, S_i), restricted to the neighborhood that matters to
a Gaussian process. Lambda makes the score well defined for an expert with one row, or with fewer rows than inputs, and
removes inputs that do not matter to the kernel.

The table compares it with nearest centroids and with the linear and the quadratic discriminant of the moments (ridge
.01, the quadratic one shrunk towards the pooled covariance): mean over 2 to 8 splits of the MSLL less that of all
experts, with NPAE on k-means partitions.

=========  ================  ===============  =============  ==============  ===============  ==============
gate       concrete M10 K6   concrete M10 K3  airfoil M5 K3  airfoil M10 K3  pumadyn M10 K5   protein M20 K4
=========  ================  ===============  =============  ==============  ===============  ==============
this            -.009             -.028          +.001           +.001           -.0016           -.0020
nearest         -.015             -.020          +.004           +.004           +.0032           -.0011
linear          -.012             -.025          +.002           +.029           +.0032           -.0003
quadratic       -.011             -.029          +.008           +.024           +.0015           -.0024
=========  ================  ===============  =============  ==============  ===============  ==============
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64

from numerics.gp.moments import ExpertMoments

WINDOW = 0.5
"""Width of the window in length-scales; .3 to .7 give equal scores, 1 and more are worse on concrete and airfoil."""


def scores(
    points: Float64[np.ndarray, "N d"], experts: ExpertMoments, lengths: Float64[np.ndarray, "d"]
) -> Float64[np.ndarray, "N M"]:
    """Score every expert at every point by the logarithm of its row density.

    Parameters
    ----------
    points : ndarray
        ``(N, d)``, standardized units.
    experts : ExpertMoments
        Moments of the M experts, standardized units.
    lengths : ndarray
        ``(d,)`` the kernel's length-scales, positive; very large or infinite for an input that does not matter.

    Returns
    -------
    ndarray
        ``(N, M)``, the larger the better, without the term that is the same for all experts at a point.

    Examples
    --------
    >>> from numerics.gp.moments import moments_of
    >>> experts = moments_of(np.array([[-1.0], [-2.0], [1.0], [2.0]]), np.zeros(4), np.array([0, 0, 1, 1]))
    >>> scores(np.array([[-1.5], [3.0]]), experts, lengths=np.ones(1)).argmax(axis=1)
    array([0, 1])
    """
    window = WINDOW * lengths
    # In units of the window Lambda is the identity, whatever the lengths are. Rounding or a site may cause negative
    # eigenvalues, and short windows enlarge them.
    variances, axes = np.linalg.eigh(experts.covariances / (window[:, None] * window))
    spread = np.maximum(variances, 0.0) + 1.0
    rows = np.log(experts.counts) - np.log(spread).sum(axis=1) / 2
    result = np.empty((len(points), len(rows)))
    for i, mean in enumerate(experts.means):
        result[:, i] = rows[i] - (((points - mean) / window @ axes[i]) ** 2 / spread[i]).sum(axis=1) / 2
    return result
