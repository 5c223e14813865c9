"""Predictions of rows to come, by the agents of an earlier run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float64, Int64, Shaped

from numerics.residual.agent_combination import AgentCombination
from numerics.residual.columns_and_outcomes import Outcomes
from protocols.models import decode_model
from protocols.residual.payloads import Enrolled, Order, Predict, Predicted, Present, Sum, Summed
from protocols.wire.payload import Payload, PayloadError
from strategies.conversation import Broadcast, Check, Conversation, Tell
from strategies.errors import FusionError
from strategies.residual.enrolment import CENTER, Matched, Names, check_predicted, match, names_of


@dataclass(frozen=True)
class Predictions:
    """What was predicted.

    Attributes
    ----------
    matched : Matched
        Which rows are common.
    entity : ndarray
        ``(n,)`` what the center calls the rows: names from its own file, else the keyed hashes as text, else row
        numbers; empty where the predictions are at the site that held the outcome.
    prediction : ndarray
        ``(n,)``; likewise.
    n : int
        How many.
    known : ndarray
        ``(n,)`` outcomes by the center's file, NaN where it has none; likewise.
    missing : tuple of str
        Agents whose part did not come: 0 stands for it, the mean of what an agent says.
    holder : str
        Where the predictions are; empty: at the center.
    """

    matched: Matched
    entity: Shaped[np.ndarray, "n"]
    prediction: Float64[np.ndarray, "n"]
    n: int
    known: Float64[np.ndarray, "n"]
    missing: tuple[str, ...]
    holder: str

    @property
    def measure(self) -> dict[str, float]:
        """For the progress line of the last round."""
        return {"predicted": float(self.n)}

    def metrics(self) -> dict[str, float]:
        """Names and numbers of `report.json`."""
        lost = self.matched.n_distinct - self.matched.n
        found = {"n_predicted": float(self.n), "n_aligned": float(self.matched.n), "n_lost": float(lost)}
        left = self.known - self.prediction
        left = left[np.isfinite(left)]
        if len(left):
            found |= {"test_mse": float(left @ left / len(left)), "n_test": float(len(left))}
        return found

    def arrays(self) -> dict[str, Shaped[np.ndarray, "..."]]:
        """Names and arrays of `arrays.npz`."""
        return {"entity": self.entity, "prediction": self.prediction} if self.holder == CENTER else {}

    def table(self) -> list[dict[str, Any]]:
        """A row for every party."""
        return [
            {"party": party or "(center)", "rows": self.matched.n + lost, "lost": lost}
            for party, lost in self.matched.lost.items()
        ]

    def notes(self) -> list[str]:
        """Sentences for the reader."""
        notes = []
        if self.missing:
            notes.append(f"{', '.join(self.missing)}: gave no part of the prediction: 0 stands for it")
        if self.holder:
            notes.append(f"the predictions are at {self.holder}, in its own directory: predictions.csv")
        return notes


def predict_at_center(
    earlier: Mapping[str, np.ndarray], salt: str, align: str, outcomes: Outcomes | None, center: Names | None
) -> Conversation[Predictions]:
    """One ask: every agent predicts its present rows, and the center sums up.

    Parameters
    ----------
    earlier : Mapping[str, ndarray]
        Arrays of the run that is to predict, and under ``session`` the name by which the agents keep its models.
    salt, align : str
        Of `Predict`.
    outcomes, center
        The center's own file of rows to predict, if it has one, and the names in it.
    """
    agents = tuple(str(name) for name in earlier["agents"])
    model = decode_model(earlier["model"]) if "model" in earlier else None
    ensemble = AgentCombination(agents, np.asarray(earlier["beta"], float), float(earlier["mean"]), model)
    ask = Predict(str(earlier["session"]), salt, align)
    answers: dict[str, Predicted] = yield Broadcast(ask, check=check_predicted)
    parts = {name: answer for name, answer in answers.items() if name in agents}
    if not parts:
        raise FusionError(f"no agent of that run answered; they are {', '.join(agents)}")
    parties = {name: names_of(answer) for name, answer in parts.items()}
    if center is not None:
        parties = {CENTER: center, **parties}
    matched = match(parties, next(iter(parties)))
    of_rows = {name: answer.part[matched.rows[name]] for name, answer in parts.items()}
    known = np.full(matched.n, np.nan) if outcomes is None else outcomes.y[matched.rows[CENTER]]
    return Predictions(
        matched=matched,
        entity=_called(matched, parts, outcomes),
        prediction=ensemble.predict(of_rows, matched.n),
        n=matched.n,
        known=known,
        missing=ensemble.missing(parts),
        holder=CENTER,
    )


def _called(matched: Matched, parts: Mapping[str, Predicted], outcomes: Outcomes | None) -> Shaped[np.ndarray, "n"]:
    """What the center calls the common rows."""
    if outcomes is not None and outcomes.entity is not None:
        return np.asarray(outcomes.entity[matched.rows[CENTER]])
    name, answer = next(iter(parts.items()))
    if not answer.kind:
        return matched.rows[name]
    words = np.ascontiguousarray(answer.keys[matched.rows[name]]).astype(">u8").view(np.uint8)
    return np.array([row.tobytes().hex() for row in words.reshape(-1, 16)])


def predict_at_holder(earlier: Mapping[str, np.ndarray], answers: Mapping[str, Enrolled]) -> Conversation[Predictions]:
    """The agents' parts go sealed to the site that held the outcome, which alone sees the predictions.

    Parameters
    ----------
    earlier : Mapping[str, ndarray]
        As in `predict_at_center`.
    answers : Mapping[str, Enrolled]
        What every site showed of its present rows.
    """
    agents, holder, run = [str(name) for name in earlier["agents"]], str(earlier["holder"]), str(earlier["session"])
    if holder not in answers:
        raise FusionError(f"{holder}, which held the outcome and sums up, does not answer")
    there = [name for name in answers if name in agents or name == holder]
    matched = match({name: names_of(answers[name]) for name in there}, holder)
    names, keys = tuple(there), tuple(answers[name].public_key for name in there)
    orders: dict[str, Payload] = {name: Order(matched.rows[name], "tree", 1, holder, names, keys) for name in there}
    asks: dict[str, Payload | tuple[Payload, ...]] = {
        name: order if name == holder else (order, Present(run, holder)) for name, order in orders.items()
    }
    replies: dict[str, Any] = yield Tell(asks)
    bodies = {name: reply[1].body for name, reply in replies.items() if name != holder}
    asked = Sum(run, tuple(bodies), tuple(bodies.values()))
    summed: dict[str, Summed] = yield Tell({holder: asked}, check=_check_summed(matched.n, agents))
    if holder not in summed:
        raise FusionError(f"{holder}, which held the outcome and sums up, does not answer")
    nothing: Int64[np.ndarray, "0"] = np.zeros(0, np.int64)
    return Predictions(
        matched=matched,
        entity=nothing,
        prediction=np.zeros(0),
        n=summed[holder].n,
        known=np.zeros(0),
        missing=summed[holder].missing,
        holder=holder,
    )


def _check_summed(n: int, agents: list[str]) -> Check:
    def check(site: str, answer: Summed) -> None:
        if answer.n != n or not set(answer.missing) <= set(agents):
            raise PayloadError(answer.title(), "n", f"expected {n} predictions, by agents of the run")

    return check
