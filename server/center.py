"""The fusion center of a run: its strategy, and its own knowledge beside the sites' answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from clients.data.files import numbered_site
from common.settings import Config
from protocols import registry
from scenarios.registry import Scenario
from server.run_plan import CenterData, RunPlan
from strategies.cells import Table
from strategies.checkpoint import Checkpoint
from strategies.fusion import FusionStrategy, Reference
from strategies.round_callbacks import OnRound
from strategies.run import MEGABYTE


def build(plan: RunPlan, checkpoint: Checkpoint, on_round: Sequence[OnRound] = ()) -> FusionStrategy:
    """Return the protocol's strategy; for a scenario's table, one for every row side by side.

    Parameters
    ----------
    plan : RunPlan
        Plan of the run.
    checkpoint : Checkpoint
        Checkpoint of the strategy's rounds.
    on_round : sequence of Callable
        Called after every round, as of `FusionStrategy`.

    Raises
    ------
    ScenarioError, FusionError
        If the scenario has no data for this number of sites, or a setting cannot be used.
    """
    from_config = registry.room(plan.protocol, "strategy").from_config
    config, scenario = plan.config, plan.scenario
    common = {
        "seed": config["seed"],
        "repetitions": config["repetitions"],
        "min_sites": config["min-sites"],
        "masked": config["secure-aggregation"],
        "n_sites": plan.n_sites if plan.simulated else 0,  # of real sites, those of the first round
        "checkpoint": checkpoint,
        "on_round": on_round,
        "max_payload": int(float(config["max-payload-mb"]) * MEGABYTE),
    }
    if scenario is None:
        reference = Reference(**plan.center.files, earlier=plan.center.earlier)
        strategy: FusionStrategy = from_config(config, reference=reference, **common)
        return strategy
    common["at_once"] = scenario.at_once
    members = []
    for settings in plan.configs:
        reference = _reference(scenario, settings, plan.n_sites, plan.center)
        members.append(from_config(settings, reference=reference, **common))
    return Table(members, **common) if plan.cells else members[0]


def _reference(scenario: Scenario, config: Config, n_sites: int, own: CenterData) -> Reference:
    """Return the fusion center's knowledge of a scenario, and from its own files."""
    if scenario.queries is not None:
        # The fusion center makes the same data as the sites: an impossible number of sites fails before any is asked.
        scenario.shards(config, int(config["seed"]), n_sites)
    return Reference(
        **own.files,
        truth=_truth(scenario, config, n_sites),
        outcome=_outcome(scenario, config),
        queries=_queries(scenario, config),
        earlier=own.earlier,
    )


def _outcome(scenario: Scenario, config: Config) -> Callable[[int], Any] | None:
    """Return a function of the repetition: outcomes that the fusion center of a scenario holds."""
    outcome = scenario.outcome
    return None if outcome is None else lambda repetition: outcome(config, int(config["seed"]) + repetition)


def _queries(scenario: Scenario, config: Config) -> Callable[[int], Any] | None:
    """Return a function of the repetition: query points of a scenario."""
    queries = scenario.queries
    return None if queries is None else lambda repetition: queries(config, int(config["seed"]) + repetition)


def _truth(scenario: Scenario, config: Config, n_sites: int) -> Callable[[int], Mapping[str, int]] | None:
    """Return a function of the repetition: by site, the truth that only the scenario knows."""
    truth = scenario.truth
    if truth is None:
        return None
    names = [numbered_site(place, n_sites) for place in range(n_sites)]

    def by_name(repetition: int) -> Mapping[str, int]:
        known = truth(config, int(config["seed"]) + repetition, n_sites)
        return {} if known is None else dict(zip(names, known, strict=True))

    return by_name
