"""Combination of the agents' predictions, without the agents' models."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float64, Shaped

from numerics.shared.classes import are_probabilities, probabilities_of_scores
from numerics.shared.classifiers import class_probabilities


@dataclass(frozen=True)
class ClassScores:
    """Map from sums of steps to probabilities of classes.

    Attributes
    ----------
    start : tuple of float
        Scores of a row before any step: one for two classes, else one for each.
    places : tuple of int
        Place of each class of the model in the class list; empty without a model.
    n_rows : int
        Rows that the model learned from.

    Examples
    --------
    >>> ClassScores((0.0,)).n_classes, ClassScores((0.0, 0.0, 0.0)).n_classes
    (2, 3)
    """

    start: tuple[float, ...]
    places: tuple[int, ...] = ()
    n_rows: int = 0

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return max(len(self.start), 2)


@dataclass(frozen=True)
class AgentCombination:
    """``mean + sum_j beta_j f_j(x_j)``, plus ``model(f_1(x_1), ..., f_D(x_D))`` if there is a model.

    An agent may have several predictions of a row, such as its steps in boosting, each with its own coefficient. A site
    may give the bins of its columns instead of predictions; only the model uses them.

    If the outcome is a class, an agent's steps are for one score after the other. The prediction is the class
    probabilities of the sums of steps or, if there is a model, those of the model for steps, bins and sums.

    Attributes
    ----------
    names : tuple of str
        The D agents.
    beta : ndarray
        ``(k,)`` coefficients of the agents' predictions, agent by agent; zeros for meta-boosting.
    mean : float
        The intercept.
    model : estimator or None
        Model of meta-boosting, or of the finish of boosting.
    widths : tuple of int
        Number of predictions of each agent; empty: one each.
    levels : tuple of int
        Number of bins of each column of bins, 0 for a prediction; empty: all are predictions.
    own_site : str
        Agent whose prediction by its own columns alone, its last one, has a share in the result.
    own_share : float
        This share, from 0 to 1; the combination has the rest.
    classes : ClassScores or None
        None: the outcomes are amounts.

    Examples
    --------
    >>> combination = AgentCombination(("bank", "shop"), np.array([1.0, 0.5]), mean=10.0)
    >>> combination.predict({"bank": np.array([1.0, 2.0]), "shop": np.array([4.0, 0.0])}, n=2)
    array([13., 12.])
    >>> combination.missing(["bank"])
    ('shop',)
    """

    names: tuple[str, ...]
    beta: Float64[np.ndarray, "k"]
    mean: float
    model: Any = None
    widths: tuple[int, ...] = ()
    levels: tuple[int, ...] = ()
    own_site: str = ""
    own_share: float = 0.0
    classes: ClassScores | None = None

    def width(self, name: str) -> int:
        """Return the number of an agent's predictions of a row."""
        return self._width(self.names.index(name)) + (self._own_width if name == self.own_site else 0)

    @property
    def _own_width(self) -> int:
        return self.classes.n_classes if self.classes else 1

    def _width(self, j: int) -> int:
        return self.widths[j] if self.widths else 1

    def _places(self, name: str) -> slice:
        j = self.names.index(name)
        start = sum(self.widths[:j]) if self.widths else j
        return slice(start, start + self._width(j))

    def levels_of(self, name: str) -> tuple[int, ...]:
        """Return the number of bins of each of a site's columns; none if it predicts."""
        levels = self.levels[self._places(name)]
        return levels if any(levels) else ()

    def fits(self, name: str, part: Shaped[np.ndarray, "m c"], n: int) -> bool:
        """Return whether an array can be an agent's predictions, or a site's bins, of n rows."""
        levels = np.array(self.levels_of(name))
        if part.shape != (n, self.width(name)) or (part.dtype == np.uint8) != bool(len(levels)):
            return False
        if self.classes and name == self.own_site and not are_probabilities(part[:, -self._own_width :]):
            return False
        return not len(levels) or bool((part < levels).all())

    def uses(self, name: str) -> bool:
        """Return whether the prediction depends on an agent."""
        if name == self.own_site:
            return True
        if self.model is not None:
            return self.width(name) > 0
        return bool((self.beta[self._places(name)] != 0).any())

    def predict(self, parts: Mapping[str, Float64[np.ndarray, "..."]], n: int) -> Float64[np.ndarray, "n ..."]:
        """Predict n rows: ``(n,)`` amounts, or ``(n, k)`` probabilities of classes.

        Parameters
        ----------
        parts : Mapping[str, ndarray]
            ``(n,)`` or ``(n, width)`` predictions or bins of each agent. Absent predictions count as 0, and absent
            bins as missing: a tree sends the row where most rows went. The classes' shares replace absent probabilities
            of `own_site`.
        n : int
            Number of rows.
        """
        F = np.zeros((len(self.beta), n))
        F[self._are_bins] = np.nan
        own = self._without_parts(n)
        for name, part in parts.items():
            if name == self.own_site:
                own = part[:, -self._own_width :] if self.classes else part[:, -1]
            F[self._places(name)] = part.T[: -self._own_width] if name == self.own_site else part.T
        together = self.predict_columns(F)
        if self.own_site:
            together = (1 - self.own_share) * together + self.own_share * own
        return np.asarray(self.mean + together)

    @property
    def _are_bins(self) -> Bool[np.ndarray, "k"]:
        return np.array(self.levels, np.int64) > 0 if self.levels else np.zeros(len(self.beta), bool)

    def _without_parts(self, n: int) -> Float64[np.ndarray, "n ..."]:
        """Return the own site's prediction, less the mean, where it gives none."""
        if self.classes is None:
            return np.zeros(n)
        return probabilities_of_scores(np.repeat(np.array([self.classes.start]).T, n, axis=1))

    def sums(self, F: Float64[np.ndarray, "k n"]) -> Float64[np.ndarray, "c n"]:
        """Return the sums of the predictions times their coefficients, for each score."""
        bins = self._are_bins
        if self.classes is None:
            beta, predictions = (self.beta[~bins], F[~bins]) if bins.any() else (self.beta, F)
            return np.asarray(beta @ predictions)[None]
        n_scores = len(self.classes.start)
        scores = np.concatenate([np.arange(self._width(j)) % n_scores for j in range(len(self.names))])
        places = [np.flatnonzero((scores == place) & ~bins) for place in range(n_scores)]
        return np.array([self.beta[own] @ F[own] for own in places]).reshape(n_scores, F.shape[1])

    def columns(self, F: Float64[np.ndarray, "k n"]) -> Float64[np.ndarray, "n p"]:
        """Return the model's inputs: predictions, bins and, for classes, the sums, unless all coefficients are 0."""
        return np.vstack([F, self.sums(F)]).T if self.classes and self.beta.any() else F.T

    def predict_columns(self, F: Float64[np.ndarray, "k n"]) -> Float64[np.ndarray, "n ..."]:
        """Combine predictions and bins, without the intercept and the own site's prediction."""
        if self.classes is None:
            additive = np.asarray(self.sums(F)[0])
            if self.model is None:
                return additive
            boosted = self.model.predict(F.T) if len(F) else np.zeros(F.shape[1])
            return np.asarray(additive + boosted if self.beta.any() else boosted)
        if self.model is None:
            return probabilities_of_scores(np.array([self.classes.start]).T + self.sums(F))
        places, k = np.array(self.classes.places, np.int64), self.classes.n_classes
        return class_probabilities(self.model, self.columns(F), places, k, self.classes.n_rows)

    def predict_without_each(
        self, parts: Mapping[str, Float64[np.ndarray, "..."]], n: int
    ) -> Float64[np.ndarray, "predictions n ..."]:
        """Predict n rows with all parts, and then without each; parameters as in `predict`.

        Examples
        --------
        >>> both = {"a": np.array([1.0]), "b": np.array([2.0])}
        >>> AgentCombination(("a", "b"), np.ones(2), 0.0).predict_without_each(both, 1)[:, 0]
        array([3., 2., 1.])
        """
        rest = [{name: part for name, part in parts.items() if name != left_out} for left_out in parts]
        return np.array([self.predict(each, n) for each in (parts, *rest)])

    def changes(
        self, parts: Mapping[str, Float64[np.ndarray, "..."]], n: int
    ) -> dict[str, Float64[np.ndarray, "n ..."]]:
        """Return, by agent, by how much its part alone changes the prediction of n rows; parameters as in `predict`.

        Examples
        --------
        >>> AgentCombination(("a", "b"), np.array([1.0, 0.5]), 9.0).changes({"b": np.array([2.0])}, 1)
        {'b': array([1.])}
        """
        nothing = self.predict({}, n)
        return {name: self.predict({name: part}, n) - nothing for name, part in parts.items() if self.uses(name)}

    def missing(self, present: Collection[str]) -> tuple[str, ...]:
        """Return the agents that the prediction depends on and that are not among those present."""
        return tuple(name for name in self.names if self.uses(name) and name not in present)
