"""A site in Gaussian process regression: its rows are one expert, or several, that answer for the points sent to them.

A site remembers nothing between two asks: whatever it says follows from its rows and from what it is asked.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from jaxtyping import Float64, Int64

from clients.dispatch import answers
from clients.gp.experts import (
    Part,
    drawn_rows,
    expert_of,
    experts_of,
    kernel_for,
    likelihood_of,
    parts_of,
)
from clients.site import Site
from numerics.gp.gates.network import Network
from numerics.gp.likelihood import START_LOG_SIGMA, fit_one, theta_bounds
from numerics.gp.likelihood import evaluate as likelihood
from numerics.gp.measurements import Measurements
from numerics.gp.moments import moments_of, units_of
from numerics.gp.sketch import features
from numerics.shared.threads import single_threaded
from protocols.gp.payloads import (
    CONSENTS,
    LARGEST,
    MOST_CANDIDATES,
    MOST_EXPERTS,
    MOST_HIDDEN,
    MOST_LANDMARKS,
    MOST_SHARED,
    MOST_TRIED,
    NO_VALUE,
    Agreed,
    Disclose,
    Evaluate,
    Inputs,
    Likelihood,
    Moments,
    Predict,
    Predictions,
    Rows,
    Share,
    Slope,
    Survey,
    Train,
)
from protocols.gp.settings import Consents
from protocols.wire.faults import Fault, SiteFault

_OWN_FIT_ROWS = 500
"""Rows from which a site finds the hyperparameters that it would choose for itself: they only start the search."""
_SLACK = 1e-9
"""Hyperparameters may lie outside their bounds by a rounding error."""
_ROUNDING = 1e-9
"""Relative difference of a row in units that two processors have rounded."""


# -- taking stock -----------------------------------------------------------------------------------------------------


@answers(Survey)
def survey(ask: Survey, site: Site) -> Moments:
    """The site's experts by their moments, and the hyperparameters it would choose for itself."""
    rows: Measurements = site.shard
    kernel_for(ask.kernel, len(rows.features))  # one that there is not is refused, whether or not it is fitted
    _hold_to(site, "split", ask.max_rows)
    if ask.max_rows < 1:
        raise SiteFault(Fault.MALFORMED_ASK, "an expert has one row at least")
    with single_threaded():
        found = moments_of(rows.x, rows.y, parts_of(site, ask.max_rows))
        theta = information = np.zeros(0)
        if ask.fit:
            units = units_of(found)
            theta, information = _own_choice(ask.kernel, Part.of(units.inputs(rows.x), units.outputs(rows.y)))
    return Moments(
        features=rows.features,
        counts=found.counts,
        means=found.means,
        covariances=found.covariances,
        y_means=found.y_mean,
        y_variances=found.y_variance,
        theta=theta,
        information=information,
        consents=tuple(key for key in CONSENTS if site.consents.allows(key)),
    )


@lru_cache(maxsize=64)  # a few numbers each: the cells of a table ask for the same
def _own_choice(text: str, own: Part) -> tuple[Float64[np.ndarray, "p"], Float64[np.ndarray, "q"]]:
    """The likeliest hyperparameters of some of the site's rows, and how well all of them would tell."""
    n, kernel = len(own.y), kernel_for(text, own.x.shape[1])
    drawn = np.sort(np.random.default_rng(own.digest).permutation(n)[:_OWN_FIT_ROWS])
    x, y = own.x[drawn], own.y[drawn]
    tried = [fit_one(kernel, x, y, np.append(params, START_LOG_SIGMA)) for params in kernel.starts()]
    found = [likelihood(kernel, theta, x, y) for theta in tried]
    best = max(range(len(found)), key=lambda place: found[place].value)
    information = found[best].information * (n / len(drawn))
    return tried[best], information[np.triu_indices(len(information))]


def _hold_to(site: Site, name: str, *words: object) -> None:
    """Hold the fusion center to its word (clients/commitments.py); a scenario's rows are nobody's, and asked in any
    way.
    """
    if not site.commitments.keeps(name, *words):
        raise SiteFault(Fault.MALFORMED_ASK, f"another {name} than in an earlier ask of this run")


def _experts(ask: Agreed, site: Site) -> list[Part]:
    _hold_to(site, "split", ask.max_rows)
    _hold_to(site, "units", ask.mean, ask.scale, ask.y_mean, ask.y_scale)
    return experts_of(site, ask)


# -- hyperparameters and gate -----------------------------------------------------------------------------------------


@answers(Evaluate)
def evaluate(ask: Evaluate, site: Site) -> Likelihood:
    """Log likelihood of the site's outputs with each candidate, summed over its experts."""
    experts = _experts(ask, site)
    n_candidates, size = ask.thetas.shape
    if not 0 < n_candidates <= MOST_CANDIDATES:
        raise SiteFault(Fault.MALFORMED_ASK, "more candidates than are tried in one ask, or none")
    if site.commitments.count("tried", n_candidates) > MOST_TRIED:
        raise SiteFault(Fault.TOO_MANY_QUERIES)
    upper = np.triu_indices(size)
    values, gradients = np.zeros(n_candidates), np.zeros((n_candidates, size))
    informations = np.zeros((n_candidates, len(upper[0])))
    with single_threaded():
        for c, theta in enumerate(ask.thetas):
            checked = _theta(theta, ask.kernel, ask)
            for rows in experts:
                found = likelihood_of(rows, ask.kernel, checked)
                values[c] += found.value
                gradients[c] += found.gradient
                informations[c] += found.information[upper]
    sound = np.isfinite(values)
    if site.masked and not sound.any():  # unmasked, the center goes on without what has no value
        raise SiteFault(Fault.NO_LIKELIHOOD)
    keep = sound[:, np.newaxis]
    return Likelihood(np.where(sound, values, NO_VALUE), np.where(keep, gradients, 0), np.where(keep, informations, 0))


def _theta(theta: Float64[np.ndarray, "p"], kernel: str, ask: Agreed) -> tuple[float, ...]:
    """Hyperparameters within their bounds: with these the numbers can be calculated."""
    bounds = theta_bounds(kernel_for(kernel, len(ask.mean)))
    if len(theta) != len(bounds) or (theta < bounds[:, 0] - _SLACK).any() or (theta > bounds[:, 1] + _SLACK).any():
        raise SiteFault(Fault.MALFORMED_ASK, "hyperparameters are of another kernel, or out of bounds")
    return tuple(theta.tolist())


@answers(Train)
def train(ask: Train, site: Site) -> Slope:
    """Loss of the gate's network over the site's rows, and its gradient (papers/gp_experts.txt, Algorithm 3)."""
    if not site.consents.allows("allow-gate-training"):
        raise SiteFault(Fault.GATE_NOT_ALLOWED)
    experts = _experts(ask, site)
    sound = (
        len(ask.experts) == len(experts)
        and 0 < ask.hidden <= MOST_HIDDEN
        and 0 < ask.n_experts <= MOST_EXPERTS
        and 0 <= ask.experts.min() <= ask.experts.max() < ask.n_experts
    )
    network = Network(len(ask.mean), ask.n_experts, ask.hidden) if sound else None
    if network is None or len(ask.weights) != network.size:
        raise SiteFault(Fault.MALFORMED_ASK, "the network is not one of these experts and inputs")
    x = np.concatenate([rows.x for rows in experts])
    label = np.repeat(ask.experts, [len(rows.y) for rows in experts])
    with single_threaded():
        loss, gradient = network.gradient(ask.weights, x, label)
    return Slope(loss, gradient)


# -- rows that are disclosed ------------------------------------------------------------------------------------------


@answers(Share)
def share(ask: Share, site: Site) -> Rows:
    """Rows for the communication expert, drawn in the same way whenever they are asked for."""
    if not site.consents.allows("allow-rows"):
        raise SiteFault(Fault.ROWS_NOT_ALLOWED)
    _hold_to(site, "number of rows shared", ask.rows)
    experts = _experts(ask, site)
    if not 0 <= ask.rows <= site.policy.private_limit(max(1, site.shard.n // 2)):
        raise SiteFault(Fault.MALFORMED_ASK, "less than no row is asked for, or more than half of them")
    places = _shared_places(site, experts, ask.rows)
    return Rows(
        np.concatenate([rows.x[place] for rows, place in zip(experts, places, strict=True)]),
        np.concatenate([rows.y[place] for rows, place in zip(experts, places, strict=True)]),
    )


def _shared_places(site: Site, experts: list[Part], n_rows: int) -> list[np.ndarray]:
    return drawn_rows(experts, n_rows, np.random.default_rng([word for rows in experts for word in rows.digest]))


@answers(Disclose)
def disclose(ask: Disclose, site: Site) -> Inputs:
    """The inputs of all rows, expert by expert."""
    if not site.consents.allows("allow-inputs"):
        raise SiteFault(Fault.INPUTS_NOT_ALLOWED)
    return Inputs(tuple(rows.x for rows in _experts(ask, site)))


# -- predictions ------------------------------------------------------------------------------------------------------


@answers(Predict)
def predict(ask: Predict, site: Site) -> Predictions:
    """What each of the site's experts says of the points it was asked for."""
    experts = _experts(ask, site)
    _check_points(ask, experts)
    theta = _theta(ask.theta, ask.kernel, ask)
    _hold_to(site, "model", ask.kernel, ask.theta, ask.landmarks, ask.seed, ask.varies)
    _hold_to(site, "set of shared rows", ask.shared_x, ask.shared_y)
    if ask.shared_rows:  # 0: what it shared was lost on the way
        _hold_to(site, "number of rows shared", ask.shared_rows)
    asked = sum(map(len, ask.points))
    if site.commitments.count("queries", asked) > site.consents.number("max-queries", Consents.max_queries):
        raise SiteFault(Fault.TOO_MANY_QUERIES)
    if len(ask.shared_y):
        experts = _with_shared(experts, ask, site)
    means, explained, sketches = [], [], []
    kernel, around = kernel_for(ask.kernel, len(ask.mean)), np.zeros((0, len(ask.mean)))
    with single_threaded():
        if ask.landmarks:
            # Brings scipy.stats, which no other ask needs.
            from numerics.gp.landmarks import offsets

            lengths = kernel.lengths(np.array(theta[:-1]))
            around = offsets(ask.landmarks, lengths, ask.seed, ask.varies.astype(np.float64))
        for rows, points in zip(experts, ask.points, strict=True):
            found = _answer(rows, points, ask.kernel, theta, around)
            means.append(found[0])
            explained.append(found[1])
            sketches.append(found[2])
    return Predictions(tuple(means), tuple(explained), tuple(sketches))


def _answer(
    rows: Part,
    points: Float64[np.ndarray, "q d"],
    kernel: str,
    theta: tuple[float, ...],
    offsets: Float64[np.ndarray, "D d"],
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean, explained variance and features at some points; an expert that is asked for none is not made."""
    if not len(points):
        return np.zeros(0), np.zeros(0), np.zeros((0, len(offsets)), np.float16)
    expert = expert_of(rows, kernel, theta)
    if not len(offsets):
        return *expert.predict(points), np.zeros((len(points), 0), np.float16)
    found = features(expert, points, offsets)
    return found.mean, found.explained, found.directions.astype(np.float16)


def _with_shared(experts: list[Part], ask: Predict, site: Site) -> list[Part]:
    """Every expert with the shared rows beside its own; those that it gave itself count once."""
    own = ask.shared_rows if site.consents.allows("allow-rows") else 0
    shared = np.column_stack([ask.shared_x, ask.shared_y])
    found = []
    for rows, given in zip(experts, _given(experts, _shared_places(site, experts, own), shared), strict=True):
        kept = np.ones(len(rows.y), bool)
        kept[given] = False
        found.append(
            Part.of(np.concatenate([ask.shared_x, rows.x[kept]]), np.concatenate([ask.shared_y, rows.y[kept]]))
        )
    return found


def _given(
    experts: list[Part], drawn: list[Int64[np.ndarray, "_"]], shared: Float64[np.ndarray, "s columns"]
) -> list[Int64[np.ndarray, "_"]]:
    """Return which rows of each expert are among the shared ones: those drawn, or else those of the same values.

    The draw follows from the rows in common units. A fusion center that goes on on another processor may find units
    that differ in the last digit, and others would then be drawn than the site gave.
    """
    own = [np.column_stack([rows.x, rows.y]) for rows in experts]
    known = {row.tobytes() for row in shared}
    if all(row.tobytes() in known for rows, places in zip(own, drawn, strict=True) for row in rows[places]):
        return drawn
    left, given = sum(map(len, drawn)), []
    for rows in own:
        among = np.zeros(len(rows), bool)
        for row in shared:
            among |= (np.abs(rows - row) <= _ROUNDING * np.maximum(np.abs(row), 1)).all(axis=1)
        given.append(np.flatnonzero(among)[:left])  # no more than it gave
        left -= len(given[-1])
    return given


def _check_points(ask: Predict, experts: list[Part]) -> None:
    d = len(ask.mean)
    sound = (
        len(ask.points) == len(experts)
        and all(points.shape[1] == d and np.abs(points).max(initial=0.0) <= LARGEST for points in ask.points)
        and ask.shared_x.shape[1] == d
        and np.abs(ask.shared_x).max(initial=0.0) <= LARGEST
        and np.abs(ask.shared_y).max(initial=0.0) <= LARGEST
        and len(ask.shared_y) <= MOST_SHARED
        and ask.shared_rows >= 0
    )
    if not sound:
        raise SiteFault(Fault.MALFORMED_ASK, "the points, or the shared rows, are not those of the site's experts")
    if not 0 <= ask.landmarks <= MOST_LANDMARKS or ask.seed < 0 or len(ask.varies) != d:
        raise SiteFault(Fault.MALFORMED_ASK, "the landmarks are out of range")
