"""Predictions: send each query point to its top-K experts, and fall back to the next one if an expert is silent."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Bool, Float16, Float32, Float64, Int64

from numerics.gp.joint_answers import sizes
from protocols.gp.payloads import Predict, Predictions
from protocols.wire.payload import specs
from strategies.conversation import Conversation, Tell
from strategies.gp.checks import check_predictions
from strategies.gp.expert_registry import ExpertRegistry


@dataclass(frozen=True, eq=False)
class PredictionSetup:
    """Fields that are the same in every ask for predictions.

    Attributes
    ----------
    kernel : str
        The kernel's text on the wire.
    theta : ndarray
        ``(p,)`` hyperparameters.
    max_rows : int
        Largest number of rows of an expert.
    landmarks, seed : int
        Number of landmarks of the features, and the seed that draws them; no features with 0 landmarks.
    joint : bool
        Whether experts also predict at the landmarks.
    shared_x, shared_y : ndarray
        ``(s, d)`` inputs and ``(s,)`` outputs of the communication expert.
    shared_rows : dict[str, int]
        By site, the number of rows that it was asked to share.
    """

    kernel: str
    theta: Float64[np.ndarray, "p"]
    max_rows: int
    landmarks: int
    seed: int
    joint: bool
    shared_x: Float64[np.ndarray, "s d"]
    shared_y: Float64[np.ndarray, "s"]
    shared_rows: Mapping[str, int]


@dataclass(frozen=True, eq=False)
class _OneExpert:
    """Predictions of one expert at some points, in ascending order of the points' numbers.

    Here and below, a point with several outputs, one for each class, is repeated for each. An ask has it once.
    """

    points: Int64[np.ndarray, "q"]
    mean: Float64[np.ndarray, "q"]
    explained: Float64[np.ndarray, "q"]
    features: Float16[np.ndarray, "q D"]
    further: Float32[np.ndarray, "q A"]

    @classmethod
    def of(cls, points: Int64[np.ndarray, "q"], answer: Predictions, place: int) -> _OneExpert:
        """Return the predictions of these points by a site's expert with the number `place`."""
        further = np.zeros((len(points), 0), np.float32)
        if answer.further_mean:
            further = np.concatenate(
                [answer.further_mean[place], answer.further_unknown[place]], axis=1, dtype=np.float32
            )
        return cls(points, answer.mean[place], answer.explained[place], answer.features[place], further)

    def merge(self, other: _OneExpert) -> _OneExpert:
        """Return these predictions together with those of another round."""
        order = np.argsort(np.concatenate([self.points, other.points]), kind="stable")
        return _OneExpert(
            np.concatenate([self.points, other.points])[order],
            np.concatenate([self.mean, other.mean])[order],
            np.concatenate([self.explained, other.explained])[order],
            np.concatenate([self.features, other.features])[order],
            np.concatenate([self.further, other.further])[order],
        )


@dataclass(frozen=True, eq=False)
class ExpertAnswers:
    """The experts' predictions at N points.

    Attributes
    ----------
    selected : ndarray
        ``(N, K)`` numbers of the experts of each point, the most suitable first; -1 if no expert is left.
    mean, explained : ndarray
        ``(N, K)`` means and explained variances, in the common units; 0 without an expert.
    features : ndarray
        ``(N, K, D)`` features that give covariances between experts; D is 0 without landmarks.
    further : ndarray
        ``(N, K, A)`` predictions at the landmarks (`numerics.gp.joint_answers`); A is 0 if nobody was asked for them.
    available : ndarray
        ``(M,)`` mask of the experts that answered every ask.
    distrusted : ndarray
        ``(M,)`` mask of the experts whose answers do not count, and which others replace.
    n_bytes : int
        Bytes of the asks and answers.
    """

    selected: Int64[np.ndarray, "N K"]
    mean: Float64[np.ndarray, "N K"]
    explained: Float64[np.ndarray, "N K"]
    features: Float16[np.ndarray, "N K D"]
    further: Float32[np.ndarray, "N K A"]
    available: Bool[np.ndarray, "M"]
    distrusted: Bool[np.ndarray, "M"]
    n_bytes: int

    def select(self, experts: Int64[np.ndarray, "N K"]) -> ExpertAnswers:
        """Keep the answers of some experts of each point, by number; all of them must be experts of the point."""
        # (N, K, K'): whether an expert to keep is an expert of the point.
        place = (self.selected[:, np.newaxis, :] == experts[:, :, np.newaxis]).argmax(axis=2)
        return ExpertAnswers(
            experts,
            np.take_along_axis(self.mean, place, axis=1),
            np.take_along_axis(self.explained, place, axis=1),
            np.take_along_axis(self.features, place[:, :, np.newaxis], axis=1),
            np.take_along_axis(self.further, place[:, :, np.newaxis], axis=1),
            self.available,
            self.distrusted,
            self.n_bytes,
        )

    def without_features(self) -> ExpertAnswers:
        """Drop the features, which may take more memory than all the rest."""
        none = slice(0, 0)
        return replace(self, features=self.features[:, :, none].copy(), further=self.further[:, :, none].copy())


Distrust = Callable[[ExpertAnswers], Bool[np.ndarray, "M"]]
"""Returns, given all answers, a mask of the experts whose answers do not count."""


def ask_experts(
    registry: ExpertRegistry,
    points: Float64[np.ndarray, "N d"],
    ranking: Int64[np.ndarray, "N M"],
    K: int,
    available: Bool[np.ndarray, "M"],
    setup: PredictionSetup,
    distrusted: Bool[np.ndarray, "M"] | None = None,
    distrust: Distrust | None = None,
) -> Conversation[ExpertAnswers]:
    """Ask the first K experts of every point's ranking; if one does not answer, ask the next, until K have answered.

    An expert's predictions count even if it does not answer a later ask about other points. Experts that `distrust`
    rejects, given all answers, are replaced in the same way.

    Parameters
    ----------
    registry : ExpertRegistry
        The experts.
    points : ndarray
        ``(N, d)`` points in the common units, each as often as there are outputs (`ExpertRegistry.n_outputs`).
    ranking : ndarray
        ``(N, M)`` numbers of all experts for each point, the most suitable first.
    K : int
        Number of experts of a point.
    available : ndarray
        ``(M,)`` mask of the experts that may be asked.
    setup : PredictionSetup
        The model.
    distrusted : ndarray, optional
        ``(M,)`` mask of the experts that are not asked, because their answers would not count.
    distrust : Callable, optional
        Called when K experts of every point have answered. The experts whose answers do not count are then replaced.
    """
    by_expert: dict[int, _OneExpert] = {}
    available, n_bytes = available.copy(), 0
    answered = np.zeros(ranking.shape, bool)
    distrusted = np.zeros(len(available), bool) if distrusted is None else distrusted
    while True:
        selected = first_available(ranking, K, (available | answered) & ~distrusted)
        new = {e: points_of for e, points_of in _points_by_expert(selected).items() if len(points_of)}
        new = {
            e: np.setdiff1d(p, by_expert[e].points, assume_unique=True) if e in by_expert else p for e, p in new.items()
        }
        asks = _build_asks(registry, points, {e: p for e, p in new.items() if len(p)}, setup)
        if not asks:
            answers = _collect(by_expert, selected, setup, available, distrusted, n_bytes)
            if distrust is None or not (doubtful := distrust(answers)).any():
                return answers
            distrusted, distrust = distrusted | doubtful, None
            continue
        measure = {"queries": float(len(points) // registry.n_outputs)}
        # All sites that replace a lost one may fail, too. The answers so far stay valid, so the run goes on.
        replies: dict[str, Predictions] = yield Tell(
            asks,
            check=check_predictions(asks, registry, setup.kernel, setup.theta),
            measure=measure,
            needed=not by_expert,
        )
        n_bytes += sum(map(_size, asks.values())) + sum(map(_size, replies.values()))
        for site, ask in asks.items():
            for place, expert in enumerate(registry.places[site].tolist()):
                if site not in replies:
                    available[expert] = False
                elif len(ask.points[place]):
                    more = _OneExpert.of(new[expert], replies[site], place)
                    by_expert[expert] = by_expert[expert].merge(more) if expert in by_expert else more
                    answered[new[expert], expert] = True


def first_available(
    ranking: Int64[np.ndarray, "N M"], K: int, available: Bool[np.ndarray, "N M"]
) -> Int64[np.ndarray, "N K"]:
    """Return the first K experts of each ranking that are available for the point; -1 after the last of them.

    Examples
    --------
    >>> first_available(np.array([[2, 0, 1]]), 2, np.array([[True, True, False]])).tolist()
    [[0, 1]]
    """
    present = np.take_along_axis(available, ranking, axis=1)
    first = np.argsort(~present, axis=1, kind="stable")[:, :K]
    is_expert = np.take_along_axis(present, first, axis=1)
    return np.where(is_expert, np.take_along_axis(ranking, first, axis=1), -1)


def _points_by_expert(selected: Int64[np.ndarray, "N K"]) -> dict[int, Int64[np.ndarray, "q"]]:
    """Return, by expert, the ascending numbers of the points that it was selected for."""
    point, _ = np.nonzero(selected >= 0)
    expert = selected[selected >= 0]
    order = np.argsort(expert, kind="stable")
    numbers, first = np.unique(expert[order], return_index=True)
    return dict(zip(numbers.tolist(), np.split(point[order], first[1:]), strict=True)) if len(numbers) else {}


def _build_asks(
    registry: ExpertRegistry,
    points: Float64[np.ndarray, "N d"],
    new: Mapping[int, Int64[np.ndarray, "q"]],
    setup: PredictionSetup,
) -> dict[str, Predict]:
    """Return the asks, by site, for the new points of each expert."""
    no_points = np.zeros((0, points.shape[1]))
    asks = {}
    for site, places in registry.places.items():
        own = tuple(points[new[e][:: registry.n_outputs]] if e in new else no_points for e in places.tolist())
        if any(map(len, own)):
            asks[site] = Predict(
                **registry.agreement(site, setup.max_rows),
                kernel=setup.kernel,
                theta=setup.theta,
                points=own,
                landmarks=setup.landmarks,
                seed=setup.seed,
                varies=registry.varies,
                joint=setup.joint,
                shared_rows=setup.shared_rows.get(site, 0),
                shared_x=setup.shared_x,
                shared_y=setup.shared_y,
            )
    return asks


def _collect(
    by_expert: Mapping[int, _OneExpert],
    selected: Int64[np.ndarray, "N K"],
    setup: PredictionSetup,
    available: Bool[np.ndarray, "M"],
    distrusted: Bool[np.ndarray, "M"],
    n_bytes: int,
) -> ExpertAnswers:
    """Arrange the predictions of each expert by point and place in its ranking."""
    mean, explained = np.zeros(selected.shape), np.zeros(selected.shape)
    features = np.zeros((*selected.shape, setup.landmarks), np.float16)
    further = np.zeros((*selected.shape, sum(sizes(setup.landmarks)) if setup.joint else 0), np.float32)
    for expert, own in by_expert.items():
        point, column = np.nonzero(selected == expert)
        place = np.searchsorted(own.points, point)
        mean[point, column] = own.mean[place]
        explained[point, column] = own.explained[place]
        features[point, column], further[point, column] = own.features[place], own.further[place]
    return ExpertAnswers(selected, mean, explained, features, further, available, distrusted, n_bytes)


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
