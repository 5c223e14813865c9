"""Attacks through crafted models, whose mean losses count the rows in boxes, and through the site's own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
from jaxtyping import Float64

from consilience.attack.interface import Attack, Claims
from consilience.attack.sec.center import Center
from consilience.attack.sec.crafted_models import (
    FINEST,
    LARGEST,
    Boxes,
    values_of,
)
from consilience.attack.sec.leaves import leaves
from consilience.attack.site import AttackedSite
from numerics.shared.classes import SMALLEST_PROBABILITY
from numerics.shared.regression_rows import RegressionRows
from protocols.sec.payloads import Errors, FittedModel, Predict, Select

_MOST_ASKS = 400
_REPETITIONS = 10
_COMBINATIONS = 3
"""Combinations of models that every center may ask the error of."""
_MODELS, _STRIPS = 400, 40
"""Models of one ask, and strips of a column's range."""
_RUNS_A_STRIP = 25
"""Runs about one strip whose answers are averaged, if there are so many."""


def true_rows(shard: RegressionRows) -> Float64[np.ndarray, "n q"]:
    """Return inputs and outcome of every row (`consilience.attack.interface`)."""
    return np.column_stack([shard.x, shard.y])


def bisection(site: AttackedSite) -> Claims:
    """Leaves of very unequal losses let one error hold many counts; boxes with rows are cut again and again."""
    center = Center(site)
    if not center.start():
        return Claims.none(site.ranges.shape[1], center.refusal)
    boxes, n, together = center.boxes, center.n, len(values_of(center.n))
    counts, active = {0: n}, [0]
    while active and site.n_asks < _MOST_ASKS:
        halves = [boxes.cut(box) for box in active]
        groups = [[left for left, _ in halves[place : place + together]] for place in range(0, len(halves), together)]
        sums = center.sums([model for group in groups for model in center.counting_models(group)])
        if np.isnan(sums).all():
            break
        read = [digit for counted in center.read_counts(groups, sums, n) for digit in counted]
        for box, (left, right), count in zip(active, halves, read, strict=True):
            total = counts.pop(box)
            counts[left] = min(count, total)
            counts[right] = total - counts[left]
        active = [box for box, count in counts.items() if count and boxes.relative_width(box) > FINEST]
    return _claims(center, counts)


def _claims(center: Center, counts: Mapping[int, int]) -> Claims:
    """Return a claim for every box with rows, with the outcome where there is one row."""
    boxes, filled = center.boxes, [box for box, count in counts.items() if count]
    single = [box for box in filled if counts[box] == 1]
    least, greatest = center.site.ranges[:, -1]
    outcomes = _classes_of(center, single) if center.classes else _amounts_of(center, single)
    tolerance = 0.004 * (greatest - least)
    known = np.array([outcomes.get(box, np.nan) for box in filled])
    low, high = np.array([boxes.low[box] for box in filled]), np.array([boxes.high[box] for box in filled])
    return Claims(
        np.column_stack([low, np.where(np.isfinite(known), known - tolerance, -np.inf)]),
        np.column_stack([high, np.where(np.isfinite(known), known + tolerance, np.inf)]),
        np.array([counts[box] for box in filled]),
        [center.note],
    )


def _amounts_of(center: Center, single: Sequence[int]) -> dict[int, float]:
    """Return the outcomes of rows that are alone in their boxes, where each becomes far off."""
    least, greatest = center.site.ranges[:, -1]
    value, boxes = 1000.0 * max(greatest - least, abs(least), abs(greatest)), center.boxes
    base, *sums = center.sums([boxes.model({}), *(boxes.model({box: value}) for box in single)])
    return dict(zip(single, (value**2 - (np.array(sums) - base)) / (2 * value), strict=True))


def _classes_of(center: Center, single: Sequence[int]) -> dict[int, float]:
    """Return the places of the classes of rows that are alone in their boxes: of which a sure leaf loses least."""
    k = len(center.classes)
    if not single:
        return {}
    sums = center.sums([center.boxes.classifier({box: 0.9}, place, k) for box in single for place in range(k)])
    lowest = np.nan_to_num(sums.reshape(len(single), k), nan=np.inf).argmin(axis=1)
    return dict(zip(single, lowest.astype(np.float64).tolist(), strict=True))


def strips(site: AttackedSite) -> Claims:
    """Pairs of trees that differ by a strip, all in one ask; answers for the same boundary are averaged."""
    center = Center(site)
    if not center.start():
        return Claims.none(site.ranges.shape[1], center.refusal)
    boundaries = _boundaries(site)[1:-1]
    return _between(center, boundaries, _rows_beyond(center, boundaries, _MODELS // _STRIPS))


def strip_a_run(site: AttackedSite) -> Claims:
    """All models of a run ask for the rows of one strip; of fifty runs and more, 25 each ask for the same strip."""
    center = Center(site)
    n_runs, n_models = (1, _MODELS // 2) if site.most_runs < 2 * _RUNS_A_STRIP else (_RUNS_A_STRIP, 10)
    claims = []
    for bounds in pairwise(_boundaries(site)[1:-1].tolist()):
        means = []
        for number in range(n_runs):
            if not center.start():
                break
            means.append(_rows_beyond(center, np.array(bounds), n_models, number * n_models))
        if means:
            claims.append(_between(center, np.array(bounds), np.mean(means, axis=0)))
    if not claims:
        return Claims.none(site.ranges.shape[1], center.refusal)
    low, high, counts = ([getattr(each, name) for each in claims] for name in ("low", "high", "counts"))
    return Claims(np.concatenate(low), np.concatenate(high), np.concatenate(counts), [center.note])


def _boundaries(site: AttackedSite) -> Float64[np.ndarray, "b"]:
    """Return the boundaries of strips of the first column."""
    least, greatest = site.ranges[:, 0].tolist()
    return np.linspace(least, greatest, _STRIPS + 1)


def _rows_beyond(
    center: Center, boundaries: Float64[np.ndarray, "b"], repeats: int, first: int = 0
) -> Float64[np.ndarray, "b"]:
    """Return the rows beyond each boundary of the first column, the mean of so many answers from the first on."""
    places = range(first, first + (max(1, repeats // len(center.classes)) if center.classes else repeats))
    return (_counts_of_classes if center.classes else _counts)(center, boundaries, places)


def _between(center: Center, boundaries: Float64[np.ndarray, "b"], means: Float64[np.ndarray, "b"]) -> Claims:
    """Claim the rows between neighboring boundaries of the first column, from the counts beyond each boundary."""
    counts = np.nan_to_num(means[:-1] - means[1:]).round().astype(np.int64)
    bounds = np.full((2, len(counts), center.site.ranges.shape[1]), np.inf)
    bounds[0] = -np.inf
    # A tree sends a row that lies on the boundary to the left, and a box holds its lower bound.
    bounds[:, :, 0] = np.nextafter(boundaries[:-1], np.inf), np.nextafter(boundaries[1:], np.inf)
    return Claims(bounds[0], bounds[1], counts, [center.note])


def _counts(center: Center, boundaries: Float64[np.ndarray, "b"], places: range) -> Float64[np.ndarray, "b"]:
    """Return the rows beyond each boundary, by leaves that are far off there."""
    models = []
    for boundary in boundaries:
        boxes = Boxes(center.boxes.first_low, center.boxes.first_high)
        _, beyond = boxes.cut(0, 0, float(boundary))
        models += [boxes.model({beyond: LARGEST * (1 + place / 1000)}) for place in places]
    values = np.tile(LARGEST * (1 + np.array(places) / 1000), len(boundaries))
    return np.asarray((center.sums(models) / values**2).reshape(len(boundaries), len(places)).mean(axis=1))


def _counts_of_classes(center: Center, boundaries: Float64[np.ndarray, "b"], places: range) -> Float64[np.ndarray, "b"]:
    """Return the rows beyond each boundary, by leaves that are sure of one class each there, and of none elsewhere.

    The k losses of a row beyond it, one for each class, sum to the same whatever its class is.
    """
    k = len(center.classes)
    models = []
    for boundary in boundaries:
        boxes = Boxes(center.boxes.first_low, center.boxes.first_high)
        _, beyond = boxes.cut(0, 0, float(boundary))
        models += [boxes.classifier({beyond: 1 - 1e-7 * (1 + t)}, c, k) for t in places for c in range(k)]
    sums = center.sums(models).reshape(len(boundaries), len(places), k).sum(axis=2).mean(axis=1)
    anywhere, beyond_it = k * np.log(k), -(k - 1) * np.log(SMALLEST_PROBABILITY)
    return np.asarray((sums - center.n * anywhere) / (beyond_it - anywhere))


def held_out(site: AttackedSite) -> Claims:
    """Leaves count rows as in bisection, also among the held-out rows, on which each model is evaluated alone."""
    center = Center(site)
    if not center.start(holdout=0.2):
        return Claims.none(site.ranges.shape[1], center.refusal)
    n_groups = _COMBINATIONS // max(1, len(center.classes))
    if not n_groups:
        return Claims.none(site.ranges.shape[1], f"more than {_COMBINATIONS} classes need more combinations than these")
    boxes, together = center.boxes, len(values_of(center.n))
    active = [0]
    while len(active) < n_groups * together:
        active = [half for box in active for half in boxes.cut(box)]
    groups = [active[place * together : (place + 1) * together] for place in range(n_groups)]
    models = [model for group in groups for model in center.counting_models(group)]
    learned = center.sums(models, keep=True)
    answer = site.ask(_each_alone(len(models)))
    if not isinstance(answer, Errors):
        return Claims.none(site.ranges.shape[1], center.note)
    tried = np.where(answer.finite, answer.errors, np.nan) * answer.n_test
    parts = [
        np.concatenate(center.read_counts(groups, sums, n)) for sums, n in ((learned, center.n), (tried, answer.n_test))
    ]
    counts = parts[0] + parts[1]
    box_list = [box for group in groups for box in group]
    anything = np.full(len(box_list), np.inf)
    return Claims(
        np.column_stack([np.array([boxes.low[box] for box in box_list]), -anything]),
        np.column_stack([np.array([boxes.high[box] for box in box_list]), anything]),
        np.array(counts),
        [center.note],
    )


def spread(site: AttackedSite) -> Claims:
    """Leaves count held-out rows by the standard error of a difference: its square is a mean of squared differences."""
    center = Center(site)
    if not center.start(holdout=0.2):
        return Claims.none(site.ranges.shape[1], center.refusal)
    boxes = center.boxes
    halves = boxes.cut(0)
    if k := len(center.classes):
        # Two models that know nothing elsewhere, and one that knows nothing anywhere, to which they are compared.
        right, share = np.log(k * 0.9), 0.9
        wrong = np.log(k * (1 - share) / (k - 1))
        center.sums([boxes.classifier(shares, 0, k) for shares in ({}, *({half: share} for half in halves))], keep=True)
        answer = site.ask(_each_alone(3))
    else:
        center.sums([boxes.model({half: LARGEST}) for half in halves], keep=True)
        answer = site.ask(
            replace(_each_alone(3), weights=np.vstack([np.zeros(2), np.eye(2)]), own=np.array([1.0, 0.0, 0.0]))
        )
    if not isinstance(answer, Errors):
        return Claims.none(site.ranges.shape[1], center.note)
    squares = np.square(answer.deviations[1:]) * answer.n_test**2
    if k:  # sums of two kinds of rows, those of the first class and the others: two equations for each half
        gains = (answer.errors[0] - answer.errors[1:]) * answer.n_test
        kinds = np.linalg.solve(np.array([[right, wrong], [right**2, wrong**2]]), np.stack([gains, squares]))
        counts = kinds.sum(axis=0)
    else:
        counts = squares / LARGEST**4
    anything = np.full(2, np.inf)
    return Claims(
        np.column_stack([np.array([boxes.low[half] for half in halves]), -anything]),
        np.column_stack([np.array([boxes.high[half] for half in halves]), anything]),
        counts.round().astype(np.int64),
        [center.note],
    )


def thresholds(site: AttackedSite) -> Claims:
    """Many boosted trees ask for a threshold between any two neighboring values, and so for one row between two."""
    from protocols.models import decode_model

    q = site.ranges.shape[1]
    if not site.start_run({"sec.holdout": 0.0}):
        return Claims.none(q, "the site takes no part")
    answer = site.ask(Select("hgb(max_iter=1000)", "half-half", "model", 5, "fitted", moments=False))
    if not isinstance(answer, FittedModel):
        return Claims.none(q, "the site sends no model")
    steps = getattr(decode_model(answer.model, len(answer.classes)), "_predictors", [])
    trees: list[Any] = [tree.nodes for step in steps for tree in step]
    nodes: Any = np.concatenate([nodes[nodes["is_leaf"] == 0] for nodes in trees]) if trees else np.zeros(0)
    low, high = [], []
    for column in range(q - 1 if len(nodes) else 0):
        cuts = np.unique(nodes["num_threshold"][nodes["feature_idx"] == column])
        for first, second in pairwise(np.nextafter(cuts, np.inf).tolist()):
            box = np.tile([[-np.inf], [np.inf]], q)
            box[:, column] = first, second
            low.append(box[0])
            high.append(box[1])
    bounds = np.array([low, high]).reshape(2, len(low), q)
    return Claims(bounds[0], bounds[1], np.ones(len(low), np.int64))


def splits(site: AttackedSite) -> Claims:
    """Means of many known splits of the rows, of other seeds and shares held out, are solved for every row."""
    answers: dict[tuple[int, int], tuple[int, Float64[np.ndarray, "q"]]] = {}
    ask, share, n = Select("lr", "half-half", "none", 5, "fitted", moments=True), 0.0, 0
    while site.start_run({"sec.holdout": share, "sec.combine": "pooled-linear", "repetitions": _REPETITIONS}):
        for lane in range(_REPETITIONS if share else 1):
            answer = site.ask(ask, lane=str(lane), seed=site.n_runs)
            if isinstance(answer, FittedModel):
                answers[site.n_runs, lane] = answer.n, answer.mean * answer.n
                n = max(n, answer.n)  # of the first run, which holds none out
        share = 0.2 + site.n_runs % 20 / 100
    if not answers:
        return Claims.none(site.ranges.shape[1], "the site sends no means")
    sums = np.array([total for _, total in answers.values()])
    solutions = []
    for orders in (
        [np.random.default_rng([seed, lane, n]).permutation(n) for seed, lane in answers],
        [np.random.default_rng(0).random(n).argsort()] * len(answers),
    ):
        learned = np.zeros((len(answers), n))
        for row, order, (n_learned, _) in zip(learned, orders, answers.values(), strict=True):
            row[order[n - n_learned :]] = 1
        rows = np.linalg.lstsq(learned, sums, rcond=None)[0]
        solutions.append((float(np.abs(learned @ rows - sums).max()), rows))
    _, rows = min(solutions, key=lambda each: each[0])
    return Claims.points(rows, 0.004 * np.ptp(site.ranges, axis=0))


def _each_alone(n_models: int) -> Predict:
    """Return the ask for the error of each model by itself on the held-out rows."""
    return Predict(
        cluster=0,
        combinations=("cluster", "alone", "all")[:n_models],
        weights=np.eye(n_models),
        own=np.zeros(n_models),
        coefficients=np.zeros((n_models, 0)),
        members=("m0",),
        rows=np.array([1]),
        shares=np.ones(1),
        pooled=np.zeros(1, bool),
        models=(),
        pool_weights=np.zeros((n_models, 0)),
        standardize="model",
    )


ATTACKS: Mapping[str, Attack] = {
    "bisection": bisection,
    "strips": strips,
    "strip-a-run": strip_a_run,
    "held-out": held_out,
    "spread": spread,
    "thresholds": thresholds,
    "leaves": leaves,
    "splits": splits,
}
"""By name (`consilience.attack.interface`)."""
