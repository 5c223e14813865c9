"""Choose the experts of every query point, and combine their predictions."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from jaxtyping import Float64, Int64

from numerics.gp.aggregation import ExpertPredictions, FusedPrediction, aggregate
from numerics.gp.expert import Expert
from numerics.gp.gates import discriminant, nearest
from numerics.gp.gates.network import Network
from numerics.gp.gates.ranking import best, ranking
from numerics.gp.kernels import Kernel
from protocols.gp.payloads import Inputs, Rows
from protocols.gp.settings import Settings
from strategies.gp.disclosure import rows_to_share
from strategies.gp.expert_registry import ExpertRegistry
from strategies.gp.model import Model
from strategies.gp.prediction import ExpertAnswers, PredictionSetup

_LANDMARK_SEED = 5


def setup_of(model: Model, settings: Settings, shared: Mapping[str, Rows], seed: int) -> PredictionSetup:
    """Return the common fields of the asks for predictions; `shared` has rows for the communication expert, by site."""
    registry = model.registry
    in_order = [shared[site] for site in registry.counts if site in shared]
    n_shared = rows_to_share(registry, settings)
    return PredictionSetup(
        kernel=model.kernel,
        theta=model.fit.theta,
        max_rows=model.max_rows,
        landmarks=settings.n_landmarks(len(registry.features)),
        joint=settings.joint,
        seed=int(np.random.default_rng([seed, _LANDMARK_SEED]).integers(2**31)),
        shared_x=np.concatenate([np.zeros((0, len(registry.features))), *(rows.x for rows in in_order)]),
        shared_y=np.concatenate([np.zeros(0), *(rows.y for rows in in_order)]),
        shared_rows={site: n_shared[site] for site in shared},
    )


def rank_experts(
    model: Model, kernel: Kernel, settings: Settings, x: Float64[np.ndarray, "N d"]
) -> Int64[np.ndarray, "N M"]:
    """Rank all experts for each point (`x`, in the common units): those of nearest rows, then the most suitable."""
    moments = model.registry.moments
    if settings.gate == "dnn":
        network = Network(x.shape[1], len(moments.counts))
        order = ranking(network.log_probabilities(model.network, x))
    elif settings.gate == "gaussian":
        order = ranking(discriminant.scores(x, moments, kernel.lengths(model.fit.theta[:-1])))
    else:
        order = ranking(nearest.scores(x, moments))
    first = np.argsort(~model.registry.is_nearest[order], axis=1, kind="stable")
    return np.take_along_axis(order, first, axis=1)


def select_by_graph(answers: ExpertAnswers, K: int) -> Int64[np.ndarray, "N K"]:
    """Select the same K experts for all points by the graph of their predictions (Jalali and Kasneci 2022, Alg. 1)."""
    # This imports scikit-learn, which no other gate needs.
    from numerics.gp.gates import graphical

    available = np.flatnonzero(answers.available & ~answers.distrusted)
    everywhere = np.broadcast_to(available, (len(answers.mean), len(available)))
    selected = available[best(graphical.scores(answers.select(everywhere).mean), K)]
    return np.pad(selected, ((0, 0), (0, K - selected.shape[1])), constant_values=-1)


def expert_predictions(
    model: Model,
    kernel: Kernel,
    settings: Settings,
    x: Float64[np.ndarray, "N d"],
    answers: ExpertAnswers,
    inputs: Mapping[str, Inputs],
    setup: PredictionSetup,
) -> ExpertPredictions:
    """Return the predictions to combine at every point (`x`, in the common units), with covariances for the rule."""
    theta = model.fit.theta
    return ExpertPredictions(
        answers.mean,
        answers.explained,
        answers.selected >= 0,
        directions=answers.features if settings.sketched else None,
        covariance=_exact(model.registry, kernel, theta, x, answers.selected, inputs) if settings.disclosed else None,
        common=(
            Expert(kernel, theta, setup.shared_x, setup.shared_y).predict(x)
            if settings.aggregation == "grbcm"
            else None
        ),
        further=answers.further if setup.joint else None,
    )


def fuse(
    model: Model,
    kernel: Kernel,
    settings: Settings,
    x: Float64[np.ndarray, "N d"],
    predictions: ExpertPredictions,
) -> FusedPrediction:
    """Combine the experts' predictions at every point."""
    prior = kernel.diagonal(model.fit.theta[:-1], x)
    return aggregate(settings.aggregation, predictions, prior, model.noise)


def _exact(
    registry: ExpertRegistry,
    kernel: Kernel,
    theta: Float64[np.ndarray, "p"],
    x: Float64[np.ndarray, "N d"],
    selected: Int64[np.ndarray, "N K"],
    inputs: Mapping[str, Inputs],
) -> Float64[np.ndarray, "N K K"]:
    """Compute the covariances between the selected experts' predictions from their inputs."""
    from numerics.gp.covariances import covariances

    place = np.full(registry.M + 1, -1)  # the last element stands for no expert (-1)
    rows: list[Float64[np.ndarray, "n d"]] = []
    # The registry's order does not depend on the sites' names.
    for site in [each for each in registry.counts if each in inputs]:
        for expert, own in zip(registry.places[site].tolist(), inputs[site].x, strict=True):
            place[expert] = len(rows)
            rows.append(own)
    return covariances(kernel, theta, rows, x, place[selected])
