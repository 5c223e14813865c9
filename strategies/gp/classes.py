"""Classes at the fusion center of gp: refused settings, and arrays for figures."""

from __future__ import annotations

import numpy as np
from jaxtyping import Shaped

from numerics.shared.classification import confusion, predicted_classes, reliability
from protocols.gp.settings import Settings
from strategies.errors import FusionError
from strategies.gp.outcome import GPOutcome


def refuse_keys_of_amounts(settings: Settings, target: str) -> None:
    """Refuse settings that are for amounts.

    Raises
    ------
    FusionError
        Naming the first one.

    Examples
    --------
    >>> refuse_keys_of_amounts(Settings(noise="site"), "ill")
    Traceback (most recent call last):
    strategies.errors.FusionError: gp.noise=site is for amounts, and ill has classes: leave it out
    """
    keys = {
        "gp.aggregation=grbcm": settings.aggregation == "grbcm",
        "gp.covariance=inputs": settings.disclosed,
        "gp.noise=site": settings.noise == "site",
        "gp.suggest": settings.suggest,
    }
    for key, is_set in keys.items():
        if is_set:
            raise FusionError(f"{key} is for amounts, and {target or 'the target'} has classes: leave it out")


def scored_arrays(outcome: GPOutcome) -> dict[str, Shaped[np.ndarray, "..."]]:
    """Return confusion matrix and reliability, where the classes at the points are known."""
    places = outcome.class_places
    if places is None or outcome.fused is None or outcome.queries is None:
        return {}
    probabilities = outcome.class_probabilities[outcome.queries.measured]
    return {
        "confusion": confusion(places, predicted_classes(probabilities), probabilities.shape[1]),
        "reliability": np.stack(reliability(probabilities, places)),
    }
