"""Send each query point to its top-K experts; where an expert does not answer, fall back to the next one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float16, Float64, Int64

from protocols.gp.payloads import Predict, Predictions
from protocols.wire.payload import specs
from strategies.conversation import Conversation, Tell
from strategies.gp.checks import check_predictions
from strategies.gp.expert_registry import ExpertRegistry


@dataclass(frozen=True, eq=False)
class PredictionSetup:
    """What is the same in every ask for predictions.

    Attributes
    ----------
    kernel : str
        Its text on the wire.
    theta : ndarray
        ``(p,)`` hyperparameters.
    max_rows : int
        Of an expert.
    landmarks, seed : int
        Of the features; 0 landmarks: no features.
    shared_x, shared_y : ndarray
        ``(s, d)`` and ``(s,)`` rows of the communication expert.
    shared_rows : dict[str, int]
        By site, how many rows it was asked to share.
    """

    kernel: str
    theta: Float64[np.ndarray, "p"]
    max_rows: int
    landmarks: int
    seed: int
    shared_x: Float64[np.ndarray, "s d"]
    shared_y: Float64[np.ndarray, "s"]
    shared_rows: Mapping[str, int]


@dataclass(frozen=True, eq=False)
class _OneExpert:
    """The predictions of one expert at some points, whose numbers ascend."""

    points: Int64[np.ndarray, "q"]
    mean: Float64[np.ndarray, "q"]
    explained: Float64[np.ndarray, "q"]
    features: Float16[np.ndarray, "q D"]

    def with_more(self, other: _OneExpert) -> _OneExpert:
        """Return these predictions together with those of another round."""
        order = np.argsort(np.concatenate([self.points, other.points]), kind="stable")
        return _OneExpert(
            np.concatenate([self.points, other.points])[order],
            np.concatenate([self.mean, other.mean])[order],
            np.concatenate([self.explained, other.explained])[order],
            np.concatenate([self.features, other.features])[order],
        )


@dataclass(frozen=True, eq=False)
class ExpertAnswers:
    """The experts' predictions at N points.

    Attributes
    ----------
    selected : ndarray
        ``(N, K)`` numbers of the experts of each point, the most suitable first; -1: none is left.
    mean, explained : ndarray
        ``(N, K)`` their predictions, in the common units; 0 where there is none.
    features : ndarray
        ``(N, K, D)``; D is 0 without landmarks.
    available : ndarray
        ``(M,)`` whether an expert answered every ask.
    n_bytes : int
        Of the asks and their answers.
    """

    selected: Int64[np.ndarray, "N K"]
    mean: Float64[np.ndarray, "N K"]
    explained: Float64[np.ndarray, "N K"]
    features: Float16[np.ndarray, "N K D"]
    available: Bool[np.ndarray, "M"]
    n_bytes: int

    def select(self, experts: Int64[np.ndarray, "N K"]) -> ExpertAnswers:
        """Keep the answers of some experts of each point, by number; each is among the point's own."""
        # (N, K, K'): where each of these experts stands among those of the point.
        place = (self.selected[:, np.newaxis, :] == experts[:, :, np.newaxis]).argmax(axis=2)
        return ExpertAnswers(
            experts,
            np.take_along_axis(self.mean, place, axis=1),
            np.take_along_axis(self.explained, place, axis=1),
            np.take_along_axis(self.features, place[:, :, np.newaxis], axis=1),
            self.available,
            self.n_bytes,
        )


def ask_experts(
    registry: ExpertRegistry,
    points: Float64[np.ndarray, "N d"],
    ranking: Int64[np.ndarray, "N M"],
    K: int,
    available: Bool[np.ndarray, "M"],
    setup: PredictionSetup,
) -> Conversation[ExpertAnswers]:
    """Ask the first K experts of every point's ranking; where one does not answer, the next, until all have.

    The predictions that an expert gave at some points count, also where it is silent on points that come to it later.

    Parameters
    ----------
    registry : ExpertRegistry
        The experts.
    points : ndarray
        ``(N, d)`` in the common units.
    ranking : ndarray
        ``(N, M)`` all experts of each point, the most suitable first.
    K : int
        Experts of a point.
    available : ndarray
        ``(M,)`` which experts can be asked at all.
    setup : PredictionSetup
        The model.
    """
    by_expert: dict[int, _OneExpert] = {}
    available, n_bytes = available.copy(), 0
    answered = np.zeros(ranking.shape, bool)
    while True:
        selected = first_available(ranking, K, available | answered)
        new = {e: points_of for e, points_of in _points_by_expert(selected).items() if len(points_of)}
        new = {
            e: np.setdiff1d(p, by_expert[e].points, assume_unique=True) if e in by_expert else p for e, p in new.items()
        }
        asks = _asks(registry, points, {e: p for e, p in new.items() if len(p)}, setup)
        if not asks:
            return _together(by_expert, selected, setup.landmarks, available, n_bytes)
        measure = {"queries": float(len(points))}
        # A stand-in for a lost site may refuse, too: the answers so far are still good, so the run goes on.
        answers: dict[str, Predictions] = yield Tell(
            asks,
            check=check_predictions(asks, registry, setup.kernel, setup.theta),
            measure=measure,
            needed=not by_expert,
        )
        n_bytes += sum(map(_size, asks.values())) + sum(map(_size, answers.values()))
        for site, ask in asks.items():
            for place, expert in enumerate(registry.places[site].tolist()):
                if site not in answers:
                    available[expert] = False
                elif len(ask.points[place]):
                    answer = answers[site]
                    more = _OneExpert(new[expert], answer.mean[place], answer.explained[place], answer.features[place])
                    by_expert[expert] = by_expert[expert].with_more(more) if expert in by_expert else more
                    answered[new[expert], expert] = True


def first_available(
    ranking: Int64[np.ndarray, "N M"], K: int, available: Bool[np.ndarray, "N M"]
) -> Int64[np.ndarray, "N K"]:
    """Return the first K experts of each ranking that are available for the point; -1 behind the last one.

    Examples
    --------
    >>> first_available(np.array([[2, 0, 1]]), 2, np.array([[True, True, False]])).tolist()
    [[0, 1]]
    """
    present = np.take_along_axis(available, ranking, axis=1)
    first = np.argsort(~present, axis=1, kind="stable")[:, :K]
    found = np.take_along_axis(present, first, axis=1)
    return np.where(found, np.take_along_axis(ranking, first, axis=1), -1)


def _points_by_expert(selected: Int64[np.ndarray, "N K"]) -> dict[int, Int64[np.ndarray, "q"]]:
    """Return by expert the points that it was selected for, ascending."""
    point, _ = np.nonzero(selected >= 0)
    expert = selected[selected >= 0]
    order = np.argsort(expert, kind="stable")
    numbers, first = np.unique(expert[order], return_index=True)
    return dict(zip(numbers.tolist(), np.split(point[order], first[1:]), strict=True)) if len(numbers) else {}


def _asks(
    registry: ExpertRegistry,
    points: Float64[np.ndarray, "N d"],
    new: Mapping[int, Int64[np.ndarray, "q"]],
    setup: PredictionSetup,
) -> dict[str, Predict]:
    none = np.zeros((0, points.shape[1]))
    asks = {}
    for site, places in registry.places.items():
        own = tuple(points[new[e]] if e in new else none for e in places.tolist())
        if any(map(len, own)):
            asks[site] = Predict(
                **registry.agreement(site, setup.max_rows),
                kernel=setup.kernel,
                theta=setup.theta,
                points=own,
                landmarks=setup.landmarks,
                seed=setup.seed,
                varies=registry.varies,
                shared_rows=setup.shared_rows.get(site, 0),
                shared_x=setup.shared_x,
                shared_y=setup.shared_y,
            )
    return asks


def _together(
    by_expert: Mapping[int, _OneExpert],
    selected: Int64[np.ndarray, "N K"],
    D: int,
    available: Bool[np.ndarray, "M"],
    n_bytes: int,
) -> ExpertAnswers:
    mean, explained = np.zeros(selected.shape), np.zeros(selected.shape)
    features = np.zeros((*selected.shape, D), np.float16)
    for expert, own in by_expert.items():
        point, column = np.nonzero(selected == expert)
        place = np.searchsorted(own.points, point)
        mean[point, column] = own.mean[place]
        explained[point, column] = own.explained[place]
        features[point, column] = own.features[place]
    return ExpertAnswers(selected, mean, explained, features, available, n_bytes)


def _size(payload: Any) -> int:
    """Return the bytes of a payload's arrays, as the ledger counts them."""
    total = 0
    for name, spec in specs(type(payload)).items():
        value = getattr(payload, name)
        if spec.kind == "array":
            total += value.nbytes
        elif spec.kind == "arrays":
            total += sum(each.nbytes for each in value)
    return total
