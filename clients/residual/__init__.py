"""An agent of attribute-distributed regression: fits to its own columns what it is sent, and answers predictions.

It remembers the agreed rows, and where its model is wanted later the steps that may count; everything else it is sent.
What is sealed comes to `clients.residual.sealed`, which opens it and asks the handlers here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from clients.dispatch import answers
from clients.entities import keyed_hashes, secret_check, shared_secret
from clients.residual import sealed
from clients.residual.columns import columns_of
from clients.residual.keep import Kept, keep
from clients.residual.learner import Learner
from clients.residual.recall import predictions
from clients.site import Site
from numerics.columns import Columns
from protocols.faults import Fault, SiteFault
from protocols.residual import (
    Conclude,
    Concluded,
    Enrol,
    Enrolled,
    Fit,
    Fitted,
    Order,
    Predict,
    Predicted,
    Ready,
    Show,
    Tried,
    Try,
)

__all__ = ["check_lines", "own_shard", "sealed"]


def own_shard(loaded: Any, config: Mapping[str, Any]) -> Columns:
    """A party's own table as an agent's columns."""
    from clients.data import DataError, Table

    if not isinstance(loaded, Table):
        raise DataError("the data function returned an Ensemble; residual needs a table of columns", "bad-shape")
    return columns_of(loaded, config)


def check_lines(loaded: Any, config: Mapping[str, Any]) -> list[str]:
    """What of a party's own data would be used, and what would leave the site; raises as `own_shard`."""
    from clients.residual.check import describe

    return describe(own_shard(loaded, config), loaded, config)


# -- who is there -----------------------------------------------------------------------------------------------------


@answers(Enrol)
def enrol(ask: Enrol, site: Site) -> Enrolled:
    """Keyed hashes of the entities' names, and what kind of party this is."""
    columns: Columns = site.shard
    for name in list(site.memory):
        del site.memory[name]
    keys, check, kind = _keys(columns, site, ask.salt, ask.align)
    return Enrolled(
        n=columns.n,
        keys=keys,
        check=check,
        kind=kind,
        n_columns=columns.x.shape[1],
        agent=str(site.config.get("agent", "")),
        outcome=columns.y is not None,
        public_key=sealed.new_key(site) if ask.seal else np.zeros(0, np.uint8),
    )


def _keys(columns: Columns, site: Site, salt: str, align: str) -> tuple[np.ndarray, np.ndarray, str]:
    """Keyed hashes of the names, the secret's check, and the kind of names; nothing where entities go by row."""
    nothing = np.zeros((0, 2), np.uint64), np.zeros(0, np.uint8), ""
    if align == "row-order":
        return nothing
    if columns.entity is None:
        if align == "id":
            raise SiteFault(Fault.NO_ENTITIES)
        return nothing
    secret = shared_secret(site.config)
    return keyed_hashes(columns.entity, secret, salt), secret_check(secret, salt), columns.entity_kind


@answers(Order)
def order(ask: Order, site: Site) -> Ready:
    """Remember which rows are meant, in which order."""
    columns: Columns = site.shard
    inside = (ask.rows >= 0).all() and (ask.rows < columns.n).all()
    if not inside or len(np.unique(ask.rows)) < len(ask.rows) or len(ask.names) != len(ask.public_keys):
        raise SiteFault(Fault.MALFORMED_ASK, "the order names rows that are not there, or one twice")
    Learner.begin(site, ask)
    sealed.remember_keys(site, ask)
    return Ready()


# -- learning ---------------------------------------------------------------------------------------------------------


@answers(Fit)
def fit(ask: Fit, site: Site) -> Fitted:
    """Fit every column of numbers, each by itself."""
    learner = Learner.of(site)
    dtype = ask.target.dtype
    n = len(ask.target)
    if ask.add:
        if ask.target.shape[1] != 1:
            raise SiteFault(Fault.MALFORMED_ASK, "a step is of one column")
        predicted = learner.step(ask.target[:, 0], ask.add, ask.steps, ask.number)[:, None]
    else:
        predicted = learner.fit(ask.target)
    return Fitted(predicted[:n].astype(dtype), predicted[n:].astype(dtype))


@answers(Try)
def try_residual(ask: Try, site: Site) -> Tried:
    """How well the residual could be fitted (eq. 23); with the predictions if that is likely the best of all."""
    learner = Learner.of(site)
    learner.accept(ask.accepted)
    predicted = learner.attempt(ask.residual, ask.add, ask.steps, ask.number)
    n, dtype = len(ask.residual), ask.residual.dtype
    # Of the numbers as they would cross: what the center takes off the residual leaves exactly this error.
    left = ask.residual.astype(np.float64) - predicted[:n].astype(dtype)
    error = float(left @ left)
    fitted, held = np.split(predicted.astype(dtype), [n])
    return Tried(error, fitted, held) if error < ask.bar else Tried(error, fitted[:0], held[:0])


@answers(Show)
def show(ask: Show, site: Site) -> Fitted:
    """The predictions of the last attempt."""
    n, dtype, predicted = Learner.of(site).last_attempt()
    return Fitted(predicted[:n, None].astype(dtype), predicted[n:, None].astype(dtype))


@answers(Conclude)
def conclude(ask: Conclude, site: Site) -> Concluded:
    """Keep the model, and forget the rest of the run."""
    learner = Learner.of(site)
    if len(ask.target):
        parts: tuple[tuple[float, Any], ...] = ((1.0, learner.model(ask.target)),)
    else:
        parts = learner.steps_of(ask.numbers)
    columns: Columns = site.shard
    keep(site, site.session, Kept(columns.features, columns.categories, parts))
    learner.forget()
    return Concluded()


# -- predicting -------------------------------------------------------------------------------------------------------


@answers(Predict)
def predict(ask: Predict, site: Site) -> Predicted:
    """Answer with the agent's part of the prediction of every row that it has now."""
    columns, part = predictions(site, ask.run)
    keys, check, kind = _keys(columns, site, ask.salt, ask.align)
    return Predicted(keys, check, kind, part)
