"""A site's answers in gp: its rows are one expert or several, which predict query points.

A site keeps no result between two asks: an answer depends on the site's rows and on the ask only.
"""

from __future__ import annotations

import contextlib
import logging

import numpy as np
from jaxtyping import Float64, Int64

from clients.dispatch import answers
from clients.gp.alone import errors_alone
from clients.gp.classes import latent_left_out, losses_left_out
from clients.gp.experts import (
    Part,
    draw_rows,
    experts_of,
    fewest_told,
    kernel_for,
    learning_parts,
    likelihood_of,
    nearest_of,
    own_noise_of,
    parts_of,
    rows_left_out,
    rows_of,
)
from clients.gp.own_fit import gain_without_outliers, own_fit
from clients.gp.point_answers import PointSetup, class_by_class, predict_points
from clients.gp.shared_rows import shared_rows_of
from clients.site import Site
from numerics.gp.calibration import histogram
from numerics.gp.coarse_answers import are_predicted
from numerics.gp.dirichlet import LatentUnits, class_probabilities
from numerics.gp.gates.network import Network
from numerics.gp.kernel_names import kernels_of
from numerics.gp.likelihood import theta_bounds
from numerics.gp.measurements import Measurements
from numerics.gp.moments import moments_of
from numerics.gp.rare_values import common_counts
from numerics.shared.classification import log_losses
from numerics.shared.digits import rounded
from numerics.shared.threads import single_threaded
from numerics.shared.value_groups import ValueGroups
from protocols.gp.payloads import (
    CONSENTS,
    LARGEST,
    MOST_ANSWERS,
    MOST_CANDIDATES,
    MOST_EXPERTS,
    MOST_HIDDEN,
    MOST_LANDMARKS,
    MOST_SHARED,
    NO_VALUE,
    Calibrate,
    CandidateAsk,
    Disclose,
    Errors,
    ErrorsAlone,
    Evaluate,
    ExpertAsk,
    Inputs,
    Likelihood,
    Losses,
    Moments,
    Predict,
    PredictAlone,
    Predictions,
    Residuals,
    Rows,
    Share,
    Sharpen,
    Slope,
    Survey,
    Train,
    Validate,
)
from protocols.gp.settings import FEWEST_NEAREST, MOST_NEAREST, MOST_TRIED, Consents
from protocols.wire.faults import Fault, SiteFault

logger = logging.getLogger("flwr")

_SLACK = 1e-9
"""Rounding error by which hyperparameters may lie outside their bounds."""


# -- survey -----------------------------------------------------------------------------------------------------------


@answers(Survey)
def survey(ask: Survey, site: Site) -> Moments:
    """Answer with the moments of the site's experts, and with the hyperparameters that fit its rows best."""
    rows = rows_of(site, ask)
    for kernel in kernels_of(ask.kernel):
        kernel_for(kernel, len(rows.features))  # refuses an unknown kernel, even if nothing is fitted
    site.commitments.hold("split", ask.max_rows, ask.local)
    site.commitments.hold("kernel", ask.kernel, ask.fit)  # each kernel would tell other sums over the same rows
    if ask.max_rows < 1 or not (ask.local == 0 or FEWEST_NEAREST <= ask.local <= MOST_NEAREST):
        raise SiteFault(Fault.MALFORMED_ASK, "max_rows is below 1, or local out of range")
    with single_threaded():
        part = parts_of(rows, site, ask)
        moments = moments_of(rows.x, np.zeros(rows.n) if rows.classes else rows.y, part)
        fit = own_fit(ask, rows)
        outliers = gain_without_outliers(ask, site) if ask.fit and not ask.robust else np.zeros(2)
    return Moments(
        features=rows.features,
        counts=moments.counts,
        means=moments.means,
        covariances=moments.covariances,
        y_means=moments.y_mean,
        y_variances=moments.y_variance,
        consents=tuple(key for key in CONSENTS if site.consents.allows(key)),
        left_out=site.shard.n - rows.n,
        nearest=nearest_of(rows, ask),
        classes=rows.classes,
        class_counts=_class_counts(rows, part, site),
        outliers=outliers,
        **fit,
    )


def _class_counts(rows: Measurements, part: Int64[np.ndarray, "n"], site: Site) -> Int64[np.ndarray, "m k"]:
    """Return each expert's rows of each class; at a real site, few rows count as more."""
    counts = np.zeros((int(part.max()) + 1, len(rows.classes)), np.int64)
    if rows.classes:
        np.add.at(counts, (part, rows.y.astype(np.int64)), 1)
    return common_counts(counts, fewest_told(site)) if site.has_private_rows and rows.classes else counts


def _experts(ask: ExpertAsk, site: Site) -> list[Part]:
    """Return the site's experts, and refuse another split or other units than in an earlier ask."""
    site.commitments.hold("split", ask.max_rows, ask.local)
    site.commitments.hold("treatment of outliers", ask.robust)
    site.commitments.hold("noise", ask.own_noise)
    site.commitments.hold("units", ask.mean, ask.scale, ask.y_mean, ask.y_scale)
    site.commitments.hold("classes", ask.classes, ask.class_means)
    return experts_of(site, ask)


# -- hyperparameters and gate -----------------------------------------------------------------------------------------


@answers(Evaluate)
def evaluate(ask: Evaluate, site: Site) -> Likelihood:
    """Answer with the log likelihood of the site's outputs for each candidate, summed over its experts."""
    experts = _experts(ask, site)
    if nearest_of(rows_of(site, ask), ask):
        experts = learning_parts(experts[0])
    candidates = _candidates(ask, site)
    n_candidates, size = ask.thetas.shape
    upper = np.triu_indices(size)
    values, gradients = np.zeros(n_candidates), np.zeros((n_candidates, size))
    informations = np.zeros((n_candidates, len(upper[0])))
    with single_threaded():
        for c, candidate in enumerate(candidates):
            for rows in experts:
                evaluation = likelihood_of(rows, ask.kernel, candidate)
                values[c] += evaluation.value
                gradients[c] += evaluation.gradient
                informations[c] += evaluation.information[upper]
    finite = np.isfinite(values)
    if site.masked and not finite.any():  # without masks, the center leaves out a site without a value
        raise SiteFault(Fault.NO_LIKELIHOOD)
    keep = finite[:, np.newaxis]
    return Likelihood(np.where(finite, values, NO_VALUE), np.where(keep, gradients, 0), np.where(keep, informations, 0))


@answers(Validate)
def validate(ask: Validate, site: Site) -> Errors:
    """Answer with the errors of rows left out for each candidate, summed over the site's experts."""
    experts, candidates = _experts(ask, site), _candidates(ask, site)
    local, squares = nearest_of(rows_of(site, ask), ask), np.full(len(candidates), -NO_VALUE)
    with single_threaded():
        for c, candidate in enumerate(candidates):
            with contextlib.suppress(np.linalg.LinAlgError, SiteFault):
                total = _error_left_out(experts, ask, candidate, local)
                squares[c] = total if np.isfinite(total) else -NO_VALUE
    return Errors(squares)


def _error_left_out(experts: list[Part], ask: Validate, theta: tuple[float, ...], local: int) -> float:
    """Return the sum of squared errors of left-out rows, or of their log losses if outputs are classes."""
    if not ask.classes:
        errors = [rows_left_out(rows, ask.kernel, theta, local).errors for rows in experts]
        return float(np.sum(np.square(np.concatenate(errors))))
    units, total = LatentUnits(ask.class_means, ask.y_scale), 0.0
    for rows in experts:
        mean, variance, own = latent_left_out(rows, ask.kernel, theta, local)
        total += float(log_losses(class_probabilities(mean, variance, units), own).sum())
    return total


def _candidates(ask: CandidateAsk, site: Site) -> list[tuple[float, ...]]:
    """Return the candidates of an ask, and count them."""
    if not 0 < len(ask.thetas) <= MOST_CANDIDATES:
        raise SiteFault(Fault.MALFORMED_ASK, "no candidates, or more than one ask may have")
    if site.commitments.count("tried", len(ask.thetas)) > site.policy.private_limit(MOST_TRIED):
        raise SiteFault(Fault.TOO_MANY_QUERIES)
    return [_checked_theta(theta, ask.kernel, ask) for theta in ask.thetas]


def _checked_theta(theta: Float64[np.ndarray, "p"], kernel: str, ask: ExpertAsk) -> tuple[float, ...]:
    """Return the hyperparameters as a tuple; refuse any outside the bounds within which no number overflows."""
    bounds = theta_bounds(kernel_for(kernel, len(ask.mean)))
    if len(theta) != len(bounds) or (theta < bounds[:, 0] - _SLACK).any() or (theta > bounds[:, 1] + _SLACK).any():
        raise SiteFault(Fault.MALFORMED_ASK, "the hyperparameters do not fit the kernel, or are out of bounds")
    return tuple(theta.tolist())


@answers(Train)
def train(ask: Train, site: Site) -> Slope:
    """Answer with the loss of the gate's network over the site's rows, and with its gradient."""
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
        raise SiteFault(Fault.MALFORMED_ASK, "the network does not fit these experts and inputs")
    x = np.concatenate([rows.x for rows in experts])
    label = np.repeat(ask.experts, [len(rows.y) for rows in experts])
    with single_threaded():
        loss, gradient = network.gradient(ask.weights, x, label)
    return Slope(loss, gradient)


# -- disclosed rows ---------------------------------------------------------------------------------------------------


@answers(Share)
def share(ask: Share, site: Site) -> Rows:
    """Answer with rows for the communication expert, the same rows at every ask."""
    if not site.consents.allows("allow-rows"):
        raise SiteFault(Fault.ROWS_NOT_ALLOWED)
    site.commitments.hold("number of rows shared", ask.rows)
    experts = _experts(ask, site)
    if ask.classes:
        raise SiteFault(Fault.MALFORMED_ASK, "rows whose outputs are classes")
    if not 0 <= ask.rows <= site.policy.private_limit(max(1, site.shard.n // 2)):
        raise SiteFault(Fault.MALFORMED_ASK, "the number of rows is negative, or more than half of them")
    places = _shared_places(experts, ask.rows)
    return Rows(
        np.concatenate([rows.x[place] for rows, place in zip(experts, places, strict=True)]),
        np.concatenate([rows.y[place] for rows, place in zip(experts, places, strict=True)]),
    )


def _shared_places(experts: list[Part], n_rows: int) -> list[np.ndarray]:
    """Draw the places of the shared rows in each expert; the draw depends on the experts' content only."""
    return draw_rows(experts, n_rows, np.random.default_rng([word for rows in experts for word in rows.digest]))


@answers(Disclose)
def disclose(ask: Disclose, site: Site) -> Inputs:
    """Answer with the inputs of all rows, expert by expert."""
    if not site.consents.allows("allow-inputs"):
        raise SiteFault(Fault.INPUTS_NOT_ALLOWED)
    return Inputs(tuple(rows.x for rows in _experts(ask, site)))


# -- calibration and predictions --------------------------------------------------------------------------------------


@answers(Calibrate)
def calibrate(ask: Calibrate, site: Site) -> Residuals:
    """Answer with the number of leave-one-out residuals by size, summed over the site's experts."""
    experts = _experts(ask, site)
    if ask.classes:
        raise SiteFault(Fault.MALFORMED_ASK, "residuals of classes")
    theta = _checked_theta(ask.theta, ask.kernel, ask)
    site.commitments.hold("hyperparameters", ask.kernel, ask.theta)
    local, common = nearest_of(rows_of(site, ask), ask), float(np.exp(2 * theta[-1]))
    with single_threaded():
        own = _own_theta(ask, theta, experts, local)
        left_out = [rows_left_out(rows, ask.kernel, own, local) for rows in experts]
    # The center assumes the common noise for every observation.
    more = common - float(np.exp(2 * own[-1])) if ask.own_noise else 0.0
    sizes = np.abs(np.concatenate([each.errors / np.sqrt(each.variances + more) for each in left_out]))
    outputs = np.concatenate([rows.y[each.rows] for rows, each in zip(experts, left_out, strict=True)])
    if site.has_private_rows and not are_predicted(outputs, np.concatenate([each.errors for each in left_out])):
        # Such residuals are the outputs, by their distance from an origin of the center's choice.
        sizes = ValueGroups.of(sizes[:, np.newaxis], fewest_told(site)).apply(sizes[:, np.newaxis])[:, 0]
    return Residuals(histogram(sizes, sum(len(rows.y) for rows in experts)))


@answers(Sharpen)
def sharpen(ask: Sharpen, site: Site) -> Losses:
    """Answer with the log losses of rows left out by the sharpness of their probabilities, summed over the experts."""
    experts = _experts(ask, site)
    theta = _checked_theta(ask.theta, ask.kernel, ask)
    site.commitments.hold("hyperparameters", ask.kernel, ask.theta)
    if not ask.classes:
        raise SiteFault(Fault.MALFORMED_ASK, "the sharpness of amounts")
    local = nearest_of(rows_of(site, ask), ask)
    with single_threaded():
        losses = losses_left_out(experts, ask.kernel, theta, local, LatentUnits(ask.class_means, ask.y_scale))
    return Losses(rounded(losses))


def _own_theta(
    ask: Calibrate | Predict, theta: tuple[float, ...], experts: list[Part], local: int
) -> tuple[float, ...]:
    """Return the hyperparameters with which the site predicts: with a noise of its own, if the ask says so."""
    if not ask.own_noise:
        return theta
    return own_noise_of(tuple(learning_parts(experts[0]) if local else experts), ask.kernel, theta)


@answers(Predict)
def predict(ask: Predict, site: Site) -> Predictions:
    """Answer with each expert's predictions at its points."""
    experts = _experts(ask, site)
    _check_points(ask, experts)
    theta = _checked_theta(ask.theta, ask.kernel, ask)
    site.commitments.hold("hyperparameters", ask.kernel, ask.theta)
    site.commitments.hold("model", ask.kernel, ask.theta, ask.landmarks, ask.seed, ask.varies, ask.joint)
    site.commitments.hold("set of shared rows", ask.shared_x, ask.shared_y)
    if ask.shared_rows:  # 0 if the site's shared rows did not reach the center
        site.commitments.hold("number of rows shared", ask.shared_rows)
    most = site.policy.private_limit(site.consents.number("max-queries", Consents.max_queries))
    if site.commitments.count("queries", ask.n_answers) > most:
        raise SiteFault(Fault.TOO_MANY_QUERIES)
    local = nearest_of(rows_of(site, ask), ask)
    if len(ask.shared_y):
        if local or ask.classes:
            raise SiteFault(Fault.MALFORMED_ASK, "shared rows for an expert of nearest rows, or of classes")
        experts = _with_shared(experts, ask, site)
    kernel, landmark_offsets = kernel_for(ask.kernel, len(ask.mean)), np.zeros((0, len(ask.mean)))
    with single_threaded():
        own = _own_theta(ask, theta, experts, local)
        if ask.landmarks:
            # This imports scipy.stats, which no other ask needs.
            from numerics.gp.landmarks import offsets

            lengths = kernel.lengths(np.array(theta[:-1]))
            landmark_offsets = offsets(ask.landmarks, lengths, ask.seed, ask.varies.astype(np.float64))
        setup = PointSetup(ask.kernel, own, landmark_offsets, len(ask.shared_y), local, ask.joint)
        predictions = [
            class_by_class([predict_points(each, points, setup, site) for each in rows.outputs])
            for rows, points in zip(experts, ask.points, strict=True)
        ]
    return Predictions(
        tuple(each.mean for each in predictions),
        tuple(each.explained for each in predictions),
        tuple(each.features for each in predictions),
        tuple(each.further_mean for each in predictions) if ask.joint else (),
        tuple(each.further_unknown for each in predictions) if ask.joint else (),
    )


@answers(PredictAlone)
def predict_alone(ask: PredictAlone, site: Site) -> ErrorsAlone:
    """Answer with the errors that the site makes alone at the center's test points, summed over groups of them."""
    _experts(ask, site)  # refuses other rows and units than were agreed
    site.commitments.hold("test points", ask.points, ask.outputs, ask.groups)
    return errors_alone(ask, site)


def _with_shared(experts: list[Part], ask: Predict, site: Site) -> list[Part]:
    """Return every expert's rows together with the shared rows; a row that the site itself shared counts once."""
    own = ask.shared_rows if site.consents.allows("allow-rows") else 0
    disclosed = np.column_stack([ask.shared_x, ask.shared_y])
    places = shared_rows_of(experts, _shared_places(experts, own), disclosed)
    extended = []
    for rows, shared in zip(experts, places, strict=True):
        private = np.ones(len(rows.y), bool)
        private[shared] = False
        strangers = -1 - np.arange(len(ask.shared_y))
        person = None if rows.person is None else np.concatenate([strangers, rows.person[private]])
        x, y = np.concatenate([ask.shared_x, rows.x[private]]), np.concatenate([ask.shared_y, rows.y[private]])
        extended.append(Part.of(x, y, person))
    return extended


def _check_points(ask: Predict, experts: list[Part]) -> None:
    """Refuse points, shared rows and landmarks that do not fit the site's experts, or are out of range."""
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
        raise SiteFault(Fault.MALFORMED_ASK, "the points, or the shared rows, do not fit the site's experts")
    if ask.joint and not 0 < ask.landmarks <= MOST_ANSWERS:
        raise SiteFault(Fault.MALFORMED_ASK, "answers about no landmark, or about too many")
    if not 0 <= ask.landmarks <= MOST_LANDMARKS or ask.seed < 0 or len(ask.varies) != d:
        raise SiteFault(Fault.MALFORMED_ASK, "the landmarks are out of range")
