"""The ServerApp: resolve the run configuration, build the fusion center, run it, evaluate and write the results."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from protocols.settings import checked, declared
from scenarios.registry import ScenarioError
from server import preflight
from server.center import build
from server.evaluation import evaluate
from server.figures import figures
from server.installation import missing_figures, remarks
from server.progress import progress_file
from server.report.commands import flwr_command
from server.report.data import Arrays, Report, ResultsError
from server.results import FIGURES, ResultsDirectory, load, write_page
from server.run_plan import RunPlan
from server.run_report import make_report
from server.simulation import start_processes
from strategies.checkpoint import Checkpoint
from strategies.errors import FusionError
from strategies.exchange import wait_for_nodes
from strategies.round_callbacks import OnRound

logger = logging.getLogger("flwr")

app = ServerApp()

REFUSALS = (*preflight.REFUSALS, FusionError)
"""Errors that the user can correct. The log shows them as one line."""


NO_FIGURES = "the figures could not be drawn; the log of the run says why"


class RefusedError(RuntimeError):
    """Error: a run failed for a reason that the log names in one line. Flower marks the run as failed."""


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run the run configuration; only the user of this process can read the files that it writes."""
    os.umask(0o077)  # answers of sites are in results and checkpoints, whoever started the SuperLink
    try:
        path = run(grid, context)
    except REFUSALS as error:
        logger.error("refused: %s", error)
        raise RefusedError(str(error)) from None
    logger.info("results: %s", path)


def run(
    grid: Grid,
    context: Context,
    on_round: Sequence[OnRound] = (),
    plan: RunPlan | None = None,
    *,
    with_page: bool = True,
) -> Path:
    """Run to the end and return the absolute path of the results directory.

    Parameters
    ----------
    grid : Grid
        Flower's connection to the sites.
    context : Context
        Flower's context, with the run configuration.
    on_round : sequence of Callable
        Called with the row of every round, as of `strategies.fusion.FusionStrategy`.
    plan : RunPlan or None
        As of `resolve`.
    with_page : bool
        Whether to draw the figures and the page; if not, `add_page` draws them later.
    """
    for remark in remarks():
        logger.warning("%s", remark)
    plan = resolve(grid, context.run_config, plan)
    for note in plan.notes:
        logger.warning("%s", note)
    directory = ResultsDirectory.open(str(plan.config["output-dir"]), plan.name, context.run_id)
    started = False
    try:
        with progress_file(directory.partial) as progress:
            strategy = build(plan, _checkpoint(plan, directory, context.run_id), (progress.write, *on_round))
            strategy.summary()
            start_processes(grid, float(plan.config["round-timeout"]))
            started = True
            result = strategy.start(grid=grid, timeout=float(plan.config["round-timeout"]))
            evaluation = evaluate(plan.config, plan.scenario, strategy, result.outcomes, result.ledger)
            report = make_report(plan, strategy, result, evaluation)
            images = _draw(report, evaluation.arrays) if with_page else None
            return directory.finish(report, evaluation.arrays, result.ledger, images, evaluation.files)
    except BaseException:
        directory.fail(started=started)
        raise


def resolve(grid: Grid, run_config: Mapping[str, Any], plan: RunPlan | None = None) -> RunPlan:
    """Check the run configuration, and wait for the sites.

    Parameters
    ----------
    grid : Grid
        Flower's connection to the sites.
    run_config : Mapping
        Run configuration as Flower has it.
    plan : RunPlan or None
        Plan of `preflight` for the same configuration in this process; None: it is made here.

    Raises
    ------
    `REFUSALS`
        If the configuration cannot be used, or another number of sites is connected than it needs.
    """
    if plan is None:
        defaults = declared()
        changed = {key: value for key, value in checked(run_config).items() if value != defaults[key]}
        plan = preflight.preflight(changed, simulated=False)
    n_nodes = wait_for_nodes(grid, int(plan.config["min-sites"]), float(plan.config["round-timeout"]))
    if plan.n_sites not in (0, n_nodes):
        owner = plan.config["data"] if plan.scenario is None else plan.scenario.name
        command = flwr_command(plan.typed, plan.n_sites)
        raise ScenarioError(f"{owner} has {plan.n_sites} sites, the federation has {n_nodes}; type: {command}")
    return replace(plan, n_sites=n_nodes)


def _checkpoint(plan: RunPlan, directory: ResultsDirectory, run_id: int) -> Checkpoint:
    """Return the run's checkpoint, with the rounds of an interrupted run that it resumes."""
    if plan.config["resume-from"]:
        directory.adopt(str(plan.config["resume-from"]))
    return Checkpoint(directory.checkpoint, plan.identity, str(run_id))


def add_page(results_dir: Path) -> None:
    """Add figures and page to results that were written without them; leave others as they are.

    Raises
    ------
    ResultsError
        If there are no results, or the disk refuses.
    """
    if (results_dir / FIGURES).is_dir():
        return
    report, arrays = load(results_dir)
    try:
        write_page(results_dir, report, _draw(report, arrays))
    except OSError as error:
        raise ResultsError(f"the page cannot be written to {results_dir}: {error.strerror or error}") from error


def _draw(report: Report, arrays: Arrays) -> dict[str, bytes]:
    """Return the images of the figures, and add their texts to the report. After an error there are no figures."""
    if missing := missing_figures():
        report.notes.append(missing)
        return {}
    try:
        images = list(figures(report, arrays))
    except Exception:
        logger.exception("the figures cannot be drawn")
        report.notes.append(NO_FIGURES)
        return {}
    report.figures = [figure.texts for figure in images]
    return {figure.name: figure.image for figure in images}
