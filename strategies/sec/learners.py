"""The learners as the fusion center knows them: their models, and how well they predict each other's rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
from jaxtyping import Bool, Float64, Int64

from numerics.sec.pooled_regression import pooled_regression
from protocols.sec.payloads import Fitted, Losses

_ROUNDING = 1e-6
"""Relative difference of two errors of one learner, fitted on two processors."""


@dataclass(frozen=True)
class Learners:
    """All L learners of a run in the order of their names, newcomers included.

    Attributes
    ----------
    profiles : dict[str, Fitted]
        What each learner sent of itself, by name.
    newcomer : ndarray
        ``(L,)`` mask of the learners that are assigned to the clusters of the others.
    present : set of str
        Names of the learners that take part in this run; the others are known from an earlier one.
    excluded : dict[str, str]
        Learners that answered and are left out, and why.
    """

    profiles: dict[str, Fitted]
    newcomer: Bool[np.ndarray, "L"]
    present: set[str]
    excluded: dict[str, str] = field(default_factory=dict)
    _pooled: dict[bytes, Float64[np.ndarray, "q"]] = field(default_factory=dict, init=False, repr=False)

    @classmethod
    def of(cls, answers: Mapping[str, Fitted], newcomers: Sequence[str], former: Mapping[str, Fitted]) -> Learners:
        """Take the learners with the same inputs.

        Parameters
        ----------
        answers : Mapping[str, Fitted]
            By site.
        newcomers : Sequence of str
            Names or globs of the sites to assign to the clusters of the others.
        former : Mapping[str, Fitted]
            Learners of the clustering that this run goes on from: what they sent then holds, and everybody else is a
            newcomer. Empty: this run makes a clustering of its own.
        """
        everybody = {**answers, **former}
        common = _common_features(former or answers)
        excluded = {
            site: "left out: " + _difference(profile.features, common)
            for site, profile in everybody.items()
            if profile.features != common
        }
        for site in sorted(set(answers) & set(former)):
            if not _same_learner(answers[site], former[site]):
                excluded[site] = (
                    "left out: a learner of the earlier run had this name and another model; give a newcomer another"
                    " name, or the same learner the same data, settings and seed"
                )
                answers = {name: profile for name, profile in answers.items() if name != site}
        names = sorted((set(everybody) - set(excluded)) | set(former))
        new = [
            name not in former if former else any(fnmatchcase(name, pattern) for pattern in newcomers) for name in names
        ]
        return cls({name: everybody[name] for name in names}, np.array(new, bool), set(answers) & set(names), excluded)

    @property
    def names(self) -> list[str]:
        """In order."""
        return list(self.profiles)

    @property
    def n(self) -> Int64[np.ndarray, "L"]:
        """Rows that each learner fitted its model to."""
        return np.array([profile.n for profile in self.profiles.values()], np.int64)

    @property
    def errors(self) -> Float64[np.ndarray, "L"]:
        """``e_i``."""
        return np.array([profile.error for profile in self.profiles.values()])

    def losses(self, senders: Mapping[str, Sequence[str]], answers: Mapping[str, Losses]) -> Float64[np.ndarray, "L L"]:
        """Return ``e_{i -> j}``: NaN where it is not known, infinite where a prediction was not finite.

        `senders`: by learner, whose models it was sent.
        """
        place = {name: i for i, name in enumerate(self.profiles)}
        matrix = np.full((len(place), len(place)), np.nan)
        for name, answer in answers.items():
            rows = [place[sender] for sender in senders[name]]
            matrix[rows, place[name]] = np.where(answer.finite, answer.losses, np.inf)
        return matrix

    def pooled_regression(self, members: Bool[np.ndarray, "L"]) -> Float64[np.ndarray, "q"]:
        """Return the coefficients, intercept first, of the linear regression on the rows of all `members` together.

        Solved once for each set of members: all of them ask for it.
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


def _same_learner(one: Fitted, other: Fitted) -> bool:
    """Return whether two models are of one learner; on another processor it fits the same model but for rounding."""
    same = (one.method, one.n, one.features) == (other.method, other.n, other.features)
    return same and bool(np.isclose(one.error, other.error, rtol=_ROUNDING, atol=0))


def _common_features(answers: Mapping[str, Fitted]) -> tuple[str, ...]:
    """Return the inputs that most learners have; of equally many, those of the first in order of name."""
    counts = Counter(answers[site].features for site in sorted(answers))
    return counts.most_common(1)[0][0] if counts else ()


def _difference(features: tuple[str, ...], common: tuple[str, ...]) -> str:
    lacks, more = sorted(set(common) - set(features)), sorted(set(features) - set(common))
    parts = []
    if lacks:
        parts.append(f"it lacks the input {lacks[0]!r}" + (f" and {len(lacks) - 1} more" if lacks[1:] else ""))
    if more:
        parts.append(f"it has the input {more[0]!r}" + (f" and {len(more) - 1} more" if more[1:] else ""))
    return (" and ".join(parts) or "its inputs are in another order") + ", unlike most learners"


# -- saved for later --------------------------------------------------------------------------------------------------


def arrays_of(learners: Learners) -> dict[str, Any]:
    """Return what `learners_of` reads, by the names documented in docs/sec.md."""
    profiles = list(learners.profiles.values())
    return {
        "learners": np.array(learners.names, dtype=str),
        "methods": np.array([each.method for each in profiles], dtype=str),
        "features": np.array(profiles[0].features if profiles else (), dtype=str),
        "errors": learners.errors,
        "n": learners.n,
        **{f"model_{place}": each.model for place, each in enumerate(profiles)},
        **{f"mean_{place}": each.mean for place, each in enumerate(profiles)},
        **{f"scatter_{place}": each.scatter for place, each in enumerate(profiles)},
    }


def learners_of(arrays: Mapping[str, np.ndarray]) -> Learners:
    """Read all learners of an earlier run, newcomers included, from its ``arrays.npz``."""
    return Learners(_profiles(arrays, range(len(arrays["learners"]))), arrays["newcomer"], set())


def former_learners(arrays: Mapping[str, np.ndarray]) -> dict[str, Fitted]:
    """Read the learners that an earlier run clustered from its ``arrays.npz``; not those that it only assigned."""
    clustered = np.flatnonzero((arrays["labels"] >= 0) & ~arrays["newcomer"])
    return _profiles(arrays, clustered.tolist())


def _profiles(arrays: Mapping[str, np.ndarray], places: Iterable[int]) -> dict[str, Fitted]:
    features = tuple(map(str, arrays["features"]))
    profiles: dict[str, Fitted] = {}
    for place in places:
        moments = {key: arrays[f"{key}_{place}"] for key in ("mean", "scatter")}
        profiles[str(arrays["learners"][place])] = Fitted(
            method=str(arrays["methods"][place]),
            error=float(arrays["errors"][place]),
            n=int(arrays["n"][place]),
            features=features,
            model=arrays[f"model_{place}"],
            **moments,
        )
    return profiles
