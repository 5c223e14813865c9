"""Classes at a site of gp: leave-one-out predictions, and their log losses by the sharpness of probabilities."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float64, Int64

from clients.gp.experts import Part, rows_left_out
from numerics.gp.dirichlet import SHARPNESS, LatentUnits, losses_by_sharpness


def latent_left_out(
    rows: Part, kernel: str, theta: tuple[float, ...], local: int
) -> tuple[Float64[np.ndarray, "n k"], Float64[np.ndarray, "n k"], Int64[np.ndarray, "n"]]:
    """Predict the latent functions at an expert's rows, left out; return mean, variance, and the rows' classes.

    An expert of nearest rows (`local`) predicts a sample of its rows.

    Raises
    ------
    SiteFault, numpy.linalg.LinAlgError
        If the rows cannot be factorized with these hyperparameters.
    """
    means, variances = [], []
    for each in rows.outputs:
        left_out = rows_left_out(each, kernel, theta, local)
        assert each.noise is not None  # noqa: S101 - outputs of classes have one
        places = left_out.rows
        known = each.noise[places] + np.exp(2 * theta[-1])
        means.append(each.y[places] - left_out.errors)
        variances.append(np.maximum(left_out.variances - known, 0.0))
    # A row's own class has the output with the least noise.
    assert rows.noise is not None  # noqa: S101 - as above
    return np.column_stack(means), np.column_stack(variances), rows.noise[places].argmin(axis=1)


def losses_left_out(
    experts: Sequence[Part], kernel: str, theta: tuple[float, ...], local: int, units: LatentUnits
) -> Float64[np.ndarray, "21"]:
    """Return the sum of the leave-one-out log losses of the rows, for each of `SHARPNESS`."""
    totals = np.zeros(len(SHARPNESS))
    for rows in experts:
        mean, variance, own = latent_left_out(rows, kernel, theta, local)
        totals += losses_by_sharpness(mean, variance, units, own)
    return totals
