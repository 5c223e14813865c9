"""Classes at a learner of sec: the class list of a run, foreign models' probabilities, and scores of mixtures."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float64, Int64

from clients.site import Site
from numerics.sec.losses import places_are_sound, right_probabilities
from numerics.sec.mixture import combine, mix
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
    """Predictions of a learner's rows by the models of an ask; of classes, the probabilities of the rows' own classes.

    Of classes, it also keeps all probabilities of the held-out rows for `with_scores`.
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
        return right_probabilities(self._probabilities(self._rows.x), self._own_places[self._rows.y.astype(np.int64)])

    def held_out_rows(self) -> Float64[np.ndarray, "models t"]:
        """Predict the rows that were held out."""
        if self._predictors is not None:
            return self._predictors.predict(self._rows.x_test)
        y = self._own_places[self._rows.y_test.astype(np.int64)]
        probabilities = np.full((len(self._ask.models), len(y), len(self._ask.classes)), np.nan)
        probabilities[self._usable] = self._probabilities(self._rows.x_test)
        self._site.memory["probabilities"] = probabilities
        self._site.memory["class_places"] = self._own_places
        return right_probabilities(probabilities, y)[self._usable]

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


def with_scores(ask: Predict, site: Site, rows: RegressionRows, errors: Errors) -> Errors:
    """Add the exact scores of class probabilities on the held-out rows, for whoever may have them."""
    if "probabilities" not in site.memory:
        return errors
    probabilities, places = site.memory["probabilities"], site.memory["class_places"]
    n_models, n_test, k = probabilities.shape
    y = places[rows.y_test.astype(np.int64)]
    own = site.memory["own_probabilities"]
    flat, own_flat = probabilities.reshape(n_models, -1), np.zeros((n_test, k))
    own_flat[:, places] = own
    none = np.zeros((len(ask.combinations), 0))
    mixed = combine(ask.own, own_flat.ravel(), ask.weights, flat, none, rows.x_test)
    if "personal" in ask.combinations:
        shares = site.memory["personal"][np.newaxis]
        everyone = np.vstack([flat, own_flat.ravel()])[: shares.shape[1]]
        mixed[ask.combinations.index("personal")] = mix(shares, everyone)[0]
    scores = np.full((len(ask.combinations), len(SCORES)), -1.0)
    thresholds = np.full(len(ask.combinations), np.nan)
    for place, each in enumerate(mixed.reshape(-1, n_test, k)):
        if np.isfinite(each).all():
            values = classification_scores(each, y)
            scores[place] = [values[name].value if np.isfinite(values[name].value) else -1.0 for name in SCORES]
            thresholds[place] = best_threshold(each, y) if k == 2 else np.nan
    site.memory["thresholds"] = thresholds
    cluster = mixed[ask.combinations.index("cluster") if "cluster" in ask.combinations else 0].reshape(n_test, k)
    if not np.isfinite(cluster).all():
        return replace(errors, scores=scores)
    return replace(
        errors,
        scores=scores,
        confusion=confusion(y, predicted_classes(cluster), k),
        reliability=np.stack(reliability(cluster, y)),
    )
