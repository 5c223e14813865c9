"""What a site makes of the configuration of a run that predicts with what an earlier one has learnt."""

from __future__ import annotations

import logging
from functools import lru_cache
from typing import Any

from flwr.app import Context

from clients.shards import is_simulated
from common.results import PREDICT
from protocols import registry
from protocols.prediction import PredictionError, resolved
from protocols.wire.faults import Fault, SiteFault
from protocols.wire.message import Ask

logger = logging.getLogger("flwr")


def as_it_learnt(context: Context) -> Context:
    """The context of a simulated site, with the configuration of the run that has learnt; another's as it is.

    Raises
    ------
    SiteFault
        If there is no such run.
    """
    config = context.run_config
    if config.get("scenario") != PREDICT or not is_simulated(context.node_config):
        return context
    return _with(context, dict(_resolved(tuple(sorted(config.items())))))


def as_it_is_asked(context: Context, ask: Ask) -> Context:
    """The context of a real site, with the protocol of what it is asked; another's as it is.

    A message that asks nothing, or things of several protocols, needs none of its data or is refused later.
    """
    config = context.run_config
    if config.get("scenario") != PREDICT or is_simulated(context.node_config):
        return context
    parcels = [*ask.parcels, *(parcel for _, past in ask.history for parcel in past)]
    asked = (type(parcel.payload).title().partition(".")[0] for parcel in parcels)
    protocol = next((each for each in asked if registry.exists(each)), "")
    return _with(context, {**config, "protocol": protocol}) if protocol else context


@lru_cache(maxsize=8)  # a simulation's workers answer for many sites
def _resolved(config: tuple[tuple[str, Any], ...]) -> dict[str, Any]:
    try:
        return dict(resolved(dict(config)))
    except PredictionError as error:
        logger.error("%s", error)
        raise SiteFault(Fault.SCENARIO_UNAVAILABLE, str(error)) from error


def _with(context: Context, run_config: dict[str, Any]) -> Context:
    """The same context, its state too, with another run configuration."""
    return Context(context.run_id, context.node_id, context.node_config, context.state, run_config, context.series_id)
