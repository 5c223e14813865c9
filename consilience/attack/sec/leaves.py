"""Attack by the leaves of boosted trees: equations in the numbers of rows, and the outcomes, between all thresholds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float64

from consilience.attack.interface import Claims
from consilience.attack.site import AttackedSite
from protocols.sec.payloads import FittedModel, Select

_MOST_CELLS = 1500
"""Most cells between thresholds for which the equations are solved."""
_CLOSE = 0.05
"""Largest distance of a claimed count from a whole number."""
_WEIGHT, _RIDGE = 100.0, 1e-9
"""Weight of the known numbers of all rows, and what keeps the equations regular."""


def leaves(site: AttackedSite) -> Claims:
    """The leaves of boosted trees are equations in counts and sums of outcomes of the cells between all thresholds.

    A leaf's value v times its number of rows is the sum over its cells of ``s_c - n_c F_c``: of outcomes minus what the
    trees before say. Of two classes, it is ``s_c - n_c p_c``, and v times ``n_c p_c (1 - p_c)``.
    """
    models: list[Any] = []
    q, n = site.ranges.shape[1], 0
    while site.start_run({"sec.holdout": 0.0}):
        rate = 0.1 * (1 + 0.07 * len(models))
        candidate = f"gb(learning_rate={rate}, max_depth={3 + len(models) % 2})"
        answer = site.ask(Select(candidate, "half-half", "model", 5, "fitted", moments=False))
        if not isinstance(answer, FittedModel) or len(answer.classes) not in (0, 2):
            return Claims.none(q, "the site sends no model, or has more than two classes")
        n, model = answer.n, _decode(answer)
        if not hasattr(model, "estimators_"):
            return Claims.none(q, "the site sends no trees")
        models.append(model)
    cuts = [_thresholds(models, column) for column in range(q - 1)]
    cells = int(np.prod([len(each) + 1 for each in cuts]))
    if not models or not all(map(len, cuts)) or cells > _MOST_CELLS:
        return Claims.none(q, f"cells between thresholds: {cells}")
    counts = _solve(models, cuts, n, site.ranges[0, -1])
    return _claims(counts, cuts, q, f"cells between thresholds: {cells}, models: {len(models)}")


def _decode(answer: FittedModel) -> Any:
    from protocols.models import decode_model

    return decode_model(answer.model, len(answer.classes))


def _trees(model: Any) -> list[Any]:
    return [tree.tree_ for tree in np.ravel(model.estimators_)]


def _thresholds(models: Sequence[Any], column: int) -> Float64[np.ndarray, "t"]:
    trees = [tree for model in models for tree in _trees(model)]
    own = [tree.threshold[(tree.feature == column) & (tree.children_left >= 0)] for tree in trees]
    return np.unique(np.concatenate(own)) if own else np.zeros(0)


def _solve(
    models: Sequence[Any], cuts: Sequence[Float64[np.ndarray, "_"]], n: int, least: float
) -> Float64[np.ndarray, "c"]:
    """Return the number of rows of each cell, by least squares with counts and sums above their least values."""
    from scipy.optimize import nnls

    middles = [np.concatenate([[c[0] - 1], (c[1:] + c[:-1]) / 2, [c[-1] + 1]]) for c in cuts]
    grid = np.stack(np.meshgrid(*middles, indexing="ij"), axis=-1).reshape(-1, len(cuts))
    size = len(grid)
    everything, outcomes = np.repeat([1.0, 0.0], size), np.repeat([0.0, 1.0], size)
    gram, right = _RIDGE * np.eye(2 * size), np.zeros(2 * size)
    for model in models:
        classes = hasattr(model, "classes_")
        start = model._raw_predict_init(grid.astype(np.float32)).ravel() if classes else model.init_.predict(grid)
        rows, score = [], np.asarray(start, np.float64)
        mean = 1 / (1 + np.exp(-score[0])) if classes else score[0] - least
        for known, total in ((everything, n), (outcomes, n * mean)):
            gram += _WEIGHT * np.outer(known, known)
            right += _WEIGHT * total * known
        for tree in _trees(model):
            leaf, value = tree.apply(grid.astype(np.float32)), tree.value[:, 0, 0]
            p = 1 / (1 + np.exp(-score))
            count = value[leaf] * p * (1 - p) + p if classes else value[leaf] + score
            inside = (leaf == np.unique(leaf)[:, np.newaxis]).astype(float)
            rows.append(np.hstack([inside * (count - (0.0 if classes else least)), -inside]))
            score = score + model.learning_rate * value[leaf]
        equations = np.vstack(rows)
        gram += equations.T @ equations
    factor = np.linalg.cholesky(gram)
    return np.asarray(nnls(factor.T, np.linalg.solve(factor, right), maxiter=200 * size)[0][:size])


def _claims(counts: Float64[np.ndarray, "c"], cuts: Sequence[Float64[np.ndarray, "_"]], q: int, note: str) -> Claims:
    whole = np.rint(counts)
    known = np.flatnonzero((np.abs(counts - whole) < _CLOSE) & (whole > 0))
    places = np.unravel_index(known, [len(each) + 1 for each in cuts])
    bounds = np.full((2, len(known), q), np.inf)
    bounds[0] = -np.inf
    for column, (cut, place) in enumerate(zip(cuts, places, strict=True)):
        # A tree sends a row that lies on a threshold to the left, and a box holds its lower bound.
        edges = np.concatenate([[-np.inf], np.nextafter(cut, np.inf), [np.inf]])
        bounds[:, :, column] = edges[place], edges[place + 1]
    return Claims(bounds[0], bounds[1], whole[known].astype(np.int64), [note])
