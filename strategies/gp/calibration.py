"""What rows that are left out say of predictions: sizes of residuals for intervals, sharpness for probabilities."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from jaxtyping import Int64

from numerics.gp.calibration import BINS
from numerics.gp.dirichlet import SHARPNESS, best_sharpness
from numerics.shared.classes import SMALLEST_PROBABILITY
from numerics.shared.exact_sum import exact_sum
from protocols.gp.payloads import Calibrate, Losses, Residuals, Sharpen
from protocols.wire.payload import PayloadError
from strategies.conversation import Check, Conversation, Tell
from strategies.gp.model import Model
from strategies.secure_aggregation import Masking, as_answer

_ROUNDING = 0.005
"""Share by which three digits may exceed a number."""


def residual_counts(model: Model, masking: Masking | None = None) -> Conversation[Int64[np.ndarray, "50"]]:
    """Return the number of leave-one-out residuals of each size, over the rows of all sites that learn.

    Parameters
    ----------
    model : Model
        Experts and hyperparameters.
    masking : Masking, optional
        Secure aggregation: the center sees the sum over sites only.
    """
    registry = model.registry
    asks = {
        site: Calibrate(**registry.agreement(site, model.max_rows), kernel=model.kernel, theta=model.fit.theta)
        for site in registry.learning
    }
    rows = {site: registry.rows_of(site) for site in asks}
    nothing = Residuals(np.zeros(BINS, np.int64))
    if masking is None:
        answers: dict[str, Residuals] = yield Tell(asks, check=check_residuals(rows), needed=False)
    else:
        total = yield from masking.total(asks, nothing)
        answers = as_answer(total, check_residuals({total.name: sum(rows[site] for site in total.sites)}))
    counts: Int64[np.ndarray, "50"] = np.sum([nothing.counts, *(each.counts for each in answers.values())], axis=0)
    return counts


def sharpness(model: Model, masking: Masking | None = None) -> Conversation[float]:
    """Return how sure class probabilities are: the sharpness with the smallest log loss of rows that are left out.

    Parameters
    ----------
    model : Model
        Experts and hyperparameters.
    masking : Masking, optional
        Secure aggregation: the center sees the sum over sites only.
    """
    registry = model.registry
    asks = {
        site: Sharpen(**registry.agreement(site, model.max_rows), kernel=model.kernel, theta=model.fit.theta)
        for site in registry.learning
    }
    rows = {site: registry.rows_of(site) for site in asks}
    nothing = Losses(np.zeros(len(SHARPNESS)))
    if masking is None:
        answers: dict[str, Losses] = yield Tell(asks, check=_check_losses(rows), needed=False)
    else:
        total = yield from masking.total(asks, nothing)
        answers = as_answer(total, _check_losses({total.name: sum(rows[site] for site in total.sites)}))
    if not answers:
        return 1.0
    return best_sharpness(exact_sum([each.losses for each in answers.values()]))


def _check_losses(rows: Mapping[str, int]) -> Check:
    largest = -np.log(SMALLEST_PROBABILITY) * (1 + _ROUNDING)

    def check(site: str, answer: Losses) -> None:
        if answer.losses.min() < 0 or answer.losses.max() > rows[site] * largest:
            raise PayloadError(answer.title(), "losses", "expected sums of log losses of the site's rows")

    return check


def check_residuals(rows: Mapping[str, int]) -> Check:
    """Return a check that refuses negative numbers of residuals, and more residuals than a site has rows."""

    def check(site: str, answer: Residuals) -> None:
        # Summed as Python's integers, which do not overflow.
        if answer.counts.min() < 0 or sum(answer.counts.tolist()) > rows[site]:
            raise PayloadError(answer.title(), "counts", f"expected at most {rows[site]} residuals in all")

    return check
