"""Classes at a learner of sec: the class list of a run, foreign models' probabilities, and scores of mixtures."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float64, Int64, Shaped

from clients.digest import digest_of
from clients.sec.model_store import senders_of
from clients.site import Site
from numerics.sec.losses import places_are_sound, right_probabilities
from numerics.sec.mixture import combine, mix
from numerics.sec.recommendation import first_choice
from numerics.sec.sharpening import MOST_ROWS, best_power, sharpened, with_right
from numerics.shared.classes import places_of
from numerics.shared.classification import (
    SCORES,
    best_threshold,
    classification_scores,
    confusion,
    predicted_classes,
    reliability,
)
from numerics.shared.regression_rows import RegressionRows
from protocols.sec.payloads import Errors, Exchange, Predict
from protocols.wire.faults import Fault, SiteFault

if TYPE_CHECKING:  # importing scikit-learn takes a second, and not every ask needs it
    from sklearn.base import BaseEstimator


class ForeignPredictions:
    """Predictions of a learner's rows by the models of an ask; for classes, probabilities of the rows' own classes.

    With classes, the memory also keeps all probabilities of the held-out rows, for `with_scores`. The own model was
    fitted to held-out rows, too; its predictions of them are by fits without them.
    """

    def __init__(
        self, ask: Exchange, site: Site, rows: RegressionRows, models: list[BaseEstimator], usable: list[int]
    ) -> None:
        from numerics.sec.predictors import prepared

        self._ask, self._site, self._rows, self._models, self._usable = ask, site, rows, models, usable
        self._predictors = None if rows.classes else prepared(models)

    def training_rows(self) -> Float64[np.ndarray, "models n"]:
        """Predict the rows that the own model was fitted to."""
        if self._predictors is not None:
            return self._predictors.predict(self._rows.x)
        probabilities = self._probabilities(self._rows.x)
        self._learned = probabilities[:, self._some_rows]
        return right_probabilities(probabilities, self._own_places[self._rows.y.astype(np.int64)])

    def held_out_rows(self) -> Float64[np.ndarray, "models t"]:
        """Predict the rows that were held out."""
        if self._predictors is not None:
            predictions = self._predictors.predict(self._rows.x_test)
            if own := self._own:
                predictions[np.isin(self._usable, own)] = self._site.memory["own"]
            return predictions
        y = self._own_places[self._rows.y_test.astype(np.int64)]
        probabilities = np.full((len(self._ask.models), len(y), len(self._ask.classes)), np.nan)
        probabilities[self._usable] = self._probabilities(self._rows.x_test)
        self._site.memory["probabilities"] = probabilities
        self._site.memory["class_places"] = self._own_places
        if own := self._own:
            probabilities[own] = _own_probabilities(self._site)
        return right_probabilities(probabilities, y)[self._usable]

    def learned_rows(self, right: Float64[np.ndarray, "models n"]) -> dict[str, Shaped[np.ndarray, "..."]]:
        """Return class probabilities of some rows that the own model was fitted to; `right`: those of their classes.

        If the own model is not among the models, it comes last, with equal probabilities of all classes but the row's.
        """
        y = self._own_places[self._rows.y.astype(np.int64)][self._some_rows]
        probabilities = np.zeros((len(right), len(y), len(self._ask.classes)))
        probabilities[self._usable] = self._learned
        return {"learned": with_right(probabilities, y, right[:, self._some_rows]), "learned_places": y}

    @property
    def _own(self) -> list[int]:
        """Places of the own model, which is known by its content; none if it was not fitted to held-out rows."""
        if (own := self._site.memory.get("own_model")) is None:
            return []
        n_bytes, *digest = own.tolist()
        same_size = [place for place in self._usable if len(self._ask.models[place]) == n_bytes]
        return [place for place in same_size if digest_of(self._ask.models[place]) == digest]

    @property
    def _some_rows(self) -> Int64[np.ndarray, "some"]:
        return np.linspace(0, self._rows.n - 1, min(self._rows.n, MOST_ROWS)).astype(np.int64)

    @property
    def _own_places(self) -> Int64[np.ndarray, "own"]:
        return places_of(self._rows.classes, self._ask.classes)

    def _probabilities(self, x: Float64[np.ndarray, "n p"]) -> Float64[np.ndarray, "models n k"]:
        from numerics.shared.classifiers import probabilities_of

        places = [self._ask.places[at] for at in self._usable]
        n_rows = self._ask.rows[self._usable].astype(np.float64).tolist()
        return probabilities_of(self._models, x, places, len(self._ask.classes), n_rows)


def check_class_list(ask: Exchange, rows: RegressionRows) -> None:
    """Refuse a class list that lacks an own class, or models whose classes are not in it."""
    sound = bool(rows.classes) == bool(ask.classes) and set(rows.classes) <= set(ask.classes)
    if ask.classes:
        sound &= len(ask.places) == len(ask.rows) == len(ask.models) and len(set(ask.classes)) == len(ask.classes)
        sound = sound and places_are_sound(ask.places, len(ask.classes)) and bool((ask.rows > 0).all())
    elif ask.places or len(ask.rows):
        sound = False
    if not sound:
        raise SiteFault(Fault.MALFORMED_ASK, "the class list does not fit the models or this site's classes")


_LEAST_OTHERS = 0.1
"""Least share of other sites' models in a mixture that gets a power. The own model alone has none, and a mixture with
next to no others must not be better than it for another reason than these."""


def own_power(site: Site, weights: Float64[np.ndarray, "models"]) -> Float64[np.ndarray, ""]:
    """Return the best power of a mixture's probabilities, by rows that its models have not seen."""
    names, learned = np.array([*senders_of(site), site.name]), site.memory["learned"]
    if weights[names != site.name].sum() < _LEAST_OTHERS:
        return np.array(1.0)
    mixed = mix(weights[np.newaxis], learned.reshape(len(learned), -1))[0].reshape(learned.shape[1:])
    return np.array(best_power(mixed, site.memory["learned_places"]))


def sharpened_right(site: Site, rows: RegressionRows, right: Float64[np.ndarray, "t"]) -> Float64[np.ndarray, "t"]:
    """Apply the own power to the personal mixture's probabilities of the held-out rows' own classes."""
    if "power" not in site.memory:
        return right
    y = site.memory["class_places"][rows.y_test.astype(np.int64)]
    mixed = with_right(_personal_mixture(site), y, right)
    return np.asarray(right_probabilities(sharpened(mixed, float(site.memory["power"]))[np.newaxis], y)[0])


def _personal_mixture(site: Site) -> Float64[np.ndarray, "t k"]:
    """Return the personal mixture's class probabilities of the held-out rows."""
    shares, probabilities = site.memory["personal"], site.memory["probabilities"]
    everyone = np.concatenate([probabilities, _own_probabilities(site)[np.newaxis]])[: len(shares)]
    return np.asarray(mix(shares[np.newaxis], everyone.reshape(len(everyone), -1))[0].reshape(everyone.shape[1:]))


def _own_probabilities(site: Site) -> Float64[np.ndarray, "t k"]:
    """Return the own model's probabilities of the held-out rows for all classes of the run."""
    probabilities = np.zeros(site.memory["probabilities"].shape[1:])
    probabilities[:, site.memory["class_places"]] = site.memory["own_probabilities"]
    return probabilities


def with_scores(ask: Predict, site: Site, rows: RegressionRows, errors: Errors) -> Errors:
    """Add the exact scores of class probabilities on the held-out rows."""
    if "probabilities" not in site.memory:
        return errors
    probabilities, places = site.memory["probabilities"], site.memory["class_places"]
    n_models, n_test, k = probabilities.shape
    y = places[rows.y_test.astype(np.int64)]
    none = np.zeros((len(ask.combinations), 0))
    flat = probabilities.reshape(n_models, -1)
    mixed = combine(ask.own, _own_probabilities(site).ravel(), ask.weights, flat, none, rows.x_test)
    if "personal" in ask.combinations:
        power = float(site.memory.get("power", np.ones(())))
        mixed[ask.combinations.index("personal")] = sharpened(_personal_mixture(site), power).ravel()
    scores = np.full((len(ask.combinations), len(SCORES)), -1.0)
    thresholds = np.full(len(ask.combinations), np.nan)
    for place, each in enumerate(mixed.reshape(-1, n_test, k)):
        if np.isfinite(each).all():
            values = classification_scores(each, y)
            scores[place] = [values[name].value if np.isfinite(values[name].value) else -1.0 for name in SCORES]
            thresholds[place] = best_threshold(each, y) if k == 2 else np.nan
    site.memory["thresholds"] = thresholds
    first = first_choice([way for way, usable in zip(ask.combinations, errors.finite, strict=True) if usable])
    if not first:
        return replace(errors, scores=scores)
    predicted = mixed[ask.combinations.index(first)].reshape(n_test, k)
    return replace(
        errors,
        scores=scores,
        confusion=confusion(y, predicted_classes(predicted), k),
        reliability=np.stack(reliability(predicted, y)),
    )
