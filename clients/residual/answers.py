"""What an agent answers while it learns, whoever asked: the fusion center, or another site through what it sealed."""

from __future__ import annotations

from typing import Any

import numpy as np

from clients.residual.learner import Learner
from clients.residual.model_store import SavedModel, save_agent
from numerics.residual.columns_and_outcomes import Columns
from protocols.residual.payloads import Conclude, Concluded, Fit, Fitted, Show, Tried, Try
from protocols.wire.faults import Fault, SiteFault
from protocols.wire.payload import Payload


def fit_target(ask: Fit, learner: Learner) -> Fitted:
    """Fit every column of numbers, each by itself."""
    dtype, n = ask.target.dtype, len(ask.target)
    if ask.add:
        if ask.target.shape[1] != 1:
            raise SiteFault(Fault.MALFORMED_ASK, "a step is of one column")
        predicted = learner.step(ask.target[:, 0], ask.add, ask.steps, ask.number, keep=ask.keep)[:, None]
    else:
        predicted = learner.fit(ask.target)
    return Fitted(predicted[:n].astype(dtype), predicted[n:].astype(dtype))


def try_to_fit(ask: Try, learner: Learner) -> Tried:
    """Answer how well a residual could be fitted (Zheng, Kulkarni and Poor 2010, eq. 23).

    The predictions come along if that is likely the best of all.
    """
    learner.accept(ask.accepted)
    predicted = learner.attempt(ask.residual, ask.add, ask.steps, ask.number, keep=ask.keep)
    n, dtype = len(ask.residual), ask.residual.dtype
    fitted, held = np.split(predicted.astype(dtype), [n])
    # Of the numbers as they would cross: what is taken off the residual leaves exactly this error.
    left = ask.residual.astype(np.float64) - fitted
    error = float(left @ left)
    return Tried(error, fitted, held) if error < ask.bar else Tried(error, fitted[:0], held[:0])


def show_attempt(ask: Show, learner: Learner) -> Fitted:
    """The predictions of the last attempt."""
    n, dtype, predicted = learner.last_attempt()
    return Fitted(predicted[:n, None].astype(dtype), predicted[n:, None].astype(dtype))


def keep_model(ask: Conclude, learner: Learner) -> Concluded:
    """Keep the model, in the site's own directory if it has one."""
    site = learner.site
    parts: tuple[tuple[float, Any], ...] = ((1.0, learner.model(ask.target)),) if len(ask.target) else ()
    columns: Columns = site.shard
    save_agent(
        site,
        site.session,
        SavedModel(columns.features, columns.categories, parts or learner.steps_of(ask.numbers), learner.holder),
    )
    return Concluded(site.directory is not None)


def answer_sealed(ask: Payload, learner: Learner) -> Payload:
    """The answer to what another site sealed for this one."""
    if isinstance(ask, Fit):
        return fit_target(ask, learner)
    if isinstance(ask, Try):
        return try_to_fit(ask, learner)
    if isinstance(ask, Show):
        return show_attempt(ask, learner)
    if isinstance(ask, Conclude):
        return keep_model(ask, learner)
    raise SiteFault(Fault.MALFORMED_ASK, f"{ask.title()} is nothing that a site asks another")
