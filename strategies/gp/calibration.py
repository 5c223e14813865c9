"""Sizes of the residuals that the hyperparameters leave at the sites, which calibrate intervals."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from jaxtyping import Int64

from numerics.gp.calibration import BINS
from protocols.gp.payloads import Calibrate, Residuals
from protocols.wire.payload import PayloadError
from strategies.conversation import Check, Conversation, Tell
from strategies.gp.model import Model
from strategies.secure_aggregation import Masking, as_answer


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


def check_residuals(rows: Mapping[str, int]) -> Check:
    """Return a check that refuses negative numbers of residuals, and more residuals than a site has rows."""

    def check(site: str, answer: Residuals) -> None:
        # Summed as Python's integers, which do not overflow.
        if answer.counts.min() < 0 or sum(answer.counts.tolist()) > rows[site]:
            raise PayloadError(answer.title(), "counts", f"expected at most {rows[site]} residuals in all")

    return check
