"""The ServerApp: run configuration -> scenario -> strategy -> results directory, report, ledger."""

from __future__ import annotations

import contextlib
import importlib
import logging
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from clients.data import DataError, party_files
from clients.data.files import numbered_site
from clients.data.outcomes import center_outcomes
from clients.data.testset import center_columns, center_queries
from common.results import results_name
from common.settings import Config, ConfigError
from numerics.gp.measurements import Queries
from numerics.residual.columns_and_outcomes import Outcomes
from protocols.prediction import PredictionError, resolved
from protocols.settings import check_sums, checked, declared
from scenarios.registry import Cell, Scenario, ScenarioError, find, select_cells
from server.evaluation import Evaluation, evaluate
from server.figures import figures
from server.report.commands import consilience_command, flwr_command
from server.report.headline import differences
from server.report.overview import asked as what_was_asked
from server.report.previous_run import classes_to_tell, clustering_to_join, ensemble_to_use, experts_to_ask
from server.report.summary import ledger_summary
from server.results import Report, ResultsDirectory, ResultsError
from server.versions import versions
from strategies.cells import Table
from strategies.checkpoint import Checkpoint, CheckpointError
from strategies.errors import FusionError
from strategies.exchange import wait_for_nodes
from strategies.fusion import FusionResult, FusionStrategy, Reference
from strategies.run import MEGABYTE

logger = logging.getLogger("flwr")

app = ServerApp()

REFUSALS = (CheckpointError, ConfigError, DataError, FusionError, PredictionError, ResultsError, ScenarioError)
"""What a user can mend: shown as one line."""

_EARLIER = {
    "bc3e": classes_to_tell,
    "gp": experts_to_ask,
    "residual": ensemble_to_use,
    "sec": clustering_to_join,
}
"""By protocol, what reads an earlier run's results that this one goes on from."""

NO_FIGURES = "the figures could not be drawn; the log of the run says why"

_NOT_OF_THE_RUN = {"max-payload-mb", "min-sites", "output-dir", "resume-from", "round-timeout"}
"""Keys that a resumed run may change: they do not touch the result."""


class RefusedError(RuntimeError):
    """Tells Flower that the run failed, after the one line that says why."""


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run what the run configuration asks for."""
    try:
        path = run(grid, context)
    except REFUSALS as error:
        logger.error("refused: %s", error)
        raise RefusedError(str(error)) from None
    logger.info("results: %s", path)


def run(grid: Grid, context: Context) -> Path:
    """Run to the end and return the absolute path of the results directory."""
    asked = checked(context.run_config)
    config = checked(resolved(asked))
    scenario = None if config["protocol"] else find(str(config["scenario"]))
    if scenario is None and config["cells"]:
        raise ConfigError("cells are rows of a scenario's table, and own data have none: leave it out")
    protocol = str(config["protocol"]) if scenario is None else scenario.protocol
    check_sums(config, protocol)
    n_sites = _number_of_sites(grid, config, asked, scenario)

    directory = ResultsDirectory.open(str(config["output-dir"]), results_name(config), context.run_id)
    started = False
    try:
        if config["resume-from"]:
            directory.adopt(str(config["resume-from"]))
        identity = {key: value for key, value in config.items() if key not in _NOT_OF_THE_RUN}
        identity |= {"consilience": versions()["consilience"]}
        if scenario is not None or config["data"]:
            identity["sites"] = n_sites  # they share out one set of data: another number of them holds other shards
        checkpoint = Checkpoint(directory.checkpoint, identity, str(context.run_id))
        strategy = _strategy(
            config,
            scenario,
            protocol,
            seed=config["seed"],
            repetitions=config["repetitions"],
            min_sites=config["min-sites"],
            n_sites=n_sites,
            checkpoint=checkpoint,
            max_payload=int(config["max-payload-mb"] * MEGABYTE),
        )
        strategy.summary()
        started = True
        result = strategy.start(grid=grid, timeout=float(config["round-timeout"]))
        evaluation = evaluate(config, scenario, strategy, result.outcomes, result.ledger)
        report = _report(config, asked, scenario, protocol, strategy, result, evaluation)
        drawn = _drawn(report, evaluation)
        return directory.finish(report, evaluation.arrays, result.ledger, drawn, evaluation.files)
    except BaseException:
        _leave(directory, started=started)
        raise


def _drawn(report: Report, evaluation: Evaluation) -> dict[str, bytes]:
    """The run's figures; results are written without, and say so, rather than not at all."""
    try:
        return figures(report, evaluation.arrays)
    except Exception:
        logger.exception("the figures cannot be drawn")
        report.notes.append(NO_FIGURES)
        return {}


def _strategy(
    config: Config, scenario: Scenario | None, protocol: str, *, n_sites: int, **common: Any
) -> FusionStrategy:
    """The protocol's strategy; of a scenario that is a table, one for every cell."""
    from_config = importlib.import_module(f"strategies.{protocol}").from_config
    # Real sites may come and go: there are as many as there are when the first round begins.
    common["n_sites"] = n_sites if scenario is not None or config["data"] else 0
    earlier = _EARLIER[protocol](config) if protocol in _EARLIER else {}
    if scenario is None:
        reference = Reference(**_own_reference(protocol, config), earlier=earlier)
        strategy: FusionStrategy = from_config(config, reference=reference, **common)
        return strategy
    common["at_once"] = scenario.at_once
    members = []
    cells = select_cells(scenario, config)
    _refuse_what_rows_set(scenario, cells, config)
    test = center_queries(config, str(config["gp.queries"])) if protocol == "gp" and config["gp.queries"] else {}
    for each in [cell.settings for cell in cells] or [{}]:
        settings = {**config, **each}
        if scenario.queries is not None:
            # The center draws the world anyway; one that cannot be dealt to so many sites is said before any is asked.
            scenario.shards(settings, int(config["seed"]), n_sites)
        reference = Reference(
            truth=_truth(settings, scenario, n_sites),
            outcome=_outcome(settings, scenario),
            queries=_queries(settings, scenario),
            test=test,
            earlier=earlier,
        )
        members.append(from_config(settings, reference=reference, **common))
    return Table(members, **common) if cells else members[0]


def _refuse_what_rows_set(scenario: Scenario, cells: Sequence[Cell], config: Config) -> None:
    """A key that every row sets would be set in vain."""
    defaults = declared()
    for cell in cells:
        for key in cell.settings.keys() - cell.defaults.keys():
            if config[key] != defaults[key]:
                label, value = next(iter(cell.labels.items()))
                raise ScenarioError(
                    f"{key} is set by the rows of {scenario.name}; choose among them, as in cells='{label}={value}'"
                )


def _own_reference(protocol: str, config: Config) -> dict[str, Any]:
    """What the center's own files say."""
    if protocol == "gp":
        return {"test": center_queries(config, str(config["gp.queries"]))}
    if protocol != "residual":
        return {"test": center_columns(config)}
    read = center_outcomes(config, by_row=config["residual.align"] == "row-order")
    if read is None:
        return {}
    outcomes = Outcomes(*read)
    return {"outcome": lambda repetition: outcomes}


def _outcome(config: Config, scenario: Scenario) -> Callable[[int], Outcomes] | None:
    """By repetition, the outcomes that the center of a scenario holds."""
    outcome = scenario.outcome
    return None if outcome is None else lambda repetition: outcome(config, int(config["seed"]) + repetition)


def _queries(config: Config, scenario: Scenario) -> Callable[[int], Queries] | None:
    """By repetition, the points at which the center of a scenario wants to know the output."""
    queries = scenario.queries
    return None if queries is None else lambda repetition: queries(config, int(config["seed"]) + repetition)


def _truth(config: Config, scenario: Scenario, n_sites: int) -> Callable[[int], Mapping[str, int]] | None:
    """By repetition and site name, what the maker of the scenario knows."""
    truth = scenario.truth
    if truth is None:
        return None
    names = [numbered_site(place, n_sites) for place in range(n_sites)]

    def by_name(repetition: int) -> Mapping[str, int]:
        known = truth(config, int(config["seed"]) + repetition, n_sites)
        return {} if known is None else dict(zip(names, known, strict=True))

    return by_name


def _leave(directory: ResultsDirectory, *, started: bool) -> None:
    """After a failure: keep what a resumed run needs, else nothing (what was adopted is still where it came from)."""
    if started and any(directory.checkpoint.glob("round-*.npz")):
        logger.error('to go on: resume-from="%s"', directory.final)
    else:
        shutil.rmtree(directory.partial, ignore_errors=True)
        with contextlib.suppress(OSError):
            directory.partial.parent.rmdir()  # if it was made for this run


def _number_of_sites(grid: Grid, config: Config, asked: Config, scenario: Scenario | None) -> int:
    """How many sites are connected, if that is a number the run can do with; `asked`: the configuration as typed."""
    wanted = int(config["min-sites"])
    nodes = wait_for_nodes(grid, wanted, float(config["round-timeout"]))
    if scenario is None:
        if not config["data"]:
            return nodes
        needed, subject = len(party_files(Path(str(config["data"])).expanduser())), f"{config['data']} has"
    elif scenario.any_number:
        return nodes
    else:
        needed, subject = scenario.sites, f"{scenario.name} has"
    if nodes != needed:
        raise ScenarioError(
            f"{subject} {needed} sites, the federation has {nodes}; type: {flwr_command(asked, needed)}"
        )
    return nodes


# -- the report -------------------------------------------------------------------------------------------------------


def _report(
    config: Config,
    asked: Config,
    scenario: Scenario | None,
    protocol: str,
    strategy: FusionStrategy,
    result: FusionResult,
    evaluation: Evaluation,
) -> Report:
    simulated = len(result.sites) if scenario is not None or config["data"] else 0
    missing = {site: list(events) for site, events in result.missing.items()}
    for site, reason in evaluation.excluded.items():
        missing.setdefault(site, []).append(reason)
    cells = select_cells(scenario, config) if scenario else []
    published = cells[0].published if len(cells) == 1 else scenario.published if scenario else {}
    return Report(
        scenario=results_name(config),
        protocol=protocol,
        seed=strategy.seed,
        sites=result.sites,
        rounds=result.rounds,
        seconds=result.seconds,
        metrics=evaluation.metrics,
        published=dict(published),
        table=evaluation.table,
        ledger=ledger_summary(result.ledger),
        versions=versions(protocol),
        missing=missing,
        notes=[*evaluation.notes, *_rebuilt(result)],
        config=dict(config),
        command=flwr_command(asked, simulated),
        convergence=result.convergence,
        session=strategy.session,
        asked=what_was_asked(
            protocol,
            config,
            [cell.settings for cell in cells],
            len(result.sites),
            f"{scenario.summary}. Source: {scenario.source}." if scenario else "",
            {line["payload"] for line in result.ledger},
            evaluation.arrays,
        ),
        differences=differences(protocol, evaluation.metrics, evaluation.arrays),
        shorthand=consilience_command(asked, simulated),
    )


def _rebuilt(result: FusionResult) -> list[str]:
    """A sentence for every site that lost its memory and came by it again."""
    return [
        f"{site} lost its memory, was asked everything again in round {', '.join(map(str, rounds))}, and remembered"
        for site, rounds in sorted(result.rebuilt.items())
    ]
