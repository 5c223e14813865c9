"""Metrics, arrays, table and costs of a run of attribute-distributed regression."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float64, Shaped
from sklearn.base import BaseEstimator

from numerics.residual.rules import LearningResult, Rules
from numerics.shared.classification import as_metrics, class_arrays, scores_in
from protocols.residual.payloads import Fit, FittedValues, Show, TrialFit, Try
from strategies.influence import Influence
from strategies.residual.alignment import CENTER
from strategies.residual.enrolment import Enrolment
from strategies.residual.execution import PlanResult, measure_of

_KINDS = ("train", "validation", "test")
_DOWN, _UP = (
    {Fit.title(): "target", Try.title(): "residual"},
    {FittedValues.title(): "fitted", TrialFit.title(): "fitted"},
)
_NEGLIGIBLE = 1e-20
"""Mean squares below this share of the first are rounding errors."""


@dataclass(frozen=True)
class ResidualOutcome:
    """What a run has learned.

    Attributes
    ----------
    enrolment : Enrolment
        The sites, and their common rows.
    rules : Rules
        Settings of learning.
    plan : PlanResult
        Result of the plan.
    truth : Mapping[str, int]
        1 for a site with a relevant attribute, else 0; empty if unknown.
    agent : str
        The run's method, for sites without a method of their own.
    """

    enrolment: Enrolment
    rules: Rules
    plan: PlanResult
    truth: Mapping[str, int]
    agent: str

    @property
    def result(self) -> LearningResult:
        """Combination of the agents."""
        return self.plan.result

    @property
    def measure(self) -> dict[str, float]:
        """Measures for the progress line of the last round."""
        return measure_of(self.result.curve[self.result.iteration])


def metrics_of(outcome: ResidualOutcome) -> dict[str, float]:
    """Return the metrics of `report.json` (docs/residual.md)."""
    result, alignment = outcome.result, outcome.enrolment.alignment
    metrics = {
        **_errors(outcome),
        "iterations": float(result.iteration),
        "n_aligned": float(alignment.n),
        "n_lost": float(alignment.n_lost),
        "n_agents": float(len(result.names)),
    }
    if result.split.n_test:
        metrics["n_test"] = float(result.split.n_test)
    if result.algorithm == "parallel":
        metrics["power"] = result.p
    if outcome.truth:
        relevant, irrelevant = _by_relevance(outcome)
        metrics |= {"power_relevant": relevant[-1], "power_irrelevant": irrelevant[-1]}
    if (ratio := _contraction(result)) is not None:
        metrics["contraction"] = ratio
    return {name: float(value) for name, value in metrics.items()}


def _errors(outcome: ResidualOutcome) -> dict[str, float]:
    """Return the errors of the result, and of sites alone; of classes, all scores on the test rows."""
    result, trial = outcome.result, outcome.plan.trial
    train, test = result.curve[:, 0], result.curve[:, 2]
    validation = {} if trial is None else {"validation": trial.curve[trial.iteration, 1]}
    if classes := outcome.enrolment.classes:
        metrics = {
            f"{kind}_log_loss": value for kind, value in {"train": train[result.iteration], **validation}.items()
        }
        metrics["n_classes"] = float(len(classes))
        if result.threshold >= 0:
            metrics["threshold"] = result.threshold
        for way, place in _scored(outcome).items():
            metrics |= as_metrics(scores_in(result.scores[place]), way)
        return metrics
    metrics = {"train_mse": train[result.iteration], "train_mse_last": train[-1]}
    if result.split.n_test:
        metrics |= {"test_mse": test[result.iteration], "test_mse_last": test[-1], "test_mse_best": test.min()}
        metrics |= {f"mse_{way}": values[0] for way, values in _alone(outcome).items()}
        if result.algorithm == "parallel":  # iteration 0: each agent has fitted the outcome, combined by eq. (35)
            metrics["test_mse_once"] = test[0]
    return metrics | {f"{kind}_mse": value for kind, value in validation.items()}


def _scored(outcome: ResidualOutcome) -> dict[str, int]:
    """Return the rows of the result's scores by way: joint (no name), the best site alone, and the holder alone."""
    result, alone = outcome.result, outcome.result.alone
    if not len(result.scores):
        return {}
    names = {way: 1 + alone.names.index(name) for way, name in _named_alone(outcome).items()} if alone else {}
    return {"": 0, **names}


def _named_alone(outcome: ResidualOutcome) -> dict[str, str]:
    """Return the best site alone, and the holder of the outcome if it is another one."""
    alone, holder = outcome.result.alone, outcome.enrolment.holder
    if alone is None:
        return {}
    other = holder in alone.names and holder != alone.best
    return {"alone": alone.best, **({"holder": holder} if other else {})}


def _alone(outcome: ResidualOutcome) -> dict[str, Float64[np.ndarray, "3"]]:
    """Return the errors of `_named_alone`, as of `Alone.of`."""
    alone = outcome.result.alone
    return {way: alone.of(name) for way, name in _named_alone(outcome).items()} if alone else {}


def _contraction(result: LearningResult) -> float | None:
    """Return the ratio of the mean squares of an agent's last two steps (Theorem 2), for two agents that take turns."""
    steps = result.step_power
    if result.algorithm != "sip" or len(result.names) != 2 or len(steps) < 4:
        return None
    last = int(np.flatnonzero(steps > _NEGLIGIBLE * steps[0])[-1])
    return float(steps[last] / steps[last - 2]) if last >= 3 else None


def _by_relevance(outcome: ResidualOutcome) -> tuple[Float64[np.ndarray, "t"], Float64[np.ndarray, "t"]]:
    """Return eqs. (44) and (45) by iteration, divided by N and about the means of the parts."""
    result = outcome.result
    relevant = _relevant(outcome)
    return result.power[:, relevant].sum(axis=1), result.power[:, ~relevant].sum(axis=1)


def _relevant(outcome: ResidualOutcome) -> Bool[np.ndarray, "D"]:
    """Return which agents have a relevant attribute."""
    return np.array([bool(outcome.truth.get(name, 0)) for name in outcome.result.names])


def curves_of(outcome: ResidualOutcome) -> dict[str, Float64[np.ndarray, "t"]]:
    """Return mean squared errors by iteration for each kind of row, and powers if relevance is known."""
    curve = outcome.result.curve
    curves = {f"curve_{kind}": curve[:, column] for column, kind in enumerate(_KINDS)}
    if outcome.plan.trial is not None:
        curves["curve_validation"] = outcome.plan.trial.curve[:, 1]
    if outcome.truth:
        curves["curve_power_relevant"], curves["curve_power_irrelevant"] = _by_relevance(outcome)
    return {name: values for name, values in curves.items() if np.isfinite(values).all()}


def arrays_of(outcome: ResidualOutcome) -> dict[str, Shaped[np.ndarray, "..."]]:
    """Return the arrays of `arrays.npz` (docs/residual.md)."""
    result = outcome.result
    arrays: dict[str, Shaped[np.ndarray, "..."]] = {
        "agents": np.array(result.names),
        "beta": result.beta,
        "mean": np.array(result.mean),
        "holder": np.array(outcome.enrolment.holder),
        "power": result.power,
        **curves_of(outcome),
    }
    if result.weights is not None:
        arrays |= {"weights": result.weights, "widths": np.array(result.widths)}
    if result.own_site:
        arrays |= {"own_site": np.array(result.own_site), "own_share": np.array(result.own_share)}
    if result.levels:
        arrays["levels"] = np.array(result.levels)
    if outcome.plan.limits:  # a part is the sum of an agent's steps
        n_steps = max(result.iteration, 1) if result.algorithm in ("sip", "greedy") else 1
        arrays["part_limits"] = n_steps * np.array(outcome.plan.limits)
    if len(outcome.plan.reach):
        arrays["reach"] = outcome.plan.reach
    arrays |= _arrays_of_classes(outcome)
    measure = "log_loss" if outcome.enrolment.classes else "mse"
    for way, (_, difference, error) in _alone(outcome).items():
        of_several = [len(result.alone.names)] if way == "alone" and result.alone else []
        arrays[f"paired_{measure}_{way}"] = np.array([difference, error, result.split.n_test, *of_several])
    if outcome.truth:
        arrays["relevant"] = _relevant(outcome)
    if isinstance(result.model, BaseEstimator):
        from protocols.models import encode_model

        arrays["model"] = encode_model(result.model, len(result.classes.places) if result.classes else 0)
    return arrays


def _arrays_of_classes(outcome: ResidualOutcome) -> dict[str, Shaped[np.ndarray, "..."]]:
    """Return the arrays about classes: their names, fields for later predictions, and scores on test rows."""
    result, names = outcome.result, outcome.enrolment.classes
    if not names:
        return {}
    arrays: dict[str, Shaped[np.ndarray, "..."]] = {"classes": np.array(names)}
    if len(result.scores):
        arrays["scores"] = result.scores
    if result.classes is not None:
        arrays["class_start"] = np.array(result.classes.start)
        arrays["class_places"] = np.array(result.classes.places, np.int64)
        arrays["class_rows"] = np.array(result.classes.n_rows)
    if len(outcome.plan.y_test) and len(result.probabilities):
        arrays |= class_arrays(names, result.probabilities, outcome.plan.y_test.astype(np.int64))
    return arrays


def table_of(outcome: ResidualOutcome) -> list[dict[str, Any]]:
    """Return a row for every site, and for the center if it holds the outcome."""
    result, enrolment = outcome.result, outcome.enrolment
    alignment = enrolment.alignment
    power = result.power[result.iteration]
    total = power.sum()
    rows = []
    if enrolment.holder == CENTER:
        rows.append({"site": "(center)", "rows": alignment.n + alignment.lost[CENTER], "lost": alignment.lost[CENTER]})
    for site in enrolment.sites:
        answer = enrolment.answers[site]
        row: dict[str, Any] = {
            "site": site,
            "rows": answer.n,
            "lost": alignment.lost[site],
            "columns": answer.n_columns,
        }
        if site in result.names:
            j = result.names.index(site)
            bins = result.levels and result.combination.levels_of(site)
            agent = f"{max(bins)} bins" if bins else answer.agent or outcome.agent
            row |= {"agent": agent, "beta": float(result.beta[j])}
            row["share of power"] = float(power[j] / total) if total else 0.0
            if result.alone is not None and site in result.alone.names:
                row["alone"] = float(result.alone.of(site)[0])
        if site == enrolment.holder:
            row["outcome"] = "holds it"
        rows.append(row)
    return rows


def influence_in(outcome: ResidualOutcome) -> Influence:
    """Return the error without each agent on test rows, or where there are none on training rows."""
    result = outcome.result
    if result.without is None:
        return Influence.unknown_since("the predictions crossed sealed, and the fusion center holds none")
    kind = kind_of(result)
    without = dict(zip(result.names, result.without.errors[:, kind].tolist(), strict=True))
    measure = f"{_KINDS[kind]}_mse"
    if outcome.enrolment.classes:
        measure = "log_loss" if kind == 2 else f"{_KINDS[kind]}_log_loss"
    return Influence(measure, float(result.curve[result.iteration, kind]), without)


def kind_of(result: LearningResult) -> int:
    """Return the kind of row on which agents are judged: test rows, or where there are none training rows."""
    return 2 if result.split.n_test else 0


def excluded_in(outcome: ResidualOutcome) -> dict[str, str]:
    """Return the sites that are not in the result although they answered, with the reason."""
    reason = "raised the error on validation rows, and was left out from then on (residual.robust)"
    return {**outcome.enrolment.excluded, **dict.fromkeys(outcome.result.left_out, reason)}


def numbers_per_iteration(lines: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Count the numbers sent in an iteration, to all sites and from them (Table II).

    Numbers of validation and test rows do not count, nor does the outcome, which every algorithm but sip and greedy
    sends to all agents before the first iteration. An error counts as one number.

    Parameters
    ----------
    lines : Sequence of Mapping
        Lines of the ledger (`protocols.wire.message.ledger_lines`).
    """
    asks = [line for line in lines if line["payload"] in _DOWN and line["direction"] == "to_site"]
    if not asks:
        return {}
    first = min(line["round"] for line in asks)
    opening = [line for line in asks if line["round"] == first]
    # A `Fit` to several agents at once is the outcome; a step of sip goes to one agent, one of greedy is a `Try`.
    several = len({line["site"] for line in opening}) > 1
    has_outcome = several and any(line["payload"] == Fit.title() for line in opening)
    counted = [line for line in lines if line["round"] > first or not has_outcome]
    down, up = ([line for line in counted if line["payload"] in fields] for fields in (_DOWN, _UP))
    iterations = len({line["round"] for line in down})
    n_shows = sum(line["payload"] == Show.title() for line in counted)
    n_errors = sum(line["payload"] == TrialFit.title() for line in up)
    return {
        "numbers_down": sum(math.prod(_shape(line)) for line in down) / max(iterations, 1),
        "numbers_up": (sum(math.prod(_shape(line)) for line in up) + n_errors) / max(iterations, 1),
        "asks_per_iteration": (iterations + n_shows) / max(iterations, 1),
    }


def _shape(line: Mapping[str, Any]) -> Sequence[int]:
    """Return the shape of the targets, or of the predictions of training rows."""
    shape: Sequence[int] = line["fields"][{**_DOWN, **_UP}[line["payload"]]]["shape"]
    return shape
