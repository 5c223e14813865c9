"""Attacks by crafted hyperparameters, by splits of the rows, by residuals, and by what a site says of its outliers."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from jaxtyping import Float64

from consilience.attack.gp.likelihoods import likelihoods
from consilience.attack.gp.outliers import gains, outliers
from consilience.attack.gp.predictions import isolation, neighbors, plausible, slices, surroundings
from consilience.attack.gp.sizes import sizes
from consilience.attack.gp.splits import splits
from consilience.attack.interface import Attack
from numerics.gp.measurements import Measurements


def true_rows(shard: Measurements) -> Float64[np.ndarray, "n q"]:
    """Return inputs and output of every row (`consilience.attack.interface`); of a class its place."""
    return np.column_stack([shard.x, shard.y])


ATTACKS: Mapping[str, Attack] = {
    "isolation": isolation,
    "plausible": plausible,
    "neighbors": neighbors,
    "surroundings": surroundings,
    "likelihoods": likelihoods,
    "slices": slices,
    "splits": splits,
    "sizes": sizes,
    "outliers": outliers,
    "gains": gains,
}
"""By name (`consilience.attack.interface`)."""
