"""Calibration by left-out rows: sizes of residuals for intervals, sharpness of class probabilities."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from jaxtyping import Int64

from numerics.gp.calibration import BINS
from numerics.gp.dirichlet import SHARPNESS, best_sharpness
from numerics.shared.classes import SMALLEST_PROBABILITY
from numerics.shared.exact_sum import exact_sum
from protocols.gp.payloads import Calibrate, LeaveOneOutAsk, Losses, Residuals, Sharpen
from protocols.wire.payload import PayloadError
from protocols.wire.vector_encoding import Sum
from strategies.conversation import Check, Conversation
from strategies.gp.model import Model
from strategies.secure_aggregation import Masking, ask_plain_or_masked

_ROUNDING = 0.005
"""Share by which a number of three digits may exceed the exact one."""


def residual_counts(model: Model, masking: Masking | None = None) -> Conversation[Int64[np.ndarray, "50"]]:
    """Return the number of leave-one-out residuals of each size, over the rows of all sites that learn.

    Parameters
    ----------
    model : Model
        Experts and hyperparameters.
    masking : Masking, optional
        Secure aggregation: the center sees the sum over sites only.
    """
    nothing = Residuals(np.zeros(BINS, np.int64))
    answers = yield from _ask_left_out(model, Calibrate, nothing, check_residuals, masking)
    counts: Int64[np.ndarray, "50"] = np.sum([nothing.counts, *(each.counts for each in answers)], axis=0)
    return counts


def sharpness(model: Model, masking: Masking | None = None) -> Conversation[float]:
    """Return the sharpness of class probabilities with the smallest log loss of left-out rows.

    Parameters
    ----------
    model : Model
        Experts and hyperparameters.
    masking : Masking, optional
        Secure aggregation: the center sees the sum over sites only.
    """
    nothing = Losses(np.zeros(len(SHARPNESS)))
    answers = yield from _ask_left_out(model, Sharpen, nothing, _check_losses, masking)
    return best_sharpness(exact_sum([each.losses for each in answers])) if answers else 1.0


def _ask_left_out(
    model: Model,
    kind: type[LeaveOneOutAsk],
    nothing: Sum,
    check_of: Callable[[Mapping[str, int]], Check],
    masking: Masking | None,
) -> Conversation[list[Sum]]:
    """Ask all sites that learn once about left-out rows; return their answers, or the sum of masked answers."""
    registry = model.registry
    asks = {
        site: kind(**registry.agreement(site, model.max_rows), kernel=model.kernel, theta=model.fit.theta)
        for site in registry.learning
    }
    answers: Mapping[tuple[str, ...], Sum] = yield from ask_plain_or_masked(
        asks,
        nothing,
        lambda sites_of: check_of({name: sum(map(registry.rows_of, sites)) for name, sites in sites_of.items()}),
        masking,
        needed=False,
    )
    return list(answers.values())


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
