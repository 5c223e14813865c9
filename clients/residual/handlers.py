"""Handlers of asks in the clear: enrolment, the common order of rows, fits, the stored model, predictions.

An agent fits targets to its own columns and answers with predictions. Its memory holds the common rows and, if models
are to be stored, the steps that may count. `clients.residual.sealed_handlers` handles sealed asks.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import UInt8

from clients.dispatch import answers
from clients.memory import CONCLUDED
from clients.residual import ring  # noqa: F401 (its handlers, and those of sealed asks)
from clients.residual.agent import ROWS, Agent, forget, is_over
from clients.residual.answers import ANSWERS, keep_model
from clients.residual.prediction import keyed_names, predictions, predicts, present_rows
from clients.residual.sealing import check_order, new_key, remember_keys
from clients.site import Site
from numerics.residual.columns_and_outcomes import Columns
from numerics.shared.folds import draw_kinds
from protocols.residual.payloads import (
    AgentPredictions,
    Bin,
    Compare,
    Conclude,
    Enrol,
    Fit,
    Holdings,
    Order,
    Predict,
    Ready,
    Receipt,
    Show,
    Try,
)
from protocols.residual.settings import Settings
from protocols.wire.faults import Fault, SiteFault
from protocols.wire.payload import Payload

# -- enrolment --------------------------------------------------------------------------------------------------------


@answers(Enrol)
def enrol(ask: Enrol, site: Site) -> Holdings:
    """Answer with keyed hashes of the entities' names, and with what the site holds."""
    if ROWS in site.memory or is_over(site):
        raise SiteFault(Fault.MALFORMED_ASK, "the rows of this run are agreed on already")
    if site.config.get("sealed-only", False) and not ask.seal:
        raise SiteFault(Fault.SEALED_ONLY)
    columns = present_rows(site)
    keys, check, kind = keyed_names(columns, site, ask.salt, ask.align)
    return Holdings(
        n=columns.n,
        keys=keys,
        check=check,
        kind=kind,
        n_columns=columns.x.shape[1],
        agent=str(site.config.get("agent", "")),
        outcome=columns.y is not None,
        public_key=new_key(site) if ask.seal else np.zeros(0, np.uint8),
        split=_split_of(columns, site),
        classes=columns.classes,
    )


def _split_of(columns: Columns, site: Site) -> UInt8[np.ndarray, "_"]:
    """Draw the use of each row, if the site holds the outcome and knows persons; at a real site always the same."""
    if columns.y is None or columns.person is None:
        return np.zeros(0, np.uint8)
    settings = Settings.of(site.config)
    seed = 0 if site.has_private_rows else site.seed + site.repetition
    return draw_kinds(columns.person, settings.holdout, settings.validation, np.random.default_rng([seed, 4]))


@answers(Order)
def order(ask: Order, site: Site) -> Ready:
    """Store the common rows in their order; after the end of the run, only confirm."""
    if CONCLUDED in site.memory:
        return Ready()
    check_order(site, ask)
    n = present_rows(site).n
    inside = (ask.rows >= 0).all() and (ask.rows < n).all()
    if not inside or len(np.unique(ask.rows)) < len(ask.rows) or len(ask.names) != len(ask.public_keys):
        raise SiteFault(Fault.MALFORMED_ASK, "the order names rows that are not there, or one twice")
    if predicts(site):
        site.memory[ROWS] = ask.rows
    else:
        Agent.begin(site, ask)
    remember_keys(site, ask)
    return Ready()


# -- learning ---------------------------------------------------------------------------------------------------------


def _answer_in_the_clear(ask: Payload, site: Site) -> Payload:
    """Answer an ask of the fusion center as the agent would answer a sealed one."""
    return ANSWERS[type(ask)](ask, Agent.in_the_clear(site))


for _kind in (Bin, Fit, Try, Show, Compare):
    answers(_kind)(_answer_in_the_clear)


@answers(Conclude)
def conclude(ask: Conclude, site: Site) -> Receipt:
    """Store the model and forget the run; asked again, give the same answer."""
    if CONCLUDED in site.memory:
        return Receipt(bool(site.memory[CONCLUDED]))
    answer = keep_model(ask, Agent.of(site))
    forget(site, with_model=answer.stored)
    return answer


# -- predicting -------------------------------------------------------------------------------------------------------


@answers(Predict)
def predict(ask: Predict, site: Site) -> AgentPredictions:
    """Answer with the agent's part of the prediction of every present row."""
    columns, part = predictions(site, ask.run, reader="")
    keys, check, kind = keyed_names(columns, site, ask.salt, ask.align)
    return AgentPredictions(keys, check, kind, part)
