"""Predictions of other rows by the agents of an earlier run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Float64, Int64, Shaped

from numerics.residual.agent_combination import AgentCombination, ClassScores
from numerics.residual.columns_and_outcomes import Outcomes
from numerics.shared.classification import as_metrics, class_arrays, classification_scores, prediction_columns
from protocols.models import decode_model
from protocols.residual.payloads import AgentPredictions, Holdings, Order, Predict, PredictionCount, Present, Sum
from protocols.wire.payload import Payload, PayloadError
from strategies.conversation import Broadcast, Check, Conversation, Tell
from strategies.errors import FusionError
from strategies.residual.alignment import CENTER, Alignment, EntityKeys, match, match_most
from strategies.residual.enrolment import check_predicted

_ROUNDING = 1e-4
"""Relative rounding error of a part of a prediction, which may cross the wire in single precision."""


@dataclass(frozen=True)
class OutcomePredictions:
    """Predicted outcomes of the common rows.

    Attributes
    ----------
    alignment : Alignment
        The common rows.
    entity : ndarray
        ``(n,)`` names of the rows from the center's own file, else their keyed hashes as text, else row numbers. This,
        `prediction` and `y` are empty if the predictions are at the site that held the outcome.
    prediction : ndarray
        ``(n,)`` predicted outcomes, or ``(n, k)`` probabilities of the classes.
    n : int
        Number of predictions.
    y : ndarray
        ``(n,)`` outcomes from the center's file, NaN if unknown.
    missing : tuple of str
        Agents whose part is missing: their predictions count as 0, which is the mean, and their bins as missing.
    holder : str
        The site that has the predictions, or `CENTER`.
    classes : tuple of str
        Names of the classes; empty for amounts.
    beyond : Mapping[str, int]
        By agent, the number of rows whose predictions its part moves far beyond its range in the run that learned.
    """

    alignment: Alignment
    entity: Shaped[np.ndarray, "n"]
    prediction: Float64[np.ndarray, "n ..."]
    n: int
    y: Float64[np.ndarray, "n"]
    missing: tuple[str, ...]
    holder: str
    classes: tuple[str, ...] = ()
    beyond: Mapping[str, int] = field(default_factory=dict)

    @property
    def measure(self) -> dict[str, float]:
        """Measures for the progress line of the last round."""
        return {"predicted": float(self.n)}

    def metrics(self) -> dict[str, float]:
        """Return the metrics of `report.json`."""
        metrics = {
            "n_predicted": float(self.n),
            "n_aligned": float(self.alignment.n),
            "n_lost": float(self.alignment.n_lost),
        }
        known = np.isfinite(self.y)
        if not known.any():
            return metrics
        metrics["n_test"] = float(known.sum())
        if self.classes:
            return metrics | as_metrics(classification_scores(self.prediction[known], self.y[known].astype(np.int64)))
        residual = self.y[known] - self.prediction[known]
        return metrics | {"test_mse": float(residual @ residual / len(residual))}

    def arrays(self) -> dict[str, Shaped[np.ndarray, "..."]]:
        """Return the arrays of `arrays.npz`."""
        if self.holder != CENTER:
            return {}
        arrays = {"entity": self.entity, **prediction_columns(self.prediction, self.classes)}
        known = np.isfinite(self.y)
        if not (self.classes and known.any()):
            return arrays
        return arrays | class_arrays(self.classes, self.prediction[known], self.y[known].astype(np.int64))

    def table(self) -> list[dict[str, Any]]:
        """Return a row for every site, and for the center if it has rows."""
        return [
            {"site": site or "(center)", "rows": self.alignment.n + lost, "lost": lost}
            for site, lost in self.alignment.lost.items()
        ]

    def notes(self) -> list[str]:
        """Return sentences for the reader of the report."""
        notes = []
        if self.missing:
            notes.append(f"{', '.join(self.missing)}: gave no part of the prediction: the mean stands for it")
        notes += [
            f"{name}: its part alone moves {count} of {self.n} predictions far beyond its range in the run that"
            " learned; look at its data, or predict without it"
            for name, count in self.beyond.items()
        ]
        if self.holder:
            notes.append(f"the predictions are at {self.holder}, in its own directory: predictions.csv")
        return notes


def predict_at_center(
    earlier: Mapping[str, np.ndarray], salt: str, align: str, outcomes: Outcomes | None, center: EntityKeys | None
) -> Conversation[OutcomePredictions]:
    """Ask every agent for predictions of its present rows, and combine them at the center.

    Parameters
    ----------
    earlier : Mapping[str, ndarray]
        Arrays of the run whose models predict, and its ``session``, under which the agents stored them.
    salt, align : str
        As of `Predict`.
    outcomes, center
        The center's own file of rows to predict, if it has one, and its entity keys.

    Raises
    ------
    FusionError
        If no agent of that run answers, or the rows cannot be matched.
    """
    agents = tuple(str(name) for name in earlier["agents"])
    classes = tuple(str(label) for label in earlier.get("classes", ()))
    scores = None
    if classes:
        places = tuple(int(place) for place in earlier["class_places"])
        scores = ClassScores(tuple(earlier["class_start"].tolist()), places, int(earlier["class_rows"]))
    model = decode_model(earlier["model"], len(scores.places) if scores else 0) if "model" in earlier else None
    weights, widths = (earlier["weights"], earlier["widths"]) if "widths" in earlier else (earlier["beta"], ())
    combination = AgentCombination(
        agents,
        np.asarray(weights, float),
        float(earlier["mean"]),
        model,
        tuple(int(width) for width in widths),
        tuple(int(each) for each in earlier.get("levels", ())),
        str(earlier.get("own_site", "")),
        float(earlier.get("own_share", 0.0)),
        scores,
    )
    ask = Predict(str(earlier["session"]), salt, align)
    check = check_predicted(earlier.get("part_limits", ()), combination)
    answers: dict[str, AgentPredictions] = yield Broadcast(ask, check=check)
    parts = {name: answer for name, answer in answers.items() if name in agents}
    if not parts:
        raise FusionError(f"no agent of that run answered; they are {', '.join(agents)}")
    keys = {name: EntityKeys.of(answer) for name, answer in parts.items()}
    if center is not None:
        keys = {CENTER: center, **keys}
    alignment = match(keys, CENTER) if center is not None else match_most(keys)
    parts = {name: answer for name, answer in parts.items() if name in alignment.rows}
    common = {name: answer.part[alignment.rows[name]] for name, answer in parts.items()}
    y = np.full(alignment.n, np.nan) if outcomes is None else outcomes.y[alignment.rows[CENTER]]
    return OutcomePredictions(
        alignment=alignment,
        entity=_row_names(alignment, parts, outcomes),
        prediction=combination.predict(common, alignment.n),
        n=alignment.n,
        y=y,
        missing=combination.missing(parts),
        holder=CENTER,
        classes=classes,
        beyond=_beyond(combination, common, alignment.n, earlier.get("reach", np.zeros((0, 2)))),
    )


def _beyond(
    combination: AgentCombination,
    parts: Mapping[str, Float64[np.ndarray, "n w"]],
    n: int,
    reach: Float64[np.ndarray, "D 2"],
) -> dict[str, int]:
    """Return, by agent, how many rows its part moves beyond its range in the run (`reach`) by more than half of it.

    In the run all leaves of trees have rows, and values beyond those of a real site count as its last group. So no
    honest agent of one column goes beyond its reach, and others do by combinations of columns that no row had.
    """
    counts: dict[str, int] = {}
    for name, change in combination.changes(parts, n).items() if len(reach) else ():
        low, high = reach[combination.names.index(name)].tolist()
        most = (high - low) / 2 + _ROUNDING * max(abs(low), abs(high))
        count = int((np.maximum(low - change, change - high) > most).sum())
        counts |= {name: count} if count else {}
    return counts


def _row_names(
    alignment: Alignment, parts: Mapping[str, AgentPredictions], outcomes: Outcomes | None
) -> Shaped[np.ndarray, "n"]:
    """Return the center's names of the common rows."""
    if outcomes is not None and outcomes.entity is not None:
        return np.asarray(outcomes.entity[alignment.rows[CENTER]])
    name, answer = next(iter(parts.items()))
    if not answer.kind:
        return alignment.rows[name]
    words = np.ascontiguousarray(answer.keys[alignment.rows[name]]).astype(">u8").view(np.uint8)
    return np.array([row.tobytes().hex() for row in words.reshape(-1, 16)])


def predict_at_holder(
    earlier: Mapping[str, np.ndarray], answers: Mapping[str, Holdings]
) -> Conversation[OutcomePredictions]:
    """Relay the agents' sealed parts to the site that held the outcome, which alone reads the predictions.

    Parameters
    ----------
    earlier : Mapping[str, ndarray]
        As of `predict_at_center`.
    answers : Mapping[str, Holdings]
        By site, its answer about its present rows.

    Raises
    ------
    FusionError
        If that site does not answer, or the rows cannot be matched.
    """
    agents, holder, run = [str(name) for name in earlier["agents"]], str(earlier["holder"]), str(earlier["session"])
    silent = f"{holder}, which held the outcome and sums up, does not answer"
    if holder not in answers:
        raise FusionError(silent)
    names = tuple(name for name in answers if name in agents or name == holder)
    alignment = match({name: EntityKeys.of(answers[name]) for name in names}, holder)
    names = tuple(name for name in names if name in alignment.rows)
    public_keys = tuple(answers[name].public_key for name in names)
    asks: dict[str, Payload | tuple[Payload, ...]] = {}
    for name in names:
        order = Order(alignment.rows[name], "tree", 1, holder, names, public_keys)
        asks[name] = order if name == holder else (order, Present(run, holder))
    replies: dict[str, Any] = yield Tell(asks)
    bodies = {name: reply[1].body for name, reply in replies.items() if name != holder}
    total = Sum(run, tuple(bodies), tuple(bodies.values()))
    summed: dict[str, PredictionCount] = yield Tell({holder: total}, check=_check_summed(alignment.n, agents))
    if holder not in summed:
        raise FusionError(silent)
    nothing: Int64[np.ndarray, "0"] = np.zeros(0, np.int64)
    return OutcomePredictions(
        alignment=alignment,
        entity=nothing,
        prediction=np.zeros(0),
        n=summed[holder].n,
        y=np.zeros(0),
        missing=summed[holder].missing,
        holder=holder,
    )


def _check_summed(n: int, agents: list[str]) -> Check:
    def check(site: str, answer: PredictionCount) -> None:
        if answer.n != n or not set(answer.missing) <= set(agents):
            raise PayloadError(answer.title(), "n", f"expected {n} predictions, by agents of the run")

    return check
