"""The learners as the fusion center knows them: what each showed of itself, and how they predict each other's rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
from jaxtyping import Bool, Float64, Int64

from protocols.sec.payloads import Fitted, Losses

_ROUNDING = 1e-6
"""Relative difference of two errors of one learner, fitted on two processors."""


@dataclass(frozen=True)
class Learners:
    """All learners of a run in the order of their names; newcomers are among them.

    Attributes
    ----------
    shown : dict[str, Fitted]
        What each showed, by name.
    newcomer : ndarray
        ``(L,)``, who is assigned to the clusters of the others.
    present : set of str
        Who takes part in this run; the others are known from an earlier one.
    excluded : dict[str, str]
        Who answered and is left out, and why.
    """

    shown: dict[str, Fitted]
    newcomer: Bool[np.ndarray, "L"]
    present: set[str]
    excluded: dict[str, str] = field(default_factory=dict)
    _pooled: dict[bytes, Float64[np.ndarray, "q"]] = field(default_factory=dict, init=False, repr=False)

    @classmethod
    def of(cls, answers: Mapping[str, Fitted], newcomers: Sequence[str], former: Mapping[str, Fitted]) -> Learners:
        """Those with the same inputs.

        Parameters
        ----------
        answers : Mapping[str, Fitted]
            By site.
        newcomers : Sequence of str
            Names or globs of the sites that are to be assigned to the clusters of the others.
        former : Mapping[str, Fitted]
            Learners of the clustering that this run goes on from: everybody else is a newcomer, and what they showed
            then holds. Empty: this run makes a clustering of its own.
        """
        everybody = {**answers, **former}
        common = _common_features(former or answers)
        excluded = {
            site: "left out: " + _difference(shown.features, common)
            for site, shown in everybody.items()
            if shown.features != common
        }
        for site in sorted(set(answers) & set(former)):
            if not _same_learner(answers[site], former[site]):
                excluded[site] = (
                    "left out: a learner of the earlier run had this name and another model; give a newcomer another"
                    " name, or the same learner the same data, settings and seed"
                )
                answers = {name: shown for name, shown in answers.items() if name != site}
        names = sorted((set(everybody) - set(excluded)) | set(former))
        new = [
            name not in former if former else any(fnmatchcase(name, pattern) for pattern in newcomers) for name in names
        ]
        return cls({name: everybody[name] for name in names}, np.array(new, bool), set(answers) & set(names), excluded)

    @property
    def names(self) -> list[str]:
        """In order."""
        return list(self.shown)

    @property
    def n(self) -> Int64[np.ndarray, "L"]:
        """Rows that each learnt from."""
        return np.array([shown.n for shown in self.shown.values()], np.int64)

    @property
    def errors(self) -> Float64[np.ndarray, "L"]:
        """``e_i``."""
        return np.array([shown.error for shown in self.shown.values()])

    def losses(self, sent: Mapping[str, Sequence[str]], answers: Mapping[str, Losses]) -> Float64[np.ndarray, "L L"]:
        """``e_{i -> j}``: NaN where it is not known, infinite where a prediction was not finite.

        `sent` says whose models each learner was sent.
        """
        place = {name: i for i, name in enumerate(self.shown)}
        matrix = np.full((len(place), len(place)), np.nan)
        for name, answer in answers.items():
            senders = [place[sender] for sender in sent[name]]
            matrix[senders, place[name]] = np.where(answer.finite, answer.losses, np.inf)
        return matrix

    def pooled_regression(self, members: Bool[np.ndarray, "L"]) -> Float64[np.ndarray, "q"]:
        """Coefficients, intercept first, of the linear regression on the rows of all `members` together.

        Exact: means and products about the means add up (Chan, Golub, LeVeque 1983). Inputs that do not vary, or
        depend on others, get the shortest solution. Solved once for each group: all of its members ask for it.
        """
        key = members.tobytes()
        if key not in self._pooled:
            self._pooled[key] = self._solve(members)
        return self._pooled[key]

    def _solve(self, members: Bool[np.ndarray, "L"]) -> Float64[np.ndarray, "q"]:
        chosen = [shown for shown, member in zip(self.shown.values(), members, strict=True) if member]
        n = np.array([shown.n for shown in chosen], float)
        means = np.stack([shown.mean for shown in chosen])
        mean = n @ means / n.sum()
        apart = means - mean
        scatter = np.sum([shown.scatter for shown in chosen], axis=0) + (apart * n[:, np.newaxis]).T @ apart
        width = np.sqrt(np.diag(scatter)[:-1])
        # The mean of equal numbers is rounded: what varies no more than that does not vary, and gets no slope.
        varies = width > np.sqrt(n.sum()) * _ROUNDING * np.abs(means[:, :-1]).max(axis=0)
        unit = np.where(varies, 1 / np.where(varies, width, 1.0), 0.0)  # solved in units of each input's own spread
        inputs, outcome = scatter[:-1, :-1] * np.outer(unit, unit), scatter[:-1, -1] * unit
        slopes = np.linalg.lstsq(inputs, outcome, rcond=1e-12)[0] * unit
        return np.concatenate([[mean[-1] - mean[:-1] @ slopes], slopes])


_ROUNDING = 8 * np.finfo(np.float64).eps


def _same_learner(one: Fitted, other: Fitted) -> bool:
    """Return whether two models are of one learner; on another processor it fits the same model but for rounding."""
    same = (one.method, one.n, one.features) == (other.method, other.n, other.features)
    return same and bool(np.isclose(one.error, other.error, rtol=_ROUNDING, atol=0))


def _common_features(answers: Mapping[str, Fitted]) -> tuple[str, ...]:
    """The inputs that most learners have; of equally many, those of the first in order of name."""
    counts = Counter(answers[site].features for site in sorted(answers))
    return counts.most_common(1)[0][0] if counts else ()


def _difference(features: tuple[str, ...], common: tuple[str, ...]) -> str:
    lacks, more = sorted(set(common) - set(features)), sorted(set(features) - set(common))
    said = []
    if lacks:
        said.append(f"it lacks the input {lacks[0]!r}" + (f" and {len(lacks) - 1} more" if lacks[1:] else ""))
    if more:
        said.append(f"it has the input {more[0]!r}" + (f" and {len(more) - 1} more" if more[1:] else ""))
    return (" and ".join(said) or "its inputs are in another order") + ", unlike most learners"


def former_learners(arrays: Mapping[str, np.ndarray]) -> dict[str, Fitted]:
    """The learners that an earlier run clustered, from its ``arrays.npz``; not those that it only assigned."""
    clustered = np.flatnonzero((arrays["labels"] >= 0) & ~arrays["newcomer"])
    return _saved(arrays, clustered.tolist())


def learners_of(arrays: Mapping[str, np.ndarray]) -> Learners:
    """All learners of an earlier run, newcomers too, from its ``arrays.npz``."""
    return Learners(_saved(arrays, range(len(arrays["learners"]))), arrays["newcomer"], set())


def _saved(arrays: Mapping[str, np.ndarray], places: Iterable[int]) -> dict[str, Fitted]:
    features = tuple(map(str, arrays["features"]))
    found: dict[str, Fitted] = {}
    for place in places:
        moments = {key: arrays[f"{key}_{place}"] for key in ("mean", "scatter")}
        found[str(arrays["learners"][place])] = Fitted(
            method=str(arrays["methods"][place]),
            error=float(arrays["errors"][place]),
            n=int(arrays["n"][place]),
            features=features,
            model=arrays[f"model_{place}"],
            **moments,
        )
    return found


def arrays_of(learners: Learners) -> dict[str, Any]:
    """What `former_learners` reads, by the names documented in docs/sec.md."""
    shown = list(learners.shown.values())
    return {
        "learners": np.array(learners.names, dtype=str),
        "methods": np.array([each.method for each in shown], dtype=str),
        "features": np.array(shown[0].features if shown else (), dtype=str),
        "errors": learners.errors,
        "n": learners.n,
        **{f"model_{place}": each.model for place, each in enumerate(shown)},
        **{f"mean_{place}": each.mean for place, each in enumerate(shown)},
        **{f"scatter_{place}": each.scatter for place, each in enumerate(shown)},
    }
