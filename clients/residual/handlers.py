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
from clients.residual.answers import fit_target, keep_model, predict_alone, show_attempt, try_to_fit
from clients.residual.bins import give_bins
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
    EntityBins,
    Fit,
    FittedValues,
    Holdings,
    Order,
    Predict,
    PredictionsAlone,
    Ready,
    Receipt,
    Show,
    TrialFit,
    Try,
)
from protocols.residual.settings import Settings
from protocols.wire.faults import Fault, SiteFault

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
    """Draw what the site's rows are for, if it holds the outcome and knows persons; at a real site always the same."""
    if columns.y is None or columns.person is None:
        return np.zeros(0, np.uint8)
    settings = Settings.of(site.config)
    seed = site.seed + site.repetition if site.policy.trusts_center else 0
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


@answers(Bin)
def bin_columns(ask: Bin, site: Site) -> EntityBins:
    """Answer with the bins of the common rows, if the site allows it."""
    return give_bins(ask, Agent.in_the_clear(site))


# -- learning ---------------------------------------------------------------------------------------------------------


@answers(Fit)
def fit(ask: Fit, site: Site) -> FittedValues:
    """Fit every column of targets separately."""
    return fit_target(ask, Agent.in_the_clear(site))


@answers(Try)
def try_residual(ask: Try, site: Site) -> TrialFit:
    """Try to fit the residual (eq. 23); add the predictions if the error is below the bar."""
    return try_to_fit(ask, Agent.in_the_clear(site))


@answers(Show)
def show(ask: Show, site: Site) -> FittedValues:
    """Answer with the predictions of the last attempt."""
    return show_attempt(ask, Agent.in_the_clear(site))


@answers(Compare)
def compare(ask: Compare, site: Site) -> PredictionsAlone:
    """Answer with predictions of the test rows by this site's columns alone."""
    return predict_alone(ask, Agent.in_the_clear(site))


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
