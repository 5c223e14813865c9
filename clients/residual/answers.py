"""Answers of an agent while it learns, to the fusion center or, sealed, to another site."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from clients.residual.agent import Agent
from clients.residual.bins import bins_of, give_bins
from clients.residual.model_store import SavedModel, save_agent
from numerics.residual.columns_and_outcomes import Columns
from numerics.shared.threads import single_threaded
from protocols.residual.payloads import (
    Bin,
    Compare,
    Conclude,
    Fit,
    FittedValues,
    PredictionsAlone,
    Receipt,
    Show,
    TrialFit,
    Try,
)
from protocols.wire.payload import Payload


def fit_target(ask: Fit, agent: Agent) -> FittedValues:
    """Fit every column of targets separately."""
    dtype, n = ask.target.dtype, len(ask.target)
    if ask.add:
        predicted = agent.step(ask.target, ask.add, ask.steps, ask.number, keep=ask.keep)
    else:
        predicted = agent.fit(ask.target)
    return FittedValues(predicted[:n].astype(dtype), predicted[n:].astype(dtype))


def try_to_fit(ask: Try, agent: Agent) -> TrialFit:
    """Try to fit a residual (Zheng, Kulkarni and Poor 2010, eq. 23); add the predictions if the error is small."""
    agent.accept(ask.accepted)
    predicted = agent.attempt(ask.residual, ask.add, ask.steps, ask.number, keep=ask.keep)
    n, dtype = len(ask.residual), ask.residual.dtype
    fitted, held = np.split(predicted.astype(dtype), [n])
    # From the numbers in the precision of the wire: subtracting them leaves exactly this error.
    remainder = ask.residual.astype(np.float64) - fitted
    error = float(remainder @ remainder)
    return TrialFit(error, fitted, held) if error < ask.bar else TrialFit(error, fitted[:0], held[:0])


def show_attempt(ask: Show, agent: Agent) -> FittedValues:
    """Return the predictions of the last attempt."""
    n, dtype, predicted = agent.last_attempt()
    return FittedValues(predicted[:n, None].astype(dtype), predicted[n:, None].astype(dtype))


def predict_alone(ask: Compare, agent: Agent) -> PredictionsAlone:
    """Predict rows by boosting of the agent's own columns."""
    n, dtype = len(ask.target), ask.target.dtype
    chosen = agent.boosted_alone(ask.target, ask.n_fit, ask.n_classes, balanced=ask.balanced)
    with single_threaded():
        predicted = chosen.predict(agent.x).astype(dtype)
    if not ask.beside:
        return PredictionsAlone(predicted[:0], predicted[n:])
    judged = chosen.judged.astype(dtype).reshape(n - ask.n_fit, -1)
    return PredictionsAlone(predicted[:n], np.concatenate([judged, predicted[n:]]))


def keep_model(ask: Conclude, agent: Agent) -> Receipt:
    """Store the model in the site's own directory, if it has one."""
    site = agent.site
    parts: tuple[tuple[float, Any], ...] = ((1.0, agent.model(ask.target)),) if len(ask.target) else ()
    own = agent.boosted_alone(ask.own, ask.n_fit, ask.n_classes, balanced=ask.balanced) if len(ask.own) else None
    columns: Columns = site.shard
    save_agent(
        site,
        site.session,
        SavedModel(
            columns.features,
            columns.categories,
            parts or agent.steps_of(ask.numbers),
            agent.holder,
            agent.groups,
            ask.separate,
            bins_of(site) if ask.bins else None,
            own,
            site.medians,
        ),
    )
    return Receipt(site.directory is not None)


ANSWERS: Mapping[type[Payload], Callable[[Any, Agent], Payload]] = {
    Bin: give_bins,
    Fit: fit_target,
    Try: try_to_fit,
    Show: show_attempt,
    Compare: predict_alone,
    Conclude: keep_model,
}
"""Asks that the site with the outcome may seal for an agent, and the functions that answer them."""
