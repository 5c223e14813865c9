"""Every query point to the experts that are chosen for it, and in place of one that does not answer, to the next."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float16, Float64, Int64

from protocols.gp.payloads import LARGEST, Predict, Predictions
from protocols.wire.payload import PayloadError, specs
from strategies.conversation import Check, Conversation, Tell
from strategies.gp.federation import Federation


@dataclass(frozen=True, eq=False)
class Asking:
    """What is the same in every ask for predictions.

    Attributes
    ----------
    kernel : str
        As it is called on the wire.
    theta : ndarray
        ``(p,)`` hyperparameters.
    max_rows : int
        Of an expert.
    landmarks, seed : int
        Of the features; 0 landmarks: no features.
    shared_x, shared_y : ndarray
        ``(s, d)`` and ``(s,)`` rows of the communication expert.
    shared_rows : dict[str, int]
        By site, how many rows it was asked for.
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
class _Said:
    """What one expert said: of which points (ascending), and what."""

    points: Int64[np.ndarray, "q"]
    mean: Float64[np.ndarray, "q"]
    explained: Float64[np.ndarray, "q"]
    features: Float16[np.ndarray, "q D"]

    def joined(self, other: _Said) -> _Said:
        """With what it said in another round."""
        order = np.argsort(np.concatenate([self.points, other.points]), kind="stable")
        return _Said(
            np.concatenate([self.points, other.points])[order],
            np.concatenate([self.mean, other.mean])[order],
            np.concatenate([self.explained, other.explained])[order],
            np.concatenate([self.features, other.features])[order],
        )


@dataclass(frozen=True, eq=False)
class Answers:
    """What the experts said of N points.

    Attributes
    ----------
    selected : ndarray
        ``(N, K)`` numbers of the experts of each point, the most suitable first; -1: none is left.
    mean, explained : ndarray
        ``(N, K)`` their predictions, in the agreed units; 0 where there is none.
    features : ndarray
        ``(N, K, D)``; no D without landmarks.
    there : ndarray
        ``(M,)`` whether an expert answered whatever it was asked.
    n_bytes : int
        Of the asks and their answers.
    """

    selected: Int64[np.ndarray, "N K"]
    mean: Float64[np.ndarray, "N K"]
    explained: Float64[np.ndarray, "N K"]
    features: Float16[np.ndarray, "N K D"]
    there: Bool[np.ndarray, "M"]
    n_bytes: int

    def taking(self, selected: Int64[np.ndarray, "N K"]) -> Answers:
        """Only what some of these experts said, by number; each is among those of its point."""
        # (N, K, K'): where each wanted expert stands among those of the point.
        place = (self.selected[:, np.newaxis, :] == selected[:, :, np.newaxis]).argmax(axis=2)
        return Answers(
            selected,
            np.take_along_axis(self.mean, place, axis=1),
            np.take_along_axis(self.explained, place, axis=1),
            np.take_along_axis(self.features, place[:, :, np.newaxis], axis=1),
            self.there,
            self.n_bytes,
        )


def gather(
    federation: Federation,
    points: Float64[np.ndarray, "N d"],
    ranking: Int64[np.ndarray, "N M"],
    K: int,
    there: Bool[np.ndarray, "M"],
    asking: Asking,
) -> Conversation[Answers]:
    """Ask the first K experts of every point's ranking; where one does not answer, the next, until all have.

    What an expert has said of some points counts, also where it is silent on others that come to it later.

    Parameters
    ----------
    federation : Federation
        Whose experts.
    points : ndarray
        ``(N, d)`` in the agreed units.
    ranking : ndarray
        ``(N, M)`` all experts in the order in which a point wants them.
    K : int
        How many it wants.
    there : ndarray
        ``(M,)`` which experts can be asked at all.
    asking : Asking
        The model.
    """
    said: dict[int, _Said] = {}
    there, n_bytes = there.copy(), 0
    heard = np.zeros(ranking.shape, bool)
    while True:
        wanted = first_there(ranking, K, there | heard)
        new = {e: points_of for e, points_of in _wanting(wanted).items() if len(points_of)}
        new = {e: np.setdiff1d(p, said[e].points, assume_unique=True) if e in said else p for e, p in new.items()}
        asks = _asks(federation, points, {e: p for e, p in new.items() if len(p)}, asking)
        if not asks:
            return _answers(said, wanted, asking.landmarks, there, n_bytes)
        measure = {"queries": float(len(points))}
        # Who stands in for a site that is lost may refuse, too: what was said by then is no less worth.
        answers: dict[str, Predictions] = yield Tell(
            asks, check=_check(asks, asking.landmarks), measure=measure, needed=not said
        )
        n_bytes += sum(map(_size, asks.values())) + sum(map(_size, answers.values()))
        for site, ask in asks.items():
            for place, expert in enumerate(federation.places[site].tolist()):
                if site not in answers:
                    there[expert] = False
                elif len(ask.points[place]):
                    answer = answers[site]
                    told = _Said(new[expert], answer.mean[place], answer.explained[place], answer.features[place])
                    said[expert] = said[expert].joined(told) if expert in said else told
                    heard[new[expert], expert] = True


def first_there(ranking: Int64[np.ndarray, "N M"], K: int, there: Bool[np.ndarray, "N M"]) -> Int64[np.ndarray, "N K"]:
    """The first K experts of each ranking that are there for the point; -1 behind the last one."""
    present = np.take_along_axis(there, ranking, axis=1)
    first = np.argsort(~present, axis=1, kind="stable")[:, :K]
    taken = np.take_along_axis(present, first, axis=1)
    return np.where(taken, np.take_along_axis(ranking, first, axis=1), -1)


def _wanting(wanted: Int64[np.ndarray, "N K"]) -> dict[int, Int64[np.ndarray, "q"]]:
    """By expert, the points that want it, ascending."""
    point, _ = np.nonzero(wanted >= 0)
    expert = wanted[wanted >= 0]
    order = np.argsort(expert, kind="stable")
    numbers, first = np.unique(expert[order], return_index=True)
    return dict(zip(numbers.tolist(), np.split(point[order], first[1:]), strict=True)) if len(numbers) else {}


def _asks(
    federation: Federation,
    points: Float64[np.ndarray, "N d"],
    new: Mapping[int, Int64[np.ndarray, "q"]],
    asking: Asking,
) -> dict[str, Predict]:
    none = np.zeros((0, points.shape[1]))
    asks = {}
    for site, places in federation.places.items():
        own = tuple(points[new[e]] if e in new else none for e in places.tolist())
        if any(map(len, own)):
            asks[site] = Predict(
                **federation.agreed(site, asking.max_rows),
                kernel=asking.kernel,
                theta=asking.theta,
                points=own,
                landmarks=asking.landmarks,
                seed=asking.seed,
                varies=federation.varies,
                shared_rows=asking.shared_rows.get(site, 0),
                shared_x=asking.shared_x,
                shared_y=asking.shared_y,
            )
    return asks


def _check(asks: Mapping[str, Predict], D: int) -> Check:
    def check(site: str, answer: Predictions) -> None:
        lengths = [len(points) for points in asks[site].points]
        for name in ("mean", "explained", "features"):
            told = [len(each) for each in getattr(answer, name)]
            if told != lengths:
                raise PayloadError(answer.title(), name, f"expected {lengths} numbers, got {told}")
        if any(features.shape[1] != D for features in answer.features):
            raise PayloadError(answer.title(), "features", f"expected {D} features of a point")
        if any(np.abs(mean).max(initial=0.0) > LARGEST for mean in answer.mean):
            raise PayloadError(answer.title(), "mean", f"expected numbers up to {LARGEST:g}")
        if any(len(each) and not 0 <= each.min() <= each.max() <= LARGEST for each in answer.explained):
            raise PayloadError(answer.title(), "explained", f"expected variances, from 0 to {LARGEST:g}")

    return check


def _answers(
    said: Mapping[int, _Said], wanted: Int64[np.ndarray, "N K"], D: int, there: Bool[np.ndarray, "M"], n_bytes: int
) -> Answers:
    mean, explained = np.zeros(wanted.shape), np.zeros(wanted.shape)
    features = np.zeros((*wanted.shape, D), np.float16)
    for expert, heard in said.items():
        point, column = np.nonzero(wanted == expert)
        place = np.searchsorted(heard.points, point)
        mean[point, column] = heard.mean[place]
        explained[point, column] = heard.explained[place]
        features[point, column] = heard.features[place]
    return Answers(wanted, mean, explained, features, there, n_bytes)


def _size(payload: Any) -> int:
    """Bytes of a payload's arrays, as the ledger counts them."""
    total = 0
    for name, spec in specs(type(payload)).items():
        value = getattr(payload, name)
        if spec.kind == "array":
            total += value.nbytes
        elif spec.kind == "arrays":
            total += sum(each.nbytes for each in value)
    return total
