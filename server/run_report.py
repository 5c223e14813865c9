"""The report of a run that has ended."""

from __future__ import annotations

from server.evaluation import Evaluation
from server.report.commands import consilience_command, flwr_command
from server.report.data import Report
from server.report.headline import differences
from server.report.influence import as_data
from server.report.overview import overview
from server.report.summary import ledger_summary
from server.report.verdict import judge
from server.run_plan import RunPlan
from server.versions import versions
from strategies.fusion import FusionResult, FusionStrategy


def make_report(plan: RunPlan, strategy: FusionStrategy, result: FusionResult, evaluation: Evaluation) -> Report:
    """Return the report of a run, without its figures.

    Parameters
    ----------
    plan : RunPlan
        Plan of the run.
    strategy : FusionStrategy
        Strategy after the run.
    result : FusionResult
        Sites, rounds, ledger and failures of the run.
    evaluation : Evaluation
        Metrics, table and arrays of the run.
    """
    n_simulated = plan.n_sites if plan.simulated else 0
    missing = _missing(result, evaluation)
    scenario = plan.scenario
    report = Report(
        scenario=plan.name,
        protocol=plan.protocol,
        seed=strategy.seed,
        sites=result.sites,
        rounds=result.rounds,
        seconds=result.seconds,
        metrics=evaluation.metrics,
        published=_published_values(plan),
        table=evaluation.table,
        ledger=ledger_summary(result.ledger),
        versions=versions(plan.protocol),
        missing=missing,
        lost=result.lost,
        notes=[*evaluation.notes, *_rebuilt(result), *plan.prepared],
        config=dict(plan.config),
        command=flwr_command(plan.typed, n_simulated),
        convergence=result.convergence,
        session=strategy.session,
        overview=overview(
            plan.protocol,
            plan.config,
            [cell.settings for cell in plan.cells],
            len({*result.sites, *missing}),
            f"{scenario.summary}. Source: {scenario.source}." if scenario else "",
            {line["payload"] for line in result.ledger},
            evaluation.arrays,
        ),
        differences=differences(plan.protocol, evaluation.metrics, evaluation.arrays),
        influence=as_data(evaluation.influence),
        shorthand=consilience_command(plan.typed, n_simulated),
    )
    report.verdict = judge(report, evaluation.arrays, plan.cautions, evaluation.influence).as_data()
    return report


def _published_values(plan: RunPlan) -> dict[str, float]:
    """Return the published figures of the scenario; of a table with one row, those of that row."""
    if plan.scenario is None:
        return {}
    return dict(plan.cells[0].published if len(plan.cells) == 1 else plan.scenario.published)


def _missing(result: FusionResult, evaluation: Evaluation) -> dict[str, list[str]]:
    """Return by site its failures, and the reason why the result leaves it out although it answered."""
    missing = {site: list(events) for site, events in result.missing.items()}
    for site, reason in evaluation.excluded.items():
        missing.setdefault(site, []).append(reason)
    return missing


def _rebuilt(result: FusionResult) -> list[str]:
    """Return a sentence for every site that lost its memory and rebuilt it."""
    return [
        f"{site} lost its memory, and rebuilt it from repeated asks in round {', '.join(map(str, rounds))}"
        for site, rounds in sorted(result.rebuilt.items())
    ]
