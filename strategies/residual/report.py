"""What a run of attribute-distributed regression found, in numbers and as a table."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float64, Shaped
from sklearn.base import BaseEstimator

from numerics.residual.rules import Result, Rules
from protocols.residual.payloads import Fit, Fitted, Show, Tried, Try
from strategies.residual.enrolment import CENTER, Roll
from strategies.residual.execution import Learned

_KINDS = ("train", "validation", "test")
_DOWN, _UP = {Fit.title(): "target", Try.title(): "residual"}, {Fitted.title(): "fitted", Tried.title(): "fitted"}
_NEGLIGIBLE = 1e-20
"""Mean squares below this share of the first are rounding errors."""


@dataclass(frozen=True)
class Outcome:
    """What was learned.

    Attributes
    ----------
    roll : Roll
        Who took part, and which rows are common.
    rules : Rules
        How it was learned.
    learned : Learned
        What came out.
    truth : Mapping[str, int]
        1 for a site with a relevant attribute; empty where nobody knows.
    agent : str
        The run's method, of sites that have none of their own.
    """

    roll: Roll
    rules: Rules
    learned: Learned
    truth: Mapping[str, int]
    agent: str

    @property
    def result(self) -> Result:
        """The ensemble."""
        return self.learned.result

    @property
    def measure(self) -> dict[str, float]:
        """For the progress line of the last round."""
        errors = self.result.curve[self.result.iteration]
        return {name: value for name, value in zip(_KINDS, errors.tolist(), strict=True) if math.isfinite(value)}


def metrics_of(outcome: Outcome) -> dict[str, float]:
    """Names and numbers of `report.json` (docs/residual.md)."""
    result = outcome.result
    train, test = result.curve[:, 0], result.curve[:, 2]
    found = {
        "train_mse": train[result.iteration],
        "train_mse_last": train[-1],
        "iterations": float(result.iteration),
        "n_aligned": float(outcome.roll.matched.n),
        "n_lost": float(outcome.roll.matched.n_distinct - outcome.roll.matched.n),
        "n_agents": float(len(result.names)),
    }
    if result.split.n_test:
        found |= {
            "test_mse": test[result.iteration],
            "test_mse_last": test[-1],
            "test_mse_best": test.min(),
            "n_test": float(result.split.n_test),
        }
        if result.algorithm == "parallel":  # iteration 0: everybody has fitted the outcome itself, combined by eq. (35)
            found["test_mse_once"] = test[0]
    if outcome.learned.trial is not None:
        found["validation_mse"] = outcome.learned.trial.curve[outcome.learned.trial.iteration, 1]
    if result.algorithm == "parallel":
        found["power"] = result.p
    if outcome.truth:
        relevant, irrelevant = _by_relevance(outcome)
        found |= {"power_relevant": relevant[-1], "power_irrelevant": irrelevant[-1]}
    if (ratio := _contraction(result)) is not None:
        found["contraction"] = ratio
    return {name: float(value) for name, value in found.items()}


def _contraction(result: Result) -> float | None:
    """By how much an agent's step shrinks from one of its turns to the next (Theorem 2), two agents taking turns."""
    steps = result.step_power
    if result.algorithm != "sip" or len(result.names) != 2 or len(steps) < 4:
        return None
    known = np.flatnonzero(steps > _NEGLIGIBLE * steps[0])
    last = int(known[-1])
    return float(steps[last] / steps[last - 2]) if last >= 3 else None


def _by_relevance(outcome: Outcome) -> tuple[Float64[np.ndarray, "t"], Float64[np.ndarray, "t"]]:
    """Eqs. (44) and (45) over N, about the parts' means, by iteration."""
    result = outcome.result
    relevant = _relevant(outcome)
    return result.power[:, relevant].sum(axis=1), result.power[:, ~relevant].sum(axis=1)


def _relevant(outcome: Outcome) -> Bool[np.ndarray, "D"]:
    """Which agents have a relevant attribute."""
    return np.array([bool(outcome.truth.get(name, 0)) for name in outcome.result.names])


def curves_of(outcome: Outcome) -> dict[str, Float64[np.ndarray, "t"]]:
    """Mean squared errors by iteration, of the kinds of rows that there are."""
    curve = outcome.result.curve
    found = {f"curve_{kind}": curve[:, place] for place, kind in enumerate(_KINDS)}
    if outcome.learned.trial is not None:
        found["curve_validation"] = outcome.learned.trial.curve[:, 1]
    if outcome.truth:
        found["curve_power_relevant"], found["curve_power_irrelevant"] = _by_relevance(outcome)
    return {name: values for name, values in found.items() if np.isfinite(values).all()}


def arrays_of(outcome: Outcome) -> dict[str, Shaped[np.ndarray, "..."]]:
    """Names and arrays of `arrays.npz` (docs/residual.md)."""
    result = outcome.result
    arrays: dict[str, Shaped[np.ndarray, "..."]] = {
        "agents": np.array(result.names),
        "beta": result.beta,
        "mean": np.array(result.mean),
        "holder": np.array(outcome.roll.holder),
        "power": result.power,
        **curves_of(outcome),
    }
    if outcome.truth:
        arrays["relevant"] = _relevant(outcome)
    if isinstance(result.model, BaseEstimator):
        from protocols.models import encode_model

        arrays["model"] = encode_model(result.model)
    return arrays


def table_of(outcome: Outcome) -> list[dict[str, Any]]:
    """A row for every party."""
    result, matched = outcome.result, outcome.roll.matched
    power = result.power[result.iteration]
    total = power.sum()
    rows = []
    if outcome.roll.holder == CENTER:
        rows.append({"party": "(center)", "rows": matched.n + matched.lost[CENTER], "lost": matched.lost[CENTER]})
    for site in outcome.roll.present:
        shown = outcome.roll.shown[site]
        row: dict[str, Any] = {
            "party": site,
            "rows": shown.n,
            "lost": matched.lost[site],
            "columns": shown.n_columns,
        }
        if site in result.names:
            place = result.names.index(site)
            row |= {"agent": shown.agent or outcome.agent, "beta": float(result.beta[place])}
            row["share of power"] = float(power[place] / total) if total else 0.0
        if site == outcome.roll.holder:
            row["outcome"] = "holds it"
        rows.append(row)
    return rows


def notes_on(outcome: Outcome) -> list[str]:
    """Sentences for the reader."""
    result, matched = outcome.result, outcome.roll.matched
    notes = []
    silent = [name for name, seen in zip(result.names, result.seen, strict=True) if not seen]
    if silent:
        notes.append(f"{', '.join(silent)}: have no part in the result; they gave no prediction, or had nothing to add")
    if unkept := outcome.learned.unkept:
        notes.append(
            f"{', '.join(unkept)}: did not say that their model is kept (silent at the end, or no site-output-dir);"
            " predictions later go without them"
        )
    lost = matched.n_distinct - matched.n
    if lost:
        worst = max(matched.lost.items(), key=lambda each: each[1])
        notes.append(
            f"{lost} of {matched.n_distinct} entities are not known to everybody and were left out"
            f" (most of them of {worst[0] or 'the fusion center'}: {worst[1]})"
        )
    if outcome.rules.keep and not matched.named:  # a scenario's rows are in order
        notes.append(
            "entities were matched by the number of their row: is it the same one at every party? (else set id)"
        )
    if matched.kinds:
        kinds = "; ".join(f"{party or 'the fusion center'}: {kind}" for party, kind in matched.kinds.items())
        notes.append(f"entities are named by numbers at some and by text at others ({kinds}): is one 012 and one 12?")
    if result.split.n_fit < 2 * outcome.rules.min_leaf:
        notes.append(
            f"{result.split.n_fit} rows were learned from, and a leaf of a tree has {outcome.rules.min_leaf} at least:"
            " no tree can split (residual.min-leaf)"
        )
    if result.iteration == len(result.curve) - 1 == outcome.rules.rounds and outcome.rules.stop != "rounds":
        notes.append(f"the error was still falling after {outcome.rules.rounds} iterations (residual.rounds)")
    return notes


def numbers_per_iteration(lines: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """How many numbers an iteration sends, to all sites and from them (the paper's Table II).

    The outcome itself, which every algorithm but sip and greedy sends to all agents before the first iteration, is not
    counted; nor is what was sent of validation and test rows. An error counts as one number.

    Parameters
    ----------
    lines : Sequence of Mapping
        Of the ledger (`protocols.wire.message.ledger_lines`).
    """
    asked = [line for line in lines if line["payload"] in _DOWN and line["direction"] == "to_site"]
    if not asked:
        return {}
    first = min(line["round"] for line in asked)
    opening = [line for line in asked if line["round"] == first]
    # Steps of a sum are sent to one agent, or tried by all: what is fitted by all at once is the outcome.
    whole = any(line["payload"] == Fit.title() for line in opening) and len({line["site"] for line in opening}) > 1
    counted = [line for line in lines if line["round"] > first or not whole]
    down, up = ([line for line in counted if line["payload"] in fields] for fields in (_DOWN, _UP))
    iterations = len({line["round"] for line in down})
    shown = sum(line["payload"] == Show.title() for line in counted)
    errors = sum(line["payload"] == Tried.title() for line in up)
    return {
        "numbers_down": sum(math.prod(_shape(line)) for line in down) / max(iterations, 1),
        "numbers_up": (sum(math.prod(_shape(line)) for line in up) + errors) / max(iterations, 1),
        "asks_per_iteration": (iterations + shown) / max(iterations, 1),
    }


def _shape(line: Mapping[str, Any]) -> Sequence[int]:
    """Of the numbers that are fitted, or predicted."""
    shape: Sequence[int] = line["fields"][{**_DOWN, **_UP}[line["payload"]]]["shape"]
    return shape
