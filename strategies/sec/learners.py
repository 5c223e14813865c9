"""Learners at the fusion center: their models, and their errors on each other's rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
from jaxtyping import Bool, Float64, Int64

from numerics.sec.mixture import precision_weights
from numerics.sec.pooled_regression import pooled_regression
from numerics.shared.classes import places_of
from protocols.sec.payloads import FittedModel, Losses
from strategies.class_lists import classes_of_most

_ROUNDING = 1e-6
"""Largest relative difference between errors of one learner that was fitted on two kinds of processor."""


@dataclass(frozen=True)
class Learners:
    """All L learners of a run in the order of their names, newcomers included.

    Attributes
    ----------
    profiles : dict[str, FittedModel]
        Each learner's answer to `Select`, by name.
    newcomer : ndarray
        ``(L,)`` mask of the learners that are assigned to the clusters of the others.
    present : set of str
        Names of the learners that take part in this run; the others come from an earlier run.
    weights : ndarray
        ``(L,)`` weight of each learner's model in eq. (5), greater than 0.
    excluded : dict[str, str]
        Learners that answered and are left out, and why.
    classes : tuple of str
        The class list of the run, the union over the learners; empty for amounts.

    Examples
    --------
    >>> empty = np.zeros(0)
    >>> profile = FittedModel("lr", 1.0, 0.1, 20, ("x",), empty.astype(np.uint8), empty, np.zeros((0, 0)))
    >>> learners = Learners.of({"lab-1": profile, "lab-2": profile, "guest": profile}, ("g*",), {})
    >>> learners.names, learners.newcomer.tolist()
    (['guest', 'lab-1', 'lab-2'], [True, False, False])

    Every learner but lab-2 tried the model of lab-2; the others' models were not exchanged:

    >>> answers = {name: Losses(np.array([3.0]), np.array([True]), 0.0) for name in ("guest", "lab-1")}
    >>> learners.losses(dict.fromkeys(answers, ("lab-2",)), answers)
    array([[nan, nan, nan],
           [nan, nan, nan],
           [ 3.,  3., nan]])
    """

    profiles: dict[str, FittedModel]
    newcomer: Bool[np.ndarray, "L"]
    present: set[str]
    weights: Float64[np.ndarray, "L"]
    excluded: dict[str, str] = field(default_factory=dict)
    classes: tuple[str, ...] = ()
    _pooled: dict[bytes, Float64[np.ndarray, "q"]] = field(default_factory=dict, init=False, repr=False)

    @classmethod
    def of(
        cls,
        answers: Mapping[str, FittedModel],
        newcomers: Sequence[str],
        former: Mapping[str, FittedModel],
        target: str = "",
    ) -> Learners:
        """Take the learners that have the same inputs and the same kind of outcome, and leave out the others.

        Parameters
        ----------
        answers : Mapping[str, FittedModel]
            Answers of this run, by site.
        newcomers : Sequence of str
            Names or globs of the sites to assign to the clusters of the others.
        former : Mapping[str, FittedModel]
            Learners that an earlier run clustered, with their answers of that run; all other sites are newcomers.
            Empty if this run clusters the learners itself.
        target : str
            Name of the outcome, for messages.

        Raises
        ------
        ClassListError
            If the learners' classes do not make one list.
        """
        profiles = {**answers, **former}
        common = _common_features(former or answers)
        excluded = {
            site: "left out: " + _difference(profile.features, common)
            for site, profile in profiles.items()
            if profile.features != common
        }
        for site in sorted(set(answers) & set(former)):
            if not _same_learner(answers[site], former[site]):
                excluded[site] = (
                    "left out: a learner of the earlier run has this name and another model; give a newcomer another"
                    " name; give a learner of the earlier run the same data, settings and seed"
                )
                answers = {name: profile for name, profile in answers.items() if name != site}
        lists = {name: profiles[name].classes for name in sorted((set(profiles) - set(excluded)) | set(former))}
        classes, others = classes_of_most(lists, target, judges=former)
        excluded |= others
        names = [name for name in lists if name not in others]
        new = [
            name not in former if former else any(fnmatchcase(name, pattern) for pattern in newcomers) for name in names
        ]
        chosen = {name: profiles[name] for name in names}
        present = set(answers) & set(names)
        rows = np.array([profile.n_fitted for profile in chosen.values()], np.float64)
        return cls(chosen, np.array(new, bool), present, rows, excluded, classes)

    @property
    def names(self) -> list[str]:
        """Names of the learners, in order."""
        return list(self.profiles)

    @property
    def n(self) -> Int64[np.ndarray, "L"]:
        """``(L,)`` numbers of rows that the models were fitted to."""
        return np.array([profile.n_fitted for profile in self.profiles.values()], np.int64)

    @property
    def errors(self) -> Float64[np.ndarray, "L"]:
        """``(L,)`` errors ``e_i``."""
        return np.array([profile.error for profile in self.profiles.values()])

    @property
    def variances(self) -> Float64[np.ndarray, "L"]:
        """``(L,)`` variances of the models."""
        return np.array([profile.variance for profile in self.profiles.values()])

    def places(self, name: str) -> Int64[np.ndarray, "own"]:
        """Return the places of a learner's classes in the class list of the run."""
        return places_of(self.profiles[name].classes, self.classes)

    def losses(self, senders: Mapping[str, Sequence[str]], answers: Mapping[str, Losses]) -> Float64[np.ndarray, "L L"]:
        """Return the losses ``e_{i -> j}``: NaN where unknown, infinite where a prediction was not finite.

        Parameters
        ----------
        senders : Mapping[str, Sequence of str]
            By learner j, the learners whose models it tried.
        answers : Mapping[str, Losses]
            By learner j, its losses in the order of `senders`.
        """
        place = {name: i for i, name in enumerate(self.profiles)}
        matrix = np.full((len(place), len(place)), np.nan)
        for name, answer in answers.items():
            rows = [place[sender] for sender in senders[name]]
            matrix[rows, place[name]] = np.where(answer.finite, answer.losses, np.inf)
        return matrix

    def by_precision(self, losses: Float64[np.ndarray, "L L"], earlier: Mapping[str, Any]) -> Learners:
        """Return the learners with the weights `numerics.sec.mixture.precision_weights`.

        Parameters
        ----------
        losses : ndarray
            As `losses` returns them.
        earlier : Mapping
            Arrays of the run whose clusters newcomers join, and whose weights stay; empty if there is no such run.
        """
        if earlier:
            known = dict(zip(map(str, earlier["learners"]), earlier["weights"].tolist(), strict=True))
            return replace(self, weights=np.array([known.get(name, 1.0) for name in self.names]))
        old = ~self.newcomer & ~np.isinf(losses).any(axis=1)  # others have no part in means of several models
        weights = self.weights.copy()
        weights[old] = precision_weights(self.weights[old], self.errors[old], losses[np.ix_(old, old)])
        return replace(self, weights=weights)

    def shares(self, members: Bool[np.ndarray, "L"]) -> Float64[np.ndarray, "m"]:
        """Return the share of each of the `members` in eq. (5); newcomers have none."""
        weights = np.where(self.newcomer, 0.0, self.weights)[members]
        return np.asarray(weights / weights.sum() if weights.any() else weights)

    def pooled_regression(self, members: Bool[np.ndarray, "L"]) -> Float64[np.ndarray, "q"]:
        """Return the coefficients, intercept first, of the linear regression on the rows of all `members` together.

        Each set of members is solved once, because every member needs the same coefficients.
        """
        key = members.tobytes()
        if key not in self._pooled:
            profiles = [profile for profile, member in zip(self.profiles.values(), members, strict=True) if member]
            self._pooled[key] = pooled_regression(
                np.array([profile.n for profile in profiles], float),
                np.stack([profile.mean for profile in profiles]),
                np.stack([profile.scatter for profile in profiles]),
            )
        return self._pooled[key]


def _same_learner(one: FittedModel, other: FittedModel) -> bool:
    """Return whether two answers are of one learner; fits on two kinds of processor differ by rounding."""

    def facts(learner: FittedModel) -> tuple[object, ...]:
        return learner.method, learner.n, learner.held_out, learner.features, learner.classes

    return facts(one) == facts(other) and bool(np.isclose(one.error, other.error, rtol=_ROUNDING, atol=0))


def _common_features(answers: Mapping[str, FittedModel]) -> tuple[str, ...]:
    """Return the inputs that most learners have; on a tie, those of the learner that is first by name."""
    counts = Counter(answers[site].features for site in sorted(answers))
    return counts.most_common(1)[0][0] if counts else ()


def _difference(features: tuple[str, ...], common: tuple[str, ...]) -> str:
    """Say which inputs a learner lacks, and which it has in addition."""
    lacks, more = sorted(set(common) - set(features)), sorted(set(features) - set(common))
    parts = []
    if lacks:
        parts.append(f"it lacks the input {lacks[0]!r}" + (f" and {len(lacks) - 1} more" if lacks[1:] else ""))
    if more:
        parts.append(f"it has the input {more[0]!r}" + (f" and {len(more) - 1} more" if more[1:] else ""))
    return (" and ".join(parts) or "its inputs are in another order") + ", unlike most learners"


# -- saved for later --------------------------------------------------------------------------------------------------


def arrays_of(learners: Learners) -> dict[str, Any]:
    """Return the arrays that `learners_of` reads, by their names in docs/sec.md."""
    profiles = list(learners.profiles.values())
    return {
        "learners": np.array(learners.names, dtype=str),
        "methods": np.array([each.method for each in profiles], dtype=str),
        "features": np.array(profiles[0].features if profiles else (), dtype=str),
        "errors": learners.errors,
        "n": learners.n,
        "held_out": np.array([each.held_out for each in profiles], np.int64),
        "weights": learners.weights,
        **{f"model_{place}": each.model for place, each in enumerate(profiles)},
        **{f"mean_{place}": each.mean for place, each in enumerate(profiles)},
        **{f"scatter_{place}": each.scatter for place, each in enumerate(profiles)},
        **_class_arrays(learners),
    }


def _class_arrays(learners: Learners) -> dict[str, Any]:
    """Return the class list, and the places of each learner's classes in it; nothing for amounts."""
    if not learners.classes:
        return {}
    places = {f"classes_{place}": learners.places(name) for place, name in enumerate(learners.names)}
    return {"classes": np.array(learners.classes, dtype=str), **places}


def learners_of(arrays: Mapping[str, np.ndarray]) -> Learners:
    """Read all learners of an earlier run, newcomers included, from its ``arrays.npz``."""
    profiles = _profiles(arrays, range(len(arrays["learners"])))
    return Learners(
        profiles, arrays["newcomer"], set(), arrays["weights"], classes=tuple(map(str, arrays.get("classes", ())))
    )


def former_learners(arrays: Mapping[str, np.ndarray]) -> dict[str, FittedModel]:
    """Read the learners that an earlier run clustered from its ``arrays.npz``, without its newcomers."""
    clustered = np.flatnonzero((arrays["labels"] >= 0) & ~arrays["newcomer"])
    return _profiles(arrays, clustered.tolist())


def _profiles(arrays: Mapping[str, np.ndarray], places: Iterable[int]) -> dict[str, FittedModel]:
    features, classes = (tuple(map(str, arrays.get(key, ()))) for key in ("features", "classes"))
    held_out = arrays.get("held_out", np.zeros_like(arrays["n"]))
    profiles: dict[str, FittedModel] = {}
    for place in places:
        profiles[str(arrays["learners"][place])] = FittedModel(
            method=str(arrays["methods"][place]),
            error=float(arrays["errors"][place]),
            variance=0.0,  # it serves the clustering, which is done
            n=int(arrays["n"][place] - held_out[place]),
            features=features,
            model=arrays[f"model_{place}"],
            mean=arrays[f"mean_{place}"],
            scatter=arrays[f"scatter_{place}"],
            classes=tuple(classes[at] for at in arrays.get(f"classes_{place}", np.zeros(0, np.int64))),
            held_out=int(held_out[place]),
        )
    return profiles
